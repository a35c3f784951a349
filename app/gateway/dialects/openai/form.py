"""What is the same for all answers in OpenAI's dialect: events, their end (`data: [DONE]` or an error), and refusals.

An engine's refusal is put in OpenAI's shape, and in its words where the prompt is too long.
"""

from collections.abc import Sequence

import msgspec

from app.core.errors import RoundhouseError
from app.gateway.canonical.assistant_prefill import NOTHING, AssistantPrefill
from app.gateway.canonical.events import failure_event
from app.gateway.dialects.form import ErrorReply, StreamEditor, as_it_is
from app.gateway.dialects.openai.record import dialect_for_field, error_type
from app.gateway.dialects.record import DialectRecord
from app.gateway.exchange.engine.error_document import EngineRefusal, parse_refusal

END = b"\n\n"
"""What ends an event."""
_ENCODER = msgspec.json.Encoder()


def as_event(data: object) -> bytes:
    """Return a document as an event."""
    return b"data: " + _ENCODER.encode(data) + END


_CODES = {400: "invalid_value", 501: "engine_cannot"}
"""By status, OpenAI's code for a refusal to which the engine gave only the status again."""
_DATA, ERROR = b"data:", b'{"error"'
"""Inside a text the quotes would have backslashes before them."""
_SERVER_ERROR = 500


def refusal_of(body: bytes, status: int, dialect: DialectRecord) -> ErrorReply:
    """Return OpenAI's error document for an engine's."""
    refusal = parse_refusal(body, status)
    return ErrorReply(_error_document(refusal, dialect), refusal.status)


def _error_document(refusal: EngineRefusal, dialect: DialectRecord) -> bytes:
    """Return the document, always with message, type, param and code, and all else the engine said.

    The code is text or null, as clients have it typed; llama-server's is the status as a number.
    """
    error: dict[str, object] = {
        **refusal.extra,
        "message": dialect.word_message(refusal.text, refusal.overflow),
        "type": refusal.kind or error_type(refusal.status),
        "param": refusal.param if refusal.overflow is None else dialect.field,
        "code": _CODES.get(refusal.code, "engine_error") if isinstance(refusal.code, int) else refusal.code,
    }
    return msgspec.json.encode({"error": error})


def in_own_words(edit: StreamEditor, dialect: DialectRecord) -> StreamEditor:
    """Return an editor of streams in which an engine may still say that the prompt is too long; all else is `edit`'s.

    An error event that comes in two pieces is passed on as it is: engines write one at once.
    """

    def edit_chunk(chunk: bytes) -> bytes:
        return edit(chunk if ERROR not in chunk else with_own_words(chunk, dialect))

    return edit_chunk


def with_own_words(chunk: bytes, dialect: DialectRecord) -> bytes:
    """Return a chunk in which an engine says that the prompt is too long, in the dialect's words."""
    *events, rest = chunk.split(END)
    return b"".join(_edit_event(raw, dialect) + END for raw in events) + rest


def _edit_event(raw: bytes, dialect: DialectRecord) -> bytes:
    if not raw.startswith(_DATA) or ERROR not in raw:
        return raw
    refusal = parse_refusal(raw[len(_DATA) :].strip(), _SERVER_ERROR)
    return raw if refusal.overflow is None else _DATA + b" " + _error_document(refusal, dialect)


class OpenAIForm(msgspec.Struct, frozen=True, kw_only=True):
    """`app.gateway.dialects.form.AnswerForm` for engines that speak OpenAI's dialect: no answer needs mending.

    Routes where something does inherit what is the same for all. `prefilled` is what a whole chat repeats of what it
    was asked.
    """

    prefilled: AssistantPrefill = NOTHING

    prompt: str = "messages"
    """The field of a request whose text is too long when it does not fit."""
    each: int = 0
    """How many answers each prompt has, where there are several and the engine counts every one by itself; else 0."""

    def refusal(self, body: bytes, status: int) -> ErrorReply:
        """Return OpenAI's error document."""
        return refusal_of(body, status, dialect_for_field(self.prompt))

    def ping(self) -> bytes:
        """Return a comment: every reader of server-sent events passes over it."""
        return b": waiting\n\n"

    def in_band(self, error: RoundhouseError) -> bytes:
        """Return an event with an error in it."""
        return as_event(dialect_for_field(self.prompt).error_document(failure_event(error)))

    def event(self, refusal: bytes) -> bytes:
        """Return an event with the document in it."""
        return b"data: " + refusal + b"\n\n"

    def is_complete(self, tail: bytes) -> bool:
        """Tell whether a stream said that it was over. An engine's own error event says so too."""
        return tail.rstrip().endswith(b"[DONE]") or b'data: {"error"' in tail

    def whole(self, body: bytes) -> bytes:
        """Return the document."""
        return body if self.prefilled == NOTHING else _without_prefill(body, self.prefilled)

    def editor(self) -> StreamEditor:
        """Return what mends one stream."""
        return in_own_words(self._make_editor(), dialect_for_field(self.prompt))

    @property
    def edit_marks(self) -> Sequence[bytes]:
        """Return nothing: inheriting forms edit as they like."""
        return ()

    def _make_editor(self) -> StreamEditor:
        """Return what mends an answer that goes well."""
        return as_it_is


def _without_prefill(body: bytes, prefill: AssistantPrefill) -> bytes:
    fields = msgspec.json.decode(body)
    for choice in fields.get("choices", ()):
        _drop_prefill(choice["message"], prefill)
    return msgspec.json.encode(fields)


def _drop_prefill(message: dict[str, str], prefill: AssistantPrefill) -> None:
    if message.get("content"):
        message["content"] = prefill.new_text(message["content"])
    if thinking := message.pop("reasoning_content", ""):
        thinking = prefill.new_thinking(thinking)
    if thinking:
        message["reasoning_content"] = thinking


OPENAI = OpenAIForm()
