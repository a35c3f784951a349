"""What self-tuning gains on three architectures: `python -m tests.bench tuning`, for the docs this module, `--write`.

Each miniature of `tests.bench.architectures` is tuned by llama.cpp as people tune it, then asked in turns with the
settings of before and after, loaded anew each time, in requests that the search never saw. Ratios are after to before,
with the interval that holds the true one with 95 % probability: what others do meanwhile widens it, and is said.
"""

import argparse
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.benchmark.gains import certain_gain, format_ratio
from app.benchmark.markdown import markdown_table
from app.benchmark.statistics import SampleTime, bootstrap_time_ratio
from app.client.http import GatewayClient
from app.core.benchmarks import (
    BenchmarkReceipt,
    BenchmarkSample,
    BenchmarkSettings,
    Figure,
    StartBenchmark,
    StartTune,
    TuneResult,
    Workload,
)
from app.core.errors import RoundhouseError
from app.core.events import BenchmarkChanged, TuneChanged
from app.core.models import ModelSettings, SetModel
from tests.bench.architectures import MINIATURES, write_miniature
from tests.bench.doc_spans import write_span
from tests.bench.engine_installs import run_gateway
from tests.bench.figures import BenchFigure, at_least, at_most, not_measured
from tests.bench.programs import ROOT
from tests.bench.real_engines import LONGEST_S, follow_job, note

PAGE = ROOT / "docs" / "internals" / "benchmarks.md"
SPAN = "tuned"
MINUTES = 2.0
WORKLOADS = (Workload.CHAT, Workload.RAG, Workload.AGENT)
"""Short prompts, long ones, and one that grows: what is faster for one of them may be slower for another."""
TURNS = 3
GAIN = 10.0
"""Per cent faster on some axis."""
_REQUESTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedModel:
    """What tuning one model came to: the search, and what takes how long after to before; empty where none was kept."""

    name: str
    workload: Workload
    tune: TuneResult
    ratios: dict[str, Figure]
    disturbances: list[str]

    @property
    def best_gain(self) -> float:
        """By how many per cent at least the axis is faster that gained most, each with 95 % confidence; 0 for none."""
        return max((certain_gain(ratio) * 100 for ratio in self.ratios.values()), default=0.0)

    @property
    def is_slower(self) -> bool:
        """Whether some axis is slower by more than noise, whole answers or a part of them."""
        return any(ratio.low > 1 for ratio in self.ratios.values())


AXES: dict[str, SampleTime] = {
    "first token": lambda sample: sample.ttft_s,
    "each token": lambda sample: sample.tpot_s,
    "whole answer": lambda sample: sample.e2e_s,
}


def measure() -> Sequence[BenchFigure]:
    """Return for each architecture what tuning gains, and whether anything is slower."""
    figures: list[BenchFigure] = []
    for (model, workload), result in run_tunings(WORKLOADS, minutes=MINUTES).items():
        name = f"{model}, {workload.value}"
        if isinstance(result, str):
            figures.append(not_measured(f"{name}, tuned", f">= {GAIN:g} %", result))
            continue
        slowest = max((ratio.low for ratio in result.ratios.values()), default=1.0)
        figures.append(at_most(f"{name}, tuned: slowest axis, lower bound of after to before", slowest, 1.0))
        figures.append(at_least(f"{name}, tuned: certain gain on the best axis", result.best_gain, GAIN, "%"))
    return figures


def run_tunings(workloads: Sequence[Workload], *, minutes: float) -> dict[tuple[str, Workload], TunedModel | str]:
    """Tune every miniature for each workload; a sentence in place of what could not be."""
    results: dict[tuple[str, Workload], TunedModel | str] = {}
    with run_gateway(prepare=_prepare_models) as (client, _, _):
        for workload, miniature in itertools.product(workloads, MINIATURES):
            note(f"tuning {miniature.name} for {workload.value}")
            try:
                results[miniature.name, workload] = _tune_model(client, miniature.name, workload, minutes)
            except RoundhouseError as error:
                results[miniature.name, workload] = str(error)
    return results


def _prepare_models(home: Path) -> dict[str, str]:
    folder = home / "miniatures"
    folder.mkdir()
    for miniature in MINIATURES:
        write_miniature(folder / f"{miniature.name}.gguf", miniature)
    return {"ROUNDHOUSE_MODELS_FOLDERS": str(folder)}


def _tune_model(client: GatewayClient, name: str, workload: Workload, minutes: float) -> TunedModel:
    client.post("/model-settings", SetModel(model=name, settings=ModelSettings()), object)
    request = StartTune(model=name, workload=workload, duration_s=minutes * 60, keeps_disturbed=True)
    client.post("/tunings", request, TuneChanged, timeout_s=LONGEST_S)
    result = follow_job(client, TuneChanged).result
    assert result is not None
    if result.settings == result.settings_before:
        return TunedModel(name=name, workload=workload, tune=result, ratios={}, disturbances=result.disturbances)
    before: list[BenchmarkSample] = []
    after: list[BenchmarkSample] = []
    disturbances: set[str] = set()
    for _ in range(TURNS):
        for samples, settings in ((before, result.settings_before), (after, result.settings)):
            receipt = _bench_with(client, name, workload, settings)
            samples.extend(receipt.samples)
            disturbances.update(receipt.disturbances)
    ratios = {axis: bootstrap_time_ratio(before, after, time_of) for axis, time_of in AXES.items()}
    return TunedModel(name=name, workload=workload, tune=result, ratios=ratios, disturbances=sorted(disturbances))


def _bench_with(client: GatewayClient, name: str, workload: Workload, settings: ModelSettings) -> BenchmarkReceipt:
    client.post("/model-settings", SetModel(model=name, settings=settings), object)
    benchmark_settings = BenchmarkSettings(workload=workload, requests=_REQUESTS, rounds=1)
    start = StartBenchmark(model=name, settings=benchmark_settings, keeps_disturbed=True)
    client.post("/benchmarks", start, BenchmarkChanged, timeout_s=LONGEST_S)
    return client.get(f"/benchmarks/{follow_job(client, BenchmarkChanged).receipt}", BenchmarkReceipt)


def describe_tunings(results: dict[tuple[str, Workload], TunedModel | str], *, duration_s: float) -> Iterator[str]:
    """Yield the lines of the docs."""
    yield f"llama.cpp on the processor, on {time.strftime('%d %B %Y')}, in {duration_s / 60:.0f} min:"
    yield ""
    rows = [
        [
            name,
            workload.value,
            ", ".join(entry.name for entry in result.tune.entries if entry.is_kept) or "nothing",
            *(_describe_ratio(result.ratios.get(axis)) for axis in AXES),
            f"{result.best_gain:.0f} %" if result.best_gain > 0 else "none",
            "yes" if result.disturbances else "",
        ]
        for (name, workload), result in results.items()
        if isinstance(result, TunedModel)
    ]
    yield from markdown_table(("model", "workload", "kept", *AXES, "certain gain, best axis", "disturbed"), rows)
    yield ""
    for (name, workload), result in results.items():
        if isinstance(result, str):
            yield f"- {name}, {workload.value}: {result}"
            continue
        tried_names = [
            f"{entry.name} {format_ratio(entry.ratio)}" for entry in result.tune.entries if entry.ratio is not None
        ]
        yield f"- {name}, {workload.value}, tried, whole answers to before: {', '.join(tried_names)}."


def _describe_ratio(ratio: Figure | None) -> str:
    return "" if ratio is None else format_ratio(ratio)


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and with `--write` put it into the docs."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.tuned", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the figures into the docs")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="for the search, per model")
    parser.add_argument("--workloads", nargs="+", type=Workload, choices=WORKLOADS, default=WORKLOADS)
    options = parser.parse_args(arguments)
    began = time.monotonic()
    results = run_tunings(options.workloads, minutes=options.minutes)
    text = "\n".join(describe_tunings(results, duration_s=time.monotonic() - began))
    sys.stdout.write(f"{text}\n")
    if options.write:
        write_span(PAGE, SPAN, text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
