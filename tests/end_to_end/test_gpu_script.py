"""`python -m tests.gpu` where there is no card: what it says, and that its harness measures a real engine."""

import datetime as dt
import os
import sys
import time
from pathlib import Path

import pytest

from engines.api import EngineInstallation, LaunchOptions, ModelFormat, ModelSource
from engines.llama_cpp.launch import ADAPTER
from tests.gpu import energy, parts, places, report
from tests.gpu.serving import Answers, EngineEnded, ask_engine
from tests.patience import PATIENCE_S
from tests.played_nvml import pynvml

NO_TORCH = places.Interpreter(path=Path("/python"), packages={"exllamav3": "1.6.5", "cuda": ""})
CARD = places.Card(name="RTX 3090", driver="580.1", memory="24576 MiB", compute="8.6")


def make_machine(*interpreters: places.Interpreter, left_s: float = 1500.0, has_card: bool = True) -> parts.Machine:
    return parts.Machine(interpreters=interpreters, deadline=time.monotonic() + left_s, has_card=has_card)


def test_without_a_card_every_part_says_so() -> None:
    results = list(parts.run_parts(make_machine(has_card=False), parts.PARTS))
    assert len(results) == len(parts.PARTS)
    assert {result.state for result in results} == {"skipped"}
    assert all("no NVIDIA card" in report.terminal_line(result) for result in results)


def test_what_is_not_there_is_said_for_each_engine() -> None:
    sentences = {result.name: result.sentence for result in parts.run_parts(make_machine(NO_TORCH), parts.PARTS)}
    assert "no llama-server" in sentences["llama.cpp"]
    assert sentences["exllamav3"] == "exllamav3 is in /python, but PyTorch sees no card there."
    assert "No interpreter here has vllm (1 interpreters were looked into)." in sentences["vllm"]


def test_nothing_is_begun_without_time_and_a_failure_stops_nothing() -> None:
    late = list(parts.run_parts(make_machine(left_s=1.0), parts.PARTS))
    assert {result.sentence for result in late} == {"There was no time left."}

    def end_at_once(_machine: parts.Machine) -> parts.PartResult:
        raise EngineEnded("ended with code 1: no kernel image")

    tried_parts = [("a", end_at_once), ("b", lambda _: parts.PartResult(name="b", state="ran"))]
    results = list(parts.run_parts(make_machine(), tried_parts))
    assert [result.state for result in results] == ["failed", "ran"]
    assert "no kernel image" in results[0].sentence


def test_cards_are_read_from_the_driver_s_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'RTX 3090, 580.1, 24576 MiB, 8.6'\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert places.read_cards() == [CARD]


def test_an_interpreter_tells_what_it_has(tmp_path: Path) -> None:
    mine = places.look_into(Path(sys.executable), ("msgspec", "nothing_of_this_name"))
    assert mine.packages["msgspec"]
    assert "nothing_of_this_name" not in mine.packages
    assert not mine.sees_card
    assert places.look_into(tmp_path / "gone", ("msgspec",)).packages == {}


def test_a_run_is_written_in_the_place_of_the_one_before(tmp_path: Path) -> None:
    answers = Answers(text="", ready_s=12.3, alone=50.4, together=300.0, card_mib=5000)
    results = [parts.PartResult(name="exllamav3", state="ran", version="1.6.5", answers=answers)]
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n{report.BEGIN}\n\nold\n\n{report.END}\n\nafter\n", encoding="utf-8")
    for _ in range(2):
        report.write_table(report.table_of(results, [CARD], dt.date(2026, 11, 26)), page)
    text = page.read_text(encoding="utf-8")
    assert "| exllamav3 | 1.6.5 | ran | 12 s | 50 tokens/s | 300 tokens/s | 5000 MiB |" in text
    assert "2026-11-26, RTX 3090 (24576 MiB, driver 580.1, compute 8.6)" in text
    assert text.count("| engine |") == 1
    assert (text.startswith("before"), text.endswith("after\n"), "old" in text) == (True, True, False)


@pytest.mark.slow
def test_an_engine_is_started_by_its_plan_asked_and_timed() -> None:
    installation = ADAPTER.probe()
    assert isinstance(installation, EngineInstallation)
    source = ModelSource(name="guide", path=parts.GUIDE / "guide-q8_0.gguf", format=ModelFormat.GGUF)
    answers = ask_engine(ADAPTER, installation, source, LaunchOptions(context=1024, slots=2), PATIENCE_S)
    assert answers.text.startswith("Roundhouse is")
    assert answers.alone > 0
    assert answers.together > 0


def test_an_engine_that_ends_says_its_last_words(tmp_path: Path) -> None:
    installation = ADAPTER.probe()
    assert isinstance(installation, EngineInstallation)
    broken_file = tmp_path / "broken.gguf"
    broken_file.write_bytes(b"GGUF")
    source = ModelSource(name="guide", path=broken_file, format=ModelFormat.GGUF)
    with pytest.raises(EngineEnded, match="ended with code"):
        ask_engine(ADAPTER, installation, source, LaunchOptions(context=512, slots=1), PATIENCE_S)


async def test_energy_is_measured_idle_and_busy_by_the_benchmarks_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(pynvml.__file__).parent))
    intervals = await energy.measure_cards(0.1, [sys.executable, "-c", ""])
    counted_parts = [part for part in intervals if part.card == pynvml.UUIDS[0]]
    assert [part.name for part in counted_parts] == ["idle", "busy", "idle again"]
    assert [part.joules for part in counted_parts] == [7.0, 7.0, 7.0]
    assert all("by NVML" in part.line for part in counted_parts)


def test_a_card_is_believed_only_if_it_uses_more_busy_than_idle() -> None:
    def interval(name: str, joules: float | None) -> energy.Interval:
        return energy.Interval(name=name, card="GPU-1", source="NVML", seconds=1.0, joules=joules, listed_joules=None)

    assert energy.is_plausible([interval("idle", 70.0), interval("busy", 300.0)])
    assert not energy.is_plausible([interval("idle", 70.0), interval("busy", 70.0)])
    assert not energy.is_plausible([interval("idle", None), interval("busy", None)])
    assert interval("busy", None).line == "busy: GPU-1 told nothing"
