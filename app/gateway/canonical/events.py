"""What an engine answers, in the form that every dialect is translated from: a stream of events.

`AnswerStarted`, perhaps `PromptProgress`, then any number of deltas, then exactly one of `AnswerFinished` and
`AnswerFailed`. A whole answer is its stream, folded: what streaming sends piece by piece, every dialect can also send
at once.

A prompt that does not fit into the context, with its counts: every dialect has words of its own for it.

Programs that shorten a conversation and ask again look for those words, and for nothing else.
"""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from app.core.errors import BadRequest, ErrorBody, RoundhouseError
from app.gateway.canonical.request import ToolCall


class Overflow(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens, None where nobody said. `answer` is what was asked for, where the prompt alone would have fitted."""

    context: int | None = None
    prompt: int | None = None
    answer: int | None = None


class ContextOverflow(BadRequest):
    """The prompt does not fit. Its sentence is for logs; clients are told in the words of their dialect."""

    default_code = "context_length_exceeded"

    def __init__(self, overflow: Overflow) -> None:
        super().__init__(_sentence(overflow), hint="Shorten it, or ask for a larger context.")
        self.overflow = overflow

    @property
    def prompt_tokens(self) -> int | None:
        """How long the prompt is."""
        return self.overflow.prompt

    @property
    def context(self) -> int | None:
        """How much the model keeps."""
        return self.overflow.context


def _sentence(overflow: Overflow) -> str:
    if overflow.prompt is None or overflow.context is None:
        return "The prompt is longer than the model's context."
    answer = "" if overflow.answer is None else f" and an answer of {overflow.answer}"
    return f"The prompt of {overflow.prompt} tokens{answer} exceeds the context length of {overflow.context}."


class TokenAlternative(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A token and its natural log probability. `bytes` are its UTF-8 bytes: a token may be part of a character."""

    token: str
    logprob: float
    bytes: tuple[int, ...] | None = None


class TokenLogprob(TokenAlternative, frozen=True, kw_only=True, omit_defaults=True):
    """A token that was written, and what else could have been, likeliest first."""

    top_logprobs: tuple[TokenAlternative, ...] = ()


class TokenUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens, as the engine counts them; None where it does not say. `prompt` includes the `cached` ones."""

    prompt: int | None = None
    cached: int | None = None
    completion: int | None = None
    reasoning: int | None = None


class AnswerTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds: waiting for the model to load, reading the prompt, writing the answer, and everything together.

    `ready_s` is until an engine was at hand, with all that came before: reading the request, queueing, loading.
    """

    load_s: float = 0.0
    ready_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    total_s: float = 0.0


class FinishReason(StrEnum):
    """Why an answer ended."""

    STOP = "stop"
    LENGTH = "length"
    """The limit asked for, or the end of the context."""
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"


class AnswerStarted(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """The engine has taken the request. `context` is what it keeps, in tokens."""

    load_s: float = 0.0
    context: int | None = None


class PromptProgress(msgspec.Struct, frozen=True, tag="prompt_progress"):
    """So much of the prompt that had to be read has been, 0 to 1; None where nothing had to be."""

    fraction: float | None


class TextDelta(msgspec.Struct, frozen=True, tag="text_delta"):
    """The answer goes on."""

    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


class ReasoningDelta(msgspec.Struct, frozen=True, tag="reasoning_delta"):
    """The reasoning goes on."""

    text: str


class ToolCallDelta(msgspec.Struct, frozen=True, kw_only=True, tag="tool_call_delta"):
    """Call number `index` begins (`id` and `name` are given once) or its arguments' JSON text goes on."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


class AnswerFinished(msgspec.Struct, frozen=True, kw_only=True, tag="finished"):
    """The answer is complete."""

    reason: FinishReason = FinishReason.STOP
    usage: TokenUsage = TokenUsage()
    timings: AnswerTimings = AnswerTimings()
    stop: str | None = None
    """The stop sequence that ended it, where that is known."""


class AnswerFailed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """The answer broke off. `status` is what would have been answered before the first byte."""

    error: ErrorBody
    status: int
    overflow: Overflow | None = None
    """Set where the prompt did not fit."""


BROKE_OFF = AnswerFailed(
    error=ErrorBody(code="engine_broke_off", sentence="The engine cut off its answer."), status=502
)
"""What a stream that just stopped is owed."""
Event = AnswerStarted | PromptProgress | TextDelta | ReasoningDelta | ToolCallDelta | AnswerFinished | AnswerFailed


def failure_event(error: RoundhouseError) -> AnswerFailed:
    """Return the event that an error is in a stream."""
    overflow = error.overflow if isinstance(error, ContextOverflow) else None
    return AnswerFailed(error=error.body, status=error.status, overflow=overflow)


class WholeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A whole answer. `end` is None if the stream just stopped."""

    text: str = ""
    thinking: str = ""
    calls: tuple[ToolCall, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    end: AnswerFinished | AnswerFailed | None = None


class ToolCallAssembler:
    """Tool calls that arrive in pieces."""

    def __init__(self) -> None:
        self._calls: dict[int, ToolCall] = {}

    def add_delta(self, delta: ToolCallDelta) -> None:
        """Take the next piece."""
        known_call = self._calls.get(delta.index)
        if known_call is None:
            self._calls[delta.index] = ToolCall(id=delta.id, name=delta.name, arguments=delta.arguments)
            return
        self._calls[delta.index] = ToolCall(
            id=known_call.id or delta.id,
            name=known_call.name or delta.name,
            arguments=known_call.arguments + delta.arguments,
        )

    def all_calls(self) -> tuple[ToolCall, ...]:
        """Return what has arrived, in the model's order."""
        return tuple(call for _, call in sorted(self._calls.items()))


def aggregate_events(events: Iterable[Event]) -> WholeAnswer:
    """Return the whole answer. What comes after its end does not count."""
    text: list[str] = []
    thinking: list[str] = []
    logprobs: list[TokenLogprob] = []
    calls, end = ToolCallAssembler(), None
    for event in events:
        match event:
            case TextDelta():
                text.append(event.text)
                logprobs += event.logprobs
            case ReasoningDelta():
                thinking.append(event.text)
            case ToolCallDelta():
                calls.add_delta(event)
            case AnswerFinished() | AnswerFailed():
                end = event
                break
            case _:
                pass
    return WholeAnswer(
        text="".join(text), thinking="".join(thinking), calls=calls.all_calls(), logprobs=tuple(logprobs), end=end
    )
