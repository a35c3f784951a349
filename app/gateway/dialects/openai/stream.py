"""Canonical events -> OpenAI's chat chunks, or one whole chat completion: the fold of the same events."""

from collections.abc import Iterable, Sequence

import msgspec

from app.gateway.canonical.events import (
    BROKE_OFF,
    AnswerFailed,
    AnswerFinished,
    Event,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    TokenLogprob,
    TokenUsage,
    ToolCallDelta,
    WholeAnswer,
)
from app.gateway.canonical.request import ToolCall
from app.gateway.dialects.openai.form import as_event
from app.gateway.dialects.openai.record import OPENAI_DIALECT

DONE = b"data: [DONE]\n\n"
_ENCODER = msgspec.json.Encoder()
Fields = dict[str, object]


class OpenAIAnswerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What every chunk says about the answer it is part of."""

    id: str
    model: str
    created: int


class OpenAIChunkEncoder:
    """Encodes one choice of a stream. `usage` is what its end said."""

    def __init__(self, about: OpenAIAnswerInfo, *, index: int = 0) -> None:
        self._about = about
        self._index = index
        self.usage = TokenUsage()
        self.is_over = False

    def begin(self) -> bytes:
        """Return the chunk that says who speaks."""
        return self._encode_chunk({"role": "assistant", "content": ""})

    def feed(self, events: Iterable[Event]) -> bytes:
        """Return the chunks for some events."""
        return b"".join(self._encode_event(event) for event in events if not self.is_over)

    def _encode_event(self, event: Event) -> bytes:
        match event:
            case TextDelta(text=text, logprobs=logprobs):
                return self._encode_chunk({"content": text}, logprobs=logprobs)
            case ReasoningDelta(text=text):
                return self._encode_chunk({"reasoning_content": text, "reasoning": text})
            case ToolCallDelta():
                return self._encode_chunk({"tool_calls": [_call_delta(event)]})
            case AnswerFinished():
                self.is_over, self.usage = True, event.usage
                return self._encode_chunk({}, reason=event.reason)
            case AnswerFailed():
                self.is_over = True
                return as_event(OPENAI_DIALECT.error_document(event))
            case _:
                pass
        return b""

    def _encode_chunk(
        self, delta: Fields, *, reason: FinishReason | None = None, logprobs: Sequence[TokenLogprob] = ()
    ) -> bytes:
        choice_logprobs = {"content": [_logprob_fields(token) for token in logprobs]} if logprobs else None
        choice = {"index": self._index, "delta": delta, "logprobs": choice_logprobs, "finish_reason": reason}
        return as_event({**_head_fields(self._about, "chat.completion.chunk"), "choices": [choice]})


def counts_chunk(about: OpenAIAnswerInfo, usage: TokenUsage) -> bytes:
    """Return the chunk of a stream that only tells the counts of tokens."""
    return as_event({**_head_fields(about, "chat.completion.chunk"), "choices": [], "usage": usage_of(usage)})


def build_completion(about: OpenAIAnswerInfo, answers: Sequence[WholeAnswer]) -> Fields | AnswerFailed:
    """Return a completion with each answer as a choice, or why one of them has none."""
    choices: list[Fields] = []
    total = TokenUsage()
    for index, answer in enumerate(answers):
        if not isinstance(answer.end, AnswerFinished):
            return answer.end or BROKE_OFF
        choices.append(_choice_fields(index, answer, answer.end.reason))
        total = add_usage(total, answer.end.usage) if index else answer.end.usage
    return {**_head_fields(about, "chat.completion"), "choices": choices, "usage": usage_of(total)}


def add_usage(first: TokenUsage, other: TokenUsage) -> TokenUsage:
    """Return the counts of several answers to one prompt, which counts once."""
    if first.completion is None or other.completion is None:
        return msgspec.structs.replace(first, completion=None)
    return msgspec.structs.replace(first, completion=first.completion + other.completion)


def usage_of(usage: TokenUsage) -> Fields | None:
    """Return OpenAI's counts; null where one is not known: unknown is not zero."""
    if usage.prompt is None or usage.completion is None:
        return None
    counts: Fields = {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
    }
    if usage.cached is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": usage.cached}
    if usage.reasoning is not None:
        counts["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
    return counts


def _choice_fields(index: int, answer: WholeAnswer, reason: FinishReason) -> Fields:
    message: Fields = {"role": "assistant", "content": answer.text or (None if answer.calls else "")}
    if answer.thinking:
        message |= {"reasoning_content": answer.thinking, "reasoning": answer.thinking}
    if answer.calls:
        message["tool_calls"] = [_call_fields(call) for call in answer.calls]
    choice_logprobs = {"content": [_logprob_fields(token) for token in answer.logprobs]} if answer.logprobs else None
    return {"index": index, "message": message, "logprobs": choice_logprobs, "finish_reason": reason}


def _call_fields(call: ToolCall) -> Fields:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _call_delta(delta: ToolCallDelta) -> Fields:
    """Return a piece of a call. What it is comes with its first piece only."""
    if not delta.name:
        return {"index": delta.index, "function": {"arguments": delta.arguments}}
    call = ToolCall(id=delta.id, name=delta.name, arguments=delta.arguments)
    return {"index": delta.index, **_call_fields(call)}


def _logprob_fields(token: TokenLogprob) -> Fields:
    return {
        "token": token.token,
        "logprob": token.logprob,
        "bytes": token.bytes,
        "top_logprobs": [
            {"token": alternative.token, "logprob": alternative.logprob, "bytes": alternative.bytes}
            for alternative in token.top_logprobs
        ],
    }


def _head_fields(about: OpenAIAnswerInfo, kind: str) -> Fields:
    return {"id": about.id, "object": kind, "created": about.created, "model": about.model}
