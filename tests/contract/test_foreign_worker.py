"""The key before other programs' servers, on a stand-in for uvicorn: every route, every kind of connection."""

import asyncio
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.confinement import private_network
from engines.foreign_worker import require_key
from engines.worker_base import LISTENER_VARIABLE
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
UVICORN = """
class Config:
    def __init__(self, app): self.app = app
    def load(self): self.loaded_app = self.app
"""
SERVER = """
import sys, asyncio
from uvicorn.config import Config
async def app(scope, receive, send): print("reached", sys.argv)
async def send(message): print(message.get("status", message.get("code", "")))
config = Config(app); config.load()
key = sys.argv[1].encode()
headers = [(b"authorization", b"Bearer " + key)]
scope = {"type": "http", "method": "GET", "path": "/", "headers": headers}
asyncio.run(config.loaded_app(scope, None, send))
"""


async def send_request(scope: dict[str, Any], key: str = "k") -> tuple[bool, list[dict[str, Any]]]:
    is_reached, messages = False, []

    async def app(*_arguments: object) -> None:
        nonlocal is_reached
        is_reached = True

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    async def receive() -> dict[str, Any]:
        return {}

    await require_key(app, key)(scope, receive, send)
    return is_reached, messages


def http(*values: bytes, kind: str = "http") -> dict[str, Any]:
    return {
        "type": kind,
        "method": "GET",
        "path": "/metrics",
        "headers": [(b"authorization", value) for value in values],
    }


def test_the_right_key_opens() -> None:
    assert asyncio.run(send_request(http(b"Bearer k"))) == (True, [])


@pytest.mark.parametrize("values", [(), (b"Bearer x",), (b"k",), (b"Bearer k", b"Bearer x"), (b"bearer k",), (b"",)])
def test_anything_else_is_refused_in_openai_s_form(values: tuple[bytes, ...]) -> None:
    is_reached, messages = asyncio.run(send_request(http(*values)))
    assert not is_reached
    assert messages[0]["status"] == 401
    assert b"authentication_error" in messages[1]["body"]


def test_without_a_key_nobody_gets_in() -> None:
    assert not asyncio.run(send_request(http(b"Bearer "), key=""))[0]
    assert not asyncio.run(send_request({**http(), "path": "/health"}, key=""))[0]


def test_who_asks_with_another_key_whether_it_is_up_asks_for_another_server() -> None:
    assert not asyncio.run(send_request({**http(b"Bearer x"), "path": "/health"}))[0]


@pytest.mark.parametrize(
    ("method", "path", "kind", "is_open"),
    [
        ("GET", "/health", "http", True),
        ("HEAD", "/health", "http", True),
        ("POST", "/health", "http", False),
        ("GET", "/health/", "http", False),
        ("GET", "/health_generate", "http", False),
        ("GET", "/health", "websocket", False),
    ],
)
def test_whether_it_is_up_is_told_without_the_key_and_nothing_else(
    method: str, path: str, kind: str, *, is_open: bool
) -> None:
    assert asyncio.run(send_request({**http(kind=kind), "method": method, "path": path}))[0] is is_open


def test_sockets_of_pages_are_closed_and_start_up_goes_through() -> None:
    assert asyncio.run(send_request(http(kind="websocket"))) == (False, [{"type": "websocket.close", "code": 1008}])
    assert asyncio.run(send_request({"type": "lifespan"}))[0]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "uvicorn").mkdir()
    (tmp_path / "uvicorn" / "__init__.py").touch()
    (tmp_path / "uvicorn" / "config.py").write_text(UVICORN, encoding="utf-8")
    (tmp_path / "server.py").write_text(SERVER, encoding="utf-8")
    return {"PYTHONPATH": f"{ROOT}{':' if sys.platform != 'win32' else ';'}{tmp_path}", "ROUNDHOUSE_WORKER_KEY": "k"}


def run(environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run it with an open lifeline."""
    command = [sys.executable, "-P", "-m", "engines.foreign_worker", *arguments]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        out, err = process.stdout.read(), process.stderr.read()
        return subprocess.CompletedProcess(command, process.wait(PATIENCE_S), out, err)


def test_a_module_runs_as_itself_behind_the_key(environment: dict[str, str]) -> None:
    assert "reached" in run(environment, "server", "k").stdout
    assert run(environment, "server", "x").stdout.split() == ["401"]


def test_without_uvicorn_it_says_what_is_missing(environment: dict[str, str], tmp_path: Path) -> None:
    missing_module = 'raise ModuleNotFoundError("No module named \'uvicorn\'", name="uvicorn")'  # ours has it
    (tmp_path / "uvicorn" / "__init__.py").write_text(missing_module, encoding="utf-8")
    result = run(environment, "json.tool")
    assert result.returncode == 83
    assert "uvicorn" in result.stderr


def test_it_ends_with_its_lifeline(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "sleeper.py").write_text("print('up', flush=True)\nimport time\ntime.sleep(600)", encoding="utf-8")
    command = [sys.executable, "-P", "-m", "engines.foreign_worker", "sleeper"]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"up"
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 81


LEAVES_A_CHILD = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"])
import time; time.sleep(600)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a job object ends them there")
@pytest.mark.parametrize("is_killed", [False, True], ids=["lifeline alone", "server killed first"])
def test_what_a_server_started_ends_with_the_lifeline_too(
    environment: dict[str, str], tmp_path: Path, *, is_killed: bool
) -> None:
    (tmp_path / "parent.py").write_text(LEAVES_A_CHILD, encoding="utf-8")
    command = [sys.executable, "-P", "-m", "engines.foreign_worker", "parent"]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"up"
        if is_killed:
            process.kill()
            process.wait(PATIENCE_S)
        process.stdin.close()
        try:
            readable, _, _ = select.select([process.stdout], [], [], 20)
            assert readable, "the end of its output comes when the last that holds it has ended"
            assert process.stdout.read() == b""
        finally:
            if sys.platform != "win32":
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)


SERVES_ELSEWHERE = """
import asyncio, uvicorn
asyncio.run(uvicorn.Server().startup(sockets=["its own"]))
"""
SERVER_CLASS = """
class Server:
    async def startup(self, sockets=None): print(sockets[0].getsockname()[1])
"""


def test_requests_come_by_the_socket_that_was_made_outside_its_network(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "uvicorn" / "__init__.py").write_text(SERVER_CLASS)
    (tmp_path / "elsewhere.py").write_text(SERVES_ELSEWHERE)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port, descriptor = listener.getsockname()[1], listener.fileno()
        command = [sys.executable, "-P", "-m", "engines.foreign_worker", "elsewhere"]
        with subprocess.Popen(
            command,
            env={**environment, LISTENER_VARIABLE: str(descriptor)},
            pass_fds=(descriptor,),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.read().split() == [str(port)]


def test_the_launcher_and_the_engine_mean_the_same_socket() -> None:
    assert private_network.LISTENER_VARIABLE == LISTENER_VARIABLE
