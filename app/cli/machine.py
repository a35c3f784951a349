"""What this computer has and which engine it deserves, what it was measured to do, and a report about it."""

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec

from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, print_note, show_result, write_json
from app.client.http import GatewayClient
from app.core import words
from app.core.advice import Calibration
from app.core.api import API_VERSION
from app.core.confinement import ConfinementReport
from app.core.engines import EngineChoice
from app.core.errors import EngineFailed, EnvironmentFault
from app.core.events import CalibrationChanged, Event
from app.core.machine import DiagnosticBundle, Fact, Gpu, Machine
from app.core.traces import TracesState


@click.command()
@click.option("--fresh", is_flag=True, help="Detect again instead of using earlier results.")
@click.option("--sources", is_flag=True, help="Show where each figure comes from.")
@json_option
def machine(*, fresh: bool, sources: bool, as_json: bool) -> None:
    """Show this computer's hardware and the engine that suits it best."""
    client = connect_gateway()
    machine_found = client.get("/machine?fresh=1" if fresh else "/machine", Machine)
    choice = client.get("/choice", EngineChoice)
    if as_json:
        write_json("machine", {**msgspec.to_builtins(machine_found), "choice": msgspec.to_builtins(choice)})
        return
    for line in machine_lines(machine_found, with_sources=sources):
        click.echo(line)
    click.echo()
    show_result("choice", choice, as_json=False, text=choice_lines)


def machine_lines(machine_found: Machine, *, with_sources: bool = False) -> Iterator[str]:
    """Yield the machine as aligned rows; an unknown figure says why it is unknown."""
    for label, fact, text in _machine_rows(machine_found):
        source = f"   [{fact.source}, {fact.confidence}]" if with_sources and fact.source else ""
        yield f"{label:<12}{text}{source}"
    for probe in machine_found.probes:
        if probe.outcome in {"timeout", "crashed"}:
            yield f"{'Probe':<12}{probe.name} {probe.outcome}: {probe.detail}"


def choice_lines(choice: EngineChoice) -> Iterator[str]:
    """Yield the engine chosen, the facts behind it, and what would be better if it could run."""
    yield click.style(choice.sentence, bold=True)
    for reason in choice.reasons:
        source = click.style(f"  [{reason.source}]", dim=True) if reason.source else ""
        yield f"  - {reason.text}{source}"
    if choice.wanted:
        yield f"  {choice.wanted_why}"


def _machine_rows(machine_found: Machine) -> Iterator[tuple[str, Fact[object], str]]:
    system, cpu, memory = machine_found.os, machine_found.cpu, machine_found.memory
    yield (
        "System",
        _any_fact(system.version),
        f"{_fact_text(system.version)}, {_fact_text(system.architecture)}{_environment_text(machine_found)}",
    )
    yield "Processor", _any_fact(cpu.model), _fact_text(cpu.model)
    yield "Cores", _any_fact(cpu.physical_cores), _cores(machine_found)
    isa = " ".join(cpu.isa.value) if cpu.isa.value else cpu.isa.note
    yield "Extensions", _any_fact(cpu.isa), isa
    yield "Memory", _any_fact(memory.total), _memory(machine_found)
    for gpu in machine_found.gpus:
        yield "GPU", _any_fact(gpu.memory_total), _gpu(gpu)
    if not machine_found.gpus:
        yield "GPU", Fact(), "none found"


def _environment_text(machine_found: Machine) -> str:
    place = machine_found.os.environment.value
    return f", in a {place}" if place in {"container", "vm"} else ", in WSL" if place == "wsl" else ""


def _cores(machine_found: Machine) -> str:
    cpu = machine_found.cpu
    usable = cpu.usable_cores.value
    text = f"{_fact_text(cpu.physical_cores)} physical, {_fact_text(cpu.logical_cores)} logical"
    return f"{text}, {usable:g} usable" if usable is not None else text


def _memory(machine_found: Machine) -> str:
    memory = machine_found.memory
    text = f"{words.format_bytes(memory.total.value)}, {words.format_bytes(memory.available.value)} available"
    return f"{text}, limited to {words.format_bytes(memory.limit.value)}" if memory.limit.value else text


def _gpu(gpu: Gpu) -> str:
    if gpu.memory_total.value is None:
        return f"{_fact_text(gpu.name)}, memory unknown: {gpu.memory_total.note}"
    free = f", {words.format_bytes(gpu.memory_free.value)} free" if gpu.memory_free.value is not None else ""
    return f"{_fact_text(gpu.name)}, {words.format_bytes(gpu.memory_total.value)}{free}"


def _fact_text(fact: Fact[str] | Fact[int]) -> str:
    return str(fact.value) if fact.value is not None else "unknown"


def _any_fact(fact: Fact[str] | Fact[int] | Fact[list[str]]) -> Fact[object]:
    return Fact(source=fact.source, confidence=fact.confidence)


_TIMEOUT_S = 900.0


@click.command()
@click.option("--show", "only_show", is_flag=True, help="Show earlier measurements without measuring again.")
@click.option("--forget", is_flag=True, help="Delete all measurements.")
@json_option
def calibrate(*, only_show: bool, forget: bool, as_json: bool) -> None:
    """Run the built-in model and a synthetic one for about a minute and measure this machine's speed.

    It waits for up to a minute while other programs are busy. A run that is disturbed all the same leaves an earlier
    result as it is.
    """
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
        ("DEVICE", "ENGINE", "BACKEND", "READS MEMORY AT", "TABLE SAYS", "PER LAYER", "SAMPLES"),
        map(_row, calibrations),
    )
    for calibration in calibrations:
        if calibration.disturbances:
            yield f"Disturbed, so predictions do not rest on {calibration.device} with {calibration.engine}:"
            yield from (f"  {sentence}" for sentence in calibration.disturbances)
            yield "Close what is busy, then: roundhouse calibrate"


def _row(calibration: Calibration) -> tuple[str, ...]:
    reads = f"{calibration.efficiency * calibration.bandwidth_gb_s:.1f} of {calibration.bandwidth_gb_s:.1f} GB/s"
    per_layer = f"{calibration.layer_seconds * 1e6:.0f} us"
    return (
        calibration.device,
        f"{calibration.engine} {calibration.version}",
        calibration.backend,
        reads,
        "unknown" if calibration.expected_gb_s is None else f"{calibration.expected_gb_s:.1f} GB/s",
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
        raise EngineFailed(event.error, code=event.code or "calibration_failed")


def _paint(event: CalibrationChanged) -> None:
    if sys.stderr.isatty():
        share = "" if event.fraction is None else f" {event.fraction:.0%}"
        click.echo(f"\r\x1b[K{event.stage}{share}", err=True, nl=False)


_REPORT_TIMEOUT_S = 60.0


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
    client = connect_gateway()
    report = client.get("/doctor", msgspec.Raw, timeout_s=_REPORT_TIMEOUT_S)
    versioned_report = {"version": API_VERSION, **msgspec.json.decode(report, type=dict[str, msgspec.Raw])}
    text = msgspec.json.format(msgspec.json.encode(versioned_report), indent=2) + b"\n"
    if as_json:
        click.echo(text.decode(), nl=False)
    else:
        report_data = msgspec.json.decode(report, type=_Report)
        traces = client.get("/traces", TracesState)
        lines = (*summary_lines(report_data.machine), *confinement_lines(report_data.confinement))
        for line in (*lines, *trace_lines(traces)):
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


def confinement_lines(report: ConfinementReport | None) -> Iterator[str]:
    """Yield whether engines are confined, and what is not held."""
    if report is not None:
        yield f"{'Engines':<12}{report.sentence}"
        for part in report.parts:
            if not part.is_held:
                yield f"{'Open':<12}{part.sentence}"


def trace_lines(state: TracesState) -> Iterator[str]:
    """Yield whether traces are taken, if any are sent."""
    if state.is_on:
        yield f"{'Traces':<12}{state.sentence}"


def _write_bundle(path: Path, *, as_json: bool) -> None:
    from app.client.bundle import save_bundle  # noqa: PLC0415 -- zipfile is slow to import, and seldom needed

    bundle = connect_gateway().get("/bundle", DiagnosticBundle, timeout_s=_REPORT_TIMEOUT_S)
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
    confinement: ConfinementReport | None = None


def _write(path: Path, text: bytes) -> None:
    try:
        path.write_bytes(text)
    except OSError as error:
        raise EnvironmentFault(f"The report cannot be written to {path}: {error.strerror}.") from error
