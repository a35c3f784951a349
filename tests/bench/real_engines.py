"""Real engines measured on this computer, for the docs: `python -m tests.bench.real_engines --write`.

Every engine that can be installed for a processor answers the Guide, a few million parameters, in the format it reads;
those that read GGUF also a model of 541 million with random weights, whose speed is that of any such model. Then
settings are looked for. Where others are busy figures are kept, with what disturbed them. Packages come from the cache
or the package index; llama-cpp-python is compiled with them, as `engines install llama.cpp --variant native` does. With
`--vllm`, vLLM is measured too, on PATH from the environment that its tests make once (`tests.real_engines`).
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
from typing import NamedTuple, TypeVar

import msgspec
import pytest

from app.benchmark.gains import format_ratio
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
from app.core.engine_store import BUNDLED, InstallEngine, UseEngine
from app.core.errors import RoundhouseError
from app.core.events import BenchmarkChanged, Event, RaceChanged, TuneChanged
from app.core.models import LoadOptions
from app.hub.synthetic import write_synthetic
from tests.bench.doc_spans import write_span
from tests.bench.engine_installs import run_gateway, wait_for_job
from tests.bench.programs import ROOT
from tests.real_engines.vllm_on_cpu import vllm_program

PAGE = ROOT / "docs" / "internals" / "benchmarks.md"
LONGEST_S = 900.0
JobEvent = TypeVar("JobEvent", BenchmarkChanged, RaceChanged, TuneChanged)
SYNTHETIC = "synthetic-541m-q4_k_s"
FOLDERS = {"hf": "guide-hf", "onnx": "guide-onnx", "openvino": "guide-openvino"}
"""Forms of the Guide, and what they are called in the library."""


class EngineRun(NamedTuple):
    """What is measured: a model on an engine, by one of its variants where that is not the usual one."""

    model: str
    engine: str
    variant: str = ""

    @property
    def path(self) -> str:
        """Of the engine in the store."""
        return f"/engines/{quote_segment(self.engine)}"

    def title(self, version: str) -> str:
        """Name the engine with what brings it."""
        return " ".join(filter(None, [self.engine, PACKAGES.get((self.engine, self.variant), ""), version]))


LLAMA_CPP, NATIVE, VLLM = "llama.cpp", "native", "vllm"
PACKAGES = {(LLAMA_CPP, ""): "(xllamacpp)", (LLAMA_CPP, NATIVE): "(llama-cpp-python, compiled here)"}
"""What brings an engine that comes in several packages."""
RUNS = (
    EngineRun(GUIDE, LLAMA_CPP),
    EngineRun(GUIDE, LLAMA_CPP, NATIVE),
    EngineRun(GUIDE, "mistral.rs"),
    EngineRun("guide-hf", "mistral.rs"),
    EngineRun("guide-hf", "mlx-lm"),
    EngineRun("guide-openvino", "openvino"),
    EngineRun("guide-onnx", "onnxruntime-genai"),
    EngineRun(SYNTHETIC, LLAMA_CPP),
    EngineRun(SYNTHETIC, LLAMA_CPP, NATIVE),
    EngineRun(SYNTHETIC, "mistral.rs"),
)
VLLM_RUN = EngineRun("guide-hf", VLLM)
_VLLM_LOAD = LoadOptions(gpu_memory_fraction=0.1)
"""Of the computer's memory: it takes its share at the start, and the Guide needs hardly any."""
_SETTINGS = BenchmarkSettings(concurrency=[1, 4], requests=4, answer_tokens=48)


class MeasuredRun(NamedTuple):
    """A run and what came of it."""

    run: EngineRun
    receipt: BenchmarkReceipt


class EngineFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What all of it came to; problems by model and engine."""

    runs: list[MeasuredRun]
    tunes: list[TuneResult]
    problems: list[str]
    accuracy: str
    """How far predictions were off, before and after; empty where all were disturbed."""
    duration_s: float


def measure(*, tune_minutes: float, with_vllm: bool = False, only: str = "") -> EngineFigures:
    """Return receipts of every run, or of one engine's, and what self-tuning came to."""
    began = time.monotonic()
    problems: list[str] = []
    tunes: list[TuneResult] = []
    vllm = _find_vllm(problems) if with_vllm else None
    runs = [run for run in (*RUNS, *((VLLM_RUN,) if vllm else ())) if only in {"", run.engine}]
    with run_gateway(prepare=partial(_prepare_models, vllm=vllm)) as (client, _, _):
        versions = _install_engines(client, runs, problems)
        run_receipts = list(_measure_runs(client, runs, versions, problems))
        for run, receipt in run_receipts:
            if not receipt.disturbances:  # predictions have learned from it: once more
                with contextlib.suppress(RoundhouseError):
                    _bench(client, run, versions)
        accuracy = client.get("/benchmarks/accuracy", PredictionAccuracy).sentence
        for model in (GUIDE, SYNTHETIC) if tune_minutes else ():
            note(f"looking for the fastest settings of {model}")
            try:
                tunes.append(_tune(client, model, tune_minutes))
            except RoundhouseError as error:
                problems.append(f"Settings of {model}: {error}")
    return EngineFigures(
        runs=run_receipts,
        tunes=tunes,
        problems=problems,
        accuracy=accuracy,
        duration_s=time.monotonic() - began,
    )


def _find_vllm(problems: list[str]) -> Path | None:
    """Return the folder of vLLM's program, which is made at the first time; None where it cannot be."""
    note("making vLLM's environment")
    try:
        return vllm_program().parent
    except pytest.skip.Exception as error:
        problems.append(f"vLLM cannot be had here: {error}")
        return None


def _install_engines(client: GatewayClient, runs: Sequence[EngineRun], problems: list[str]) -> dict[EngineRun, str]:
    """Return what the store calls the versions it installed; what comes along or lies on PATH is not installed."""
    versions: dict[tuple[str, str], str] = {}
    for run in runs:
        key = (run.engine, run.variant)
        if key in {(LLAMA_CPP, ""), (VLLM, ""), *versions}:
            continue
        note(f"installing {' '.join(key)}")
        install = InstallEngine(variant=run.variant, use=not run.variant)
        try:
            versions[key] = wait_for_job(client, f"{run.path}/install", install).version
        except RoundhouseError as error:
            versions[key] = ""
            problems.append(f"{' '.join(key)} was not installed: {error}")
    return {run: versions.get((run.engine, run.variant), BUNDLED) for run in runs}


def _measure_runs(
    client: GatewayClient, runs: Sequence[EngineRun], versions: dict[EngineRun, str], problems: list[str]
) -> Iterator[MeasuredRun]:
    for run in runs:
        if versions[run]:
            note(f"measuring {run.model} on {run.engine} {run.variant}")
            try:
                yield MeasuredRun(run, _bench(client, run, versions))
            except RoundhouseError as error:
                problems.append(f"{run.model} on {run.title('')}: {error}")


def _prepare_models(home: Path, *, vllm: Path | None) -> dict[str, str]:
    """Put the models where the service looks, and return what tells it so."""
    folder = home / "real-engines"
    for form, name in FOLDERS.items():
        shutil.copytree(RESOURCES / "guide" / form, folder / name)
    write_synthetic(folder / f"{SYNTHETIC}.gguf")
    path = {} if vllm is None else {"PATH": f"{os.environ['PATH']}{os.pathsep}{vllm}"}
    return {"ROUNDHOUSE_MODELS_FOLDERS": str(folder), **path}


def _bench(client: GatewayClient, run: EngineRun, versions: dict[EngineRun, str]) -> BenchmarkReceipt:
    """Measure; where the version is not the usual one, it is used meanwhile."""
    if run.variant:
        client.post(f"{run.path}/use", UseEngine(version=versions[run]), object)
    try:
        return _bench_current(client, run)
    finally:
        if run.variant:
            client.post(f"{run.path}/use", UseEngine(version=BUNDLED), object)


def _bench_current(client: GatewayClient, run: EngineRun) -> BenchmarkReceipt:
    load = _VLLM_LOAD if run.engine == VLLM else LoadOptions()
    settings = msgspec.structs.replace(_SETTINGS, engine=run.engine, load=load)
    client.post(
        "/benchmarks",
        StartBenchmark(model=run.model, settings=settings, keeps_disturbed=True),
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
                raise RoundhouseError(event.error, code=event.code)
            return event
    raise RoundhouseError("The gateway ended.")


def describe_figures(figures: EngineFigures) -> Iterator[str]:
    """Yield the lines of the docs."""
    if figures.runs:
        first = figures.runs[0].receipt
        settings, machine = first.settings, first.machine
        yield (
            f"On {machine.summary} ({machine.system}), Roundhouse {first.roundhouse}, workload "
            f"`{settings.workload}`, {settings.rounds} rounds of at least {settings.requests} requests, "
            f"{settings.answer_tokens} tokens of answer, on {time.strftime('%d %B %Y')}, in "
            f"{figures.duration_s / 60:.0f} min:"
        )
        yield ""
        rows = [
            [
                receipt.target.model,
                run.title(receipt.target.engine_version),
                *level_cells(level),
                " ".join(_of_level(receipt.disturbances, level.concurrency)),
            ]
            for run, receipt in figures.runs
            for level in receipt.levels
        ]
        yield from markdown_table(("model", "engine", *HEAD, "disturbed"), rows)
        yield ""
    if figures.accuracy:
        yield figures.accuracy
        yield ""
    for tune in figures.tunes:
        tried_entries = ", ".join(
            f"{entry.name} {format_ratio(entry.ratio)}{' (not confirmed)' if entry.problem else ''}"
            for entry in tune.entries
            if entry.ratio is not None
        )
        disturbance_note = " Other programs disturbed it." if tune.disturbances else ""
        yield (
            f"`tune {tune.model} --measure` ({tune.duration_s:.0f} s): {tune.sentence} Tried, whole answers to before: "
            f"{tried_entries}.{disturbance_note}"
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
    parser.add_argument("--vllm", action="store_true", help="vLLM too; its environment takes 3 GB and is kept")
    parser.add_argument("--only", default="", metavar="ENGINE", help="only this engine, to see whether it runs")
    options = parser.parse_args(arguments)
    figures = measure(tune_minutes=options.tune, with_vllm=options.vllm, only=options.only)
    text = "\n".join(describe_figures(figures))
    sys.stdout.write(f"{text}\n")
    if options.write:
        write_span(PAGE, "real engines", text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
