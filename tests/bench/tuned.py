"""What self-tuning gains on three architectures: `python -m tests.bench tuning`, for the docs this module, `--write`.

Each miniature of `tests.bench.architectures` is tuned by llama.cpp as people tune it, then asked in turns with the
settings of before and after, loaded anew each time, in requests that the search never saw. Ratios are after to before,
with the interval that holds the true one with 95 % probability: what others do meanwhile widens it, and is said.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.benchmark.markdown import markdown_table
from app.benchmark.statistics import bootstrap_ratio
from app.client.http import GatewayClient
from app.core.benchmarks import (
    BenchmarkReceipt,
    BenchmarkSample,
    BenchmarkSettings,
    Figure,
    StartBenchmark,
    StartTune,
    TuneResult,
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
TURNS = 3
GAIN = 10.0
"""Per cent faster on some axis."""
_SETTINGS = BenchmarkSettings(requests=4, rounds=1, answer_tokens=48)


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedModel:
    """What tuning one model came to: the search, and what takes how long after to before; empty where none was kept."""

    name: str
    tuned: TuneResult
    ratios: dict[str, Figure]
    disturbances: list[str]

    @property
    def best_gain(self) -> float:
        """By how many per cent the axis is faster that gained most, by its median."""
        return max(((1 / ratio.value - 1) * 100 for ratio in self.ratios.values()), default=0.0)

    @property
    def is_slower(self) -> bool:
        """Whether some axis is slower by more than noise, whole answers or a part of them."""
        return any(ratio.low > 1 for ratio in self.ratios.values())


AXES = {"first token": "ttft_s", "each token": "tpot_s", "whole answer": "e2e_s"}


def measure() -> Sequence[BenchFigure]:
    """Return for each architecture what tuning gains, and whether anything is slower."""
    figures: list[BenchFigure] = []
    for name, result in run_tunings(minutes=MINUTES).items():
        if isinstance(result, str):
            figures.append(not_measured(f"{name}, tuned", f">= {GAIN:g} %", result))
            continue
        slowest = max((ratio.low for ratio in result.ratios.values()), default=1.0)
        figures.append(at_most(f"{name}, tuned: slowest axis, lower bound of after to before", slowest, 1.0))
        figures.append(at_least(f"{name}, tuned: gain on the best axis", result.best_gain, GAIN, "%"))
    return figures


def run_tunings(*, minutes: float) -> dict[str, TunedModel | str]:
    """Tune every miniature; a sentence in place of what could not be."""
    results: dict[str, TunedModel | str] = {}
    with run_gateway(prepare=_prepare_models) as (client, _, _):
        for miniature in MINIATURES:
            note(f"tuning {miniature.name}")
            try:
                results[miniature.name] = _tune_model(client, miniature.name, minutes)
            except RoundhouseError as error:
                results[miniature.name] = str(error)
    return results


def _prepare_models(home: Path) -> dict[str, str]:
    folder = home / "miniatures"
    folder.mkdir()
    for miniature in MINIATURES:
        write_miniature(folder / f"{miniature.name}.gguf", miniature)
    return {"ROUNDHOUSE_MODELS_FOLDERS": str(folder)}


def _tune_model(client: GatewayClient, name: str, minutes: float) -> TunedModel:
    request = StartTune(model=name, duration_s=minutes * 60, keeps_disturbed=True)
    client.post("/tunings", request, TuneChanged, timeout_s=LONGEST_S)
    result = follow_job(client, TuneChanged).result
    assert result is not None
    if result.settings == result.settings_before:
        return TunedModel(name=name, tuned=result, ratios={}, disturbances=result.disturbances)
    before: list[BenchmarkSample] = []
    after: list[BenchmarkSample] = []
    disturbances: set[str] = set()
    for _ in range(TURNS):
        for samples, settings in ((before, result.settings_before), (after, result.settings)):
            receipt = _bench_with(client, name, settings)
            samples.extend(receipt.samples)
            disturbances.update(receipt.disturbances)
    ratios = {
        axis: bootstrap_ratio([getattr(part, field) for part in before], [getattr(part, field) for part in after])
        for axis, field in AXES.items()
    }
    return TunedModel(name=name, tuned=result, ratios=ratios, disturbances=sorted(disturbances))


def _bench_with(client: GatewayClient, name: str, settings: ModelSettings) -> BenchmarkReceipt:
    client.post("/model-settings", SetModel(model=name, settings=settings), object)
    start = StartBenchmark(model=name, settings=_SETTINGS, keeps_disturbed=True)
    client.post("/benchmarks", start, BenchmarkChanged, timeout_s=LONGEST_S)
    return client.get(f"/benchmarks/{follow_job(client, BenchmarkChanged).receipt}", BenchmarkReceipt)


def describe_tunings(results: dict[str, TunedModel | str], *, duration_s: float) -> Iterator[str]:
    """Yield the lines of the docs."""
    yield f"llama.cpp on the processor, on {time.strftime('%d %B %Y')}, in {duration_s / 60:.0f} min:"
    yield ""
    rows = [
        [
            name,
            ", ".join(entry.name for entry in result.tuned.entries if entry.is_kept) or "nothing",
            *(_describe_ratio(result.ratios.get(axis)) for axis in AXES),
            "yes" if result.disturbances else "",
        ]
        for name, result in results.items()
        if isinstance(result, TunedModel)
    ]
    yield from markdown_table(("model", "kept", *AXES, "disturbed"), rows)
    yield ""
    for name, result in results.items():
        if isinstance(result, str):
            yield f"- {name}: {result}"
            continue
        tried = [
            f"{entry.name} {_describe_ratio(entry.ratio)}" for entry in result.tuned.entries if entry.ratio is not None
        ]
        yield f"- {name}, tried, whole answers to before: {', '.join(tried)}."


def _describe_ratio(ratio: Figure | None) -> str:
    return "" if ratio is None else f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and with `--write` put it into the docs."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.tuned", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the figures into the docs")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="for the search, per model")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    results = run_tunings(minutes=options.minutes)
    text = "\n".join(describe_tunings(results, duration_s=time.monotonic() - began))
    sys.stdout.write(f"{text}\n")
    if options.write:
        write_span(PAGE, SPAN, text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
