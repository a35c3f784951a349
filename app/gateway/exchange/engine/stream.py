"""What an engine sends while it answers: server-sent events in, canonical events out.

Network chunks end anywhere, in the middle of an event or of a character, so only whole lines are decoded. One reader
understands chat chunks, completion chunks and llama-server's own (infill); whichever fields are there count.
"""

import msgspec

from app.core.errors import EngineFailed, RoundhouseError
from app.gateway.canonical.events import (
    AnswerFinished,
    AnswerTimings,
    Event,
    FinishReason,
    PromptProgress,
    ReasoningDelta,
    TextDelta,
    TokenLogprob,
    TokenUsage,
    ToolCallDelta,
    failure_event,
)
from app.gateway.exchange.engine.error_document import error_from_refusal

_MS = 1000.0
_REASONS = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "limit": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "content_filter": FinishReason.CONTENT_FILTER,
}
"""OpenAI's words, and "limit", which is llama-server's own. Any other end is a stop."""


_ABSENT = msgspec.Raw()
_NO_ERROR = (_ABSENT, msgspec.Raw(b"null"))


class _CallFunction(msgspec.Struct, frozen=True):
    name: str | None = None
    arguments: str | None = None


class _CallDelta(msgspec.Struct, frozen=True):
    index: int = 0
    id: str | None = None
    function: _CallFunction = _CallFunction()


class _MessageDelta(msgspec.Struct, frozen=True):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_CallDelta] | None = None


class _DeltaLogprobs(msgspec.Struct, frozen=True):
    content: tuple[TokenLogprob, ...] | None = None


class _DeltaChoice(msgspec.Struct, frozen=True):
    delta: _MessageDelta = _MessageDelta()
    text: str | None = None
    finish_reason: str | None = None
    logprobs: _DeltaLogprobs | None = None


class _UsageDetails(msgspec.Struct, frozen=True):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _EngineUsage(msgspec.Struct, frozen=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _UsageDetails | None = None
    completion_tokens_details: _UsageDetails | None = None


class _EngineTimings(msgspec.Struct, frozen=True):
    cache_n: int = 0
    prompt_n: int | None = None
    prompt_ms: float = 0.0
    predicted_n: int | None = None
    predicted_ms: float = 0.0


class _PromptProgress(msgspec.Struct, frozen=True):
    """How much of the prompt has been read, in tokens; `cache` of them needed no reading."""

    total: int
    cache: int = 0
    processed: int = 0

    @property
    def fraction(self) -> float | None:
        """Return 0..1 of what had to be read."""
        todo = self.total - self.cache
        return min(1.0, max(0.0, (self.processed - self.cache) / todo)) if todo > 0 else None


class _StreamChunk(msgspec.Struct, frozen=True):
    choices: list[_DeltaChoice] = []
    prompt_progress: _PromptProgress | None = None
    usage: _EngineUsage | None = None
    timings: _EngineTimings | None = None
    error: msgspec.Raw = _ABSENT
    content: str | None = None
    stop: bool = False
    stop_type: str | None = None


_DECODER = msgspec.json.Decoder(_StreamChunk)
_DONE = b"[DONE]"
_NO_DELTA = _MessageDelta()


class StreamReader:
    """Feed it bytes as they come. `is_over` once it has returned `AnswerFinished` or `AnswerFailed`."""

    def __init__(self) -> None:
        self.is_over = False
        self._rest = b""
        self._reason: FinishReason | None = None
        self._usage: _EngineUsage | None = None
        self._timings: _EngineTimings | None = None

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that `chunk` completes; none after the last one."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        events: list[Event] = []
        for line in lines:
            if self.is_over:
                break
            name, _, data = line.partition(b":")
            if name == b"data":
                self._read_event(data.strip(), events)
            elif name == b"error":  # llama-server before 2025 named the field so
                self._add_failure(error_from_refusal(data), events)
        return events

    def end_stream(self) -> list[Event]:
        """Return what is left to say once the engine has hung up; nothing if it did so before its answer was over."""
        events = self.feed(b"\n")
        if not self.is_over and self._reason is not None:
            self._add_finish(events)
        return events

    def _read_event(self, data: bytes, events: list[Event]) -> None:
        if data == _DONE:
            self._add_finish(events)
            return
        try:
            chunk = _DECODER.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._add_failure(_stream_error(error), events)
            return
        if chunk.error not in _NO_ERROR:
            self._add_failure(error_from_refusal(data), events)
            return
        self._usage = chunk.usage or self._usage
        self._timings = chunk.timings or self._timings
        if chunk.prompt_progress is not None:
            events.append(PromptProgress(chunk.prompt_progress.fraction))
        if chunk.choices:
            self._read_choice(chunk.choices[0], events)
        elif chunk.content is not None:
            self._read_own_fields(chunk, events)

    def _read_choice(self, choice: _DeltaChoice, events: list[Event]) -> None:
        delta = choice.delta
        if delta is not _NO_DELTA:
            _add_delta(delta, events)
        text = choice.text or delta.content
        if text:
            logprobs = choice.logprobs.content if choice.logprobs else None
            events.append(TextDelta(text, logprobs or ()))
        if choice.finish_reason:
            self._reason = _REASONS.get(choice.finish_reason, FinishReason.STOP)

    def _read_own_fields(self, chunk: _StreamChunk, events: list[Event]) -> None:
        """Read llama-server's own form. Its last event says so itself: no [DONE] follows."""
        if chunk.content:
            events.append(TextDelta(chunk.content))
        if chunk.stop:
            self._reason = _REASONS.get(chunk.stop_type or "", FinishReason.STOP)
            self._add_finish(events)

    def _add_finish(self, events: list[Event]) -> None:
        self.is_over = True
        usage, timings = _token_usage(self._usage, self._timings), _answer_timings(self._timings)
        events.append(AnswerFinished(reason=self._reason or FinishReason.STOP, usage=usage, timings=timings))

    def _add_failure(self, error: RoundhouseError, events: list[Event]) -> None:
        self.is_over = True
        events.append(failure_event(error))


def _add_delta(delta: _MessageDelta, events: list[Event]) -> None:
    reasoning = delta.reasoning_content or delta.reasoning
    if reasoning:
        events.append(ReasoningDelta(reasoning))
    for call in delta.tool_calls or ():
        function = call.function
        events.append(
            ToolCallDelta(
                index=call.index, id=call.id or "", name=function.name or "", arguments=function.arguments or ""
            )
        )


def _token_usage(usage: _EngineUsage | None, timings: _EngineTimings | None) -> TokenUsage:
    if usage is not None and usage.prompt_tokens is not None:
        read, wrote = usage.prompt_tokens_details, usage.completion_tokens_details
        return TokenUsage(
            prompt=usage.prompt_tokens,
            cached=read.cached_tokens if read else timings.cache_n if timings else None,
            completion=usage.completion_tokens,
            reasoning=wrote.reasoning_tokens if wrote else None,
        )
    if timings is None or timings.prompt_n is None:
        return TokenUsage()
    return TokenUsage(prompt=timings.prompt_n + timings.cache_n, cached=timings.cache_n, completion=timings.predicted_n)


def _answer_timings(timings: _EngineTimings | None) -> AnswerTimings:
    """Return llama-server's own clock; zeros where an engine says nothing, for the gateway's to fill in."""
    if timings is None:
        return AnswerTimings()
    return AnswerTimings(prefill_s=timings.prompt_ms / _MS, decode_s=timings.predicted_ms / _MS)


def _stream_error(error: Exception) -> EngineFailed:
    return EngineFailed(
        "The engine's answer could not be understood.",
        hint="Try again; if it happens again, restart the model.",
        code="engine_nonsense",
        detail=str(error),
    )
