"""`roundhouse launch`: what a tool is started with, and that its terminal, signals and exit code are its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote

import msgspec
import pytest
from click.testing import CliRunner

from app.cli import launch as command
from app.cli.launch import arguments_in, run_key, run_tool, with_key
from app.connect.connections import TOOLS
from app.connect.tool import RUN_KEY, ClientTool, WiredModel, WiringTarget
from app.core.errors import NotFound
from app.core.keys import KeyInfo, KeyWithSecret, NewKey, Scope
from app.core.tools import ToolLaunch, WireTool
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from app.client.http import GatewayClient

BASE = "http://127.0.0.1:11434"
WIRING = WiringTarget(BASE, (WiredModel("large", 40_000), WiredModel("small", 2048)))
PYTHON = ToolLaunch(id="python", name="Python", model="large", program=sys.executable, install="pip install python")
SECRET = "rh-the-secret-of-the-run"
LAUNCHED = [tool for tool in TOOLS if tool.run is not None]


class PlayedGateway:
    def __init__(self, start: ToolLaunch, keys: Sequence[KeyInfo] = ()) -> None:
        self.start, self.posts, self.deletions = start, list[tuple[str, WireTool]](), list[str]()
        self.keys = {key.name: key for key in keys}

    def post(self, path: str, body: WireTool | NewKey, _kind: object) -> ToolLaunch | KeyWithSecret:
        if isinstance(body, NewKey):
            new_key = KeyWithSecret(
                name=body.name, scopes=body.scopes, created_at=time.time(), expires_at=body.expires_at, key=SECRET
            )
            self.keys[body.name] = new_key
            return new_key
        self.posts.append((path, body))
        return self.start

    def get(self, path: str, _kind: object) -> list[KeyInfo]:
        assert path == "/keys"
        return list(self.keys.values())

    def delete(self, path: str) -> None:
        name = unquote(path.removeprefix("/keys/"))
        self.deletions.append(name)
        if name not in self.keys:
            raise NotFound("There is no such key.")
        del self.keys[name]


def launch_tool(monkeypatch: pytest.MonkeyPatch, start: ToolLaunch, *arguments: str) -> tuple[PlayedGateway, int, str]:
    gateway = PlayedGateway(start)
    monkeypatch.setattr(command, "connect_gateway", lambda: gateway)
    result = CliRunner().invoke(command.launch, arguments)
    return gateway, result.exit_code, result.output


@pytest.mark.parametrize("tool", LAUNCHED, ids=lambda tool: tool.id)
def test_every_tool_is_told_the_endpoint_and_the_model_for_its_run(tool: object, tmp_path: Path) -> None:
    start = next(each for each in LAUNCHED if each is tool).launch(WIRING)
    wired_text = " ".join([*start.arguments, *start.environment.values(), start.text])
    assert BASE in wired_text
    assert "large" in wired_text
    assert start.program
    assert start.install
    assert bool(start.file) == bool(start.text)
    filled_in = arguments_in(start, tmp_path)
    assert not any(mark in argument for argument in filled_in for mark in ("{file}", "{folder}", "{text}"))


@pytest.mark.parametrize("tool", LAUNCHED, ids=lambda tool: tool.id)
def test_every_tool_gets_the_key_of_its_run_and_no_argument_holds_it(tool: ClientTool) -> None:
    start = with_key(tool.launch(replace(WIRING, key=RUN_KEY)), SECRET)
    assert start.needs_key
    assert SECRET in " ".join([*start.environment.values(), start.text])
    assert not any(part in argument for argument in start.arguments for part in (SECRET, RUN_KEY))
    plain = tool.launch(WIRING)
    assert not plain.needs_key
    assert RUN_KEY not in " ".join([*plain.arguments, *plain.environment.values(), plain.text])


def test_a_run_has_a_key_that_opens_nothing_afterwards(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen_file = tmp_path / "seen"
    program = "import os, pathlib, sys; pathlib.Path(sys.argv[1]).write_text(os.environ['K'] + str(SECRET in sys.argv))"
    start = msgspec.structs.replace(PYTHON, environment={"K": RUN_KEY}, needs_key=True)
    code = f"SECRET = {SECRET!r}; {program}"
    gateway, exit_code, output = launch_tool(monkeypatch, start, "python", "--", "-c", code, str(seen_file))
    assert exit_code == 0
    assert seen_file.read_text() == SECRET + "False"
    assert SECRET not in output
    assert gateway.keys == {}
    [name] = gateway.deletions
    assert name.startswith("launch python ")


def test_a_key_is_revoked_when_the_tool_fails_and_nobody_minds_when_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    start = msgspec.structs.replace(PYTHON, environment={"K": RUN_KEY}, needs_key=True)
    gateway, exit_code, _ = launch_tool(monkeypatch, start, "python", "--", "-c", "raise SystemExit(5)")
    assert (exit_code, gateway.keys, len(gateway.deletions)) == (5, {}, 1)
    with run_key(cast("GatewayClient", gateway), start) as filled_in:
        assert filled_in.environment == {"K": SECRET}
        gateway.keys.clear()
    assert len(gateway.deletions) == 2


def test_a_look_at_a_start_makes_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    start = msgspec.structs.replace(PYTHON, environment={"K": RUN_KEY}, needs_key=True)
    for option in ("--dry-run", "--json"):
        gateway, exit_code, output = launch_tool(monkeypatch, start, "python", option)
        assert (exit_code, gateway.keys, gateway.deletions) == (0, {}, [])
        assert RUN_KEY in output


def test_keys_of_runs_that_nobody_revoked_are_cleared_away_once_they_have_expired() -> None:
    def key(name: str, expires_at: float | None) -> KeyInfo:
        return KeyInfo(name=name, scopes=[Scope.INFERENCE], created_at=0.0, expires_at=expires_at)

    later = time.time() + 1000
    others = [key("launch codex 1", 1.0), key("launch codex 2", later), key("launcher", 1.0), key("launch x", None)]
    start = msgspec.structs.replace(PYTHON, needs_key=True)
    gateway = PlayedGateway(start, others)
    with run_key(cast("GatewayClient", gateway), start):
        assert gateway.deletions == ["launch codex 1"]
        [key_name] = [name for name in gateway.keys if name.startswith("launch python ")]
        info = gateway.keys[key_name]
        assert info.scopes == [Scope.INFERENCE]
        assert info.expires_at is not None
        assert later < info.expires_at <= time.time() + 24 * 3600
    assert {*gateway.keys} == {"launch codex 2", "launcher", "launch x"}


@pytest.mark.parametrize("code", [0, 3])
def test_the_tools_exit_code_is_the_commands(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    gateway, exit_code, _ = launch_tool(monkeypatch, PYTHON, "python", "large", "--", "-c", f"raise SystemExit({code})")
    assert gateway.posts == [("/tools/python/launch", WireTool(model="large"))]
    assert exit_code == code


def test_what_stands_after_the_dashes_is_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway, exit_code, _ = launch_tool(monkeypatch, PYTHON, "Open WebUI", "--", "-c", "pass", "--dry-run")
    assert gateway.posts == [("/tools/open-webui/launch", WireTool())]
    assert exit_code == 0


def test_a_tool_that_is_not_there_is_a_sentence_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = msgspec.structs.replace(PYTHON, name="Codex CLI", program="no-such-program-here", install="npm install it")
    _, exit_code, output = launch_tool(monkeypatch, absent, "codex")
    assert exit_code == 1
    assert "Codex CLI is not installed" in output
    assert "npm install it" in output
    _, exit_code, output = launch_tool(monkeypatch, absent, "codex", "--dry-run")
    assert (exit_code, "not installed" in output) == (0, True)


def test_a_file_for_the_run_is_there_for_its_time_and_gone_after(tmp_path: Path) -> None:
    seen_file = tmp_path / "seen"
    program = (
        "import os, pathlib, sys; file = pathlib.Path(sys.argv[1]);"
        f"pathlib.Path({str(seen_file)!r}).write_text(file.read_text() + os.environ['WHERE'] + os.environ['SAYS'])"
    )
    start = msgspec.structs.replace(
        PYTHON, arguments=["{file}"], environment={"WHERE": "{folder}", "SAYS": "{text}"}, file="a.toml", text="x = {1}"
    )
    folder = tmp_path / "run"
    folder.mkdir()
    assert run_tool([sys.executable, "-c", program, *arguments_in(start, folder)], start, folder) == 0
    assert seen_file.read_text() == f"x = {{1}}{folder}x = {{1}}"


@pytest.mark.skipif(sys.platform == "win32", reason="signals as POSIX has them")
def test_what_ends_the_command_ends_the_tool_first(tmp_path: Path) -> None:
    program = "import signal, sys; print('up', flush=True); signal.pause()"
    code = (
        "import pathlib, sys; from app.cli.launch import run_tool; from app.core.tools import ToolLaunch;"
        "start = ToolLaunch(id='a', name='a', model='a', program='a', install='a');"
        f"sys.exit(run_tool([sys.executable, '-c', {program!r}], start, pathlib.Path('.')))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment, cwd=tmp_path) as outer:
        assert outer.stdout is not None
        assert outer.stdout.readline() == b"up\n"
        outer.send_signal(signal.SIGTERM)
        assert outer.wait(PATIENCE_S) == 128 + signal.SIGTERM
