"""`roundhouse calibrate`: measure this machine once, so that speeds are predicted from what it does."""

import sys
from collections.abc import Iterator

import click

from app.cli.gateway import connected
from app.cli.output import json_option, show, table
from app.client.http import Client
from app.core.advice import Calibration
from app.core.errors import EngineFailed
from app.core.events import CalibrationChanged, Event

_TIMEOUT_S = 900.0


@click.command()
@click.option("--show", "only_show", is_flag=True, help="Show earlier measurements without measuring again.")
@click.option("--forget", is_flag=True, help="Delete all measurements.")
@json_option
def calibrate(*, only_show: bool, forget: bool, as_json: bool) -> None:
    """Run the built-in model and a synthetic one for about a minute and measure this machine's speed."""
    client = connected()
    if forget:
        client.delete("/calibration")
    elif not only_show:
        _run(client)
    show("calibrations", client.get("/calibration", list[Calibration]), as_json=as_json, text=calibration_lines)


def calibration_lines(found: list[Calibration]) -> Iterator[str]:
    """Yield one row per device and engine build."""
    if not found:
        yield "Nothing has been measured on this machine yet."
        return
    yield from table(("DEVICE", "ENGINE", "BACKEND", "READS MEMORY AT", "PER LAYER", "SAMPLES"), map(_row, found))


def _row(one: Calibration) -> tuple[str, ...]:
    reads = f"{one.efficiency * one.bandwidth_gb_s:.1f} of {one.bandwidth_gb_s:.1f} GB/s"
    per_layer = f"{one.layer_seconds * 1e6:.0f} us"
    return (one.device, f"{one.engine} {one.version}", one.backend, reads, per_layer, str(one.samples))


def _run(client: Client) -> None:
    """Begin, follow to the end, and pass Ctrl-C on. Raises EngineFailed with what went wrong."""
    events = client.stream("/events", Event, timeout_s=_TIMEOUT_S)
    client.post("/calibrate", None, type(None))
    try:
        for event in events:
            if isinstance(event, CalibrationChanged):
                _paint(event)
                if event.done:
                    _end(event)
                    return
    except KeyboardInterrupt:
        client.delete("/calibrate")
        raise


def _end(event: CalibrationChanged) -> None:
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)
    if event.error:
        raise EngineFailed(event.error, code="calibration_failed")


def _paint(event: CalibrationChanged) -> None:
    if sys.stderr.isatty():
        share = "" if event.fraction is None else f" {event.fraction:.0%}"
        click.echo(f"\r\x1b[K{event.stage}{share}", err=True, nl=False)
