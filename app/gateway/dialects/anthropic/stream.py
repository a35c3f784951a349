"""Canonical events -> Anthropic's stream of blocks, or one whole message: the fold of the same events."""

from collections.abc import Iterable

from app.gateway.canonical.events import (
    BROKE_OFF,
    Answer,
    Event,
    Failed,
    Finish,
    Finished,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from app.gateway.canonical.request import ToolCall
from app.gateway.dialects.anthropic import answers
from app.gateway.dialects.anthropic.answers import Fields, Wishes, event
from app.gateway.dialects.anthropic.record import ANTHROPIC_DIALECT
from app.gateway.dialects.raw_fields import object_in

_REASONS = {
    Finish.STOP: "end_turn",
    Finish.LENGTH: "max_tokens",
    Finish.TOOL_CALLS: "tool_use",
    Finish.CONTENT_FILTER: "refusal",
}


class Blocks:
    """Encodes one stream. A block ends before the next one begins, and their numbers go up by one."""

    def __init__(self, model: str, wishes: Wishes, request_id: str | None = None) -> None:
        self._model = model
        self._wishes = wishes
        self._request_id = request_id
        self._index = -1
        self._open: object = None
        """What the open block is: "text", "thinking", or a call's number."""
        self.is_over = False

    def begin(self) -> bytes:
        """Return the message without content."""
        return event("message_start", {"type": "message_start", "message": _message(self._model, [])})

    def feed(self, events: Iterable[Event]) -> bytes:
        """Return what some events are."""
        return b"".join(self._event(one) for one in events if not self.is_over)

    def _event(self, told: Event) -> bytes:
        match told:
            case TextDelta(text=text):
                begin = self._in("text", {"type": "text", "text": ""})
                return begin + self._delta({"type": "text_delta", "text": text})
            case ReasoningDelta(text=text):
                begin = self._in("thinking", {"type": "thinking", "thinking": "", "signature": ""})
                return begin + self._delta({"type": "thinking_delta", "thinking": text})
            case ToolCallDelta():
                return self._call(told)
            case Finished():
                self.is_over = True
                return self._closed() + self._finish(told)
            case Failed():
                self.is_over = True
                return event("error", ANTHROPIC_DIALECT.document(told, self._request_id))
            case _:
                pass
        return b""

    def _call(self, delta: ToolCallDelta) -> bytes:
        if self._wishes.one_tool and delta.index > 0:
            return b""
        use: Fields = {"type": "tool_use", "id": delta.id, "name": delta.name, "input": {}}
        begin = self._in(delta.index, answers.whole_block(use))
        return begin + (
            self._delta({"type": "input_json_delta", "partial_json": delta.arguments}) if delta.arguments else b""
        )

    def _in(self, what: object, block: Fields) -> bytes:
        """Return what it takes to be in a block of this kind."""
        if self._open == what:
            return b""
        closed = self._closed()
        self._open, self._index = what, self._index + 1
        start = {"type": "content_block_start", "index": self._index, "content_block": block}
        return closed + event("content_block_start", start)

    def _closed(self) -> bytes:
        what, self._open = self._open, None
        if what is None:
            return b""
        stop = event("content_block_stop", {"type": "content_block_stop", "index": self._index})
        return (self._delta({"type": "signature_delta", "signature": ""}) if what == "thinking" else b"") + stop

    def _delta(self, delta: Fields) -> bytes:
        return event("content_block_delta", {"type": "content_block_delta", "index": self._index, "delta": delta})

    def _finish(self, end: Finished) -> bytes:
        counts = usage_of(end.usage)
        delta = {"type": "message_delta", "delta": _ending(end, self._wishes), "usage": counts}
        return event("message_delta", delta) + event("message_stop", {"type": "message_stop"})


def whole(answer: Answer, model: str, wishes: Wishes) -> Fields | Failed:
    """Return the message that says all of an answer at once, or why there is none."""
    end = answer.end
    if not isinstance(end, Finished):
        return end or BROKE_OFF
    content: list[Fields] = []
    if answer.thinking:
        content.append({"type": "thinking", "thinking": answer.thinking, "signature": ""})
    if answer.text or not answer.calls:
        content.append({"type": "text", "text": answer.text})
    calls = answer.calls[:1] if wishes.one_tool else answer.calls
    content += [answers.whole_block(_use(call)) for call in calls]
    return {**_message(model, content), **_ending(end, wishes), "usage": usage_of(end.usage)}


def usage_of(usage: Usage) -> Fields:
    """Return all four counts: what is read from the cache is not part of `input_tokens`."""
    cached = usage.cached or 0
    counts: Fields = {"cache_read_input_tokens": cached, "output_tokens": usage.completion or 0}
    return answers.all_counts(counts | ({} if usage.prompt is None else {"input_tokens": usage.prompt - cached}))


def _use(call: ToolCall) -> Fields:
    """Return a call; of arguments that are no object, it has the text, so that nothing is lost."""
    given = object_in(call.arguments or "{}")
    given = {"arguments": call.arguments} if given is None else given
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": given}


def _ending(end: Finished, wishes: Wishes) -> Fields:
    reason = answers.stop_reason(_REASONS[end.reason], end.stop, end.usage.completion, wishes)
    return {"stop_reason": reason, "stop_sequence": end.stop}


def _message(model: str, content: list[Fields]) -> Fields:
    return {
        "id": answers.message_id(),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage_of(Usage()),
    }
