"""`python -m app.bench [name ...] [--minutes N]`: run measurements, print the table, return 1 if a target is missed."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from app.bench.figures import Figure, Measure, Measurement, table

MEASUREMENTS = (
    Measurement("startup", "app.bench.startup:measure"),
    Measurement("proxies", "app.bench.proxies:measure"),
    Measurement("crowd", "app.bench.crowd:measure"),
    Measurement("cancel", "app.bench.cancelling:measure"),
    Measurement("switch", "app.bench.switching:measure"),
    Measurement("soak", "app.bench.soak:measure", lasts=True),
    Measurement("engines", "app.bench.engine_installs:measure"),
    Measurement("hub-search", "app.bench.hub_search:measure"),
    Measurement("download", "app.bench.downloading:measure"),
    Measurement("xet", "app.bench.xet_cost:measure"),
    Measurement("throughput", "app.bench.throughput:measure"),
    Measurement("workers", "app.bench.worker_cost:measure"),
    Measurement("window", "app.bench.window:measure_start"),
    Measurement("chat", "app.bench.window:measure_chat"),
    Measurement("help", "app.bench.guide:measure_help"),
    Measurement("guide", "app.bench.guide:measure"),
    Measurement("advice", "app.bench.advice:measure"),
    Measurement("library", "app.bench.indexing:measure"),
    Measurement("memory", "app.bench.memory_accuracy:measure"),
    Measurement("speed", "app.bench.speed_accuracy:measure"),
)
"""Add a line to have something measured by `make bench`."""


def main(arguments: Sequence[str]) -> int:
    """Run the measurements named, or all; `--minutes` says how long those take that can go on for any time."""
    asked = _parser().parse_args(arguments)
    names = asked.names
    unknown = set(names) - {measurement.name for measurement in MEASUREMENTS}
    if unknown:
        known = ", ".join(measurement.name for measurement in MEASUREMENTS)
        sys.stderr.write(f"There is no measurement called {' or '.join(sorted(unknown))}; there are {known}.\n")
        return 2
    figures: list[Figure] = []
    for measurement in MEASUREMENTS:
        if not names or measurement.name in names:
            sys.stderr.write(f"measuring {measurement.name} ...\n")
            function = _function(measurement)
            figures += function(minutes=asked.minutes) if measurement.lasts else function()
    sys.stdout.write(f"{table(figures)}\n")
    return int(any(figure.ok is False for figure in figures))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m app.bench", description="Measure what this project promises.")
    parser.add_argument("names", nargs="*", metavar="name", help="a measurement; all without any")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long the soak goes on")
    return parser


def _function(measurement: Measurement) -> Measure:
    module, _, name = measurement.function.partition(":")
    function: Measure = getattr(import_module(module), name)
    return function


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
