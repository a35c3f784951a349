"""What the proxy has to know of a dialect to pass an engine's answer on in it: errors, ends, and what to mend.

The engine speaks the dialect itself. Where it is wrong, the form mends its bytes; where it is right, they stay as they
are.

What the dialects' routes answer with: JSON in one piece, or streams, which nobody between is to keep back.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
from aiohttp import hdrs, web

from app.core.errors import RoundhouseError

StreamEditor = Callable[[bytes], bytes]
"""Takes a stream's chunks as they come and returns what to send for each; it keeps what it needs in between."""


class ErrorReply(msgspec.Struct, frozen=True):
    """An error document in the dialect's shape, and the status it is sent with."""

    body: bytes
    status: int


class AnswerForm(Protocol):
    """One dialect, as a client reads it."""

    def refusal(self, body: bytes, status: int) -> ErrorReply:
        """Return what to say for an engine's error document."""

    def ping(self) -> bytes:
        """Bytes of a stream that mean nothing, to show a client that somebody is there."""

    def in_band(self, error: RoundhouseError) -> bytes:
        """Return the event that ends a stream which cannot go on."""

    def event(self, refusal: bytes) -> bytes:
        """Return the event that says an error document in a stream."""

    def is_complete(self, tail: bytes) -> bool:
        """Tell from its last bytes whether a stream said that it was over, well or badly."""

    def whole(self, body: bytes) -> bytes:
        """Return the answer for a document that came in one piece."""

    def editor(self) -> StreamEditor:
        """Return what mends one stream."""

    @property
    def edit_marks(self) -> Sequence[bytes]:
        """What stands in any whole lines that the editor changes after the first piece; nothing if nobody can say."""


def as_it_is(chunk: bytes) -> bytes:
    """Mend nothing."""
    return chunk


def _stream_headers(content_type: str) -> dict[str, str]:
    return {hdrs.CONTENT_TYPE: content_type, hdrs.CACHE_CONTROL: "no-cache", "X-Accel-Buffering": "no"}


EVENT_STREAM_HEADERS = _stream_headers("text/event-stream")
NDJSON_HEADERS = _stream_headers("application/x-ndjson")


def json_reply(value: object, status: int = 200, *, charset: str | None = None) -> web.Response:
    """Return a whole answer. `charset` is said with its type, where a dialect's own server says it."""
    return web.Response(
        body=msgspec.json.encode(value), status=status, content_type="application/json", charset=charset
    )


def utf8_json_reply(value: object, status: int = 200) -> web.Response:
    """Return a whole answer that says that it is UTF-8, as Ollama's do."""
    return json_reply(value, status, charset="utf-8")
