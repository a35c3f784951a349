"""Pictures and files within a request: `data:` URIs, of which no other address is ever fetched, and a picture's size.

A size is read from the file's header: PNG and JPEG, which is what nearly all clients send.
"""

import base64
import binascii
import struct
from typing import NamedTuple

from app.core.errors import BadRequest
from app.gateway.canonical.request import Image

_DATA, _BASE64 = "data:", ";base64,"


def image_of(uri: str, *, field: str) -> Image:
    """Return the picture of a data URI. Raises BadRequest that names the field it stood in."""
    kind, data = _split(uri, field)
    return Image(media_type=kind, data=data)


def text_of(uri: str, *, field: str) -> str:
    """Return what a text file in a data URI says. Raises BadRequest, also for a file that is no text."""
    kind, data = _split(uri, field)
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise BadRequest(
            f"A file of the type {kind or 'unknown'!r} cannot be read.",
            hint="Send its text.",
            code="unsupported_content",
        ) from None


def _split(uri: str, field: str) -> tuple[str, str]:
    kind, comma, data = uri.partition(_BASE64)
    if not comma or not kind.startswith(_DATA):
        raise BadRequest(
            f"`{field}` is a data URI in base64.", hint="Other addresses are not downloaded.", code="invalid_value"
        )
    return kind.removeprefix(_DATA), data


_HEAD_CHARACTERS = 256 * 1024
"""Of the base64: a JPEG's size comes after its EXIF data and colour profile, 64 KiB each at most. A multiple of 4."""
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8"
_PNG_SIZE = struct.Struct(">II")
_PNG_SIZE_AT = 16
_SEGMENT = struct.Struct(">BBH")
_FRAME_SIZE = struct.Struct(">HH")
_FRAME_SIZE_AT = 5
"""After marker and length comes a byte of precision, then height and width."""
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers of a JPEG's frame; the three left out are tables and an extension (ITU T.81, table B.1)."""
_MARK = 0xFF


class PictureSize(NamedTuple):
    """Width and height in pixels."""

    width: int
    height: int


def size_of(data: str) -> PictureSize | None:
    """Return the size of a picture in base64; None if it is of another kind, or broken."""
    try:
        head = base64.b64decode(data[:_HEAD_CHARACTERS])
        if head.startswith(_PNG):
            return PictureSize(*_PNG_SIZE.unpack_from(head, _PNG_SIZE_AT))
        return _jpeg_size(head) if head.startswith(_JPEG) else None
    except (binascii.Error, ValueError, struct.error):
        return None


def _jpeg_size(head: bytes) -> PictureSize | None:
    at = len(_JPEG)
    while True:
        mark, kind, length = _SEGMENT.unpack_from(head, at)
        if mark != _MARK:
            return None
        if kind in _FRAMES:
            height, width = _FRAME_SIZE.unpack_from(head, at + _FRAME_SIZE_AT)
            return PictureSize(width, height)
        at += 2 + length
