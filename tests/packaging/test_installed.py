"""The package as people meet it: installed on a clean Debian without a network, used, killed."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.packaging.conftest import ROOT, Computer

pytestmark = pytest.mark.packaging
WITHIN_S = 30
MB = 1e6
LARGEST_PACKAGE, LARGEST_ARCHIVE, LARGEST_INSTALLED = 140 * MB, 125 * MB, 420 * MB
SCREENSHOTS = ROOT / "build" / "package" / "screenshots"
QUESTION = "What is Roundhouse?"


def wait_until(condition: Callable[[], object]) -> None:
    """Wait for a condition; the pause only spares the processor."""
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.02)


def engine_of(computer: Computer) -> psutil.Process:
    """Return the process that computes."""
    return next(process for process in computer.list_processes() if "engines.llama_cpp.worker" in process.cmdline())


def gateway_of(computer: Computer) -> psutil.Process:
    """Return the service's process."""
    return next(process for process in computer.list_processes() if "app.gateway" in process.cmdline())


def test_sizes_are_as_promised(computer: Computer, package: Path) -> None:
    program_folder = computer.upper_folder / "usr/lib/roundhouse"
    size = sum(path.lstat().st_size for path in program_folder.rglob("*"))
    archives = [path.stat().st_size for path in package.parent.glob("roundhouse-*.tar.xz")]
    figures = {"package": package.stat().st_size, "archive": max(archives, default=0), "installed": size}
    sys.stderr.write(f"\n{figures}\n")
    assert figures["package"] <= LARGEST_PACKAGE
    assert figures["archive"] <= LARGEST_ARCHIVE
    assert figures["installed"] <= LARGEST_INSTALLED


def test_the_command_answers_with_the_guide(computer: Computer) -> None:
    result = computer.run("roundhouse", "run", "guide", QUESTION, "--temperature", "0")
    assert result.returncode == 0, result.stderr
    assert "Roundhouse" in result.stdout
    family = {Path(process.exe()).name for process in computer.list_processes()}
    assert {"roundhouse", "roundhouse-engine"} <= family
    assert "stopped" in computer.run("roundhouse", "down").stdout
    wait_until(lambda: not computer.list_processes())


def test_without_a_display_the_bare_command_does_the_whole_job_and_ends(computer: Computer) -> None:
    result = computer.run("roundhouse", env={"DISPLAY": ""})
    assert result.returncode == 0, result.stderr
    assert "tok/s" in result.stdout
    wait_until(lambda: not computer.list_processes())


def test_a_question_typed_into_the_window_is_answered_and_closing_it_ends_everything(computer: Computer) -> None:
    _ask_in_the_window(computer)  # so that the disk is warm
    seconds = _ask_in_the_window(computer)
    sys.stderr.write(f"\nclick to first token, warm: {seconds:.2f} s\n")


def test_a_second_start_hands_over_to_the_window_that_is_open(computer: Computer) -> None:
    first = computer.start("roundhouse-window")
    window_id = _xdotool(computer, "search", "--sync", "--onlyvisible", "--name", "^Roundhouse$").split()[0]
    second = computer.run("roundhouse-window", "roundhouse://chat?model=guide")
    assert (second.returncode, second.stderr) == (0, "")
    assert (
        len([process for process in computer.list_processes() if Path(process.exe()).name == "roundhouse-window"]) == 1
    )
    assert first.poll() is None
    _xdotool(computer, "windowfocus", "--sync", window_id, "key", "ctrl+q")
    assert first.wait(timeout=WITHIN_S) == 0
    wait_until(lambda: not computer.list_processes())


def _ask_in_the_window(computer: Computer) -> float:
    """Ask as a person does and return the seconds from the click to the first token of the answer."""
    before = len(_answers(computer))
    began = time.time()
    window = computer.start("roundhouse-window")
    window_id = _xdotool(computer, "search", "--sync", "--onlyvisible", "--name", "^Roundhouse$").split()[0]
    _xdotool(computer, "windowfocus", "--sync", window_id, "type", "--delay", "2", QUESTION)
    wait_until(lambda: _is_answered_after_return(computer, before))
    written_at, timings = _answers(computer)[-1]
    _photograph(computer)
    _xdotool(computer, "key", "ctrl+q")
    assert window.wait(timeout=WITHIN_S) == 0
    wait_until(lambda: not computer.list_processes())
    return written_at + float(timings["ttft_s"]) - began


def _is_answered_after_return(computer: Computer, before: int) -> bool:
    """Press Return, which sends nothing until the service is there, nor when the field is empty."""
    _xdotool(computer, "key", "Return")
    return len(_answers(computer)) > before


def _answers(computer: Computer) -> list[tuple[float, dict[str, float]]]:
    """Return when each whole answer was begun, and what it cost."""
    file = computer.home / ".local/share/roundhouse/roundhouse.db"
    if not file.exists():
        return []
    base = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    query = "SELECT created_at, timings FROM messages WHERE role = 'assistant' AND status = 'complete' ORDER BY seq"
    try:
        return [(at, json.loads(timings)) for at, timings in base.execute(query)]
    except sqlite3.OperationalError:  # its tables are being made
        return []
    finally:
        base.close()


def _xdotool(computer: Computer, *arguments: str) -> str:
    argv = [shutil.which("xdotool") or "", *arguments]
    environment = {**os.environ, "DISPLAY": computer.display}
    result = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=WITHIN_S)
    assert result.returncode == 0, result.stderr
    return result.stdout


def _photograph(computer: Computer) -> None:
    """Keep a picture of the window, and see that it is not empty: a window that draws has many colours."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    picture = SCREENSHOTS / "installed-window.png"
    environment = {**os.environ, "DISPLAY": computer.display}
    import_program = shutil.which("import") or ""
    subprocess.run([import_program, "-window", "root", str(picture)], env=environment, check=True, timeout=WITHIN_S)
    identify = shutil.which("identify") or ""
    colours = subprocess.run([identify, "-format", "%k", str(picture)], capture_output=True, text=True, check=True)
    assert int(colours.stdout) > 50


def test_a_killed_engine_is_started_again_by_the_next_question(computer: Computer) -> None:
    assert computer.run("roundhouse", "load", "guide").returncode == 0
    engine = engine_of(computer)
    engine.kill()
    assert computer.run("roundhouse", "run", "guide", QUESTION, "--temperature", "0").returncode == 0
    assert engine_of(computer).pid != engine.pid
    computer.run("roundhouse", "down")
    wait_until(lambda: not computer.list_processes())


def test_its_engine_is_confined(computer: Computer) -> None:
    assert computer.run("roundhouse", "load", "guide").returncode == 0
    status = Path(f"/proc/{engine_of(computer).pid}/status").read_text(encoding="utf-8")
    fields = dict(line.split(":", 1) for line in status.splitlines())
    assert (fields["NoNewPrivs"].strip(), fields["Seccomp"].strip()) == ("1", "2")
    computer.run("roundhouse", "down")


def test_a_killed_service_takes_its_engine_with_it_and_the_next_start_works(computer: Computer) -> None:
    assert computer.run("roundhouse", "load", "guide").returncode == 0
    gateway_of(computer).kill()
    wait_until(lambda: not computer.list_processes())
    assert computer.run("roundhouse", "run", "guide", QUESTION, "--temperature", "0").returncode == 0
    computer.run("roundhouse", "down")
    wait_until(lambda: not computer.list_processes())


def test_everything_killed_at_once_leaves_nothing_in_the_way_of_the_next_start(computer: Computer) -> None:
    assert computer.run("roundhouse", "load", "guide").returncode == 0
    for process in (gateway_of(computer), engine_of(computer)):
        process.kill()
    wait_until(lambda: not computer.list_processes())
    assert computer.run("roundhouse", "run", "guide", QUESTION, "--temperature", "0").returncode == 0
    computer.run("roundhouse", "down")
    wait_until(lambda: not computer.list_processes())


def test_the_uv_that_came_along_builds_engines(computer: Computer) -> None:
    assert computer.run("uv", "--version").returncode != 0, "the system has none"
    assert computer.run("/usr/lib/roundhouse/_internal/uv", "--version").stdout.startswith("uv ")
    result = computer.run("roundhouse", "engines", "install", "openvino", "--json")
    error = json.loads(result.stdout)["error"]
    assert error["code"] == "install_failed", "uv was there, and had no network"
    assert "python-build-standalone" in error["detail"]
    computer.run("roundhouse", "down")
    wait_until(lambda: not computer.list_processes())


def test_what_foreign_workers_see_of_us_is_engines_and_nothing_else(computer: Computer, tmp_path: Path) -> None:
    foreign = computer.upper_folder / "usr/lib/roundhouse/_internal/foreign"
    assert [path.name for path in foreign.iterdir()] == ["engines"]
    code = "import importlib.util as u, engines.foreign_worker; print(u.find_spec('app'), u.find_spec('msgspec'))"
    argv = [sys.executable, "-S", "-P", "-c", code]
    environment = {"PYTHONPATH": str(foreign), "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run(argv, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.stdout == "None None\n", result.stderr
