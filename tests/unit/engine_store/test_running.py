"""What a program that makes an engine's environment is told."""

import asyncio
import json
import re
import sys
import urllib.request
from pathlib import Path

import psutil
import pytest

from app.core.errors import EnvironmentFault, Offline
from app.engine_store.program_run import run_program
from app.network import relay
from app.network.egress import egress_gate
from tests.patience import until

SHOW = "import os; print(os.environ.get('UV_CACHE_DIR'), os.environ.get('UV_PYTHON_INSTALL_DIR'))"


async def shown_environment(stage: Path) -> str:
    lines: list[str] = []
    await run_program([sys.executable, "-c", SHOW], stage=stage, hear=lines.append, env={})
    return lines[0]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("UV_CACHE_DIR", raising=False)
    monkeypatch.delenv("UV_PYTHON_INSTALL_DIR", raising=False)
    stage_folder = tmp_path / "engines/.stage/one"
    stage_folder.mkdir(parents=True)
    return stage_folder


def left_in(stage: Path) -> list[Path]:
    return list(stage.iterdir())


WRITES = "import tempfile, time; print(tempfile.mkdtemp(), flush=True); time.sleep({})"


async def test_what_a_program_writes_for_the_moment_goes_with_it(stage: Path) -> None:
    lines: list[str] = []
    await run_program([sys.executable, "-c", WRITES.format(0)], stage=stage, hear=lines.append, env={})
    assert Path(lines[0]).is_relative_to(stage)
    assert left_in(stage) == []


async def test_a_program_that_is_called_off_leaves_nothing_either(stage: Path) -> None:
    wrote = asyncio.Event()
    argv = [sys.executable, "-c", WRITES.format(600)]
    job = asyncio.create_task(run_program(argv, stage=stage, hear=lambda _line: wrote.set(), env={}))
    await wrote.wait()
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    assert left_in(stage) == []


GOES_OUT = "import os; print(os.environ.get('UV_OFFLINE'), os.environ.get('HTTPS_PROXY', '')[:24], flush=True)"


async def test_a_program_comes_out_by_the_door_and_offline_is_told_not_to_try(
    stage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    lines: list[str] = []
    await run_program([sys.executable, "-c", GOES_OUT], stage=stage, hear=lines.append, env={})
    with egress_gate.apply_policy(is_closed=lambda: True, news=lambda: None):
        await run_program([sys.executable, "-c", GOES_OUT], stage=stage, hear=lines.append, env={})
    assert lines[0].startswith("None http://roundhouse:")
    assert lines[1].split() == ["1"]


async def test_what_fails_because_it_went_offline_meanwhile_says_that(stage: Path) -> None:
    is_closed = False

    def close(_line: str) -> None:
        nonlocal is_closed
        is_closed = True

    argv = [sys.executable, "-c", "import sys; print('Downloading', flush=True); sys.exit(2)"]
    with egress_gate.apply_policy(is_closed=lambda: is_closed, news=lambda: None), pytest.raises(Offline):
        await run_program(argv, stage=stage, hear=close, env={})


async def test_what_fails_offline_from_the_start_says_why_it_did(stage: Path) -> None:
    argv = [sys.executable, "-c", "import sys; print('No space left on device'); sys.exit(2)"]
    with (
        egress_gate.apply_policy(is_closed=lambda: True, news=lambda: None),
        pytest.raises(EnvironmentFault, match="disk is full"),
    ):
        await run_program(argv, stage=stage, hear=lambda _line: None, env={})


APART = """
import subprocess, sys, time
compiler = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(compiler.pid, flush=True)
time.sleep(600)
"""


async def test_what_a_program_started_apart_ends_with_it_too(stage: Path) -> None:
    lines: list[str] = []
    began = asyncio.Event()

    def hear(line: str) -> None:
        lines.append(line)
        began.set()

    job = asyncio.create_task(run_program([sys.executable, "-c", APART], stage=stage, hear=hear, env={}))
    await began.wait()
    compiler = psutil.Process(int(lines[0]))
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    ended_processes, _ = await asyncio.to_thread(psutil.wait_procs, [compiler], timeout=20)
    assert ended_processes == [compiler]


@pytest.mark.parametrize(
    ("last_words", "sentence"),
    [
        ("CMake Error: CMAKE_CXX_COMPILER not set, after EnableLanguage", "no C++ compiler"),
        ("error: Failed to build `llama-cpp-python==0.3.36`", "could not be built"),
        ("error: no space: No space left on device", "The disk is full"),
        ("error: something nobody has seen", "failed"),
    ],
)
async def test_why_a_build_failed_is_a_sentence_with_its_last_words(
    stage: Path, last_words: str, sentence: str
) -> None:
    argv = [sys.executable, "-c", f"import sys; print({last_words!r}); sys.exit(2)"]
    with pytest.raises(EnvironmentFault, match=re.escape(sentence)) as error:
        await run_program(argv, stage=stage, hear=lambda _line: None, env={})
    assert last_words in error.value.body.detail


async def test_a_checkout_leaves_uv_to_its_owner(stage: Path) -> None:
    assert await shown_environment(stage) == "None None"


async def test_a_frozen_application_keeps_what_uv_keeps_among_the_engines(
    stage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    engines = stage.parents[1]
    assert await shown_environment(stage) == f"{engines / '.cache'} {engines / '.python'}"


async def test_a_place_that_a_person_named_counts(stage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setenv("UV_CACHE_DIR", "/theirs")
    assert (await shown_environment(stage)).split()[0] == "/theirs"


ASKS_AN_INDEX = """
import base64, os, socket, time, urllib.parse
proxy = urllib.parse.urlsplit(os.environ["HTTPS_PROXY"])
user = base64.b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
with socket.create_connection((proxy.hostname, proxy.port)) as way:
    way.sendall(f"CONNECT index.example:443 HTTP/1.1\\r\\nProxy-Authorization: Basic {user}\\r\\n\\r\\n".encode())
    way.recv(100)
time.sleep(600)  # as uv, which tries again and again
"""


async def test_an_install_ends_at_once_where_its_index_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_address: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr(relay, "connect_soon", unreachable)
    monkeypatch.setattr(urllib.request, "getproxies", dict)
    with pytest.raises(EnvironmentFault, match=r"index\.example cannot be reached") as error:
        await run_program(
            [sys.executable, "-c", ASKS_AN_INDEX], stage=tmp_path, hear=lambda _line: None, env={}, about="tiny"
        )
    assert error.value.code == "unreachable"
    assert "--from FILE" in error.value.hint


SHOW_ALL = "import json, os; print(json.dumps(dict(os.environ)))"


async def test_a_program_gets_what_building_needs_of_the_shell_and_nothing_else(
    stage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed_variables = {
        "CC": "cc",
        "CFLAGS": "-O2",
        "NETRC": "n",
        "CMAKE_ARGS": "a",
        "UV_HTTP_TIMEOUT": "9",
        "PIP_NO_INPUT": "1",
    }
    foreign = {"UV_PYTHON": "3.9", "UV_PROJECT_ENVIRONMENT": "e", "HF_TOKEN": "t", "MY_SECRET": "s", "CCX": "x"}
    for name, value in {**needed_variables, **foreign}.items():
        monkeypatch.setenv(name, value)
    lines: list[str] = []
    await run_program([sys.executable, "-c", SHOW_ALL], stage=stage, hear=lines.append, env={"OURS": "1"})
    environment = json.loads(lines[0])
    assert {name: environment.get(name) for name in needed_variables} == needed_variables
    assert environment["OURS"] == "1"
    assert not set(foreign) & set(environment)


NESTS = """
import subprocess, sys, time
inner = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
middle = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}], start_new_session=True)"
subprocess.run([sys.executable, "-c", middle], start_new_session=True)
"""


async def test_what_is_called_off_ends_with_all_that_it_started(stage: Path) -> None:
    lines: list[str] = []
    start_event = asyncio.Event()

    def hear(line: str) -> None:
        lines.append(line)
        start_event.set()

    job = asyncio.create_task(run_program([sys.executable, "-c", NESTS], stage=stage, hear=hear, env={}))
    await start_event.wait()
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    await until(lambda: not psutil.pid_exists(int(lines[0])))
