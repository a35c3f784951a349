"""Canonical events -> Anthropic's stream of blocks, or one whole message: the fold of the same events."""

from collections.abc import Iterable

from app.gateway.canonical.events import (
    BROKE_OFF,
    AnswerFailed,
    AnswerFinished,
    Event,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    TokenUsage,
    ToolCallDelta,
    WholeAnswer,
)
from app.gateway.canonical.request import ToolCall
from app.gateway.dialects.anthropic import answers
from app.gateway.dialects.anthropic.answers import AnthropicAnswerParams, Fields, encode_event
from app.gateway.dialects.anthropic.record import ANTHROPIC_DIALECT
from app.gateway.dialects.raw_fields import object_in

_REASONS = {
    FinishReason.STOP: "end_turn",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.TOOL_CALLS: "tool_use",
    FinishReason.CONTENT_FILTER: "refusal",
}


class AnthropicEncoder:
    """Encodes one stream. A block ends before the next one begins, and their numbers go up by one."""

    def __init__(self, model: str, params: AnthropicAnswerParams, request_id: str | None = None) -> None:
        self._model = model
        self._params = params
        self._request_id = request_id
        self._index = -1
        self._open: object = None
        """What the open block is: "text", "thinking", or a call's number."""
        self.is_over = False

    def begin(self) -> bytes:
        """Return the message without content."""
        return encode_event("message_start", {"type": "message_start", "message": _message_fields(self._model, [])})

    def feed(self, events: Iterable[Event]) -> bytes:
        """Return what some events are."""
        return b"".join(self._encode_event(canonical_event) for canonical_event in events if not self.is_over)

    def _encode_event(self, canonical_event: Event) -> bytes:
        match canonical_event:
            case TextDelta(text=text):
                begin = self._enter_block("text", {"type": "text", "text": ""})
                return begin + self._encode_delta({"type": "text_delta", "text": text})
            case ReasoningDelta(text=text):
                begin = self._enter_block("thinking", {"type": "thinking", "thinking": "", "signature": ""})
                return begin + self._encode_delta({"type": "thinking_delta", "thinking": text})
            case ToolCallDelta():
                return self._encode_call(canonical_event)
            case AnswerFinished():
                self.is_over = True
                return self._close_block() + self._finish_message(canonical_event)
            case AnswerFailed():
                self.is_over = True
                return encode_event("error", ANTHROPIC_DIALECT.error_document(canonical_event, self._request_id))
            case _:
                pass
        return b""

    def _encode_call(self, delta: ToolCallDelta) -> bytes:
        if self._params.one_tool and delta.index > 0:
            return b""
        use: Fields = {"type": "tool_use", "id": delta.id, "name": delta.name, "input": {}}
        begin = self._enter_block(delta.index, answers.whole_block(use))
        return begin + (
            self._encode_delta({"type": "input_json_delta", "partial_json": delta.arguments})
            if delta.arguments
            else b""
        )

    def _enter_block(self, what: object, block: Fields) -> bytes:
        """Return what it takes to be in a block of this kind."""
        if self._open == what:
            return b""
        closing_event = self._close_block()
        self._open, self._index = what, self._index + 1
        start = {"type": "content_block_start", "index": self._index, "content_block": block}
        return closing_event + encode_event("content_block_start", start)

    def _close_block(self) -> bytes:
        what, self._open = self._open, None
        if what is None:
            return b""
        stop = encode_event("content_block_stop", {"type": "content_block_stop", "index": self._index})
        return (self._encode_delta({"type": "signature_delta", "signature": ""}) if what == "thinking" else b"") + stop

    def _encode_delta(self, delta: Fields) -> bytes:
        return encode_event(
            "content_block_delta", {"type": "content_block_delta", "index": self._index, "delta": delta}
        )

    def _finish_message(self, end: AnswerFinished) -> bytes:
        counts = usage_of(end.usage)
        delta = {"type": "message_delta", "delta": _stop_fields(end, self._params), "usage": counts}
        return encode_event("message_delta", delta) + encode_event("message_stop", {"type": "message_stop"})


def build_message(answer: WholeAnswer, model: str, params: AnthropicAnswerParams) -> Fields | AnswerFailed:
    """Return the message that says all of an answer at once, or why there is none."""
    end = answer.end
    if not isinstance(end, AnswerFinished):
        return end or BROKE_OFF
    content: list[Fields] = []
    if answer.thinking:
        content.append({"type": "thinking", "thinking": answer.thinking, "signature": ""})
    if answer.text or not answer.calls:
        content.append({"type": "text", "text": answer.text})
    calls = answer.calls[:1] if params.one_tool else answer.calls
    content += [answers.whole_block(_tool_use_block(call)) for call in calls]
    return {**_message_fields(model, content), **_stop_fields(end, params), "usage": usage_of(end.usage)}


def usage_of(usage: TokenUsage) -> Fields:
    """Return all four counts: what is read from the cache is not part of `input_tokens`."""
    cached_tokens = usage.cached or 0
    counts: Fields = {"cache_read_input_tokens": cached_tokens, "output_tokens": usage.completion or 0}
    return answers.all_counts(counts | ({} if usage.prompt is None else {"input_tokens": usage.prompt - cached_tokens}))


def _tool_use_block(call: ToolCall) -> Fields:
    """Return a call; of arguments that are no object, it has the text, so that nothing is lost."""
    tool_input = object_in(call.arguments or "{}")
    tool_input = {"arguments": call.arguments} if tool_input is None else tool_input
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": tool_input}


def _stop_fields(end: AnswerFinished, params: AnthropicAnswerParams) -> Fields:
    reason = answers.stop_reason(_REASONS[end.reason], end.stop, end.usage.completion, params)
    return {"stop_reason": reason, "stop_sequence": end.stop}


def _message_fields(model: str, content: list[Fields]) -> Fields:
    return {
        "id": answers.message_id(),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage_of(TokenUsage()),
    }
