"""What any program says when it is asked, and that nothing of it is left behind."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from engines import program_probe
from engines.program_probe import ProbeCancelled, answer_of, flags_of, open_probe_session, output_of
from tests.patience import wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the programs are shell scripts")


@pytest.fixture
def mark() -> str:
    """Seconds that nobody else sleeps."""
    return f"70{os.getpid()}"


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    def write_program(text: str) -> Path:
        program = tmp_path / "program"
        program.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        program.chmod(0o755)
        return program

    return write_program


def find_processes(mark: str) -> list[int]:
    return [
        process.pid for process in psutil.process_iter(["cmdline"]) if (process.info["cmdline"] or [])[-1:] == [mark]
    ]


def test_both_streams_and_the_code_are_told(script: Callable[[str], Path]) -> None:
    answer = answer_of((str(script("echo here; echo there >&2; exit 3")),))
    assert (answer.text, answer.code, answer.is_late) == ("here\nthere\n", 3, False)
    assert answer_of((str(script("kill -SEGV $$")),)).code == -signal.SIGSEGV
    assert output_of(("/nowhere/program",)) == ""


def test_it_is_told_no_secrets_of_ours(script: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert output_of((str(script('echo "$HF_TOKEN,$CUDA_VISIBLE_DEVICES"')),)) == ",1\n"


def test_one_that_hangs_is_ended_with_all_it_started(script: Callable[[str], Path], mark: str) -> None:
    answer = answer_of((str(script(f"echo so far; sleep {mark} & sleep {mark}")),), 0.3)
    assert (answer.text, answer.code, answer.is_late) == ("so far\n", None, True)
    wait_until(lambda: not find_processes(mark))
    assert output_of((str(script(f"echo so far; sleep {mark}")),), 0.3) == ""


def test_what_it_leaves_in_the_background_is_ended_and_its_answer_counts(
    script: Callable[[str], Path], mark: str
) -> None:
    answer = answer_of((str(script(f"sleep {mark} & echo done")),), 0.3)
    assert (answer.text, answer.code, answer.is_late) == ("done\n", 0, False)
    wait_until(lambda: not find_processes(mark))


def test_calling_off_ends_what_is_being_asked_and_asks_nothing_more(script: Callable[[str], Path], mark: str) -> None:
    with open_probe_session() as going_on:
        caller = threading.Timer(0.3, going_on.call_off)
        caller.start()
        with pytest.raises(ProbeCancelled):
            answer_of((str(script(f"sleep {mark} & sleep {mark}")),), 60)
        with pytest.raises(ProbeCancelled):
            answer_of((str(script("echo once more")),))
        caller.join()
    wait_until(lambda: not find_processes(mark))
    assert output_of((str(script("echo again")),)) == "again\n"


ASKS = "import sys; from engines.program_probe import answer_of; answer_of(sys.argv[1:], 600)"


def test_it_does_not_outlive_whoever_asks(script: Callable[[str], Path], mark: str) -> None:
    program = script(f"sleep {mark} & sleep {mark}")
    asker = subprocess.Popen([sys.executable, "-c", ASKS, str(program)])
    wait_until(lambda: len(find_processes(mark)) == 2)
    asker.kill()
    asker.wait()
    wait_until(lambda: not find_processes(mark))


def test_flags_are_asked_for_once_and_again_when_the_program_is_another(
    script: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = script("echo ' --first N'")
    assert flags_of((str(program), "--help")) == {"--first"}
    with monkeypatch.context() as patch:
        patch.setattr(program_probe, "answer_of", None)
        assert flags_of((str(program), "--help")) == {"--first"}
    script("echo ' --second-one N'")
    assert flags_of((str(program), "--help")) == {"--second-one"}


def test_one_that_did_not_answer_in_time_is_asked_again(script: Callable[[str], Path]) -> None:
    program = script('test -e "$0.seen" || { touch "$0.seen"; sleep 60; }; echo " --late N"')
    assert flags_of((str(program), "--help"), timeout_s=0.3) == frozenset()
    assert flags_of((str(program), "--help")) == {"--late"}
