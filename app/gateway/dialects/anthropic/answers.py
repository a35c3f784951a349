"""What llama.cpp's answers lack to be Anthropic's, whole or in a stream: ids, ends that say why, and every count.

It calls an answer "chatcmpl-...", repeats the turn that it goes on with, says `end_turn` when a stop sequence ended it
and `max_tokens` when the context was full, and leaves out what was written to a cache. Chunks of the network end
anywhere; only whole events are sent on, and text, which is nearly all of a stream, keeps its bytes.
"""

import secrets
from collections.abc import Callable, Sequence

import msgspec

from app.core.errors import RoundhouseError
from app.gateway.canonical.assistant_prefill import NOTHING, AssistantPrefill
from app.gateway.canonical.events import failure_event
from app.gateway.dialects.anthropic.record import ANTHROPIC_DIALECT, refusal_document
from app.gateway.dialects.form import ErrorReply, StreamEditor
from app.gateway.exchange.engine.error_document import parse_refusal

Fields = dict[str, object]

_MESSAGE, _TOOL_USE = "msg_", "toolu_"


class AnthropicAnswerParams(msgspec.Struct, frozen=True, kw_only=True):
    """What of a request its answer is held to."""

    max_tokens: int | None = None
    one_tool: bool = False
    prefilled: AssistantPrefill = NOTHING
    """What a whole answer repeats of it."""


def message_id() -> str:
    """Return an id as Anthropic writes them."""
    return _MESSAGE + secrets.token_hex(12)


def all_counts(counts: Fields) -> Fields:
    """Return all four counts. What is read from the cache is not part of `input_tokens`."""
    return {"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, **counts}


def stop_reason(reason: object, sequence: object, output_tokens: object, params: AnthropicAnswerParams) -> object:
    """Return why an answer ended; `output_tokens` is its number of tokens."""
    if reason == "end_turn" and sequence is not None:
        return "stop_sequence"
    if (
        reason == "max_tokens"
        and params.max_tokens
        and isinstance(output_tokens, int)
        and output_tokens < params.max_tokens
    ):
        return "model_context_window_exceeded"
    return reason


def whole_block(block: Fields) -> Fields:
    """Return a content block with what its type must have."""
    if block.get("type") == "tool_use":
        return {**block, "id": block.get("id") or _TOOL_USE + secrets.token_hex(12), "input": block.get("input") or {}}
    if block.get("type") == "thinking":
        return {"signature": "", **block}
    return block


def whole_message(body: bytes, params: AnthropicAnswerParams) -> bytes:
    """Return a whole answer, mended."""
    reply = msgspec.json.decode(body, type=Fields)
    counts = reply.get("usage")
    counts = all_counts(counts if isinstance(counts, dict) else {})
    content = reply.get("content")
    reply.update(
        id=message_id(),
        content=_limit_calls(_drop_prefill(content, params.prefilled), params) if isinstance(content, list) else [],
        stop_reason=stop_reason(
            reply.get("stop_reason"), reply.get("stop_sequence"), counts.get("output_tokens"), params
        ),
        usage=counts,
    )
    return msgspec.json.encode(reply)


def _drop_prefill(content: list[Fields], prefill: AssistantPrefill) -> list[Fields]:
    """Return the blocks without what they repeat of the request."""
    blocks = [whole_block(part) for part in content]
    if prefill == NOTHING:
        return blocks
    new_blocks = [_drop_prefill_of_block(part, prefill) for part in blocks]
    return [part for part in new_blocks if part.get("type") != "thinking" or part.get("thinking")]


def _drop_prefill_of_block(part: Fields, prefill: AssistantPrefill) -> Fields:
    match part:
        case {"type": "text", "text": str(text)}:
            return {**part, "text": prefill.new_text(text)}
        case {"type": "thinking", "thinking": str(thinking)}:
            return {**part, "thinking": prefill.new_thinking(thinking)}
    return part


def _limit_calls(content: list[Fields], params: AnthropicAnswerParams) -> list[Fields]:
    calls = [part for part in content if part.get("type") == "tool_use"]
    surplus = calls[1:] if params.one_tool else []
    return [part for part in content if part not in surplus]


_END = b"\n\n"
_SERVER_ERROR = 500
_DELTA = b"event: content_block_delta"
_SIGNATURE = b'"signature_delta"'


def encode_event(name: str, data: object) -> bytes:
    """Return one server-sent event."""
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(data) + _END


class AnthropicStreamEditor:
    """An `app.gateway.dialects.form.StreamEditor` for one stream.

    llama.cpp signs and ends all blocks together at the end; here a block ends before the next one begins.
    """

    def __init__(self, params: AnthropicAnswerParams) -> None:
        self._params = params
        self._rest = b""
        self._usage: Fields = all_counts({})
        self._calls = 0
        self._open: object = None
        """The index of the block being written."""
        self._is_thinking = False
        self._is_muted = False
        self._edits: dict[bytes, Callable[[Fields], bytes]] = {
            b"message_start": self._edit_start,
            b"content_block_start": self._begin_block,
            b"content_block_stop": self._end_block,
            b"message_delta": self._finish_message,
        }

    def __call__(self, chunk: bytes) -> bytes:
        """Return what is sent for a chunk, which may be nothing yet."""
        *events, self._rest = (self._rest + chunk).split(_END)
        return b"".join(self._edit_event(event) for event in events)

    def _edit_event(self, raw: bytes) -> bytes:
        if raw.startswith(_DELTA):
            return b"" if self._is_muted or _SIGNATURE in raw else raw + _END
        name, payload = _parse_event(raw)
        if name == b"error":
            return encode_event("error", refusal_document(parse_refusal(payload, _SERVER_ERROR)))
        mend = self._edits.get(name)
        return raw + _END if mend is None else mend(_decode_fields(payload))

    def _edit_start(self, data: Fields) -> bytes:
        message = _as_fields(data.get("message"))
        self._usage = all_counts(_as_fields(message.get("usage")))
        message.update(id=message_id(), usage=self._usage)
        return encode_event("message_start", {**data, "message": message})

    def _begin_block(self, data: Fields) -> bytes:
        block_end, block = self._close_block(), whole_block(_as_fields(data.get("content_block")))
        self._calls += block.get("type") == "tool_use"
        self._is_muted = self._params.one_tool and self._calls > 1
        if self._is_muted:
            return block_end
        self._open, self._is_thinking = data.get("index"), block.get("type") == "thinking"
        return block_end + encode_event("content_block_start", {**data, "content_block": block})

    def _end_block(self, data: Fields) -> bytes:
        return self._close_block() if data.get("index") == self._open else b""

    def _close_block(self) -> bytes:
        index, self._open = self._open, None
        if index is None:
            return b""
        stop = encode_event("content_block_stop", {"type": "content_block_stop", "index": index})
        return _empty_signature(index) + stop if self._is_thinking else stop

    def _finish_message(self, data: Fields) -> bytes:
        delta, counts = _as_fields(data.get("delta")), {**self._usage, **_as_fields(data.get("usage"))}
        delta["stop_reason"] = stop_reason(
            delta.get("stop_reason"), delta.get("stop_sequence"), counts.get("output_tokens"), self._params
        )
        return self._close_block() + encode_event("message_delta", {**data, "delta": delta, "usage": counts})


def _empty_signature(index: object) -> bytes:
    """Return the empty signature that ends reasoning here: nobody vouches for it."""
    delta = {"type": "signature_delta", "signature": ""}
    return encode_event("content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta})


def _parse_event(raw: bytes) -> tuple[bytes, bytes]:
    """Return an event's name and data."""
    lines = [line.partition(b":") for line in raw.split(b"\n")]
    name = next((value.strip() for field, _, value in lines if field == b"event"), b"")
    return name, b"\n".join(value.strip() for field, _, value in lines if field == b"data")


def _decode_fields(payload: bytes) -> Fields:
    try:
        return msgspec.json.decode(payload, type=Fields)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}


def _as_fields(value: object) -> Fields:
    return dict(value) if isinstance(value, dict) else {}


class AnthropicMessageForm(msgspec.Struct, frozen=True, kw_only=True):
    """`app.gateway.dialects.form.AnswerForm` for one request."""

    request_id: str
    wishes: AnthropicAnswerParams = AnthropicAnswerParams()

    def refusal(self, body: bytes, status: int) -> ErrorReply:
        """Return Anthropic's error document."""
        refusal = parse_refusal(body, status)
        return ErrorReply(msgspec.json.encode(refusal_document(refusal, self.request_id)), refusal.status)

    def ping(self) -> bytes:
        """Return the event that Anthropic's own endpoint sends so."""
        return encode_event("ping", {"type": "ping"})

    def in_band(self, error: RoundhouseError) -> bytes:
        """Return an error event."""
        return encode_event("error", ANTHROPIC_DIALECT.error_document(failure_event(error), self.request_id))

    def event(self, refusal: bytes) -> bytes:
        """Return an error event with the document in it."""
        return encode_event("error", msgspec.Raw(refusal))

    def is_complete(self, tail: bytes) -> bool:
        """Tell whether a stream said that it was over."""
        return b"event: message_stop" in tail or b"event: error" in tail

    def whole(self, body: bytes) -> bytes:
        """Return the answer, mended."""
        return whole_message(body, self.wishes)

    def editor(self) -> StreamEditor:
        """Return what mends a stream."""
        return AnthropicStreamEditor(self.wishes)

    @property
    def edit_marks(self) -> Sequence[bytes]:
        """Return nothing: any event may be changed."""
        return ()


class AnthropicCountForm(AnthropicMessageForm, frozen=True, kw_only=True):
    """The form of a count of tokens, of which nothing needs mending."""

    def whole(self, body: bytes) -> bytes:
        """Return the count."""
        return body
