"""What people look at of a benchmark, as points; the window draws them, and the report has them as SVG.

Latency over requests at once, tokens per second over requests at once and over the context, memory over the context,
and what the receipts of one model show over time.
"""

from collections.abc import Callable, Iterator, Sequence
from html import escape
from math import floor, log10

import msgspec

from app.benchmark.markdown import format_seconds
from app.core.benchmarks import BenchmarkReceipt, RaceResult

_MS = 1e3
_GIB = 1 << 30
_LONG_S = 5.0
"""From so many seconds on a plot is in seconds."""
_WIDTH, _HEIGHT = 520, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 28, 44
_TICKS = 5
_THOUSAND, _SHORTENED = 1000, 10_000
_MOST_NAMED = 75
"""Characters of a name that fit below the drawing."""
COLOURS = ("#c2571a", "#2f6f8f", "#5b7f3a", "#8a4f9e", "#a68a00", "#4a4a4a")
"""Of series, in order; told apart by people who see no red or green, and each line has its own dashes."""
_DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 4", "10 4")


class PlotPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One value, with its interval where there is one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


class PlotSeries(msgspec.Struct, frozen=True, kw_only=True):
    """Points of one thing."""

    name: str
    points: list[PlotPoint]
    is_line: bool = True


class BenchmarkPlot(msgspec.Struct, frozen=True, kw_only=True):
    """One plot; both axes begin at zero."""

    title: str
    x_name: str
    y_name: str
    series: list[PlotSeries]


def make_plots(receipts: Sequence[BenchmarkReceipt]) -> list[BenchmarkPlot]:
    """Return the plots of one or several receipts; those that would have a single point are left out."""
    titles = name_series(receipts)
    plots = [
        _ttft_plot(receipts, titles),
        BenchmarkPlot(
            title="Tokens written per second, all requests together",
            x_name="requests at once",
            y_name="tok/s",
            series=[_throughput_series(receipt, title) for receipt, title in zip(receipts, titles, strict=True)],
        ),
        BenchmarkPlot(
            title="Speed of one answer over its context",
            x_name="tokens of the prompt",
            y_name="tok/s",
            series=[
                series
                for receipt, title in zip(receipts, titles, strict=True)
                if (series := _context_series(receipt, title)).points
            ],
        ),
        _memory_plot(receipts),
    ]
    return [plot for plot in plots if _is_worth_drawing(plot)]


def name_series(receipts: Sequence[BenchmarkReceipt]) -> list[str]:
    """Return what tells receipts apart: engines where the model is the same, and numbers where those are too."""
    is_one_model = len({receipt.target.model for receipt in receipts}) == 1
    titles = [_engine_title(receipt) if is_one_model else receipt.title for receipt in receipts]
    if len(set(titles)) == len(titles):
        return titles
    return [f"{number}. {title}" for number, title in enumerate(titles, start=1)]


def _engine_title(receipt: BenchmarkReceipt) -> str:
    target = receipt.target
    return f"{target.engine} {target.engine_version}".strip() or receipt.title


def make_history_plots(receipts: Sequence[BenchmarkReceipt]) -> list[BenchmarkPlot]:
    """Return what the receipts of one model show over time, and memory over context; in any order."""
    ordered_receipts = sorted((part for part in receipts if not part.disturbances), key=lambda receipt: receipt.at)
    by_engine: dict[str, list[PlotPoint]] = {}
    for place, receipt in enumerate(ordered_receipts, start=1):
        rate = receipt.first_level.decode_tokens_s
        point = PlotPoint(x=place, y=rate.value, low=rate.low, high=rate.high)
        by_engine.setdefault(_history_name(receipt), []).append(point)
    speed = BenchmarkPlot(
        title="Speed of one answer, measurement by measurement",
        x_name="measurements, oldest first",
        y_name="tok/s",
        series=[PlotSeries(name=engine, points=points) for engine, points in by_engine.items()],
    )
    return [plot for plot in (speed, _memory_plot(ordered_receipts)) if _is_worth_drawing(plot)]


def _history_name(receipt: BenchmarkReceipt) -> str:
    """Return who was measured with what: long prompts slow an answer down, so workloads are not joined by a line."""
    return f"{receipt.target.engine or receipt.target.url}, {receipt.settings.workload_title}"


def _memory_plot(receipts: Sequence[BenchmarkReceipt]) -> BenchmarkPlot:
    """Return the memory of engines over the context they were started with, of all slots together."""
    by_engine: dict[str, list[PlotPoint]] = {}
    for receipt in receipts:
        options, peak = receipt.target.options, receipt.memory.peak_bytes
        context, slots = options.get("context"), options.get("slots", 1)
        if peak and isinstance(context, int) and isinstance(slots, int):
            point = PlotPoint(x=context * slots, y=peak / _GIB)
            by_engine.setdefault(receipt.target.engine, []).append(point)
    return BenchmarkPlot(
        title="Memory over context",
        x_name="tokens of context, all slots together",
        y_name="GiB",
        series=[PlotSeries(name=engine, points=points, is_line=False) for engine, points in by_engine.items()],
    )


def _is_worth_drawing(plot: BenchmarkPlot) -> bool:
    return len({point.x for series in plot.series for point in series.points}) > 1


def _ttft_plot(receipts: Sequence[BenchmarkReceipt], titles: Sequence[str]) -> BenchmarkPlot:
    most_s = max((level.ttft_s.p95 for receipt in receipts for level in receipt.levels), default=0.0)
    scale, unit = (1.0, "s") if most_s >= _LONG_S else (_MS, "ms")
    return BenchmarkPlot(
        title="Time to the first token (TTFT)",
        x_name="requests at once",
        y_name=unit,
        series=[
            series
            for receipt, title in zip(receipts, titles, strict=True)
            for series in _ttft_series(receipt, "" if len(receipts) == 1 else f"{title}: ", scale)
        ],
    )


def _ttft_series(receipt: BenchmarkReceipt, title: str, scale: float) -> Iterator[PlotSeries]:
    """Yield the time within which half of the requests, and nearly all, had their first token."""
    medians = [(level.concurrency, level.ttft_s.median) for level in receipt.levels]
    yield PlotSeries(
        name=f"{title}half of the requests (p50)",
        points=[
            PlotPoint(x=concurrency, y=median.value * scale, low=median.low * scale, high=median.high * scale)
            for concurrency, median in medians
        ],
    )
    yield PlotSeries(
        name=f"{title}95 of 100 (p95)",
        points=[PlotPoint(x=level.concurrency, y=level.ttft_s.p95 * scale) for level in receipt.levels],
    )


def _throughput_series(receipt: BenchmarkReceipt, title: str) -> PlotSeries:
    points = [
        PlotPoint(
            x=level.concurrency,
            y=level.answer_tokens_s.value,
            low=level.answer_tokens_s.low,
            high=level.answer_tokens_s.high,
        )
        for level in receipt.levels
    ]
    return PlotSeries(name=title, points=points)


def _context_series(receipt: BenchmarkReceipt, title: str) -> PlotSeries:
    points = [
        PlotPoint(x=sample.prompt_tokens, y=1 / sample.tpot_s)
        for sample in receipt.samples
        if sample.concurrency == 1 and sample.answer_tokens > 1 and sample.tpot_s > 0
    ]
    return PlotSeries(name=title, points=points, is_line=False)


class BarPlot(msgspec.Struct, frozen=True, kw_only=True):
    """Values beside each other, of which shorter bars are better."""

    title: str
    bars: list[tuple[str, float, str]]
    """Name, value, and the value in words."""


def race_plot(result: RaceResult, name_engine: Callable[[str], str]) -> BarPlot | None:
    """Return how long the whole answers of each engine took, by its name; None for fewer than two."""
    bars = [
        (name_engine(entry.engine), entry.e2e_s, format_seconds(entry.e2e_s))
        for entry in result.entries
        if entry.e2e_s is not None
    ]
    return BarPlot(title="Time of a whole answer, median (shorter is better)", bars=bars) if len(bars) > 1 else None


def count_ticks(most: float) -> list[float]:
    """Return the like of `axis_ticks` for what is counted: no tick lies between two whole numbers."""
    return [tick for tick in axis_ticks(most) if float(tick).is_integer()]


def format_tick(value: float) -> str:
    """Return a tick's value, thousands as in "20k"."""
    return f"{value / _THOUSAND:g}k" if value >= _SHORTENED else f"{value:g}"


def axis_ticks(most: float) -> list[float]:
    """Return about five round values from zero to `most` or a little beyond."""
    if most <= 0:
        return [0.0, 1.0]
    rough = most / _TICKS
    power = 10 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    count = int(-(-most // step))
    return [step * number for number in range(count + 1)]


def svg_of(plot: BenchmarkPlot) -> str:
    """Return a plot as SVG that needs nothing beside itself."""
    points = [point for series in plot.series for point in series.points]
    x_ticks = count_ticks(max(point.x for point in points))
    y_ticks = axis_ticks(max(point.high or point.y for point in points))
    frame = _Frame(x_most=x_ticks[-1], y_most=y_ticks[-1], rows=len(plot.series))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {frame.height}" role="img"',
        f'aria-label="{escape(plot.title)}" font-family="sans-serif" font-size="11" fill="currentColor">',
        f'<text x="{_LEFT}" y="16" font-size="13" font-weight="600">{escape(plot.title)}</text>',
        *_axis_parts(plot, frame, x_ticks, y_ticks),
    ]
    for index, series in enumerate(plot.series):
        parts += _series_parts(series, index, frame)
    return "\n".join([*parts, "</svg>"])


class _Frame(msgspec.Struct, frozen=True):
    """Where values lie in the drawing."""

    x_most: float
    y_most: float
    rows: int

    @property
    def height(self) -> int:
        return _HEIGHT + 16 * self.rows

    def x(self, value: float) -> float:
        return _LEFT + value / self.x_most * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return _HEIGHT - _BOTTOM - value / self.y_most * (_HEIGHT - _TOP - _BOTTOM)


def _axis_parts(
    plot: BenchmarkPlot, frame: _Frame, x_ticks: Sequence[float], y_ticks: Sequence[float]
) -> Iterator[str]:
    bottom = _HEIGHT - _BOTTOM
    for tick in y_ticks:
        y = frame.y(tick)
        yield (
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
            'stroke="currentColor" opacity="0.15"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{format_tick(tick)}</text>'
        )
    for tick in x_ticks:
        yield f'<text x="{frame.x(tick):.1f}" y="{bottom + 16}" text-anchor="middle">{format_tick(tick)}</text>'
    yield f'<text x="{_WIDTH - _RIGHT}" y="{bottom + 32}" text-anchor="end">{escape(plot.x_name)}</text>'
    yield f'<text x="4" y="{_TOP}">{escape(plot.y_name)}</text>'


def _series_parts(series: PlotSeries, index: int, frame: _Frame) -> Iterator[str]:
    colour, dashes = COLOURS[index % len(COLOURS)], _DASHES[index % len(_DASHES)]
    points = sorted(series.points, key=lambda point: point.x)
    if series.is_line:
        path = " ".join(f"{frame.x(point.x):.1f},{frame.y(point.y):.1f}" for point in points)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>'
    for point in points:
        x = frame.x(point.x)
        if point.low is not None and point.high is not None:
            yield (
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{frame.y(point.low):.1f}" y2="{frame.y(point.high):.1f}" '
                f'stroke="{colour}"/>'
            )
        yield f'<circle cx="{x:.1f}" cy="{frame.y(point.y):.1f}" r="3" fill="{colour}"/>'
    y = _HEIGHT + 16 * index
    yield f'<circle cx="{_LEFT}" cy="{y - 4}" r="4" fill="{colour}"/>'
    name = series.name if len(series.name) <= _MOST_NAMED else f"{series.name[: _MOST_NAMED - 1]}…"
    yield f'<text x="{_LEFT + 10}" y="{y}">{escape(name)}<title>{escape(series.name)}</title></text>'
