"""`roundhouse doctor`: look at everything once more and write down what was seen, without names or serial numbers."""

import time
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from app.cli.gateway import connected
from app.cli.machine import machine_lines
from app.cli.output import json_option, talk
from app.core.errors import EnvironmentFault
from app.core.machine import Machine

_TIMEOUT_S = 60.0


@click.command()
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Where to write the report.")
@json_option
def doctor(*, output: Path | None, as_json: bool) -> None:
    """Write a report about this machine that can be passed on: no serial numbers, host names or user names are in it.

    With --json the report itself goes to standard output and no file is written unless --output names one.
    """
    report = connected().get("/doctor", msgspec.Raw, timeout_s=_TIMEOUT_S)
    text = msgspec.json.format(bytes(report), indent=2) + b"\n"
    if as_json:
        click.echo(text.decode(), nl=False)
    else:
        for line in summary_lines(msgspec.json.decode(report, type=_Report).machine):
            click.echo(line)
    if output is not None or not as_json:
        path = output or Path(time.strftime("roundhouse-report-%Y%m%d-%H%M%S.json"))
        _write(path, text)
        talk(f"The report is in {path.resolve()}. Have a look before you pass it on.")


def summary_lines(found: Machine) -> Iterator[str]:
    """Yield what was found, what narrows it, and where an engine sees something else."""
    yield from machine_lines(found)
    for limit in found.limits:
        yield f"{'Limit':<12}{limit.value}"
    for device in found.engine_devices:
        if device.difference:
            yield f"{'Difference':<12}{device.engine}: {device.difference}"


class _Report(msgspec.Struct):
    machine: Machine


def _write(path: Path, text: bytes) -> None:
    try:
        path.write_bytes(text)
    except OSError as error:
        raise EnvironmentFault(f"The report cannot be written to {path}: {error.strerror}.") from error
