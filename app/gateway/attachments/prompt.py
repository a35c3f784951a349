"""Files in prompts: a text between marks that name it, a picture as it is.

A file is quoted, so that a model can tell what a person asks from what a file says. Its text cannot end the quotation:
marks in it that look like ours are changed. That is no protection from a model that does what a file tells it to.
"""

import asyncio
import base64
import re
from collections.abc import Iterable, Mapping

from app.core.attachments import Attachment, AttachmentKind, AttachmentPart
from app.core.capabilities import Capability
from app.core.chats import Message
from app.core.errors import BadRequest
from app.core.models import ModelInfo
from app.gateway.canonical.request import Image, Part, Text
from app.gateway.loading.capabilities import capabilities_of, with_capabilities
from app.gateway.services import Services
from app.store.database import ChatStore

_END = re.compile(r"</(?=attachment\b)", re.IGNORECASE)
_PNG = b"\x89PNG"


async def can_see(services: Services, model: ModelInfo) -> bool:
    """Tell whether a model takes pictures. What nobody knows of an attached one is left to its endpoint."""
    return bool(model.attached) or Capability.VISION in await capabilities_of(services, model)


async def check_pictures(services: Services, model: ModelInfo, attachments: Iterable[Attachment]) -> None:
    """Return if a model can be asked with these files. Raises BadRequest that names a model that can."""
    pictures = [attachment.name for attachment in attachments if attachment.kind is AttachmentKind.PICTURE]
    if not pictures or await can_see(services, model):
        return
    raise BadRequest(
        f"{model.title} cannot see pictures.",
        hint=await _vision_hint(services),
        code="model_cannot_see",
        detail=", ".join(pictures),
    )


async def _vision_hint(services: Services) -> str:
    models = await with_capabilities(services, await asyncio.to_thread(services.library.list_models))
    titles = [model.title for model in models if Capability.VISION in model.capabilities and not model.problem]
    if titles:
        return f"Ask {titles[0]}, or remove the pictures."
    return "Remove the pictures, or add a model that sees: look for Vision on the page Models."


async def attachment_parts(chats: ChatStore, path: Iterable[Message], *, sees: bool) -> Mapping[str, tuple[Part, ...]]:
    """Return what the questions of a path bring along beside their words, by message."""
    return {
        message.id: tuple([await _part_of(chats, attachment, sees=sees) for attachment in message.attachments])
        for message in path
        if message.attachments
    }


async def _part_of(chats: ChatStore, attachment: Attachment, *, sees: bool) -> Part:
    if attachment.kind is not AttachmentKind.PICTURE:
        text = (await chats.read_file(attachment, AttachmentPart.TEXT)).decode()
        return Text(quote_file(attachment, text))
    if not sees:  # it was shown to another model earlier; this one is told that something is missing
        return Text(f"[A picture, {attachment.name}, which you cannot see.]")
    picture = await chats.read_file(attachment, AttachmentPart.PICTURE)
    media_type = "image/png" if picture.startswith(_PNG) else "image/jpeg"
    return Image(media_type=media_type, data=base64.b64encode(picture).decode())


def quote_file(attachment: Attachment, text: str) -> str:
    """Return a file's text as it stands in a prompt."""
    name = attachment.name.replace('"', "'")
    rest = "\n[The rest of the file is left out: it is too long.]" if attachment.is_cut else ""
    body = _END.sub(r"<\\/", text)
    return f'<attachment name="{name}">\n{body}{rest}\n</attachment>'
