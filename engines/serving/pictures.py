"""Pictures in a chat's messages: read from data addresses, within bounds, before the library hears of them."""

import base64
import binascii
import hashlib
import importlib
import io
import re
from collections.abc import Mapping
from typing import Any

from engines.serving.answer_request import RequestFields
from engines.serving.refusals import RequestRefused, invalid_request

MOST_PICTURES = 16
MOST_BYTES = 20 << 20
MOST_PIXELS = 4096 * 4096
FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
_ADDRESS = re.compile(r"data:image/[a-z0-9.+-]{1,32};base64,", re.IGNORECASE)
_UNREADABLE = (OSError, ValueError, SyntaxError, EOFError, OverflowError)
"""What Pillow raises for files that are broken."""
Pictures = dict[str, bytes]
"""A picture's mark in the prompt -> its file."""


def split_pictures(body: Mapping[str, object]) -> tuple[Mapping[str, object], Pictures]:
    """Return a request with a mark in the place of each picture, and the pictures. Raises Refused."""
    pictures: Pictures = {}
    messages = [_with_marks(message, pictures) for message in RequestFields(body).objects("messages")]
    return ({**body, "messages": messages}, pictures) if pictures else (body, pictures)


def decode_picture(file: bytes) -> Any:  # noqa: ANN401 -- Pillow's, which only engines that see bring along
    """Return a picture upright, without transparency. Raises Refused for what is none, or is too large."""
    pillow: Any = importlib.import_module("PIL.Image")
    image_ops: Any = importlib.import_module("PIL.ImageOps")
    try:
        picture = pillow.open(io.BytesIO(file), formats=FORMATS)
        width, height = picture.size
        if width * height > MOST_PIXELS:
            raise _picture_refusal(f"A picture of {width} x {height} has more than {MOST_PIXELS >> 20} million pixels.")
        upright = image_ops.exif_transpose(picture).convert("RGBA")
    except (pillow.DecompressionBombError, *_UNREADABLE) as error:
        raise _picture_refusal(f"A picture cannot be read; it must be one of {', '.join(FORMATS)}.") from error
    page = pillow.new("RGBA", upright.size, "white")
    return pillow.alpha_composite(page, upright).convert("RGB")


def _with_marks(message: dict[str, object], pictures: Pictures) -> dict[str, object]:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return {**message, "content": [_with_mark(part, pictures) for part in content]}


def _with_mark(part: object, pictures: Pictures) -> object:
    if not isinstance(part, dict) or part.get("type") != "image_url":
        return part
    file = _file_of(part.get("image_url"))
    mark = f"<|picture-{hashlib.sha256(file).hexdigest()[:32]}|>"
    pictures[mark] = file
    if len(pictures) > MOST_PICTURES:
        raise _picture_refusal(f"A request may hold {MOST_PICTURES} pictures at most.")
    return {"type": "text", "text": mark}


def _file_of(place: object) -> bytes:
    address = place.get("url") if isinstance(place, dict) else place
    begin = _ADDRESS.match(address) if isinstance(address, str) else None
    if begin is None or not isinstance(address, str):
        raise _picture_refusal("A picture must be given as a data address with base64.")
    text = address[begin.end() :]
    if len(text) * 3 // 4 > MOST_BYTES:
        raise _picture_refusal(f"A picture may have {MOST_BYTES >> 20} MiB at most.")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _picture_refusal("A picture's base64 cannot be read.") from error


def _picture_refusal(sentence: str) -> RequestRefused:
    return invalid_request(sentence, "messages", code="invalid_image")
