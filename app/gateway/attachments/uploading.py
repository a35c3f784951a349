"""From an uploaded file to an attachment: read, judged, counted and kept, or refused with what to do about it."""

from pathlib import PurePath

import msgspec

from app.core.attachments import (
    LONGEST_EXCERPT,
    Attachment,
    AttachmentKind,
    AttachmentPart,
    Extraction,
    ExtractionProblem,
)
from app.core.errors import BadRequest
from app.core.tokens import estimate_text_tokens
from app.gateway.attachments.reading_child import FileReader
from app.gateway.canonical.request import PictureSize
from app.gateway.exchange.token_count import picture_tokens, sound_tokens
from app.store.database import ChatStore
from app.store.files import hash_of
from app.store.rows import new_id

_LONGEST_NAME = 200
_UNNAMED = "file"


async def keep_upload(reader: FileReader, chats: ChatStore, name: str, content: bytes) -> Attachment:
    """Read and keep a file. Raises BadRequest with a code of `FileProblem`, StorageFault."""
    name = tidy_name(name)
    return await keep_extraction(chats, name, content, await read_upload(reader, name, content))


async def read_upload(reader: FileReader, name: str, content: bytes) -> Extraction:
    """Return what a file gives. Raises BadRequest with a code of `FileProblem`."""
    extraction = await reader.read(name, content)
    if isinstance(extraction, ExtractionProblem):
        raise BadRequest(extraction.sentence, hint=extraction.hint, code=extraction.code)
    return extraction


async def keep_extraction(chats: ChatStore, name: str, content: bytes, extraction: Extraction) -> Attachment:
    """Keep a file that was read. Raises StorageFault."""
    attachment = Attachment(
        id=new_id(),
        name=name,
        kind=extraction.kind,
        media_type=extraction.media_type,
        hash=hash_of(content),
        size_bytes=len(content),
        tokens=_count_tokens(extraction),
        width=extraction.width,
        height=extraction.height,
        pages=extraction.pages,
        seconds=extraction.seconds,
        excerpt=extraction.text[:LONGEST_EXCERPT].strip(),
        is_cut=extraction.is_cut,
    )
    return await chats.add_attachment(attachment, {AttachmentPart.ORIGINAL: content, **_parts_of(extraction)})


def tidy_name(name: str) -> str:
    """Return a file's name as it is shown and told to models: without folders, in one line, of bearable length."""
    base = PurePath(name.replace("\\", "/")).name
    plain = " ".join("".join(character if character.isprintable() else " " for character in base).split())
    if len(plain) > _LONGEST_NAME:
        suffix = PurePath(plain).suffix[: _LONGEST_NAME // 4]
        plain = f"{plain[: _LONGEST_NAME - len(suffix) - 1]}…{suffix}"
    return plain if plain.strip(".") else _UNNAMED


def _parts_of(extraction: Extraction) -> dict[AttachmentPart, bytes]:
    match extraction.kind:
        case AttachmentKind.PICTURE:
            return {AttachmentPart.PICTURE: extraction.picture, AttachmentPart.THUMBNAIL: extraction.thumbnail}
        case AttachmentKind.PAGES:
            pages = msgspec.msgpack.encode(extraction.page_pictures)
            return {AttachmentPart.PAGES: pages, AttachmentPart.THUMBNAIL: extraction.thumbnail}
        case AttachmentKind.SOUND:
            return {AttachmentPart.SOUND: extraction.sound}
    return {AttachmentPart.TEXT: extraction.text.encode()}


def _count_tokens(extraction: Extraction) -> int:
    if extraction.kind is AttachmentKind.PICTURE:
        return picture_tokens(PictureSize(extraction.width or 1, extraction.height or 1))
    if extraction.kind is AttachmentKind.PAGES:
        return sum(picture_tokens(PictureSize(*size)) for size in extraction.page_sizes)
    if extraction.kind is AttachmentKind.SOUND:
        return sound_tokens(extraction.seconds or 0.0)
    return estimate_text_tokens(extraction.text)
