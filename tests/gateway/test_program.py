"""The gateway as a program: one per user, any port, ends when told, leaves nothing behind when killed."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from app.client.discovery import read_port_file
from app.config.paths import Paths
from app.config.programs import child_environment, module_command
from app.config.store import SettingsStore
from app.core.api import EXIT_ALREADY_RUNNING, SettingInfo, Status
from app.core.engines import EngineState, EngineStatus
from app.core.models import LoadModel
from app.gateway.instance import Endpoint, Instance
from app.gateway.main import EXIT_FAILED, EXIT_USAGE, main, report
from tests.gateway.admin.real_gateway import RealGateway, run_gateway
from tests.patience import PATIENCE_S


def second_gateway(home: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        module_command("app.gateway"),
        env=child_environment({"ROUNDHOUSE_HOME": str(home)}),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def wait_for_end(pid: int) -> bool:
    """Wait until a process has ended; a zombie has."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.slow
def test_a_taken_port_a_second_gateway_and_a_gentle_signal(tmp_path: Path, unused_port: int) -> None:
    with socket.create_server(("127.0.0.1", unused_port)), run_gateway(tmp_path, unused_port) as gateway:
        status = gateway.client.get("/status", Status)
        assert status.url == gateway.port_file.url != f"http://127.0.0.1:{unused_port}"
        assert str(unused_port) in status.notice
        assert (status.pid, gateway.port_file.pid) == (gateway.process.pid, gateway.process.pid)

        second = second_gateway(tmp_path)
        assert second.returncode == EXIT_ALREADY_RUNNING
        assert status.url in second.stderr
        assert "Traceback" not in second.stderr
        assert gateway.client.get("/status", Status).pid == status.pid

        engine = gateway.client.post("/load", LoadModel(model="quick"), EngineStatus).pid
        if sys.platform == "win32":
            return
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait(PATIENCE_S) == 0
        assert engine is not None
        assert wait_for_end(engine)
        assert not gateway.paths.port_file.exists()


def begin_loading(gateway: RealGateway) -> int:
    """Have a model that takes its time begin to load; return its engine's process."""
    gateway.client.post("/load", LoadModel(model="heavy", wait=False), EngineStatus)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        statuses = gateway.client.get("/running", list[EngineStatus])
        if statuses and statuses[0].pid is not None:
            assert statuses[0].state in {EngineState.STARTING, EngineState.LOADING}
            return statuses[0].pid
        time.sleep(0.02)
    raise AssertionError("no engine came")


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["loading", "answering"])
def test_after_kill_9_the_next_one_starts_and_no_engine_is_left(tmp_path: Path, unused_port: int, moment: str) -> None:
    with run_gateway(tmp_path, unused_port) as first, ExitStack() as open_requests:
        if moment == "answering":
            open_requests.enter_context(hold_answer(first))
            engine = first.client.get("/running", list[EngineStatus])[0].pid
        else:
            engine = begin_loading(first)
        assert engine is not None
        first.kill()
        assert read_port_file(first.paths.port_file) == first.port_file
    with run_gateway(tmp_path, unused_port) as second:
        assert second.port_file.token != first.port_file.token
        assert wait_for_end(engine)
        assert second.client.get("/running", list[EngineStatus]) == []


@contextmanager
def hold_answer(gateway: RealGateway) -> Iterator[None]:
    """Have an answer written that takes a while to be let finish."""
    gateway.client.patch("/settings", {"engine.drain_seconds": 1}, list[SettingInfo])
    where = urlsplit(gateway.port_file.url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=PATIENCE_S)
    body = {"model": "slow", "stream": True, "messages": [{"role": "user", "content": "Go on"}]}
    with closing(connection):
        connection.request("POST", "/v1/chat/completions", json.dumps(body))
        assert connection.getresponse().read(1)
        yield


@pytest.mark.slow
def test_nobody_is_sent_to_a_gateway_that_ends(tmp_path: Path, unused_port: int) -> None:
    with run_gateway(tmp_path, unused_port) as gateway, hold_answer(gateway):
        gateway.client.post("/shutdown", None, object)
        assert not gateway.paths.port_file.exists()
        assert gateway.process.poll() is None


@pytest.mark.slow
def test_down_is_done_when_the_gateway_is_gone(tmp_path: Path, unused_port: int) -> None:
    with run_gateway(tmp_path, unused_port) as gateway, hold_answer(gateway):
        environment = child_environment({"ROUNDHOUSE_HOME": str(tmp_path)})
        down = module_command("app.cli", "down")
        assert subprocess.run(down, env=environment, timeout=PATIENCE_S, check=False).returncode == 0
        assert gateway.process.poll() == 0


def test_it_says_where_it_listens_and_in_a_terminal_how_to_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings, endpoint = SettingsStore(tmp_path / "settings.toml", {}), Endpoint((), "http://127.0.0.1:1", "")
    report(settings, endpoint)
    assert capsys.readouterr().err == "Roundhouse serves http://127.0.0.1:1/v1.\n"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    report(settings, endpoint)
    assert capsys.readouterr().err == "Roundhouse serves http://127.0.0.1:1/v1 until Ctrl-C.\n"


def test_starting_imports_nothing_heavy() -> None:
    program = "import sys, app.gateway.main; print(*sys.modules)"
    loaded_names = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {"pydantic", "jsonschema", "xllamacpp", "pynvml", "app.hardware.probe", "engines.llama_cpp.launch"}
    assert not heavy & set(loaded_names)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C reaches a console there, not a process")
def test_ctrl_c_while_starting_ends_without_a_traceback(tmp_path: Path) -> None:
    paths = Paths(config=tmp_path, data=tmp_path, state=tmp_path / "state", logs=tmp_path)
    with Instance(paths):  # the one started below waits to see what becomes of this one
        starting_process = subprocess.Popen(
            module_command("app.gateway"),
            env=child_environment({"ROUNDHOUSE_HOME": str(tmp_path)}),
            stderr=subprocess.PIPE,
        )
        seen_process = psutil.Process(starting_process.pid)
        deadline = time.monotonic() + PATIENCE_S
        while (
            str(paths.lock_file) not in {file.path for file in seen_process.open_files()}
            and time.monotonic() < deadline
        ):
            time.sleep(0.02)
        starting_process.send_signal(signal.SIGINT)
        _, output = starting_process.communicate(timeout=PATIENCE_S)
    assert starting_process.returncode == -signal.SIGINT
    assert output == b""


def test_arguments_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--port", "80"]) == EXIT_USAGE
    assert "usage" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="needs a folder that may not be written")
def test_a_home_that_cannot_be_written_is_said_plainly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o500)
    monkeypatch.setenv("ROUNDHOUSE_HOME", str(tmp_path / "home"))
    assert main([]) == EXIT_FAILED
    assert "cannot be created" in capsys.readouterr().err


def test_a_home_that_is_a_file_is_said_plainly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "home").write_bytes(b"")
    monkeypatch.setenv("ROUNDHOUSE_HOME", str(tmp_path / "home"))
    assert main([]) == EXIT_FAILED
    assert "cannot be created" in capsys.readouterr().err
