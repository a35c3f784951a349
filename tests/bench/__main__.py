"""`python -m tests.bench [name ...] [--minutes N]`: print a table of measurements; 1 if a target is missed."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from tests.bench.figures import BenchFigure, Measure, Measurement, figure_table

MEASUREMENTS = (
    Measurement("startup", "tests.bench.startup:measure"),
    Measurement("proxies", "tests.bench.proxies:measure"),
    Measurement("routers", "tests.bench.router_cost:measure"),
    Measurement("traces", "tests.bench.tracing_cost:measure"),
    Measurement("crowd", "tests.bench.crowd:measure"),
    Measurement("cancel", "tests.bench.cancelling:measure"),
    Measurement("complete", "tests.bench.completing:measure"),
    Measurement("switch", "tests.bench.switching:measure"),
    Measurement("warm", "tests.bench.warm_resume:measure"),
    Measurement("soak", "tests.bench.soak:measure", lasts=True),
    Measurement("engines", "tests.bench.engine_installs:measure"),
    Measurement("hub-search", "tests.bench.hub_search:measure"),
    Measurement("download", "tests.bench.downloading:measure"),
    Measurement("given-files", "tests.bench.given_files:measure"),
    Measurement("xet", "tests.bench.xet_cost:measure"),
    Measurement("throughput", "tests.bench.throughput:measure"),
    Measurement("workers", "tests.bench.worker_cost:measure"),
    Measurement("servers", "tests.bench.server_cost:measure"),
    Measurement("window", "tests.bench.window:measure_start"),
    Measurement("chat", "tests.bench.window:measure_chat"),
    Measurement("chats", "tests.bench.window:measure_chats"),
    Measurement("help", "tests.bench.guide:measure_help"),
    Measurement("guide", "tests.bench.guide:measure"),
    Measurement("advice", "tests.bench.advice:measure"),
    Measurement("retrieval", "tests.bench.retrieval:measure"),
    Measurement("splitters", "tests.bench.splitters:measure"),
    Measurement("million", "tests.bench.million:measure"),
    Measurement("library", "tests.bench.indexing:measure"),
    Measurement("memory", "tests.bench.memory_accuracy:measure"),
    Measurement("races", "tests.bench.five_races:measure"),
    Measurement("disturbance", "tests.bench.disturbed_races:measure"),
    Measurement("tuning", "tests.bench.tuned:measure"),
    Measurement("tools", "tests.bench.field_tools:measure"),
    Measurement("speed", "tests.bench.speed_accuracy:measure"),
)
"""Add a line to have something measured by `make bench`."""


def main(arguments: Sequence[str]) -> int:
    """Run the measurements named, or all; `--minutes` says how long those take that can go on for any time."""
    options = _parser().parse_args(arguments)
    names = options.names
    unknown = set(names) - {measurement.name for measurement in MEASUREMENTS}
    if unknown:
        known_names = ", ".join(measurement.name for measurement in MEASUREMENTS)
        sys.stderr.write(f"There is no measurement called {' or '.join(sorted(unknown))}; there are {known_names}.\n")
        return 2
    figures: list[BenchFigure] = []
    for measurement in MEASUREMENTS:
        if not names or measurement.name in names:
            sys.stderr.write(f"measuring {measurement.name} ...\n")
            function = _function(measurement)
            figures += function(minutes=options.minutes) if measurement.lasts else function()
    sys.stdout.write(f"{figure_table(figures)}\n")
    return int(any(figure.ok is False for figure in figures))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure what this project promises.")
    parser.add_argument("names", nargs="*", metavar="name", help="a measurement; all without any")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long the soak goes on")
    return parser


def _function(measurement: Measurement) -> Measure:
    module, _, name = measurement.function.partition(":")
    function: Measure = getattr(import_module(module), name)
    return function


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
