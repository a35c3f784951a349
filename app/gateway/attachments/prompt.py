"""Files in prompts: a text between marks that name it, a picture or a sound as it is, the pages of a scan in order."""

import asyncio
import base64
from collections.abc import Collection, Iterable, Mapping, Sequence

from app.core.attachments import (
    SENSES,
    Attachment,
    AttachmentKind,
    AttachmentPart,
    decode_pages,
    describe_pages,
    name_long_file,
    picture_type,
    quote_file,
)
from app.core.capabilities import Capability
from app.core.chats import Message, Role
from app.core.errors import BadRequest
from app.core.models import ModelInfo
from app.gateway.canonical.request import Image, Part, Sound, Text
from app.gateway.loading.capabilities import capabilities_of, with_capabilities
from app.gateway.services import Services
from app.store.database import ChatStore

_CANNOT = {
    Capability.VISION: ("cannot see pictures", "model_cannot_see", "the pictures", "sees", "Vision"),
    Capability.AUDIO: ("cannot hear sounds", "model_cannot_hear", "the sounds", "hears", "Audio"),
}
"""What is said of a model without one: the verb, the code, what to remove, what another does, its name in lists."""


async def senses_of(services: Services, model: ModelInfo) -> frozenset[Capability]:
    """Return whether a model sees and hears. What nobody knows of an attached one is left to its endpoint."""
    if model.attached:
        return frozenset(_CANNOT)
    return frozenset(_CANNOT) & frozenset(await capabilities_of(services, model))


async def check_senses(services: Services, model: ModelInfo, attachments: Sequence[Attachment]) -> None:
    """Return if a model can be asked with these files. Raises BadRequest that names a model that can."""
    needs = {SENSES[attachment.kind] for attachment in attachments if attachment.kind in SENSES}
    missing_senses = needs - await senses_of(services, model) if needs else needs
    for need in _CANNOT:
        if need in missing_senses:
            names = [attachment.name for attachment in attachments if SENSES.get(attachment.kind) is need]
            raise BadRequest(
                f"{model.title} {_CANNOT[need][0]}.",
                hint=await _other_model_hint(services, need),
                code=_CANNOT[need][1],
                detail=", ".join(names),
            )


async def _other_model_hint(services: Services, need: Capability) -> str:
    _, _, files, verb, label = _CANNOT[need]
    models = await with_capabilities(services, await asyncio.to_thread(services.library.list_models))
    titles = [model.title for model in models if need in model.capabilities and not model.problem]
    if titles:
        return f"Ask {titles[0]}, or remove {files}."
    return f"Remove {files}, or add a model that {verb}: look for {label} on the page Models."


async def attachment_parts(
    chats: ChatStore, path: Iterable[Message], *, senses: Collection[Capability], left_out: Collection[str] = ()
) -> Mapping[str, tuple[Part, ...]]:
    """Return what the questions of a path bring along beside their words, by message.

    Files with a hash of `left_out` are only named: passages are chosen from them.
    """
    return {
        message.id: tuple(
            [
                part
                for attachment in message.attachments
                for part in (
                    [Text(name_long_file(attachment))]
                    if attachment.hash in left_out
                    else await _parts_of(chats, attachment, senses)
                )
            ]
        )
        for message in path
        if message.attachments and message.role is Role.USER
    }


async def _parts_of(chats: ChatStore, attachment: Attachment, senses: Collection[Capability]) -> list[Part]:
    need = SENSES.get(attachment.kind)
    if need is None:
        text = (await chats.read_file(attachment, AttachmentPart.TEXT)).decode()
        return [Text(quote_file(attachment, text))]
    if need not in senses:  # it was shown to another model earlier; this one is told that something is missing
        what = "A sound" if need is Capability.AUDIO else "A picture"
        return [Text(f"[{what}, {attachment.name}, which you cannot {'hear' if what == 'A sound' else 'see'}.]")]
    if attachment.kind is AttachmentKind.SOUND:
        sound = await chats.read_file(attachment, AttachmentPart.SOUND)
        return [Sound(format="wav", data=base64.b64encode(sound).decode())]
    if attachment.kind is AttachmentKind.PAGES:
        pages = decode_pages(await chats.read_file(attachment, AttachmentPart.PAGES))
        return [Text(describe_pages(attachment, len(pages))), *map(_image, pages)]
    return [_image(await chats.read_file(attachment, AttachmentPart.PICTURE))]


def _image(picture: bytes) -> Image:
    return Image(media_type=picture_type(picture), data=base64.b64encode(picture).decode())
