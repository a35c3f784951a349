"""Time and count one exchange as its bytes go by, without reading them: two clock readings and the last few chunks.

What an engine says about its tokens is in the last events of a stream, or in the one document of a whole answer, so
only that is searched, once, at the end.
"""

import asyncio
import re
import time
from collections import deque
from contextvars import ContextVar
from enum import StrEnum
from typing import Protocol

import aiohttp

from app.core.errors import RoundhouseError, UserError
from app.gateway.watching.metrics import Metrics
from app.supervisor.lease import Lease

_TAIL_CHUNKS = 4
_USAGE = {
    "prompt": re.compile(rb'"prompt_tokens"\s*:\s*(\d+)'),
    "completion": re.compile(rb'"(?:completion|output)_tokens"\s*:\s*(\d+)'),
}
_PARTS_OF_PROMPT = re.compile(rb'"(input_tokens|cache_read_input_tokens)"\s*:\s*(\d+)')
"""How Anthropic's dialect tells what was read: what the cache had is not part of the first."""
_CACHED = re.compile(rb'"(?:cached_tokens|cache_read_input_tokens|cache_n)"\s*:\s*(\d+)')
_TIMING = re.compile(rb'"(cache_n|prompt_n|prompt_ms|predicted_n|predicted_ms)"\s*:\s*(\d+(?:\.\d+)?)')
"""llama-server's own clock, at the end of an answer: tokens and milliseconds, read and written."""
_EVENTS_WITHOUT_TOKEN = 3
"""The opening role event, the closing finish_reason event and [DONE]."""


class Outcome(StrEnum):
    """How an exchange ended."""

    OK = "ok"
    REFUSED = "refused"
    """The caller's mistake: no such model, malformed, or refused by the engine."""
    ENGINE_FAILED = "engine_failed"
    CLIENT_GONE = "client_gone"
    STOPPED = "stopped"
    """Somebody ended it in the inspector."""
    BUG = "bug"


class Stopped(UserError):
    """The request was ended by hand. 499 is Ollama's status for it, and no client repeats it."""

    default_code = "request_stopped"
    status = 499

    def __init__(self) -> None:
        super().__init__("This request was stopped in Roundhouse.")


class Listener(Protocol):
    """Who follows the exchange that a task answers (the inspector)."""

    @property
    def is_stopped(self) -> bool:
        """Whether somebody wants it to end."""

    def asked(self, body: bytes) -> None:
        """Take the request's body."""

    def opened(self, watch: "Watch", *, route: str, model: str) -> None:
        """Note that the request was understood."""

    def leased(self, lease: Lease) -> None:
        """Note that an engine works for it from now on."""

    def reached(self, upstream: aiohttp.ClientResponse) -> None:
        """Note that the engine answers."""

    def moved(self) -> None:
        """Note that the first bytes have come."""


LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)
"""Set for each request, so that no dialect need hand it through."""


class Watch:
    """One exchange. `started` is a `time.perf_counter()` reading, as are the others."""

    def __init__(self, started: float, listener: Listener | None = None) -> None:
        self.started = started
        self.leased_at: float | None = None
        self.load_s = 0.0
        self.ended: float | None = None
        self.error = ""
        """Why it failed, in a sentence, where it did so in the middle of its answer."""
        self._listener = listener
        self._kept: list[bytes] = []
        self._room = 0
        self.outcome = Outcome.CLIENT_GONE
        self.first: float | None = None
        self.last = started
        self._events = 0
        self._tail: deque[bytes] = deque(maxlen=_TAIL_CHUNKS)

    def saw(self, chunk: bytes) -> None:
        """Note a chunk on its way to the client."""
        self.last = time.perf_counter()
        if self.first is None:
            self.first = self.last
            if self._listener is not None:
                self._listener.moved()
        if self._room > 0:
            self._keep(chunk)
        self._events += chunk.count(b"\n\n")
        self._tail.append(chunk)

    def whole(self, body: bytes) -> None:
        """Note an answer that came in one piece: it has tokens, and no first one."""
        self._tail.append(body)
        if self._room > 0:
            self._keep(body)

    def leased(self, load_s: float) -> None:
        """Note that an engine was got, `load_s` seconds of the waiting having been for its loading."""
        self.leased_at, self.load_s = time.perf_counter(), load_s

    def keep(self, size: int) -> None:
        """Keep the first `size` bytes of the answer from now on; 0 lets go of what was kept."""
        self._kept, self._room = [], size

    @property
    def kept(self) -> bytes:
        """What was kept of the answer."""
        return b"".join(self._kept)

    def _keep(self, chunk: bytes) -> None:
        self._kept.append(chunk[: self._room])
        self._room -= len(chunk)

    @property
    def tail(self) -> bytes:
        """The last bytes that went by."""
        return b"".join(self._tail)

    def tokens(self) -> dict[str, int]:
        """Return what the engine said it read ("prompt") and wrote ("completion"); empty if it said nothing."""
        tail = self.tail
        found = {kind: pattern.findall(tail) for kind, pattern in _USAGE.items()}
        counts = {kind: int(values[-1]) for kind, values in found.items() if values}
        if "prompt" not in counts and (parts := dict(_PARTS_OF_PROMPT.findall(tail))):
            counts["prompt"] = sum(map(int, parts.values()))
        return counts

    def cached(self) -> int | None:
        """Return how many tokens of the prompt the engine had in its cache, if it says so."""
        found = _CACHED.findall(self.tail)
        return int(found[-1]) if found else None

    def timings(self) -> dict[str, float]:
        """Return what the engine says of its own times, by its names; empty if it says nothing."""
        return {name.decode(): float(value) for name, value in _TIMING.findall(self.tail)}

    def tpot_s(self, completion_tokens: int | None) -> float | None:
        """Return the mean time per token after the first; events stand in for tokens where the engine does not say."""
        tokens = completion_tokens or self._events - _EVENTS_WITHOUT_TOKEN
        if self.first is None or self.first == self.last or tokens < 2:  # noqa: PLR2004 -- two tokens have one interval
            return None
        return (self.last - self.first) / (tokens - 1)


class watched:  # noqa: N801 -- used as a function; a generator would cost every request as much as the rest of it
    """Count an exchange with `model` while it goes on and when it is over, however it ends. Enters as its `Watch`."""

    def __init__(self, metrics: Metrics, *, route: str, model: str, started: float) -> None:
        self._metrics, self._route, self._model = metrics, route, model
        self._listener = LISTENER.get()
        self._watch = Watch(started, self._listener)

    def __enter__(self) -> Watch:
        if self._listener is not None:
            self._listener.opened(self._watch, route=self._route, model=self._model)
        self._metrics.in_flight.add(self._route, self._model)
        return self._watch

    def __exit__(self, kind: object, error: BaseException | None, _trace: object) -> None:
        watch = self._watch
        was_ended = isinstance(error, asyncio.CancelledError) and was_stopped()
        watch.outcome = _outcome(watch.outcome, error)
        watch.ended = time.perf_counter()
        if self._listener is not None and self._listener.is_stopped and watch.outcome is not Outcome.OK:
            watch.outcome = Outcome.STOPPED
        self._metrics.in_flight.add(self._route, self._model, amount=-1)
        self._metrics.requests.add(self._route, self._model, watch.outcome)
        _record(self._metrics, watch, self._route, self._model)
        if was_ended:
            raise Stopped from None


def _outcome(so_far: Outcome, error: BaseException | None) -> Outcome:
    """Return how an exchange ended that was left by this error, or by none."""
    if isinstance(error, RoundhouseError):
        return Outcome.REFUSED if isinstance(error, UserError) else Outcome.ENGINE_FAILED
    is_ours = isinstance(error, Exception) and not isinstance(error, ConnectionError)  # that is a client that has gone
    return Outcome.BUG if is_ours else so_far


def was_stopped() -> bool:
    """Tell, of a cancellation just caught, whether somebody ended the request; then the task may go on and say so."""
    listener = LISTENER.get()
    if listener is None or not listener.is_stopped:
        return False
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
    return True


def _record(metrics: Metrics, watch: Watch, route: str, model: str) -> None:
    tokens = watch.tokens()
    for kind, count in tokens.items():
        metrics.tokens.add(model, kind, amount=count)
    if watch.first is not None:
        metrics.ttft.observe(watch.first - watch.started, route, model)
    tpot_s = watch.tpot_s(tokens.get("completion"))
    if tpot_s is not None:
        metrics.tpot.observe(tpot_s, route, model)
