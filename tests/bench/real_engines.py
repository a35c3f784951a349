"""Real engines measured on this computer, for the docs: `python -m tests.bench.real_engines --write`.

Every engine that runs on a processor and installs in a minute answers the Guide, a few million parameters, in the
format it reads; llama.cpp and mistral.rs also a model of 541 million with random weights, whose speed is that of any
such model. Then settings are looked for. Where others are busy figures are kept, with what disturbed them.
Takes about ten minutes, most of it waiting for engines; packages come from the cache or the package index. vLLM for
processors is on neither: `--vllm FOLDER` names the folder of programs of an environment that has it.
"""

import argparse
import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from app.benchmark.markdown import HEAD, level_cells, markdown_table
from app.client.http import GatewayClient, quote_segment
from app.config.paths import RESOURCES
from app.core.api import GUIDE
from app.core.benchmarks import (
    BenchmarkReceipt,
    BenchmarkSettings,
    PredictionAccuracy,
    StartBenchmark,
    StartTune,
    TuneResult,
)
from app.core.engine_store import InstallEngine
from app.core.errors import RoundhouseError
from app.core.events import BenchmarkChanged, Event, RaceChanged, TuneChanged
from app.core.models import LoadOptions
from app.hub.synthetic import write_synthetic
from tests.bench.doc_spans import write_span
from tests.bench.engine_installs import run_gateway, wait_for_job
from tests.bench.programs import ROOT

PAGE = ROOT / "docs" / "internals" / "benchmarks.md"
LONGEST_S = 900.0
JobEvent = TypeVar("JobEvent", BenchmarkChanged, RaceChanged, TuneChanged)
SYNTHETIC = "synthetic-541m-q4_k_s"
FOLDERS = {"hf": "guide-hf", "onnx": "guide-onnx", "openvino": "guide-openvino"}
"""Forms of the Guide, and what they are called in the library."""
RUNS = (
    (GUIDE, "llama.cpp"),
    (GUIDE, "mistral.rs"),
    ("guide-hf", "mistral.rs"),
    ("guide-hf", "mlx-lm"),
    ("guide-openvino", "openvino"),
    ("guide-onnx", "onnxruntime-genai"),
    (SYNTHETIC, "llama.cpp"),
    (SYNTHETIC, "mistral.rs"),
)
VLLM_RUN = ("guide-hf", "vllm")
_VLLM_LOAD = LoadOptions(gpu_memory_fraction=0.1)
"""Of the computer's memory: it takes its share at the start, and the Guide needs hardly any."""
_SETTINGS = BenchmarkSettings(concurrency=[1, 4], requests=4, answer_tokens=48)


class EngineFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What all of it came to; problems by model and engine."""

    receipts: list[BenchmarkReceipt]
    tunes: list[TuneResult]
    problems: list[str]
    accuracy: str
    """How far predictions were off, before and after; empty where all were disturbed."""
    duration_s: float


def measure(*, tune_minutes: float, vllm: Path | None = None) -> EngineFigures:
    """Return receipts of every run, and what self-tuning came to."""
    began = time.monotonic()
    receipts: list[BenchmarkReceipt] = []
    tunes: list[TuneResult] = []
    problems: list[str] = []
    runs = RUNS if vllm is None else (*RUNS, VLLM_RUN)
    with run_gateway(prepare=partial(_prepare_models, vllm=vllm)) as (client, _, _):
        for engine in dict.fromkeys(engine for _, engine in RUNS if engine != "llama.cpp"):
            note(f"installing {engine}")
            try:
                wait_for_job(client, f"/engines/{quote_segment(engine)}/install", InstallEngine())
            except RoundhouseError as error:
                problems.append(f"{engine} was not installed: {error}")
        for model, engine in runs:
            note(f"measuring {model} on {engine}")
            try:
                receipts.append(_bench(client, model, engine))
            except RoundhouseError as error:
                problems.append(f"{model} on {engine}: {error}")
        for receipt in receipts:
            if not receipt.disturbances:  # predictions have learned from it: once more
                with contextlib.suppress(RoundhouseError):
                    _bench(client, receipt.target.model, receipt.target.engine)
        accuracy = client.get("/benchmarks/accuracy", PredictionAccuracy).sentence
        for model in (GUIDE, SYNTHETIC) if tune_minutes else ():
            note(f"looking for the fastest settings of {model}")
            try:
                tunes.append(_tune(client, model, tune_minutes))
            except RoundhouseError as error:
                problems.append(f"Settings of {model}: {error}")
    return EngineFigures(
        receipts=receipts,
        tunes=tunes,
        problems=problems,
        accuracy=accuracy,
        duration_s=time.monotonic() - began,
    )


def _prepare_models(home: Path, *, vllm: Path | None) -> dict[str, str]:
    """Put the models where the service looks, and return what tells it so."""
    folder = home / "real-engines"
    for form, name in FOLDERS.items():
        shutil.copytree(RESOURCES / "guide" / form, folder / name)
    write_synthetic(folder / f"{SYNTHETIC}.gguf")
    path = {} if vllm is None else {"PATH": f"{os.environ['PATH']}{os.pathsep}{vllm}"}
    return {"ROUNDHOUSE_MODELS_FOLDERS": str(folder), **path}


def _bench(client: GatewayClient, model: str, engine: str) -> BenchmarkReceipt:
    load = _VLLM_LOAD if engine == "vllm" else LoadOptions()
    settings = msgspec.structs.replace(_SETTINGS, engine=engine, load=load)
    client.post(
        "/benchmarks",
        StartBenchmark(model=model, settings=settings, keeps_disturbed=True),
        BenchmarkChanged,
        timeout_s=LONGEST_S,
    )
    end = follow_job(client, BenchmarkChanged)
    return client.get(f"/benchmarks/{end.receipt}", BenchmarkReceipt)


def _tune(client: GatewayClient, model: str, minutes: float) -> TuneResult:
    request = StartTune(model=model, duration_s=minutes * 60, keeps_disturbed=True)
    client.post("/tunings", request, TuneChanged, timeout_s=LONGEST_S)
    end = follow_job(client, TuneChanged)
    assert end.result is not None
    return end.result


def follow_job(client: GatewayClient, kind: type[JobEvent]) -> JobEvent:
    """Return a job's last event. Raises RoundhouseError with what went wrong."""
    for event in client.stream_events("/events", Event, timeout_s=LONGEST_S):
        if isinstance(event, kind) and event.done:
            if event.error:
                raise RoundhouseError(event.error)
            return event
    raise RoundhouseError("The gateway ended.")


def describe_figures(figures: EngineFigures) -> Iterator[str]:
    """Yield the lines of the docs."""
    if figures.receipts:
        settings, machine = figures.receipts[0].settings, figures.receipts[0].machine
        yield (
            f"On {machine.summary} ({machine.system}), Roundhouse {figures.receipts[0].roundhouse}, workload "
            f"`{settings.workload}`, {settings.rounds} rounds of at least {settings.requests} requests, "
            f"{settings.answer_tokens} tokens of answer, on {time.strftime('%d %B %Y')}, in "
            f"{figures.duration_s / 60:.0f} min:"
        )
        yield ""
        rows = [
            [
                receipt.target.model,
                f"{receipt.target.engine} {receipt.target.engine_version}",
                *level_cells(level),
                " ".join(_of_level(receipt.disturbances, level.concurrency)),
            ]
            for receipt in figures.receipts
            for level in receipt.levels
        ]
        yield from markdown_table(("model", "engine", *HEAD, "disturbed"), rows)
        yield ""
    if figures.accuracy:
        yield figures.accuracy
        yield ""
    for tune in figures.tunes:
        tried = ", ".join(f"{entry.name} {entry.ratio.value:.2f}" for entry in tune.entries if entry.ratio is not None)
        disturbed = " Other programs disturbed it." if tune.disturbances else ""
        yield (
            f"`tune {tune.model} --measure` ({tune.duration_s:.0f} s): {tune.sentence} Tried, whole answers to before: "
            f"{tried}.{disturbed}"
        )
        yield ""
    for problem in figures.problems:
        yield f"- {problem}"


def _of_level(disturbances: Sequence[str], concurrency: int) -> Iterator[str]:
    start = f"With {concurrency} at once, "
    for sentence in disturbances:
        if sentence.startswith(start):
            yield sentence.removeprefix(start)


def note(text: str) -> None:
    """Say on standard error what goes on."""
    sys.stderr.write(f"{text} ...\n")


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and with `--write` put it into the docs."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.real_engines", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the figures into the docs")
    parser.add_argument("--tune", type=float, default=1.5, metavar="MINUTES", help="per model; 0 for none")
    parser.add_argument("--vllm", type=Path, metavar="FOLDER", help="where the program `vllm` of a CPU build is")
    options = parser.parse_args(arguments)
    text = "\n".join(describe_figures(measure(tune_minutes=options.tune, vllm=options.vllm)))
    sys.stdout.write(f"{text}\n")
    if options.write:
        write_span(PAGE, "real engines", text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
