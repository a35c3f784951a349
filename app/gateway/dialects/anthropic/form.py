"""How answers of llama.cpp's own Messages route reach Anthropic's clients."""

import msgspec

from app.core.errors import RoundhouseError
from app.gateway.canonical.events import failed
from app.gateway.dialects.anthropic import reply
from app.gateway.dialects.anthropic.answers import StreamMender, event
from app.gateway.dialects.anthropic.record import ANTHROPIC_DIALECT
from app.gateway.dialects.anthropic.refusals import refusal_document
from app.gateway.dialects.anthropic.reply import Wishes
from app.gateway.dialects.form import Editor, Refusal
from app.gateway.exchange.engine.error_document import understood


class Messages(msgspec.Struct, frozen=True, kw_only=True):
    """`app.gateway.dialects.form.Form` for one request."""

    request_id: str
    wishes: Wishes = Wishes()

    def refusal(self, body: bytes, status: int) -> Refusal:
        """Return Anthropic's error document."""
        refused = understood(body, status)
        return Refusal(msgspec.json.encode(refusal_document(refused, self.request_id)), refused.status)

    def ping(self) -> bytes:
        """Return the event that Anthropic's own endpoint sends so."""
        return event("ping", {"type": "ping"})

    def in_band(self, error: RoundhouseError) -> bytes:
        """Return an error event."""
        return event("error", ANTHROPIC_DIALECT.document(failed(error), self.request_id))

    def event(self, refusal: bytes) -> bytes:
        """Return an error event with the document in it."""
        return event("error", msgspec.Raw(refusal))

    def is_complete(self, tail: bytes) -> bool:
        """Tell whether a stream said that it was over."""
        return b"event: message_stop" in tail or b"event: error" in tail

    def whole(self, body: bytes) -> bytes:
        """Return the answer, mended."""
        return reply.whole(body, self.wishes)

    def editor(self) -> Editor:
        """Return what mends a stream."""
        return StreamMender(self.wishes)


class Count(Messages, frozen=True, kw_only=True):
    """The form of a count of tokens, of which nothing needs mending."""

    def whole(self, body: bytes) -> bytes:
        """Return the count."""
        return body
