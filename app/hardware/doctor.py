"""A report of what this computer is and how that was found out, to be shown to others: nothing in it says whose it is.

It holds the record of all that the probes looked at, the Machine that came of it, and the versions of what was
installed. `replay` makes the Machine of the record again, on any system: every report can stand as a test.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from app.core.errors import BadRequest
from app.core.machine import Fact, Machine, ProbeReport
from app.core.report import DoctorReport, EngineVersion
from app.hardware.assemble import Outcome, assembled
from app.hardware.engine_devices import with_engine_devices
from app.hardware.evidence import Evidence, replaying
from app.hardware.families import BANDWIDTH, families_of
from app.hardware.part import Part
from app.hardware.pools import with_pools
from app.hardware.probe import examine_machine
from app.hardware.redaction import Private, Redactor, private_here
from app.hardware.remembered import with_bandwidth

FORMAT = 1
"""Counted up when an older Roundhouse could not read a report any more."""


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    """What any record must be, and what it holds besides the answers to the probes' questions."""

    system: str
    files: dict[str, str] = {}
    links: dict[str, str] = {}
    commands: dict[str, str] = {}
    probes: list[ProbeReport] | None = None
    probed_at: float | None = None
    bandwidth: Fact[float] | None = None
    engines: dict[str, list[str]] = {}


async def examine(
    *, application: str, engines: Sequence[EngineVersion] = (), devices: Mapping[str, Sequence[str]] | None = None
) -> DoctorReport:
    """Probe this machine now and report. `devices` is what each engine prints as its list of devices, line by line.

    Raises EnvironmentFault when not even the operating system and processor could be read.
    """
    found = await examine_machine()
    machine = found.machine
    for engine, lines in (devices or {}).items():
        machine = with_engine_devices(machine, engine, lines)
    raw = found.raw | {"engines": {engine: list(lines) for engine, lines in (devices or {}).items()}}
    return report(machine, raw, application=application, engines=engines, private=private_here())


def report(
    machine: Machine, raw: Mapping[str, Any], *, application: str, engines: Sequence[EngineVersion], private: Private
) -> DoctorReport:
    """Return the report of a machine and the record it came of, both without what identifies them."""
    redactor = Redactor(private)
    circumstances = {
        "probes": msgspec.to_builtins(machine.probes),
        "probed_at": machine.probed_at,
        "bandwidth": msgspec.to_builtins(machine.memory.bandwidth_gb_s),
    }
    record = redactor.value({**raw, **circumstances})
    shown = redactor.value(msgspec.to_builtins(machine))
    return DoctorReport(
        format=FORMAT,
        made_at=time.time(),
        application=application,
        engines=list(engines),
        machine=msgspec.convert(shown, type=Machine),
        raw=record,
    )


def read_report(data: bytes) -> DoctorReport:
    """Decode a report. Raises BadRequest for anything else, and for a format of a later Roundhouse."""
    try:
        found = msgspec.json.decode(data, type=DoctorReport)
    except msgspec.MsgspecError as error:
        raise BadRequest("This is not a doctor report.", detail=str(error)) from error
    if found.format > FORMAT:
        raise BadRequest("This report was made by a later Roundhouse.", hint="Update Roundhouse to read it.")
    return found


def replay(raw: Mapping[str, Any]) -> Machine:
    """Return the Machine that a record comes to. Raises BadRequest when it is not a record of one."""
    try:
        record = msgspec.convert(dict(raw), type=_Record)
        with replaying(raw) as evidence:
            outcomes = _outcomes(evidence, record.probes)
    except (msgspec.ValidationError, KeyError, TypeError, ValueError, OSError) as error:
        raise BadRequest("This is not the record of a machine.", detail=str(error)) from error
    machine = _as_then(assembled(outcomes), record)
    for engine, lines in record.engines.items():
        machine = with_engine_devices(machine, engine, lines)
    return machine


def _outcomes(evidence: Evidence, probes: Sequence[ProbeReport] | None) -> list[Outcome]:
    """Run the families again that answered then; those that crashed or hung are left as they were."""
    families = families_of(evidence.system)
    if probes is None:
        parts = [(name, family(evidence)) for name, family in families.items()]
        return [Outcome(ProbeReport(name=name, outcome=_ended(part), seconds=0.0), part) for name, part in parts]
    return [
        Outcome(probe, families[probe.name](evidence) if probe.outcome in {"ok", "absent"} else None)
        for probe in probes
        if probe.name != BANDWIDTH
    ]


def _ended(part: Part) -> str:
    return "absent" if part.absent else "ok"


def _as_then(machine: Machine, record: _Record) -> Machine:
    """Put in what does not follow from the record: when it was, and the bandwidth measured at another time."""
    if record.bandwidth is not None:
        machine = with_bandwidth(machine, record.bandwidth)
    return with_pools(
        msgspec.structs.replace(
            machine,
            probes=machine.probes if record.probes is None else record.probes,
            probed_at=machine.probed_at if record.probed_at is None else record.probed_at,
        )
    )
