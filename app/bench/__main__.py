"""`python -m app.bench [name ...]`: run measurements, print the table, return 1 if a target is missed."""

import sys
from collections.abc import Sequence
from importlib import import_module

from app.bench.figures import Figure, Measure, Measurement, table

MEASUREMENTS = (
    Measurement("startup", "app.bench.startup:measure"),
    Measurement("proxy", "app.bench.proxy_cost:measure"),
    Measurement("ttft", "app.bench.ttft_cost:measure"),
    Measurement("throughput", "app.bench.throughput:measure"),
    Measurement("window", "app.bench.window:measure_start"),
    Measurement("chat", "app.bench.window:measure_chat"),
    Measurement("help", "app.bench.guide:measure_help"),
    Measurement("guide", "app.bench.guide:measure"),
    Measurement("advice", "app.bench.advice:measure"),
    Measurement("memory", "app.bench.memory_accuracy:measure"),
    Measurement("speed", "app.bench.speed_accuracy:measure"),
)
"""Add a line to have something measured by `make bench`."""


def main(names: Sequence[str]) -> int:
    """Run the measurements of these names, or all."""
    unknown = set(names) - {measurement.name for measurement in MEASUREMENTS}
    if unknown:
        known = ", ".join(measurement.name for measurement in MEASUREMENTS)
        sys.stderr.write(f"There is no measurement called {' or '.join(sorted(unknown))}; there are {known}.\n")
        return 2
    figures: list[Figure] = []
    for measurement in MEASUREMENTS:
        if not names or measurement.name in names:
            sys.stderr.write(f"measuring {measurement.name} ...\n")
            figures += _function(measurement)()
    sys.stdout.write(f"{table(figures)}\n")
    return int(any(figure.ok is False for figure in figures))


def _function(measurement: Measurement) -> Measure:
    module, _, name = measurement.function.partition(":")
    function: Measure = getattr(import_module(module), name)
    return function


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
