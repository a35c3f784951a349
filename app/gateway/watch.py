"""Time and count one exchange as its bytes go by, without reading them: two clock readings and the last few chunks.

What an engine says about its tokens is in the last events of a stream, or in the one document of a whole answer, so
only that is searched, once, at the end.
"""

import re
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from app.core.errors import RoundhouseError, UserError
from app.gateway.metrics import Metrics

_TAIL_CHUNKS = 4
_USAGE = {
    "prompt": re.compile(rb'"prompt_tokens"\s*:\s*(\d+)'),
    "completion": re.compile(rb'"(?:completion|output)_tokens"\s*:\s*(\d+)'),
}
_PARTS_OF_PROMPT = re.compile(rb'"(input_tokens|cache_read_input_tokens)"\s*:\s*(\d+)')
"""How Anthropic's dialect tells what was read: what the cache had is not part of the first."""
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
    BUG = "bug"


class Watch:
    """One exchange. `started` is a `time.perf_counter()` reading."""

    def __init__(self, started: float) -> None:
        self.started = started
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
        self._events += chunk.count(b"\n\n")
        self._tail.append(chunk)

    def whole(self, body: bytes) -> None:
        """Note an answer that came in one piece: it has tokens, and no first one."""
        self._tail.append(body)

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

    def timings(self) -> dict[str, float]:
        """Return what the engine says of its own times, by its names; empty if it says nothing."""
        return {name.decode(): float(value) for name, value in _TIMING.findall(self.tail)}

    def tpot_s(self, completion_tokens: int | None) -> float | None:
        """Return the mean time per token after the first; events stand in for tokens where the engine does not say."""
        tokens = completion_tokens or self._events - _EVENTS_WITHOUT_TOKEN
        if self.first is None or self.first == self.last or tokens < 2:  # noqa: PLR2004 -- two tokens have one interval
            return None
        return (self.last - self.first) / (tokens - 1)


@contextmanager
def watched(metrics: Metrics, *, route: str, model: str, started: float) -> Iterator[Watch]:
    """Count an exchange with `model` while it goes on and when it is over, however it ends."""
    watch = Watch(started)
    metrics.in_flight.add(route, model)
    try:
        yield watch
    except RoundhouseError as error:
        watch.outcome = Outcome.REFUSED if isinstance(error, UserError) else Outcome.ENGINE_FAILED
        raise
    except ConnectionError:  # writing to a client that has gone
        raise
    except Exception:
        watch.outcome = Outcome.BUG
        raise
    finally:
        metrics.in_flight.add(route, model, amount=-1)
        metrics.requests.add(route, model, watch.outcome)
        _record(metrics, watch, route, model)


def _record(metrics: Metrics, watch: Watch, route: str, model: str) -> None:
    tokens = watch.tokens()
    for kind, count in tokens.items():
        metrics.tokens.add(model, kind, amount=count)
    if watch.first is not None:
        metrics.ttft.observe(watch.first - watch.started, route, model)
    tpot_s = watch.tpot_s(tokens.get("completion"))
    if tpot_s is not None:
        metrics.tpot.observe(tpot_s, route, model)
