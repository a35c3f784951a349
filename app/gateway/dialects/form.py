"""What the proxy has to know of a dialect to pass an engine's answer on in it: errors, ends, and what to mend.

The engine speaks the dialect itself. Where it is wrong, the form mends its bytes; where it is right, they stay as they
are.
"""

from collections.abc import Callable
from typing import Protocol

import msgspec

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


def as_it_is(chunk: bytes) -> bytes:
    """Mend nothing."""
    return chunk
