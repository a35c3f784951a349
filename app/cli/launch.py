"""`roundhouse launch`: start a tool wired to the endpoint for one run, which changes none of the tool's own files.

Where the endpoint asks for keys, one is made for the run, which may ask models and nothing else. It is handed over in
variables or in the run's own file, never among arguments, which everybody on the computer can read; it is revoked when
the tool ends, and ends by itself a day later should nobody be left to revoke it.

The tool has the terminal, and its exit code is ours. A settings file that it needs lies in a temporary folder, which is
removed when it ends. Ctrl-C goes to the tool, as the terminal sends it to both; what ends us ends it first.
"""

import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import click
import msgspec

from app.cli.gateway import connect_gateway
from app.cli.output import json_option, show_result
from app.client.http import GatewayClient, quote_segment
from app.config.programs import child_environment
from app.core.errors import EnvironmentFault, RoundhouseError
from app.core.keys import KeyInfo, KeyWithSecret, NewKey
from app.core.tools import ToolLaunch, WireTool

_ARGUMENTS = "roundhouse.tool_arguments"
_KEY_MARK = "{key}"
_KEY_NAME, _KEY_NAME_BYTES = "launch", 4
_KEY_S = 24 * 60 * 60
_PASSED_ON = ("SIGTERM", "SIGHUP")
"""Signals for this process alone; those of the terminal reach the tool by themselves."""
_LEFT_TO_TOOL = ("SIGINT", "SIGQUIT")
_SIGNALLED = 128
"""Shells add a signal's number to it for the exit code of what it ended."""


class _LaunchCommand(click.Command):
    """Keeps what stands after `--` for the tool."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own, rest = (args[: args.index("--")], args[args.index("--") + 1 :]) if "--" in args else (args, [])
        ctx.meta[_ARGUMENTS] = rest
        return super().parse_args(ctx, own)


@click.command("launch", cls=_LaunchCommand, options_metavar="[OPTIONS] TOOL [MODEL] [-- ARGUMENTS]")
@click.argument("tool", metavar="")
@click.argument("model", required=False, default="", metavar="")
@click.option("--dry-run", is_flag=True, help="Show how the tool would be started, without starting it.")
@json_option
@click.pass_context
def launch(ctx: click.Context, *, tool: str, model: str, dry_run: bool, as_json: bool) -> None:
    """Start a tool connected to the endpoint for this run only. Nothing is written to its settings.

    What stands after -- is given to the tool: roundhouse launch codex qwen3-8b -- exec "Say hi".
    `roundhouse connect` lists the tools.
    """
    name, client = tool.casefold().replace(" ", "-"), connect_gateway()
    start = client.post(f"/tools/{name}/launch", WireTool(model=model), ToolLaunch)
    if dry_run or as_json:
        show_result("launch", start, as_json=as_json, text=_start_lines)
        return
    program = _find_program(start)
    with run_key(client, start) as start, tempfile.TemporaryDirectory(prefix="roundhouse-launch-") as folder:
        code = run_tool([program, *arguments_in(start, Path(folder)), *ctx.meta[_ARGUMENTS]], start, Path(folder))
    sys.exit(code)


@contextmanager
def run_key(client: GatewayClient, start: ToolLaunch) -> Iterator[ToolLaunch]:
    """Yield the start with a key of its own filled in where it needs one, which opens nothing once the block ends."""
    if not start.needs_key:
        yield start
        return
    _forget_expired(client)
    name = f"{_KEY_NAME} {start.id} {secrets.token_hex(_KEY_NAME_BYTES)}"
    new_key = client.post("/keys", NewKey(name=name, expires_at=time.time() + _KEY_S), KeyWithSecret)
    try:
        yield with_key(start, new_key.key)
    finally:
        with suppress(RoundhouseError):  # the service may be gone, and with it whatever the key opened
            client.delete(f"/keys/{quote_segment(name)}")


def with_key(start: ToolLaunch, key: str) -> ToolLaunch:
    """Return a start with the key in its variables and its file; arguments are no place for one."""
    environment = {name: value.replace(_KEY_MARK, key) for name, value in start.environment.items()}
    return msgspec.structs.replace(start, environment=environment, text=start.text.replace(_KEY_MARK, key))


def _forget_expired(client: GatewayClient) -> None:
    """Revoke keys of runs that nobody was left to revoke: an expired key keeps a place of those there are."""
    for key in client.get("/keys", list[KeyInfo]):
        if key.name.startswith(f"{_KEY_NAME} ") and key.expires_at is not None and key.expires_at < time.time():
            client.delete(f"/keys/{quote_segment(key.name)}")


def _find_program(start: ToolLaunch) -> str:
    program = shutil.which(start.program)
    if program is None:
        raise EnvironmentFault(
            f"{start.name} is not installed: there is no program {start.program!r} on PATH.",
            hint=f"Install it: {start.install}",
            code="tool_not_installed",
        )
    return program


def arguments_in(start: ToolLaunch, folder: Path) -> list[str]:
    """Return a tool's arguments, with what stands for its temporary folder and file filled in."""
    return [_filled_in(argument, start, folder) for argument in start.arguments]


def _filled_in(text: str, start: ToolLaunch, folder: Path) -> str:
    return start.fill_in(text, file=str(folder / start.file), folder=str(folder))


def run_tool(command: Sequence[str], start: ToolLaunch, folder: Path) -> int:
    """Run a tool to its end and return its exit code, as a shell counts it."""
    if start.file:
        file = folder / start.file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(start.text, encoding="utf-8")
    extra = {name: _filled_in(value, start, folder) for name, value in start.environment.items()}
    with subprocess.Popen(command, env=child_environment(extra)) as tool:

        def pass_on(number: int, _frame: FrameType | None) -> None:
            tool.send_signal(number)

        before = {number: signal.signal(number, pass_on) for number in _signals(_PASSED_ON)}
        before |= {number: signal.signal(number, signal.SIG_IGN) for number in _signals(_LEFT_TO_TOOL)}
        try:
            code = tool.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    return code if code >= 0 else _SIGNALLED - code


def _signals(names: Sequence[str]) -> list[signal.Signals]:
    """Return those that this system has."""
    return [signal.Signals[name] for name in names if name in signal.Signals.__members__]


def _start_lines(start: ToolLaunch) -> Iterator[str]:
    yield " ".join([start.program, *start.arguments])
    for name, value in start.environment.items():
        yield f"   {name}={value}"
    if start.needs_key:
        yield "   {key} is a key made for the run, which is revoked when the tool ends"
    if start.file:
        yield f"   {{file}} is {start.file} in a temporary folder:"
        yield from (f"     {line}" for line in start.text.splitlines())
    if shutil.which(start.program) is None:
        yield f"{start.name} is not installed. Install it: {start.install}"
