"""Pictures that came along in a request as `data:` URIs. No other address is ever fetched."""

import base64
import binascii

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
            f"`{field}` is a data URI in base64.", hint="Other addresses are not fetched.", code="invalid_value"
        )
    return kind.removeprefix(_DATA), data
