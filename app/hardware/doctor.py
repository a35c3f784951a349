"""A report of what this computer is and how that was found out, to be shown to others: nothing in it says whose it is.

It holds the record of all that the probes looked at, the Machine that came of it, and the versions of what was
installed. `replay_record` makes the Machine of the record again, on any system: every report can stand as a test.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from app.core.errors import BadRequest
from app.core.machine import DoctorReport, EngineBuild, Fact, Machine, ProbeReport
from app.hardware.assemble import ProbeOutcome, assemble_machine
from app.hardware.bandwidth import with_bandwidth
from app.hardware.engine_devices import with_engine_devices
from app.hardware.evidence import Evidence, replay_evidence
from app.hardware.facts import ProbePart
from app.hardware.families import BANDWIDTH, families_of
from app.hardware.pools import with_pools
from app.hardware.probe import examine_machine
from app.hardware.redaction import PrivateNames, RecordRedactor, names_here

FORMAT = 1
"""Counted up when an older Roundhouse could not read a report any more."""


class _EvidenceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What any record must be, and what it holds besides the answers to the probes' questions."""

    system: str
    files: dict[str, str] = {}
    links: dict[str, str] = {}
    commands: dict[str, str] = {}
    probes: list[ProbeReport] | None = None
    probed_at: float | None = None
    bandwidth: Fact[float] | None = None
    engines: dict[str, list[str]] = {}


async def examine_and_report(
    *, application: str, engines: Sequence[EngineBuild] = (), devices: Mapping[str, Sequence[str]] | None = None
) -> DoctorReport:
    """Probe this machine now and report. `devices` is what each engine prints as its list of devices, line by line.

    Raises EnvironmentFault when not even the operating system and processor could be read.
    """
    examination = await examine_machine()
    machine = examination.machine
    for engine, lines in (devices or {}).items():
        machine = with_engine_devices(machine, engine, lines)
    raw = examination.raw | {"engines": {engine: list(lines) for engine, lines in (devices or {}).items()}}
    return build_report(machine, raw, application=application, engines=engines, private=names_here())


def build_report(
    machine: Machine, raw: Mapping[str, Any], *, application: str, engines: Sequence[EngineBuild], private: PrivateNames
) -> DoctorReport:
    """Return the report of a machine and the record it came of, both without what identifies them."""
    redactor = RecordRedactor(private)
    circumstances = {
        "probes": msgspec.to_builtins(machine.probes),
        "probed_at": machine.probed_at,
        "bandwidth": msgspec.to_builtins(machine.memory.bandwidth_gb_s),
    }
    record = redactor.redact_value({**raw, **circumstances})
    redacted_report = redactor.redact_value(msgspec.to_builtins(machine))
    return DoctorReport(
        format=FORMAT,
        made_at=time.time(),
        application=application,
        engines=list(engines),
        machine=msgspec.convert(redacted_report, type=Machine),
        raw=record,
    )


def read_report(data: bytes) -> DoctorReport:
    """Decode a report. Raises BadRequest for anything else, and for a format of a later Roundhouse."""
    try:
        report = msgspec.json.decode(data, type=DoctorReport)
    except msgspec.MsgspecError as error:
        raise BadRequest("This is not a doctor report.", detail=str(error)) from error
    if report.format > FORMAT:
        raise BadRequest("This report was made by a later Roundhouse.", hint="Update Roundhouse to read it.")
    return report


def replay_record(raw: Mapping[str, Any]) -> Machine:
    """Return the Machine that a record comes to. Raises BadRequest when it is not a record of one."""
    try:
        record = msgspec.convert(dict(raw), type=_EvidenceRecord)
        with replay_evidence(raw) as evidence:
            outcomes = _replay_families(evidence, record.probes)
    except (msgspec.ValidationError, KeyError, TypeError, ValueError, OSError) as error:
        raise BadRequest("This is not the record of a machine.", detail=str(error)) from error
    machine = _with_circumstances(assemble_machine(outcomes), record)
    for engine, lines in record.engines.items():
        machine = with_engine_devices(machine, engine, lines)
    return machine


def _replay_families(evidence: Evidence, probes: Sequence[ProbeReport] | None) -> list[ProbeOutcome]:
    """Run the families again that answered then; those that crashed or hung are left as they were."""
    families = families_of(evidence.system)
    if probes is None:
        parts = [(name, family(evidence)) for name, family in families.items()]
        return [
            ProbeOutcome(ProbeReport(name=name, outcome=_outcome_word(part), seconds=0.0), part) for name, part in parts
        ]
    return [
        ProbeOutcome(probe, families[probe.name](evidence) if probe.outcome in {"ok", "absent"} else None)
        for probe in probes
        if probe.name != BANDWIDTH
    ]


def _outcome_word(part: ProbePart) -> str:
    return "absent" if part.absent else "ok"


def _with_circumstances(machine: Machine, record: _EvidenceRecord) -> Machine:
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
