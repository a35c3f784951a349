"""Counters and histograms in Prometheus' text format, without the client library.

Three kinds are all we need. With prometheus-client 0.26 what is counted of a request took 31 us instead of 3.5 (13 with
every child kept), and importing it 80 ms of a start of half a second.
https://prometheus.io/docs/instrumenting/exposition_formats/ -- cumulative buckets, `_sum`, `_count`, escaped labels.
"""

from bisect import bisect_left
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

import msgspec

from app.core.engines import EngineState, EngineStatus
from app.core.fleets import Fleet, ReplicaState
from app.core.requests import RequestInfo, RequestState
from app.gateway.exchange.observer import ExchangeFigures, ExchangeOutcome, ExchangeSink, Observation, figures_of
from engines.api import Gauge

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

TTFT_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
WAIT_BUCKETS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)
E2E_BUCKETS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
RATE_BUCKETS = (1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1280.0, 5120.0)
TOKEN_BUCKETS = (1.0, 10.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10_000.0, 25_000.0, 100_000.0)
TPOT_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0)

Labels = tuple[str, ...]


class EngineGauges(msgspec.Struct, frozen=True, kw_only=True):
    """What one engine tells of itself."""

    model: str
    engine: str
    gauges: Mapping[Gauge, float]


class MetricCounter:
    """A sum per label set. As a gauge it may fall."""

    def __init__(self, name: str, help_text: str, labels: Labels, *, kind: str = "counter") -> None:
        self._name = name
        self._labels = labels
        self._head = _help_lines(name, help_text, kind)
        self._values: dict[Labels, float] = defaultdict(float)

    def add(self, *labels: str, amount: float = 1.0) -> None:
        """Add to the value with these label values."""
        self._values[labels] += amount

    def format_lines(self) -> Iterator[str]:
        """Return its lines of the exposition."""
        yield from self._head
        for labels, value in self._values.items():
            yield f"{self._name}{_format_labels(self._labels, labels)} {value:g}"


class HistogramSeries:
    """What a histogram counted under one label set."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds, self.counts, self.sum = bounds, [0] * (len(bounds) + 1), 0.0


def count_values(values: Iterable[tuple[HistogramSeries, float | None]]) -> None:
    """Count values under their bounds; None is none."""
    for series, value in values:
        if value is not None:
            series.counts[bisect_left(series.bounds, value)] += 1
            series.sum += value


class MetricHistogram:
    """How often a value fell under each bound."""

    def __init__(self, name: str, help_text: str, labels: Labels, bounds: Sequence[float]) -> None:
        self._name = name
        self._labels = labels
        self._bounds = bounds
        self._head = _help_lines(name, help_text, "histogram")
        self._series: dict[Labels, HistogramSeries] = {}

    def series_of(self, labels: Labels) -> HistogramSeries:
        """Return what is counted under these label values, for `count_values`."""
        return self._series.setdefault(labels, HistogramSeries(self._bounds))

    def format_lines(self) -> Iterator[str]:
        """Return its lines of the exposition."""
        yield from self._head
        for labels, series in self._series.items():
            if not any(series.counts):
                continue
            total = 0
            for bound_text, count in zip((*map(str, self._bounds), "+Inf"), series.counts, strict=True):
                total += count
                yield f"{self._name}_bucket{_format_labels((*self._labels, 'le'), (*labels, bound_text))} {total}"
            plain = _format_labels(self._labels, labels)
            yield f"{self._name}_sum{plain} {series.sum:g}"
            yield f"{self._name}_count{plain} {total}"


Families = tuple[MetricCounter | MetricHistogram, ...]


class GatewayMetrics(ExchangeSink):
    """Everything the gateway counts."""

    def __init__(self) -> None:
        of_model = ("route", "model")
        self.requests = MetricCounter(
            "roundhouse_requests_total", "Requests answered, by how they ended.", (*of_model, "outcome")
        )
        self.in_flight = MetricCounter(
            "roundhouse_requests_in_flight", "Requests being answered.", of_model, kind="gauge"
        )
        self.tokens = MetricCounter("roundhouse_tokens_total", "Tokens, as engines report them.", ("model", "kind"))
        self.ttft = MetricHistogram(
            "roundhouse_ttft_seconds", "From request to first byte of the answer.", of_model, TTFT_BUCKETS_S
        )
        self.tpot = MetricHistogram(
            "roundhouse_tpot_seconds", "Mean time per token after the first.", of_model, TPOT_BUCKETS_S
        )

        spans = (MetricHistogram(name, help_text, of_model, bounds) for _, name, help_text, bounds in _SPANS)
        self._histograms = (self.ttft, self.tpot, *spans)
        self._series: dict[Labels, Sequence[HistogramSeries]] = {}

    def on_request(self, exchange: Observation) -> None:
        """Count a request that is being answered."""
        self.in_flight.add(exchange.route, exchange.model)

    def on_end(self, exchange: Observation) -> None:
        """Count a request and its tokens; what it took, if it was answered to its end: failures say little of that."""
        route, model = exchange.route, exchange.model
        if not route:
            return
        self.requests.add(route, model, exchange.outcome)
        if not model:
            return
        self.in_flight.add(route, model, amount=-1)
        tokens, first_at = exchange.tokens, exchange.first_at
        for kind, count in (("prompt", tokens.prompt), ("completion", tokens.completion)):
            if count is not None:
                self.tokens.add(model, kind, amount=count)
        values: list[float | None] = [None if first_at is None else first_at - exchange.started_at, exchange.tpot_s]
        if exchange.outcome is ExchangeOutcome.OK:
            figures = figures_of(exchange)
            values += (*_read_spans(figures), prefill_rate(figures))
        labels = (route, model)
        if labels not in self._series:
            self._series[labels] = [histogram.series_of(labels) for histogram in self._histograms]
        count_values(zip(self._series[labels], values, strict=False))  # a failure has fewer

    def format_exposition(
        self,
        engines: Iterable[EngineStatus],
        live: Iterable[RequestInfo] = (),
        gauges: Iterable[EngineGauges] = (),
        fleets: Iterable[Fleet] = (),
    ) -> str:
        """Return the text for `GET /metrics`: what was counted, and engines, requests and fleets as they are now.

        `gauges` is what engines tell of themselves.
        """
        counted_families: Families = (self.requests, self.in_flight, self.tokens, *self._histograms)
        there: Families = (*_request_gauges(live), *_engine_gauges(engines), *_fleet_gauges(fleets))
        families: Families = (*counted_families, *there, *_build_own_gauges(gauges))
        return "".join(f"{line}\n" for family in families for line in family.format_lines())


_SPANS: tuple[tuple[str, str, str, Sequence[float]], ...] = (
    ("queue_s", "roundhouse_queue_seconds", "Waiting for a free place, without loading.", WAIT_BUCKETS_S),
    ("load_s", "roundhouse_load_wait_seconds", "Waiting for the model to load.", WAIT_BUCKETS_S),
    ("prefill_s", "roundhouse_prefill_seconds", "From an engine got to the first byte.", TTFT_BUCKETS_S),
    ("decode_s", "roundhouse_decode_seconds", "From the first byte to the last.", E2E_BUCKETS_S),
    ("total_s", "roundhouse_e2e_seconds", "From request to the end of the answer.", E2E_BUCKETS_S),
    ("tokens_per_s", "roundhouse_decode_tokens_per_second", "Tokens written per second.", RATE_BUCKETS),
    ("prompt_tokens", "roundhouse_prompt_tokens", "Prompt tokens of a request, cached ones too.", TOKEN_BUCKETS),
    ("completion_tokens", "roundhouse_completion_tokens", "Tokens written for a request.", TOKEN_BUCKETS),
    ("", "roundhouse_prefill_tokens_per_second", "Uncached prompt tokens per second.", RATE_BUCKETS),
)
"""Field of `ExchangeFigures`, name, what it is, and its bounds; the last is `prefill_rate`."""
_read_spans = attrgetter(*(field for field, *_ in _SPANS if field))


def prefill_rate(request: ExchangeFigures) -> float | None:
    """Return how many tokens of the prompt were read per second, those left out that the engine had cached."""
    if not request.prefill_s or request.prompt_tokens is None:
        return None
    return max(0, request.prompt_tokens - (request.cached_tokens or 0)) / request.prefill_s or None


_WAITING = frozenset({RequestState.QUEUED, RequestState.LOADING})


def _request_gauges(live: Iterable[RequestInfo]) -> tuple[MetricCounter, MetricCounter]:
    running_gauge = MetricCounter(
        "roundhouse_requests_running", "Requests an engine works on.", ("model",), kind="gauge"
    )
    waiting_gauge = MetricCounter(
        "roundhouse_requests_waiting", "Requests that wait for an engine.", ("model",), kind="gauge"
    )
    for (model, is_waiting), count in Tally((request.model, request.state in _WAITING) for request in live).items():
        (waiting_gauge if is_waiting else running_gauge).add(model, amount=count)
        (running_gauge if is_waiting else waiting_gauge).add(model, amount=0)
    return running_gauge, waiting_gauge


def _engine_gauges(engines: Iterable[EngineStatus]) -> tuple[MetricCounter, ...]:
    of_engine = ("model", "engine")
    up = MetricCounter("roundhouse_engine_up", "1 while the engine can answer.", of_engine, kind="gauge")
    restarts = MetricCounter("roundhouse_engine_restarts_total", "Restarts after an engine died.", of_engine)
    memory = MetricCounter("roundhouse_engine_memory_bytes", "Memory an engine holds.", of_engine, kind="gauge")
    cache = MetricCounter("roundhouse_engine_kv_cache_bytes", "Size of its KV cache.", of_engine, kind="gauge")
    slots = MetricCounter("roundhouse_engine_slots", "Requests it answers at once.", of_engine, kind="gauge")
    for status in engines:
        names = (status.model, status.engine)
        up.add(*names, amount=float(status.state is EngineState.READY))
        restarts.add(*names, amount=status.restarts)
        for family, value in ((memory, status.memory_bytes), (cache, status.buffers.get("kv")), (slots, status.slots)):
            if value is not None:
                family.add(*names, amount=value)
    return up, restarts, memory, cache, slots


def _fleet_gauges(fleets: Iterable[Fleet]) -> tuple[MetricCounter, ...]:
    of_replica = ("model", "replica")
    requests = MetricCounter(
        "roundhouse_fleet_requests", "Requests a fleet answers or has waiting.", ("model",), kind="gauge"
    )
    replicas = MetricCounter(
        "roundhouse_fleet_replicas", "Replicas of a fleet in each state.", ("model", "state"), kind="gauge"
    )
    up = MetricCounter("roundhouse_fleet_replica_up", "1 while the replica can answer.", of_replica, kind="gauge")
    load = MetricCounter(
        "roundhouse_fleet_replica_requests", "Requests the router counts with it.", of_replica, kind="gauge"
    )
    for fleet in fleets:
        requests.add(fleet.model, amount=fleet.requests)
        states = Tally(replica.state for replica in fleet.replicas)
        for state in ReplicaState:
            replicas.add(fleet.model, state, amount=states[state])
        for replica in fleet.replicas:
            up.add(fleet.model, replica.name, amount=float(replica.state is ReplicaState.READY))
            if replica.load is not None:
                load.add(fleet.model, replica.name, amount=replica.load)
    return requests, replicas, up, load


_SAID: tuple[tuple[Gauge, str, str, str], ...] = (
    (Gauge.KV_USAGE, "kv_cache_usage_ratio", "gauge", "Share of its KV cache that requests hold, 0 to 1."),
    (Gauge.RUNNING, "requests_running", "gauge", "Requests it works on, by its own count."),
    (Gauge.WAITING, "requests_waiting", "gauge", "Requests that wait in it, by its own count."),
    (Gauge.PROMPT_TOKENS, "prompt_tokens_total", "counter", "Prompt tokens it read since it started."),
    (Gauge.GENERATED_TOKENS, "generated_tokens_total", "counter", "Tokens it wrote since it started."),
    (Gauge.PREFIX_HIT_RATE, "prefix_cache_hit_ratio", "gauge", "Share found in its prefix cache, 0 to 1."),
)
"""What, under which name, of which kind, in words."""


def _build_own_gauges(gauges: Iterable[EngineGauges]) -> Iterator[MetricCounter]:
    engines = list(gauges)
    for gauge, name, kind, words in _SAID:
        family = MetricCounter(f"roundhouse_engine_{name}", words, ("model", "engine"), kind=kind)
        for engine in engines:
            if gauge in engine.gauges:
                family.add(engine.model, engine.engine, amount=engine.gauges[gauge])
        yield family


def _help_lines(name: str, help_text: str, kind: str) -> tuple[str, str]:
    return f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"


def _format_labels(names: Sequence[str], values: Sequence[str]) -> str:
    pairs = ",".join(f'{name}="{escape_label(value)}"' for name, value in zip(names, values, strict=True))
    return f"{{{pairs}}}" if pairs else ""


def escape_label(value: str) -> str:
    """Return the value of a label as it stands between quotation marks."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def is_number(text: str) -> bool:
    """Tell whether a sample's value is one; infinity and NaN are."""
    try:
        float(text)
    except ValueError:
        return False
    return True
