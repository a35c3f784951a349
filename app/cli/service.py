"""The service itself: serve, up, down, status."""

import time
from collections.abc import Iterator
from pathlib import Path

import click

from app.cli.gateway import connect_gateway, connect_running
from app.cli.output import json_option, print_note, show_result
from app.client.discovery import find_running_gateway, has_ended
from app.client.http import GatewayClient
from app.config.environment import FLEET
from app.config.paths import Paths, default_paths
from app.config.programs import exec_module
from app.core import words
from app.core.api import PortFile, Status
from app.core.errors import Unavailable

_POLL_S = 0.05
_DOWN_WITHIN_S = 45.0
"""Longer than answers in progress are let go on, and than engines are asked to end before they are killed."""


def _check_address(_ctx: click.Context, _option: click.Parameter, host: str | None) -> str | None:
    from app.config.table import BY_NAME  # noqa: PLC0415 -- no other command needs all settings

    problem = "" if host is None else BY_NAME["gateway.host"].check(host)
    if problem:
        raise click.BadParameter(problem)
    return host


@click.command()
@click.option(
    "--host",
    callback=_check_address,
    help="Address to listen on; 0.0.0.0 lets other computers in, which needs an access key.",
)
@click.option("--port", type=click.IntRange(1, 65535), help="Port instead of the one in the settings.")
@click.option(
    "--fleet",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Start the fleet of this file, too; its replicas' key is given as ROUNDHOUSE_ATTACH_KEY.",
)
def serve(host: str | None, port: int | None, fleet: Path | None) -> None:
    """Serve the endpoint in this terminal until Ctrl-C."""
    extra = {
        "ROUNDHOUSE_GATEWAY_HOST": host,
        "ROUNDHOUSE_GATEWAY_PORT": None if port is None else str(port),
        FLEET: None if fleet is None else str(fleet.resolve()),
    }
    exec_module("app.gateway", extra={name: value for name, value in extra.items() if value is not None})


@click.command()
@json_option
def up(*, as_json: bool) -> None:
    """Start the service in the background."""
    show_result("status", connect_gateway().get("/status", Status), as_json=as_json, text=_status_lines)


@click.command()
@json_option
def status(*, as_json: bool) -> None:
    """Show whether the service is running, and where."""
    show_result("status", connect_running().get("/status", Status), as_json=as_json, text=_status_lines)


@click.command()
@json_option
def down(*, as_json: bool) -> None:
    """Stop the service and its engines; answers in progress have a few seconds to finish."""
    show_result("stopped", stop_service(default_paths()), as_json=as_json, text=_stop_lines)


def stop_service(paths: Paths) -> bool:
    """Stop the service if it runs, and wait until it is gone. Returns whether it ran."""
    gateway = find_running_gateway(paths)
    if gateway is not None:
        GatewayClient(gateway).post("/shutdown", None, object)
        _wait_until_gone(gateway)
    return gateway is not None


def _stop_lines(was_running: bool) -> Iterator[str]:  # noqa: FBT001 -- the value shown
    yield "Roundhouse's service was stopped." if was_running else "Roundhouse's service was not running."


def _wait_until_gone(gateway: PortFile) -> None:
    deadline = time.monotonic() + _DOWN_WITHIN_S
    while not has_ended(gateway):
        if time.monotonic() > deadline:
            raise Unavailable(f"The service is still ending (process {gateway.pid}).", hint="Look again in a moment.")
        time.sleep(_POLL_S)


def _status_lines(state: Status) -> Iterator[str]:
    if state.notice:
        print_note(state.notice)
    yield f"Endpoint   {state.url}/v1"
    for url in state.reachable_at:
        yield f"           {url}/v1, from other computers"
    if state.asks_for_keys:
        yield "Keys       required from everyone; `roundhouse keys` lists them"
    if state.paused_since is not None:
        yield f"Paused     for {words.format_duration(time.time() - state.paused_since)}; `roundhouse resume` ends this"
    yield f"Version    {state.version}"
    yield f"Process    {state.pid}, up {words.format_duration(time.time() - state.started_at)}"
    if state.resident_bytes:
        yield f"Memory     {words.format_bytes(state.resident_bytes)}"
    yield f"Models     {state.models_dir}"
