"""CUDA's driver names its threads in `/proc` and gives up where it cannot: what is opened for that, and what is not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.confinement.command import launcher_command
from app.confinement.landlock import landlock_version
from app.confinement.policy import PLAIN_DEVICES, PROGRAMS, SYSTEM_FACTS
from app.confinement.rules import ConfinementRules, LaunchOrder

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not landlock_version(), reason="no Landlock: nothing is refused here"
)
SYSTEM_PYTHON = "/usr/bin/python3"
STRANGER = 65534
ENGINE = """
import json, os, threading
def write(path, text):
    try:
        with open(path, "r+") as file:
            file.write(text)
    except OSError as error:
        return error.strerror
    return "done"
def name_thread():
    path = f"/proc/{os.getpid()}/task/{threading.get_native_id()}/comm"
    outcome = write(path, "cuda-EvtHandlr")
    return outcome if outcome != "done" else open(path).read().strip()
def in_thread():
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(name_thread()))
    thread.start(); thread.join()
    return outcomes[0]
def in_child():
    reader, writer = os.pipe()
    if not os.fork():
        os.write(writer, in_thread().encode())
        os._exit(0)
    os.close(writer)
    os.wait()
    return os.read(reader, 100).decode()
parent = os.getppid()
print(json.dumps({
    "thread": in_thread(), "child": in_child(), "parent": write(f"/proc/{parent}/comm", "hacked"),
    "memory": write(f"/proc/{parent}/mem", "x"), "kernel": write("/proc/sys/kernel/core_pattern", "|/tmp/evil"),
    "request": write("/proc/sysrq-trigger", "h"),
}))
"""
NAMED = "cuda-EvtHandlr"


def run_engine(*, names_threads: bool, is_alone: bool, launcher: Path | None = None) -> dict[str, str]:
    """Return what came of each attempt; with a copy of the launcher that everybody can read, as somebody else."""
    python = sys.executable if launcher is None else SYSTEM_PYTHON
    user = None if launcher is None else STRANGER
    rules = ConfinementRules(
        read=SYSTEM_FACTS,
        run=(*PROGRAMS, sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve().parents[1])),
        devices=PLAIN_DEVICES,
        names_threads=names_threads,
        is_alone=is_alone,
        tasks=64,
    )
    order = LaunchOrder(argv=(python, "-c", ENGINE), env={"PATH": "/usr/bin"}, cwd="/", confinement=rules)
    with launcher_command(order) as command:
        result = subprocess.run(
            command.argv if launcher is None else (python, *command.argv[1:]),
            env=dict(command.env) if launcher is None else {"PYTHONPATH": str(launcher)},
            pass_fds=command.descriptors,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            cwd=Path(__file__).resolve().parents[2] if launcher is None else launcher,
        )
    assert result.returncode == 0, result.stderr
    return dict(json.loads(result.stdout))


@pytest.mark.parametrize("is_alone", [True, False])
def test_without_a_card_of_nvidias_no_thread_is_named(*, is_alone: bool) -> None:
    outcomes = run_engine(names_threads=False, is_alone=is_alone)
    assert NAMED not in outcomes.values()
    assert "done" not in outcomes.values()


def test_an_engine_alone_names_its_own_threads_and_writes_nothing_else_in_proc() -> None:
    outcomes = run_engine(names_threads=True, is_alone=True)
    assert outcomes.pop("thread") == NAMED
    assert NAMED not in outcomes.values()
    assert "done" not in outcomes.values()


def test_helpers_name_theirs_and_no_setting_of_the_kernel_is_changed() -> None:
    """As whoever runs the tests, in a container mostly the superuser, who may change all settings."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text()
    outcomes = run_engine(names_threads=True, is_alone=False)
    assert Path("/proc/sys/kernel/core_pattern").read_text() == pattern
    assert outcomes.pop("thread") == NAMED
    assert outcomes.pop("child") == NAMED
    assert "done" not in outcomes.values()


@pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() != 0 or not Path(SYSTEM_PYTHON).exists(),
    reason="only the superuser can become somebody else, who can run no Python but the system's",
)
def test_nor_by_somebody_who_is_not_the_superuser(launcher_copy: Path) -> None:
    outcomes = run_engine(names_threads=True, is_alone=False, launcher=launcher_copy)
    assert outcomes.pop("child") == NAMED
    assert outcomes["kernel"] != "done"
    assert outcomes["memory"] != "done"
