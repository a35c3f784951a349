"""Pictures that a chat's model has an attached endpoint draw, by the tool of the built-in server for that.

The endpoint is asked as a client's request for pictures asks it. What it answers is read as an upload is, in a process
of its own, and belongs to the answer from then on. An address is not fetched: it may lead anywhere.
"""

import asyncio
import base64
import binascii
import mimetypes
import time
from typing import NamedTuple

import msgspec

from app.core.attachments import Attachment, AttachmentKind
from app.core.errors import BadRequest, EngineFailed, RoundhouseError
from app.core.mcp import McpResult
from app.core.pictures import DrawingReply, DrawPicture
from app.gateway.attachments.reading_child import FileReader
from app.gateway.attachments.uploading import keep_extraction, read_upload, tidy_name
from app.gateway.exchange.engine.answers import decode_reply
from app.gateway.exchange.own_requests import OwnRequests
from app.gateway.exchange.upstream import EngineAccess
from app.gateway.loading.able_models import resolve_able_model
from app.gateway.services import Services
from engines.api import Route

LIMIT_S = 300.0
"""For one picture: on a processor a small model takes minutes."""
LARGEST_PICTURE = 32 * 1024 * 1024
"""Bytes: ten times a large picture as PNG."""
_LONGEST_NAME = 60
_FORM_FIELD = "response_format"
"""What some endpoints need to answer with the picture, and others refuse, which always do."""


class Drawing(NamedTuple):
    """What came of a call, and the picture if there is one."""

    result: McpResult
    picture: Attachment | None = None


class PictureDrawer:
    """Has pictures drawn for answers. Belongs to the event loop."""

    def __init__(self, services: Services, engines: EngineAccess, reader: FileReader) -> None:
        self._services, self._requests, self._reader = services, OwnRequests(services, engines), reader

    async def draw(self, answer: str, arguments: dict[str, object]) -> Drawing:
        """Have a picture drawn and kept with an answer; of what fails, the result says why."""
        began = time.monotonic()
        try:
            request = msgspec.convert(arguments, DrawPicture)
            async with asyncio.timeout(LIMIT_S):
                model, content = await self._fetch_picture(request)
            picture = await self._keep_picture(answer, request.prompt, content)
        except TimeoutError:
            return _failed_drawing(f"No picture came within {LIMIT_S / 60:.0f} minutes.", began)
        except (RoundhouseError, msgspec.ValidationError) as error:
            return _failed_drawing(f"{error} {getattr(error, 'hint', '')}".strip(), began)
        size = f"{picture.width} x {picture.height} pixels"
        words = f"{model} drew the picture ({size}). The person sees it below this call; it needs no link."
        return Drawing(McpResult(text=words, seconds=time.monotonic() - began), picture)

    async def _fetch_picture(self, request: DrawPicture) -> tuple[str, bytes]:
        """Return who drew, and the picture as it came. Raises RoundhouseError."""
        target = await resolve_able_model(self._services, None, Route.IMAGES)
        fields = {"model": target.model.name, "prompt": request.prompt, "size": request.size, "n": 1}
        try:
            body = msgspec.json.encode({**fields, _FORM_FIELD: "b64_json"})
            reply = await self._requests.fetch(target, Route.IMAGES, body)
        except RoundhouseError as error:
            if _FORM_FIELD not in str(error):
                raise
            reply = await self._requests.fetch(target, Route.IMAGES, msgspec.json.encode(fields))
        return target.model.title, await asyncio.to_thread(_read_picture, reply)

    async def _keep_picture(self, answer: str, prompt: str, content: bytes) -> Attachment:
        try:
            extraction = await read_upload(self._reader, "picture", content)
        except BadRequest as error:
            raise EngineFailed(f"What the endpoint drew cannot be read. {error}", code=error.code) from error
        if extraction.kind is not AttachmentKind.PICTURE:
            raise _no_picture_error()
        words = tidy_name(prompt.replace("/", " ").replace("\\", " ")[:_LONGEST_NAME]).rstrip(". ")
        name = f"{words}{mimetypes.guess_extension(extraction.media_type) or ''}"
        chats = self._services.chats
        picture = await keep_extraction(chats, name, content, extraction)
        await chats.attach_to_answer(answer, picture.id)
        return picture


def _read_picture(reply: bytes) -> bytes:
    """Return the bytes of the first picture of an endpoint's answer. Raises EngineFailed."""
    drawings = decode_reply(reply, DrawingReply).data
    if drawings and not drawings[0].b64_json and drawings[0].url:
        raise EngineFailed(
            "The endpoint answered with an address instead of the picture. Addresses are not fetched.",
            hint="Set the endpoint so that it answers with base64.",
            code="picture_elsewhere",
        )
    text = drawings[0].b64_json if drawings else None
    if text and len(text) > LARGEST_PICTURE * 4 // 3 + 4:  # base64 writes three bytes as four characters
        raise EngineFailed(
            f"The endpoint's picture has more than {LARGEST_PICTURE // 1024**2} MiB.", code="picture_too_large"
        )
    try:
        content = base64.b64decode(text or "", validate=True)
    except (binascii.Error, ValueError):
        content = b""
    if not content:
        raise _no_picture_error()
    return content


def _no_picture_error() -> EngineFailed:
    return EngineFailed("The endpoint answered, and not with a picture.", code="engine_nonsense")


def _failed_drawing(sentence: str, began: float) -> Drawing:
    return Drawing(McpResult(text=sentence, is_error=True, seconds=time.monotonic() - began))
