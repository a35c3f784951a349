"""`roundhouse doctor`: look at everything once more and write down what was seen, without names or serial numbers."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec

from app.cli.gateway import connect_gateway
from app.cli.machine import machine_lines
from app.cli.output import format_table, json_option, print_note, show_result
from app.core import words
from app.core.errors import EnvironmentFault
from app.core.machine import Machine
from app.core.report import DiagnosticBundle

_TIMEOUT_S = 60.0


@click.command()
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Where to write the report.")
@click.option(
    "--bundle",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a zip file with the report, versions, settings, figures about requests, and the ends of logs.",
)
@json_option
def doctor(*, output: Path | None, bundle: Path | None, as_json: bool) -> None:
    """Write a report about this machine that you can share: it has no serial numbers, host names or user names.

    With --json the report itself goes to standard output and no file is written unless --output names one. With
    --bundle, the contents of the bundle are listed instead; it has no prompts, answers or keys either.
    """
    if bundle is not None:
        if output is not None:
            raise click.UsageError("--output and --bundle cannot be used together: the bundle contains the report.")
        _write_bundle(bundle, as_json=as_json)
        return
    report = connect_gateway().get("/doctor", msgspec.Raw, timeout_s=_TIMEOUT_S)
    text = msgspec.json.format(bytes(report), indent=2) + b"\n"
    if as_json:
        click.echo(text.decode(), nl=False)
    else:
        for line in summary_lines(msgspec.json.decode(report, type=_Report).machine):
            click.echo(line)
    if output is not None or not as_json:
        path = output or Path(time.strftime("roundhouse-report-%Y%m%d-%H%M%S.json"))
        _write(path, text)
        print_note(f"The report is in {path.resolve()}. Read it before you share it.")


def summary_lines(machine: Machine) -> Iterator[str]:
    """Yield what was found, what narrows it, and where an engine sees something else."""
    yield from machine_lines(machine)
    for limit in machine.limits:
        yield f"{'Limit':<12}{limit.value}"
    for device in machine.engine_devices:
        if device.difference:
            yield f"{'Difference':<12}{device.engine}: {device.difference}"


def _write_bundle(path: Path, *, as_json: bool) -> None:
    from app.client.bundle import save_bundle  # noqa: PLC0415 -- zipfile is slow to import, and seldom needed

    bundle = connect_gateway().get("/bundle", DiagnosticBundle, timeout_s=_TIMEOUT_S)
    save_bundle(bundle, path)
    rows = [BundleFileRow(name=file.name, why=file.why, bytes=len(file.text.encode())) for file in bundle.files]
    show_result("files", rows, as_json=as_json, text=_file_lines)
    print_note(f"The bundle is in {path.resolve()}. Read it before you share it.")


class BundleFileRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the list of what is in a bundle."""

    name: str
    why: str
    bytes: int


def _file_lines(files: Sequence[BundleFileRow]) -> list[str]:
    return format_table(
        ("FILE", "SIZE", "WHY"), [(file.name, words.format_bytes(file.bytes), file.why) for file in files]
    )


class _Report(msgspec.Struct):
    machine: Machine


def _write(path: Path, text: bytes) -> None:
    try:
        path.write_bytes(text)
    except OSError as error:
        raise EnvironmentFault(f"The report cannot be written to {path}: {error.strerror}.") from error
