"""How OpenAI's dialect ends: `data: [DONE]`, or an event with an error in it."""

from collections.abc import Sequence

import msgspec

from app.core.errors import RoundhouseError
from app.gateway.canonical.assistant_prefill import NOTHING, Prefilled
from app.gateway.canonical.events import failed
from app.gateway.dialects.form import Editor, Refusal, as_it_is
from app.gateway.dialects.openai.record import about
from app.gateway.dialects.openai.refusals import ERROR_KEY, in_own_words, refusal_of
from app.gateway.dialects.openai.sse import as_event


class OpenAI(msgspec.Struct, frozen=True, kw_only=True):
    """`app.gateway.dialects.form.Form` for engines that speak OpenAI's dialect: nothing of an answer needs mending.

    Routes where something does inherit what is the same for all. `prefilled` is what a whole chat repeats of what it
    was asked.
    """

    prefilled: Prefilled = NOTHING

    prompt: str = "messages"
    """The field of a request whose text is too long when it does not fit."""
    each: int = 0
    """How many answers each prompt has, where there are several and the engine counts every one by itself; else 0."""

    def refusal(self, body: bytes, status: int) -> Refusal:
        """Return OpenAI's error document."""
        return refusal_of(body, status, about(self.prompt))

    def ping(self) -> bytes:
        """Return a comment: every reader of server-sent events passes over it."""
        return b": waiting\n\n"

    def in_band(self, error: RoundhouseError) -> bytes:
        """Return an event with an error in it."""
        return as_event(about(self.prompt).document(failed(error)))

    def event(self, refusal: bytes) -> bytes:
        """Return an event with the document in it."""
        return b"data: " + refusal + b"\n\n"

    def is_complete(self, tail: bytes) -> bool:
        """Tell whether a stream said that it was over. An engine's own error event says so too."""
        return tail.rstrip().endswith(b"[DONE]") or b'data: {"error"' in tail

    def whole(self, body: bytes) -> bytes:
        """Return the document."""
        return body if self.prefilled == NOTHING else _new_of(body, self.prefilled)

    def editor(self) -> Editor:
        """Return what mends one stream."""
        return in_own_words(self._mender(), about(self.prompt))

    def _mender(self) -> Editor:
        """Return what mends an answer that goes well."""
        return as_it_is

    @property
    def needles(self) -> Sequence[bytes] | None:
        """An error that an engine reports; None where a route mends other things."""
        return (ERROR_KEY,) if self._mender() is as_it_is else None


def _new_of(body: bytes, prefilled: Prefilled) -> bytes:
    fields = msgspec.json.decode(body)
    for choice in fields.get("choices", ()):
        _keep_new(choice["message"], prefilled)
    return msgspec.json.encode(fields)


def _keep_new(message: dict[str, str], prefilled: Prefilled) -> None:
    if message.get("content"):
        message["content"] = prefilled.new_text(message["content"])
    if thinking := message.pop("reasoning_content", ""):
        thinking = prefilled.new_thinking(thinking)
    if thinking:
        message["reasoning_content"] = thinking


OPENAI = OpenAI()
