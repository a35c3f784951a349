"""`roundhouse calibrate`: measure this machine once, so that speeds are predicted from what it does."""

import sys
from collections.abc import Iterator

import click

from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, show_result
from app.client.http import GatewayClient
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
    client = connect_gateway()
    if forget:
        client.delete("/calibration")
    elif not only_show:
        _run_calibration(client)
    show_result("calibrations", client.get("/calibration", list[Calibration]), as_json=as_json, text=calibration_lines)


def calibration_lines(calibrations: list[Calibration]) -> Iterator[str]:
    """Yield one row per device and engine build."""
    if not calibrations:
        yield "Nothing has been measured on this machine yet."
        return
    yield from format_table(
        ("DEVICE", "ENGINE", "BACKEND", "READS MEMORY AT", "PER LAYER", "SAMPLES"), map(_row, calibrations)
    )


def _row(calibration: Calibration) -> tuple[str, ...]:
    reads = f"{calibration.efficiency * calibration.bandwidth_gb_s:.1f} of {calibration.bandwidth_gb_s:.1f} GB/s"
    per_layer = f"{calibration.layer_seconds * 1e6:.0f} us"
    return (
        calibration.device,
        f"{calibration.engine} {calibration.version}",
        calibration.backend,
        reads,
        per_layer,
        str(calibration.samples),
    )


def _run_calibration(client: GatewayClient) -> None:
    """Begin, follow to the end, and pass Ctrl-C on. Raises EngineFailed with what went wrong."""
    events = client.stream_events("/events", Event, timeout_s=_TIMEOUT_S)
    client.post("/calibrate", None, type(None))
    try:
        for event in events:
            if isinstance(event, CalibrationChanged):
                _paint(event)
                if event.done:
                    _end_progress(event)
                    return
    except KeyboardInterrupt:
        client.delete("/calibrate")
        raise


def _end_progress(event: CalibrationChanged) -> None:
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)
    if event.error:
        raise EngineFailed(event.error, code="calibration_failed")


def _paint(event: CalibrationChanged) -> None:
    if sys.stderr.isatty():
        share = "" if event.fraction is None else f" {event.fraction:.0%}"
        click.echo(f"\r\x1b[K{event.stage}{share}", err=True, nl=False)
