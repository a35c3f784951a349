"""Files for questions over HTTP: uploaded and read first, then named by the turn that brings them along."""

from typing import Annotated

import msgspec

from app.core.attachments import Attachment, AttachmentKind, AttachmentPart
from app.core.errors import NotFound
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable
from app.gateway.attachments.uploading import keep_upload

routes = RouteTable()

_PARTS = {
    AttachmentKind.PICTURE: {AttachmentPart.PICTURE, AttachmentPart.THUMBNAIL},
    AttachmentKind.PAGES: {AttachmentPart.PAGES, AttachmentPart.THUMBNAIL},
    AttachmentKind.SOUND: {AttachmentPart.SOUND},
}
"""What there is of files that are no text."""
_LONGEST_NAME = 4096
"""Of a name as it comes: the longest path of a file on Linux."""


class UploadQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is the file's name."""

    name: Annotated[str, msgspec.Meta(max_length=_LONGEST_NAME)] = ""


class ContentQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`part` says what of it."""

    part: AttachmentPart = AttachmentPart.ORIGINAL


@routes.add("POST", "/attachments")
async def upload(call: AdminCall[bytes, UploadQuery]) -> Attachment:
    """Upload a file and have it read."""
    return await keep_upload(call.files, call.services.chats, call.query.name, call.body)


@routes.add("GET", "/attachments/{id}")
async def show(call: AdminCall[None, NoQuery]) -> Attachment:
    """Say what is known of a file."""
    return await _find(call)


@routes.add("GET", "/attachments/{id}/content")
async def content(call: AdminCall[None, ContentQuery]) -> bytes:
    """Return a file, or what is made of it."""
    attachment, part = await _find(call), call.query.part
    if part is not AttachmentPart.ORIGINAL and part not in _PARTS.get(attachment.kind, {AttachmentPart.TEXT}):
        raise NotFound(f"There is no {part} of {attachment.name}.", code="part_not_found")
    return await call.services.chats.read_file(attachment, part)


@routes.add("DELETE", "/attachments/{id}")
async def remove(call: AdminCall[None, NoQuery]) -> None:
    """Forget a file that was not sent."""
    await call.services.chats.remove_attachment(call.names["id"])


async def _find(call: AdminCall[None, NoQuery] | AdminCall[None, ContentQuery]) -> Attachment:
    return (await call.services.chats.read_attachments([call.names["id"]]))[0]
