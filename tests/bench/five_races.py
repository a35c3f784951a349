"""Whether predictions learn from races: `python -m tests.bench.five_races --write`, or `python -m tests.bench races`.

Five models of 64 MiB and more, each of another size or architecture, race on llama.cpp and mistral.rs as people have
them race. After each race every measured model is left out in turn: predicted by the tables, and from what the others
showed. Only a quiet race teaches anything; one that is refused is tried again, and said.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.benchmark.markdown import markdown_table
from app.client.http import GatewayClient
from app.core.benchmarks import BenchmarkSettings, PredictionAccuracy, RaceResult, StartRace
from app.core.errors import RoundhouseError
from app.core.events import RaceChanged
from app.hub.synthetic import SyntheticShape, write_synthetic
from tests.bench.architectures import Miniature, write_miniature
from tests.bench.doc_spans import write_span
from tests.bench.engine_installs import run_gateway
from tests.bench.figures import BenchFigure, at_most, not_measured
from tests.bench.programs import ROOT
from tests.bench.real_engines import LONGEST_S, follow_job, note

PAGE = ROOT / "docs" / "internals" / "accuracy.md"
SPAN = "five races"
ENGINES = ("mistral.rs",)
"""Raced against llama.cpp, which comes along."""
ATTEMPTS = 3
_SETTINGS = BenchmarkSettings(requests=4, answer_tokens=48)
_MINIATURES = (
    Miniature(name="race-qwen3", original="Qwen3 0.6B", layers=8),
    Miniature(name="race-gemma3", original="Gemma 3 1B", layers=6),
    Miniature(name="race-llama3", original="Llama 3.2 1B", layers=3),
)
_SYNTHETIC = {
    "race-llama-q4": SyntheticShape(layers=6),
    "race-llama-q8": SyntheticShape(layers=3, quantization="Q8_0"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceStep:
    """One race: what came of it, or why not, and how far models left out are off after it."""

    model: str
    result: RaceResult | None
    problem: str
    accuracy: PredictionAccuracy


def measure() -> Sequence[BenchFigure]:
    """Return whether the error of models left out is smaller than by the tables, after five races."""
    steps = run_races()
    last, name = steps[-1].accuracy, "models left out after five races, median error, to that by the tables"
    if last.left_out_before is None or last.left_out_after is None:
        return [not_measured(name, "< 1", steps[-1].problem or "no two models were measured")]
    return [at_most(name, last.left_out_after / max(last.left_out_before, 1e-9), 1.0)]


def run_races() -> list[RaceStep]:
    """Run the races one after the other."""
    steps: list[RaceStep] = []
    with run_gateway(prepare=_prepare_models) as (client, _, _):
        for name in [part.name for part in _MINIATURES] + list(_SYNTHETIC):
            result, problem = _race_model(client, name)
            accuracy = client.get("/benchmarks/accuracy", PredictionAccuracy)
            steps.append(RaceStep(model=name, result=result, problem=problem, accuracy=accuracy))
    return steps


def _prepare_models(home: Path) -> dict[str, str]:
    folder = home / "race-models"
    folder.mkdir()
    for miniature in _MINIATURES:
        write_miniature(folder / f"{miniature.name}.gguf", miniature)
    for name, shape in _SYNTHETIC.items():
        write_synthetic(folder / f"{name}.gguf", shape)
    return {"ROUNDHOUSE_MODELS_FOLDERS": str(folder)}


def _race_model(client: GatewayClient, name: str) -> tuple[RaceResult | None, str]:
    problem = ""
    for attempt in range(ATTEMPTS):
        note(f"racing {name}, attempt {attempt + 1}")
        try:
            request = StartRace(model=name, settings=_SETTINGS, installs=list(ENGINES))
            client.post("/races", request, RaceChanged, timeout_s=LONGEST_S)
            return follow_job(client, RaceChanged).result, ""
        except RoundhouseError as error:
            problem = str(error)
    return None, problem


def describe_races(steps: Sequence[RaceStep], *, duration_s: float) -> Iterator[str]:
    """Yield the lines of the docs."""
    yield f"On {time.strftime('%d %B %Y')}, in {duration_s / 60:.0f} min:"
    yield ""
    rows = [
        [
            str(number),
            step.model,
            step.result.winner if step.result is not None else f"refused: {step.problem}",
            str(step.accuracy.left_out_count),
            _percent(step.accuracy.left_out_before),
            _percent(step.accuracy.left_out_after),
        ]
        for number, step in enumerate(steps, 1)
    ]
    yield from markdown_table(("race", "model", "winner", "left out", "by the tables", "by the others"), rows)


def _percent(error: float | None) -> str:
    return "" if error is None else f"{error * 100:.0f} %"


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and with `--write` put it into the docs."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.five_races", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the figures into the docs")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    steps = run_races()
    text = "\n".join(describe_races(steps, duration_s=time.monotonic() - began))
    sys.stdout.write(f"{text}\n")
    if options.write:
        write_span(PAGE, SPAN, text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
