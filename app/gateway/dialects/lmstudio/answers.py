"""The engine's own answers as `/api/v0` has them: OpenAI's, with three blocks at the end.

They say how fast it was and why it ended, which model answered, and which engine. The engine's own clock counts where
it tells it (llama-server's `timings`); else the gateway's, with `usage`'s tokens. In a stream the blocks are in the
last event before `[DONE]`. Which one that is shows only when `[DONE]` comes, so from the first event with a
finish_reason on, one event is held back; until then bytes pass as they are.
"""

import re
import time
from collections.abc import Callable, Sequence

import msgspec

from app.core.errors import RoundhouseError
from app.gateway.dialects.form import ErrorReply, StreamEditor
from app.gateway.dialects.openai.form import OPENAI, OpenAIForm

_MS = 1e3
_STOP_REASONS = {
    "stop": "eosFound",
    "length": "maxPredictedTokensReached",
    "tool_calls": "toolCalls",
    "function_call": "toolCalls",
}
"""OpenAI's words to LM Studio's. Engines do not say whether a stop was a stop string, which LM Studio tells apart."""
_CONTEXT_FULL = "contextLengthReached"


class LmStudioStats(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Seconds, and tokens per second; what nobody knows is left out."""

    tokens_per_second: float | None = None
    time_to_first_token: float | None = None
    generation_time: float | None = None
    stop_reason: str | None = None


class LmStudioModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The model that answered, and the context it was loaded with, in tokens."""

    arch: str
    quant: str
    format: str
    context_length: int | None = None


class LmStudioRuntime(msgspec.Struct, frozen=True, kw_only=True):
    """The engine that answered."""

    name: str
    version: str
    supported_formats: list[str]


class LmStudioAnswerInfo(msgspec.Struct, frozen=True):
    """Who answered."""

    model: LmStudioModelInfo
    runtime: LmStudioRuntime


class AnswerClock(msgspec.Struct, frozen=True, kw_only=True):
    """The gateway's own seconds: from the request to the first byte, if that was seen, and from there to the end."""

    first_s: float | None = None
    rest_s: float


class LmStudioChoice(msgspec.Struct, frozen=True):
    """One of an answer's texts, as far as it concerns statistics."""

    finish_reason: str | None = None


class LmStudioUsage(msgspec.Struct, frozen=True):
    """Tokens."""

    prompt_tokens: int = 0
    completion_tokens: int | None = None


class LmStudioTimings(msgspec.Struct, frozen=True):
    """llama-server's own clock, in milliseconds."""

    prompt_ms: float | None = None
    predicted_n: int | None = None
    predicted_ms: float | None = None


class LmStudioAnswerFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine tells at an answer's end, or in a whole one."""

    choices: list[LmStudioChoice] = []
    usage: LmStudioUsage | None = None
    timings: LmStudioTimings | None = None

    def merge_later(self, later: "LmStudioAnswerFigures") -> "LmStudioAnswerFigures":
        """Return what both say; of one thing, what was said later."""
        return LmStudioAnswerFigures(
            choices=later.choices or self.choices,
            usage=later.usage or self.usage,
            timings=later.timings or self.timings,
        )


def decode_figures(document: bytes) -> LmStudioAnswerFigures | None:
    """Return what a document tells; None if it is no answer."""
    try:
        return msgspec.json.decode(document, type=LmStudioAnswerFigures)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def stats_of(figures: LmStudioAnswerFigures, clock: AnswerClock, context: int | None) -> LmStudioStats:
    """Return an answer's statistics; `context` is what the model was loaded with."""
    timings, usage = figures.timings or LmStudioTimings(), figures.usage or LmStudioUsage()
    wrote = timings.predicted_n if timings.predicted_n is not None else usage.completion_tokens
    decode_s = clock.rest_s if timings.predicted_ms is None else timings.predicted_ms / _MS
    return LmStudioStats(
        tokens_per_second=wrote / decode_s if wrote and decode_s > 0 else None,
        time_to_first_token=clock.first_s if timings.prompt_ms is None else timings.prompt_ms / _MS,
        generation_time=decode_s,
        stop_reason=_stop_reason(figures, usage, context),
    )


def _stop_reason(figures: LmStudioAnswerFigures, usage: LmStudioUsage, context: int | None) -> str | None:
    reason = next((choice.finish_reason for choice in figures.choices if choice.finish_reason), None)
    if reason is None:
        return None
    if reason == "length" and context and usage.prompt_tokens + (usage.completion_tokens or 0) >= context:
        return _CONTEXT_FULL
    return _STOP_REASONS.get(reason, _STOP_REASONS["stop"])


def with_blocks(document: bytes, stats: LmStudioStats, about: LmStudioAnswerInfo) -> bytes:
    """Return a JSON object with the three blocks at its end; the bytes before them stay as they are."""
    at = document.rfind(b"}")
    blocks = {"stats": stats, "model_info": about.model, "runtime": about.runtime}
    comma = b"" if document[:at].rstrip().endswith(b"{") else b","
    return document[:at] + comma + msgspec.json.encode(blocks)[1:-1] + document[at:]


_BOUNDARY = re.compile(rb"\r?\n\r?\n")
_FINISH = re.compile(rb'"finish_reason"\s*:\s*"')
"""Inside a text the quotes would have backslashes before them."""
_DONE = re.compile(rb"data:\s*\[DONE\]")
_DATA = b"data:"


class LmStudioV0Form:
    """One exchange. `about` is asked when the answer is there, since only then the model is surely loaded.

    `openai` is what the answer is in OpenAI's dialect, before the blocks come to it.
    """

    def __init__(
        self,
        about: Callable[[], LmStudioAnswerInfo],
        *,
        started_at: float,
        clock: Callable[[], float] = time.perf_counter,
        openai: OpenAIForm = OPENAI,
    ) -> None:
        self._about = about
        self._openai = openai
        self._started_at = started_at
        self._clock = clock

    def refusal(self, body: bytes, status: int) -> ErrorReply:
        """Return OpenAI's error document."""
        return self._openai.refusal(body, status)

    def ping(self) -> bytes:
        """Return a comment."""
        return OPENAI.ping()

    def event(self, refusal: bytes) -> bytes:
        """Return an event with the document in it."""
        return OPENAI.event(refusal)

    def in_band(self, error: RoundhouseError) -> bytes:
        """Return an event with an error in it."""
        return OPENAI.in_band(error)

    def is_complete(self, tail: bytes) -> bool:
        """Tell whether a stream said that it was over."""
        return OPENAI.is_complete(tail)

    def whole(self, body: bytes) -> bytes:
        """Return the document with the blocks."""
        body = self._openai.whole(body)
        figures = decode_figures(body)
        return (
            body
            if figures is None
            else self.with_blocks(body, figures, AnswerClock(rest_s=self._clock() - self._started_at))
        )

    def editor(self) -> StreamEditor:
        """Return what adds the blocks to one stream."""
        edit, stream = self._openai.editor(), _StatsStreamEditor(self, started_at=self._started_at, clock=self._clock)
        return lambda chunk: stream(edit(chunk))

    @property
    def edit_marks(self) -> Sequence[bytes]:
        """Return nothing: any event may be changed."""
        return ()

    def with_blocks(self, document: bytes, figures: LmStudioAnswerFigures, clock: AnswerClock) -> bytes:
        """Return the document, or the event, with the blocks."""
        about = self._about()
        return with_blocks(document, _make_stats(figures, clock, about), about)


def _make_stats(figures: LmStudioAnswerFigures, clock: AnswerClock, about: LmStudioAnswerInfo) -> LmStudioStats:
    return stats_of(figures, clock, about.model.context_length)


class _StatsStreamEditor:
    def __init__(self, form: LmStudioV0Form, *, started_at: float, clock: Callable[[], float]) -> None:
        self._form = form
        self._started_at = started_at
        self._clock = clock
        self._first: float | None = None
        self._rest = b""
        self._pending_event = b""
        self._figures: LmStudioAnswerFigures | None = None

    def __call__(self, chunk: bytes) -> bytes:
        """Return what to send for a chunk: whole events only."""
        self._first = self._first or self._clock()
        if not self._rest and self._figures is None and chunk.endswith(b"\n\n") and not _FINISH.search(chunk):
            return chunk
        data, at, out = self._rest + chunk, 0, []
        for end in (match.end() for match in _BOUNDARY.finditer(data)):
            out.append(self._edit_event(data[at:end]))
            at = end
        self._rest = data[at:]
        return b"".join(out)

    def _edit_event(self, event: bytes) -> bytes:
        if self._figures is None and not _FINISH.search(event):
            return event
        if _DONE.match(event):
            last, self._pending_event = self._pending_event, b""
            return self._end_stream(last) + event
        figures = decode_figures(event.removeprefix(_DATA)) if event.startswith(_DATA) else None
        if figures is None:  # a comment, or an error
            return event
        self._figures = (self._figures or LmStudioAnswerFigures()).merge_later(figures)
        before, self._pending_event = self._pending_event, event
        return before

    def _end_stream(self, last: bytes) -> bytes:
        if not last or self._figures is None:
            return last
        first = self._first or self._started_at
        clock = AnswerClock(first_s=first - self._started_at, rest_s=self._clock() - first)
        return self._form.with_blocks(last, self._figures, clock)
