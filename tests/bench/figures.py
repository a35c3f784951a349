"""What a measurement yields, and the table it ends up in.

A measurement is a function that returns figures. It runs what it compares in turns, so that a noisy minute of the
machine hits both sides, and it says `None` instead of a number when something it needs is not there.
"""

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec


class BenchFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One measured number and its target, in words with units. `ok` is None when it could not be measured."""

    name: str
    measurement: str
    target: str
    ok: bool | None


Measure = Callable[..., Sequence[BenchFigure]]
"""Every argument has a default."""


class Measurement(NamedTuple):
    """A name to select it by, and where its function is: "module:function", imported when it is run.

    `lasts`: it takes as long as its argument `minutes` says.
    """

    name: str
    function: str
    lasts: bool = False


def at_most(name: str, value: float, limit: float, unit: str = "") -> BenchFigure:
    """Return a figure that holds when `value` is not above `limit`."""
    return _make_figure(name, value, limit, unit=unit, is_upper=True)


def at_least(name: str, value: float, limit: float, unit: str = "") -> BenchFigure:
    """Return a figure that holds when `value` is not below `limit`."""
    return _make_figure(name, value, limit, unit=unit, is_upper=False)


def not_measured(name: str, target: str, why: str) -> BenchFigure:
    """Return a figure that is missing, with the reason in the place of the number."""
    return BenchFigure(name=name, measurement=why, target=target, ok=None)


def without_target(name: str, measurement: str) -> BenchFigure:
    """Return a figure that has no target."""
    return BenchFigure(name=name, measurement=measurement, target="-", ok=None)


def percentile(values: Sequence[float], percent: int) -> float:
    """Return what that many per cent of the values do not exceed."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def figure_table(figures: Iterable[BenchFigure]) -> str:
    """Return the figures as lines of text: what, measured, target, ok."""
    words = {True: "yes", False: "NO", None: "-"}
    rows = [("what", "measured", "target", "ok")]
    rows += [(figure.name, figure.measurement, figure.target, words[figure.ok]) for figure in figures]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "-+-".join("-" * width for width in widths), *lines[1:]])


def _make_figure(name: str, value: float, limit: float, *, unit: str, is_upper: bool) -> BenchFigure:
    sign = "<=" if is_upper else ">="
    space = " " if unit else ""
    is_within = value <= limit if is_upper else value >= limit
    return BenchFigure(
        name=name, measurement=f"{value:.3g}{space}{unit}", target=f"{sign} {limit:g}{space}{unit}", ok=is_within
    )
