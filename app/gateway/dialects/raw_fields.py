"""Fields of requests that are decoded late or may be absent, and other pieces that dialects read alike."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from app.core.errors import BadRequest

T = TypeVar("T")
ABSENT = msgspec.Raw()
"""A field that was not sent."""


def is_set(raw: msgspec.Raw) -> bool:
    """Tell whether a field was sent with anything but null."""
    return bytes(raw) not in (b"", b"null")


def value_of(raw: msgspec.Raw) -> object:
    """Return the value of a field that was passed over at first, None if it is absent. Raises BadRequest."""
    if raw == ABSENT:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadRequest(f"The request is not valid JSON: {error}.", code="invalid_json") from None


def object_in(text: str) -> dict[str, object] | None:
    """Return the JSON object that a text is, as a call's arguments should be; None if it is no object."""
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError):
        return None


def decode_query(query: Mapping[str, str], kind: type[T]) -> T:
    """Return what a request's query asks for. Raises BadRequest."""
    try:
        return msgspec.convert(dict(query), kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequest(f"The query is not as expected: {error}.", code="invalid_value") from None
