"""Counters and histograms in Prometheus' text format, without the client library: three kinds are all we need.

https://prometheus.io/docs/instrumenting/exposition_formats/ -- cumulative buckets, `_sum`, `_count`, escaped labels.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from app.core.engines import EngineState, EngineStatus

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

TTFT_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
TPOT_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0)

Labels = tuple[str, ...]


class Counter:
    """A sum per label set. As a gauge it may fall."""

    def __init__(self, name: str, help_text: str, labels: Labels, *, kind: str = "counter") -> None:
        self._name = name
        self._labels = labels
        self._head = _head(name, help_text, kind)
        self._values: dict[Labels, float] = defaultdict(float)

    def add(self, *labels: str, amount: float = 1.0) -> None:
        """Add to the value with these label values."""
        self._values[labels] += amount

    def lines(self) -> Iterator[str]:
        """Return its lines of the exposition."""
        yield from self._head
        for labels, value in self._values.items():
            yield f"{self._name}{_labelled(self._labels, labels)} {value:g}"


class Histogram:
    """How often a value fell under each bound."""

    def __init__(self, name: str, help_text: str, labels: Labels, bounds: Sequence[float]) -> None:
        self._name = name
        self._labels = labels
        self._bounds = bounds
        self._head = _head(name, help_text, "histogram")
        self._counts: dict[Labels, list[int]] = defaultdict(lambda: [0] * (len(bounds) + 1))
        self._sums: dict[Labels, float] = defaultdict(float)

    def observe(self, value: float, *labels: str) -> None:
        """Count one value."""
        self._counts[labels][bisect_left(self._bounds, value)] += 1
        self._sums[labels] += value

    def lines(self) -> Iterator[str]:
        """Return its lines of the exposition."""
        yield from self._head
        for labels, counts in self._counts.items():
            total = 0
            for bound, count in zip((*map(str, self._bounds), "+Inf"), counts, strict=True):
                total += count
                yield f"{self._name}_bucket{_labelled((*self._labels, 'le'), (*labels, bound))} {total}"
            plain = _labelled(self._labels, labels)
            yield f"{self._name}_sum{plain} {self._sums[labels]:g}"
            yield f"{self._name}_count{plain} {total}"


class Metrics:
    """Everything the gateway counts."""

    def __init__(self) -> None:
        of_model = ("route", "model")
        self.requests = Counter(
            "roundhouse_requests_total", "Requests answered, by how they ended.", (*of_model, "outcome")
        )
        self.in_flight = Counter("roundhouse_requests_in_flight", "Requests being answered.", of_model, kind="gauge")
        self.tokens = Counter("roundhouse_tokens_total", "Tokens, as engines report them.", ("model", "kind"))
        self.ttft = Histogram(
            "roundhouse_ttft_seconds", "From request to first byte of the answer.", of_model, TTFT_BUCKETS_S
        )
        self.tpot = Histogram(
            "roundhouse_tpot_seconds", "Mean time per token after the first.", of_model, TPOT_BUCKETS_S
        )

    def exposition(self, engines: Iterable[EngineStatus]) -> str:
        """Return the text for `GET /metrics`: what was counted, and the engines as they are now."""
        families = (self.requests, self.in_flight, self.tokens, self.ttft, self.tpot, *_engine_gauges(engines))
        return "".join(f"{line}\n" for family in families for line in family.lines())


def _engine_gauges(engines: Iterable[EngineStatus]) -> tuple[Counter, Counter]:
    up = Counter("roundhouse_engine_up", "1 while the engine can answer.", ("model", "engine"), kind="gauge")
    restarts = Counter("roundhouse_engine_restarts_total", "Restarts after an engine died.", ("model", "engine"))
    for status in engines:
        up.add(status.model, status.engine, amount=float(status.state is EngineState.READY))
        restarts.add(status.model, status.engine, amount=status.restarts)
    return up, restarts


def _head(name: str, help_text: str, kind: str) -> tuple[str, str]:
    return f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"


def _labelled(names: Sequence[str], values: Sequence[str]) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
