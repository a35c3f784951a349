"""The bare command: the window where there is a display, else the same job in the terminal.

Headless, it shows the machine and the engine chosen, loads the Guide, streams an answer and what it cost, then goes on
serving until Ctrl-C. When its output is not a terminal it stops cleanly after the answer.
"""

import ctypes
import sys
import threading
from collections.abc import Mapping

import click

from app.cli.chat import cost_line, print_answer
from app.cli.loading import load_model
from app.cli.machine import choice_lines, machine_lines
from app.cli.output import print_note, report_error
from app.client.discovery import ensure_gateway, find_running_gateway
from app.client.endpoint import AnswerStream, EndpointMessage
from app.client.http import GatewayClient
from app.config.paths import default_paths
from app.config.programs import child_environment, exec_module
from app.core.api import GUIDE, Status
from app.core.chats import Sampling
from app.core.engines import EngineChoice
from app.core.errors import RoundhouseError
from app.core.machine import Machine

QUESTION = "What is Roundhouse?"


_XCB_CURSOR = "libxcb-cursor.so.0"
"""Qt needs it under X11 since 6.5 and aborts without; many systems do not have it from the start."""


def no_window_because(environment: Mapping[str, str], *, platform: str = sys.platform) -> str:
    """Return why no window can be opened here, in a sentence; empty if one can."""
    if platform in {"win32", "darwin"} or environment.get("WAYLAND_DISPLAY"):
        return ""
    if not environment.get("DISPLAY"):
        return "There is no display, so Roundhouse runs in this terminal."
    if environment.get("QT_QPA_PLATFORM", "xcb") == "xcb" and not _can_load(_XCB_CURSOR):
        return (
            "The window needs a system library (Debian, Ubuntu: apt install libxcb-cursor0), so Roundhouse runs in "
            "this terminal."
        )
    return ""


def _can_load(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def start_window_or_terminal() -> int:
    """Become the window, or do its job in the terminal and return the exit code."""
    because = no_window_because(child_environment())
    if not because:
        exec_module("app.gui")
    print_note(f"{because} `roundhouse --help` lists its commands.\n")
    try:
        return _run_in_terminal()
    except RoundhouseError as error:
        report_error(error, as_json=False)
        return 1
    except KeyboardInterrupt:
        return 130


def _run_in_terminal() -> int:
    paths = default_paths()
    was_running = find_running_gateway(paths) is not None
    client = GatewayClient(ensure_gateway(paths), timeout_s=30.0)
    try:
        _demonstrate(client)
        if sys.stdout.isatty():
            _serve_until_interrupted(client)
    finally:
        if not was_running:
            client.post("/shutdown", None, object)
    return 0


def _demonstrate(client: GatewayClient) -> None:
    status = client.get("/status", Status)
    for line in (
        *machine_lines(client.get("/machine", Machine)),
        "",
        *choice_lines(client.get("/choice", EngineChoice)),
    ):
        click.echo(line)
    if status.notice:
        print_note(status.notice)
    engine = load_model(client, GUIDE)
    click.echo(
        f"\nThe Guide (a tiny built-in help model) is loaded in {engine.engine} {engine.version}.\n\n> {QUESTION}"
    )
    answer = AnswerStream(client.gateway, GUIDE, [EndpointMessage("user", QUESTION)], Sampling(temperature=0))
    print_answer(answer)
    click.echo(f"{cost_line(answer.timings)}\n\nEndpoint: {status.url}/v1")


def _serve_until_interrupted(client: GatewayClient) -> None:
    click.echo("Serving until Ctrl-C.")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        click.echo()
    print_note(f"Stopping the service at {client.gateway.url}.")
