"""Pieces of messages that OpenAI's document has and engines do not know: refusals, and text files, which become text.

What is neither goes on as it is: an endpoint that somebody else runs may read it, and an engine says that it cannot.
"""

import msgspec

from app.core.errors import BadRequest
from app.gateway.canonical.images import text_of

_REFUSAL, _FILE = b'"refusal"', b'"file"'

_Fields = dict[str, msgspec.Raw]


class SentFile(msgspec.Struct, frozen=True):
    """A file that came along as a data URI."""

    file_data: str | None = None


class _Part(msgspec.Struct, frozen=True):
    type: str = ""
    refusal: str | None = None
    file: SentFile | None = None


def with_text(body: bytes) -> bytes:
    """Return a chat's body in which refusals and text files are text; the same bytes if there are none."""
    if not _has_marks(body):
        return body
    fields = msgspec.json.decode(body, type=_Fields)
    try:
        turns = msgspec.json.decode(fields.get("messages", b"[]"), type=list[_Fields])
    except msgspec.ValidationError:  # the engine says what is wrong with them
        return body
    read = [_turn(turn) for turn in turns]
    return body if read == turns else msgspec.json.encode({**fields, "messages": read})


def _has_marks(text: bytes) -> bool:
    return _REFUSAL in text or _FILE in text


def _turn(turn: _Fields) -> _Fields:
    content = turn.get("content", msgspec.Raw())
    if not _has_marks(bytes(content)):
        return turn
    try:
        parts = [_part(part) for part in msgspec.json.decode(content, type=list[msgspec.Raw])]
    except msgspec.ValidationError:
        return turn
    return {**turn, "content": msgspec.Raw(msgspec.json.encode(parts))}


def _part(raw: msgspec.Raw) -> msgspec.Raw:
    part = msgspec.json.decode(raw, type=_Part)
    text = part.refusal if part.type == "refusal" else _text_in(part.file) if part.type == "file" else None
    return raw if text is None else msgspec.Raw(msgspec.json.encode({"type": "text", "text": text}))


def _text_in(file: SentFile | None) -> str | None:
    try:
        return None if file is None or file.file_data is None else text_of(file.file_data, field="file_data")
    except BadRequest:
        return None
