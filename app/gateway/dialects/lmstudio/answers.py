"""The engine's own answers as `/api/v0` has them: OpenAI's, with three blocks at the end.

They say how fast it was and why it ended, which model answered, and which engine. The engine's own clock counts where
it tells it (llama-server's `timings`); else the gateway's, with `usage`'s tokens. In a stream the blocks are in the
last event before `[DONE]`. Which one that is shows only when `[DONE]` comes, so from the first event with a
finish_reason on, one event is held back; until then bytes pass as they are.
"""

import re
import time
from collections.abc import Callable

import msgspec

from app.core.errors import RoundhouseError
from app.gateway.dialects.form import Editor, Refusal
from app.gateway.dialects.openai.form import OPENAI, OpenAI

_MS = 1e3
_STOP_REASONS = {
    "stop": "eosFound",
    "length": "maxPredictedTokensReached",
    "tool_calls": "toolCalls",
    "function_call": "toolCalls",
}
"""OpenAI's words to LM Studio's. Engines do not say whether a stop was a stop string, which LM Studio tells apart."""
_FULL = "contextLengthReached"


class Stats(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Seconds, and tokens per second; what nobody knows is left out."""

    tokens_per_second: float | None = None
    time_to_first_token: float | None = None
    generation_time: float | None = None
    stop_reason: str | None = None


class AboutModel(msgspec.Struct, frozen=True, kw_only=True):
    """The model that answered, and the context it was loaded with, in tokens."""

    arch: str
    quant: str
    format: str
    context_length: int | None = None


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """The engine that answered."""

    name: str
    version: str
    supported_formats: list[str]


class About(msgspec.Struct, frozen=True):
    """Who answered."""

    model: AboutModel
    runtime: Runtime


class Clock(msgspec.Struct, frozen=True, kw_only=True):
    """The gateway's own seconds: from the request to the first byte, if that was seen, and from there to the end."""

    first_s: float | None = None
    rest_s: float


class Choice(msgspec.Struct, frozen=True):
    """One of an answer's texts, as far as it concerns statistics."""

    finish_reason: str | None = None


class Usage(msgspec.Struct, frozen=True):
    """Tokens."""

    prompt_tokens: int = 0
    completion_tokens: int | None = None


class Timings(msgspec.Struct, frozen=True):
    """llama-server's own clock, in milliseconds."""

    prompt_ms: float | None = None
    predicted_n: int | None = None
    predicted_ms: float | None = None


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine tells at an answer's end, or in a whole one."""

    choices: list[Choice] = []
    usage: Usage | None = None
    timings: Timings | None = None

    def then(self, later: "Told") -> "Told":
        """Return what both say; of one thing, what was said later."""
        return Told(
            choices=later.choices or self.choices,
            usage=later.usage or self.usage,
            timings=later.timings or self.timings,
        )


def told(document: bytes) -> Told | None:
    """Return what a document tells; None if it is no answer."""
    try:
        return msgspec.json.decode(document, type=Told)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def stats_of(said: Told, clock: Clock, context: int | None) -> Stats:
    """Return an answer's statistics; `context` is what the model was loaded with."""
    timings, usage = said.timings or Timings(), said.usage or Usage()
    wrote = timings.predicted_n if timings.predicted_n is not None else usage.completion_tokens
    decode_s = clock.rest_s if timings.predicted_ms is None else timings.predicted_ms / _MS
    return Stats(
        tokens_per_second=wrote / decode_s if wrote and decode_s > 0 else None,
        time_to_first_token=clock.first_s if timings.prompt_ms is None else timings.prompt_ms / _MS,
        generation_time=decode_s,
        stop_reason=_stop_reason(said, usage, context),
    )


def _stop_reason(said: Told, usage: Usage, context: int | None) -> str | None:
    reason = next((choice.finish_reason for choice in said.choices if choice.finish_reason), None)
    if reason is None:
        return None
    if reason == "length" and context and usage.prompt_tokens + (usage.completion_tokens or 0) >= context:
        return _FULL
    return _STOP_REASONS.get(reason, _STOP_REASONS["stop"])


def with_blocks(document: bytes, stats: Stats, about: About) -> bytes:
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


class V0:
    """One exchange. `about` is asked when the answer is there, since only then the model is surely loaded.

    `openai` is what the answer is in OpenAI's dialect, before the blocks come to it.
    """

    def __init__(
        self,
        about: Callable[[], About],
        *,
        started: float,
        clock: Callable[[], float] = time.perf_counter,
        openai: OpenAI = OPENAI,
    ) -> None:
        self._about = about
        self._openai = openai
        self._started = started
        self._clock = clock

    def refusal(self, body: bytes, status: int) -> Refusal:
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
        said = told(body)
        return body if said is None else self.with_blocks(body, said, Clock(rest_s=self._clock() - self._started))

    def editor(self) -> Editor:
        """Return what adds the blocks to one stream."""
        edit, stream = self._openai.editor(), _Stream(self, started=self._started, clock=self._clock)
        return lambda chunk: stream(edit(chunk))

    def with_blocks(self, document: bytes, said: Told, clock: Clock) -> bytes:
        """Return the document, or the event, with the blocks."""
        about = self._about()
        return with_blocks(document, _stats(said, clock, about), about)


def _stats(said: Told, clock: Clock, about: About) -> Stats:
    return stats_of(said, clock, about.model.context_length)


class _Stream:
    def __init__(self, form: V0, *, started: float, clock: Callable[[], float]) -> None:
        self._form = form
        self._started = started
        self._clock = clock
        self._first: float | None = None
        self._rest = b""
        self._held = b""
        self._said: Told | None = None

    def __call__(self, chunk: bytes) -> bytes:
        """Return what to send for a chunk: whole events only."""
        self._first = self._first or self._clock()
        if not self._rest and self._said is None and chunk.endswith(b"\n\n") and not _FINISH.search(chunk):
            return chunk
        data, at, out = self._rest + chunk, 0, []
        for end in (match.end() for match in _BOUNDARY.finditer(data)):
            out.append(self._event(data[at:end]))
            at = end
        self._rest = data[at:]
        return b"".join(out)

    def _event(self, event: bytes) -> bytes:
        if self._said is None and not _FINISH.search(event):
            return event
        if _DONE.match(event):
            last, self._held = self._held, b""
            return self._ended(last) + event
        said = told(event.removeprefix(_DATA)) if event.startswith(_DATA) else None
        if said is None:  # a comment, or an error
            return event
        self._said = (self._said or Told()).then(said)
        before, self._held = self._held, event
        return before

    def _ended(self, last: bytes) -> bytes:
        if not last or self._said is None:
            return last
        first = self._first or self._started
        clock = Clock(first_s=first - self._started, rest_s=self._clock() - first)
        return self._form.with_blocks(last, self._said, clock)
