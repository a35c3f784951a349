"""The service itself: serve, up, down, status."""

import time
from collections.abc import Iterator

import click

from app.cli.gateway import connected, running
from app.cli.output import json_option, show, talk
from app.client.discovery import has_ended, running_gateway
from app.client.http import Client
from app.config.paths import Paths, default_paths
from app.config.programs import become
from app.core import words
from app.core.api import PortFile, Status
from app.core.errors import Unavailable

_POLL_S = 0.05
_DOWN_WITHIN_S = 45.0
"""Longer than answers in progress are let go on, and than engines are asked to end before they are killed."""


def _an_address(_ctx: click.Context, _option: click.Parameter, host: str | None) -> str | None:
    from app.config.table import BY_NAME  # noqa: PLC0415 -- no other command needs all settings

    problem = "" if host is None else BY_NAME["gateway.host"].check(host)
    if problem:
        raise click.BadParameter(problem)
    return host


@click.command()
@click.option(
    "--host",
    callback=_an_address,
    help="Address to listen on; 0.0.0.0 lets other computers in, which needs an access key.",
)
@click.option("--port", type=click.IntRange(1, 65535), help="Port instead of the one in the settings.")
def serve(host: str | None, port: int | None) -> None:
    """Serve the endpoint in this terminal until Ctrl-C."""
    extra = {"ROUNDHOUSE_GATEWAY_HOST": host, "ROUNDHOUSE_GATEWAY_PORT": None if port is None else str(port)}
    become("app.gateway", extra={name: value for name, value in extra.items() if value is not None})


@click.command()
@json_option
def up(*, as_json: bool) -> None:
    """Start the service in the background."""
    show("status", connected().get("/status", Status), as_json=as_json, text=_lines)


@click.command()
@json_option
def status(*, as_json: bool) -> None:
    """Show whether the service is running, and where."""
    show("status", running().get("/status", Status), as_json=as_json, text=_lines)


@click.command()
@json_option
def down(*, as_json: bool) -> None:
    """Stop the service and its engines; answers in progress have a few seconds to finish."""
    show("stopped", stopped(default_paths()), as_json=as_json, text=_stopped)


def stopped(paths: Paths) -> bool:
    """Stop the service if it runs, and wait until it is gone. Returns whether it ran."""
    found = running_gateway(paths)
    if found is not None:
        Client(found).post("/shutdown", None, object)
        _wait_until_gone(found)
    return found is not None


def _stopped(was_running: bool) -> Iterator[str]:  # noqa: FBT001 -- the value shown
    yield "Roundhouse's service was stopped." if was_running else "Roundhouse's service was not running."


def _wait_until_gone(gateway: PortFile) -> None:
    deadline = time.monotonic() + _DOWN_WITHIN_S
    while not has_ended(gateway):
        if time.monotonic() > deadline:
            raise Unavailable(f"The service is still ending (process {gateway.pid}).", hint="Look again in a moment.")
        time.sleep(_POLL_S)


def _lines(found: Status) -> Iterator[str]:
    if found.notice:
        talk(found.notice)
    yield f"Endpoint   {found.url}/v1"
    for url in found.reachable_at:
        yield f"           {url}/v1, from other computers"
    if found.asks_for_keys:
        yield "Keys       required from everyone; `roundhouse keys` lists them"
    if found.paused_since is not None:
        yield f"Paused     for {words.seconds(time.time() - found.paused_since)}; `roundhouse resume` ends this"
    yield f"Version    {found.version}"
    yield f"Process    {found.pid}, up {words.seconds(time.time() - found.started_at)}"
    if found.resident_bytes:
        yield f"Memory     {words.size(found.resident_bytes)}"
    yield f"Models     {found.models_dir}"
