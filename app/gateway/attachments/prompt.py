"""Files in prompts: a text between marks that name it, a picture as it is."""

import asyncio
import base64
from collections.abc import Iterable, Mapping

from app.core.attachments import Attachment, AttachmentKind, AttachmentPart, picture_type, quote_file
from app.core.capabilities import Capability
from app.core.chats import Message
from app.core.errors import BadRequest
from app.core.models import ModelInfo
from app.gateway.canonical.request import Image, Part, Text
from app.gateway.loading.capabilities import capabilities_of, with_capabilities
from app.gateway.services import Services
from app.store.database import ChatStore


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
    return Image(media_type=picture_type(picture), data=base64.b64encode(picture).decode())
