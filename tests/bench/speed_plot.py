"""`python -m tests.bench.speed_plot`: draw predicted against measured decode rates into docs/, with their tables.

Every point is a held-out row, predicted without any row of its chip. Both axes are logarithmic; on the diagonal the
prediction is right, between the outer lines it is off by less than a third.
"""

import re
from collections.abc import Iterator, Sequence
from math import floor, log10
from statistics import median
from xml.sax.saxutils import escape

from app.advisor.speed.families import devices_in_use, software_class
from tests.bench.figures import BenchFigure, figure_table
from tests.bench.programs import ROOT
from tests.bench.speed_accuracy import SpeedCase, coverage, cross_validated_cases, measure, p90

PAGE, PLOT = ROOT / "docs" / "internals" / "accuracy.md", ROOT / "docs" / "internals" / "accuracy-decode.svg"
_BEGIN, _END = "<!-- figures of `python -m tests.bench.speed_plot` -->", "<!-- end of figures -->"
_SIZE, _EDGE = 640, 56
_LOW, _HIGH = 0.2, 1000.0
_WIDE = 4 / 3
_FONT = 'font-family="sans-serif" font-size="12"'
_COLOURS = {
    "Apple, llama.cpp": "#0969da",
    "Apple, MLX": "#54aeff",
    "GeForce RTX": "#1a7f37",
    "GeForce GTX 10": "#9a6700",
    "shared memory (GB10, Strix Halo)": "#8250df",
    "Radeon and Arc": "#cf222e",
    "processors": "#57606a",
}
"""Dark enough to be told apart on white, and from each other by lightness too."""


def main() -> None:
    """Write the plot, and the tables into the page between their two marks."""
    cases = cross_validated_cases()
    PLOT.write_text(render_svg(cases), encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    section = "\n".join([_BEGIN, "", *_tables(cases, measure()), "", _END])
    PAGE.write_text(
        re.sub(f"{re.escape(_BEGIN)}.*{re.escape(_END)}", lambda _: section, page, flags=re.DOTALL), "utf-8"
    )


def plot_family(case: SpeedCase) -> str:
    """Return the family a point is drawn as."""
    device = devices_in_use(case.row.machine, case.row.setting)[0]
    if device.vendor == "apple":
        return "Apple, MLX" if software_class(case.row.setting, device.kind) == "mlx" else "Apple, llama.cpp"
    if device.vendor == "cpu":
        return "processors"
    series_names = {"unified": "shared memory (GB10, Strix Halo)", "pascal": "GeForce GTX 10"}
    return series_names.get(device.kind, "GeForce RTX" if device.vendor == "nvidia" else "Radeon and Arc")


def render_svg(cases: Sequence[SpeedCase]) -> str:
    """Return the plot as an SVG document."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE} {_SIZE}" {_FONT}>',
        "<title>Decode rates: predicted against measured</title>",
        f'<rect width="{_SIZE}" height="{_SIZE}" fill="#ffffff"/>',
        *_axes(),
        *(_line(factor) for factor in (1.0, _WIDE, 1 / _WIDE)),
        *(_point(case) for case in sorted(cases, key=_order)),
        *_legend(cases),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _order(case: SpeedCase) -> tuple[str, float, str]:
    return plot_family(case), case.row.decode, case.row.model


def _x_of(rate: float) -> float:
    return _EDGE + (log10(rate) - log10(_LOW)) / (log10(_HIGH) - log10(_LOW)) * (_SIZE - 1.5 * _EDGE)


def _y_of(rate: float) -> float:
    return _SIZE - _x_of(rate)


def _axes() -> Iterator[str]:
    first, last = _x_of(_LOW), _x_of(_HIGH)
    for decade in range(floor(log10(_LOW)) + 1, round(log10(_HIGH)) + 1):
        rate = 10.0**decade
        at, up = _x_of(rate), _y_of(rate)
        label = f"{rate:g}"
        lines = f"M{at:.1f} {_y_of(_LOW):.1f}V{_y_of(_HIGH):.1f}M{first:.1f} {up:.1f}H{last:.1f}"
        yield f'<path d="{lines}" stroke="#d0d7de"/>'
        yield f'<text x="{at:.1f}" y="{_y_of(_LOW) + 18:.1f}" text-anchor="middle">{label}</text>'
        yield f'<text x="{first - 8:.1f}" y="{up + 4:.1f}" text-anchor="end">{label}</text>'
    middle = _SIZE / 2
    yield f'<text x="{middle}" y="{_SIZE - 10}" text-anchor="middle">measured, tokens per second</text>'
    rotation = f'transform="translate(14 {middle}) rotate(-90)"'
    yield f'<text {rotation} text-anchor="middle">predicted, tokens per second</text>'


def _line(factor: float) -> str:
    low, high = max(_LOW, _LOW / factor), min(_HIGH, _HIGH / factor)
    style = 'stroke="#1f2328"' if factor == 1 else 'stroke="#8c959f" stroke-dasharray="4 4"'
    ends = (
        f'x1="{_x_of(low):.1f}" y1="{_y_of(low * factor):.1f}" x2="{_x_of(high):.1f}" y2="{_y_of(high * factor):.1f}"'
    )
    return f"<line {ends} {style}/>"


def _point(case: SpeedCase) -> str:
    measured_rate, predicted_rate = (min(_HIGH, max(_LOW, rate)) for rate in (case.row.decode, case.prediction))
    name = f"{case.row.device}: {case.row.model}, {case.row.decode:g} measured, {case.prediction:.3g} predicted"
    place = f'cx="{_x_of(measured_rate):.1f}" cy="{_y_of(predicted_rate):.1f}" r="3"'
    colour = _COLOURS[plot_family(case)]
    return f'<circle {place} fill="{colour}" fill-opacity="0.7"><title>{escape(name)}</title></circle>'


def _legend(cases: Sequence[SpeedCase]) -> Iterator[str]:
    for line, (name, colour) in enumerate(_COLOURS.items()):
        count = sum(plot_family(case) == name for case in cases)
        y = _EDGE / 2 + 18 * line + 8
        yield f'<circle cx="{_EDGE + 20}" cy="{y}" r="4" fill="{colour}"/>'
        yield f'<text x="{_EDGE + 32}" y="{y + 4}">{escape(name)} ({count})</text>'


def _tables(cases: Sequence[SpeedCase], figures: Sequence[BenchFigure]) -> Iterator[str]:
    yield "```text"
    yield from figure_table(figures).splitlines()
    yield "```"
    yield ""
    yield "| family | rows | chips | median error | p90 | bias | inside the interval |"
    yield "|---|---|---|---|---|---|---|"
    for name in _COLOURS:
        mine = [case for case in cases if plot_family(case) == name]
        if mine:
            errors = [abs(case.error) for case in mine]
            chips = len({case.row.chip for case in mine})
            yield (
                f"| {name} | {len(mine)} | {chips} | {100 * median(errors):.1f} % | {100 * p90(errors):.0f} % "
                f"| {100 * median(case.error for case in mine):+.1f} % | {100 * coverage(mine):.0f} % |"
            )


if __name__ == "__main__":
    main()
