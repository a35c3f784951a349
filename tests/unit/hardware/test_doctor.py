"""A report says what a machine is and how it was seen, and comes to the same machine again."""

import platform
from pathlib import Path

import msgspec
import pytest

from app.core.errors import BadRequest
from app.core.machine import DoctorReport, EngineBuild, Machine, ProbeReport
from app.hardware import doctor
from app.hardware.assemble import ProbeOutcome, assemble_machine
from app.hardware.doctor import build_report, read_report, replay_record
from app.hardware.evidence import merge_records, replay_evidence
from app.hardware.families import families_of
from app.hardware.redaction import PrivateNames
from tests.depth import sample
from tests.machine_fixtures import FOLDER, MachineFixture, fixtures

ALL = [*fixtures("linux"), *fixtures("windows"), *fixtures("macos")]
REPORTS = sorted((FOLDER.parent / "reports").glob("*.json"))
SECRET = "8932f937-d72c-4106-c12f-20bd9faed9f6"
LISTS = {"llama.cpp": ["CPU: Some processor (24000 MiB, 20000 MiB free)"]}


def make_report(machine: Machine, raw: dict[str, object]) -> DoctorReport:
    new_report = build_report(
        machine,
        raw,
        application="1.0",
        engines=[EngineBuild(id="llama.cpp", version="b1")],
        private=PrivateNames(users=["zqanna"], hosts=["zqhost"]),
    )
    return read_report(msgspec.json.encode(new_report))


@pytest.mark.slow(cases=8)
@pytest.mark.parametrize("fixture", sample(ALL, 40), ids=lambda fixture: fixture.name)
def test_a_report_of_any_recorded_machine_comes_to_that_machine(fixture: MachineFixture) -> None:
    raw = fixture.evidence() | {"engines": dict(fixture.table("engines"))}
    report = make_report(replay_record(raw), raw)
    assert replay_record(report.raw) == report.machine
    assert report.machine.cpu.model == replay_record(raw).cpu.model


def values(tree: object) -> object:
    """Return the figures only: sources and notes may be worded better than when a report was made."""
    if isinstance(tree, dict):
        return tree["value"] if "confidence" in tree else {key: values(part) for key, part in tree.items()}
    return [values(part) for part in tree] if isinstance(tree, list) else tree


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_a_kept_report_still_comes_to_the_machine_it_shows(path: Path) -> None:
    report = read_report(path.read_bytes())
    again, shown_values = (
        values(msgspec.to_builtins(machine)) for machine in (replay_record(report.raw), report.machine)
    )
    assert again == shown_values


def test_a_report_of_every_format_is_kept() -> None:
    assert {read_report(path.read_bytes()).format for path in REPORTS} == set(range(1, doctor.FORMAT + 1))


@pytest.mark.slow
async def test_a_report_of_this_machine_comes_to_this_machine() -> None:
    report = await doctor.examine_and_report(application="1.0", devices=LISTS)
    assert replay_record(read_report(msgspec.json.encode(report)).raw) == report.machine
    assert report.machine.cpu.logical_cores.value
    assert report.machine.engine_devices[0].engine == "llama.cpp"


@pytest.mark.slow
async def test_a_report_of_this_machine_does_not_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    release = platform.release()  # stands for a name: it is sure to be in the record
    monkeypatch.setattr(doctor, "names_here", lambda: PrivateNames(hosts=[release]))
    report = await doctor.examine_and_report(application="1.0")
    assert release.encode() not in msgspec.json.encode(report)
    assert report.machine.os.kernel.value == "somehost"
    assert replay_record(report.raw) == report.machine


def test_families_that_failed_then_are_not_run_again() -> None:
    fixture = next(fixture for fixture in ALL if fixture.name == "windows-rtx-4090-desktop")
    raw = dict(fixture.evidence())
    with replay_evidence(raw) as evidence:
        parts = {name: family(evidence) for name, family in families_of("windows").items()}
    ended_families = {"nvidia": "crashed", "display": "timeout"}
    machine = assemble_machine(
        [
            ProbeOutcome(
                ProbeReport(name=name, outcome=ended_families.get(name, "ok"), seconds=1.0),
                None if name in ended_families else part,
            )
            for name, part in parts.items()
        ]
    )
    assert not machine.gpus
    report = make_report(machine, raw)
    assert replay_record(report.raw) == report.machine
    assert [probe.outcome for probe in report.machine.probes] == ["ok", "crashed", "timeout", "ok"]


def test_ids_of_cards_become_stand_ins_that_still_join_what_two_drivers_saw() -> None:
    heap = {"size": 8 << 30, "is_device_local": True}
    card = {"name": "NVIDIA RTX", "uuid": f"GPU-{SECRET}", "memory_total": 8 << 30, "memory_free": 7 << 30}
    same = {"name": "NVIDIA RTX (driver)", "kind": "discrete", "vendor_id": 0x10DE, "uuid": SECRET.replace("-", "")}
    raw: dict[str, object] = {
        "system": "linux",
        "uname": {"release": "6.8", "machine": "x86_64"},
        "nvml": {"driver": "580", "devices": [card]},
        "vulkan": [{**same, "heaps": [heap]}],
    }
    machine = replay_record(raw)
    assert len(machine.gpus) == 1
    report = make_report(machine, raw)
    data = msgspec.json.encode(report)
    assert replay_record(report.raw) == report.machine
    assert SECRET.encode() not in data
    assert SECRET.replace("-", "").encode() not in data


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"format": 1}', b"\xff"])
def test_something_else_is_no_report(data: bytes) -> None:
    with pytest.raises(BadRequest, match="not a doctor report"):
        read_report(data)


def test_a_report_of_a_later_format_says_so() -> None:
    fixture = ALL[0]
    report = make_report(replay_record(fixture.evidence()), dict(fixture.evidence()))
    later = msgspec.json.encode(msgspec.structs.replace(report, format=99))
    with pytest.raises(BadRequest, match="later Roundhouse"):
        read_report(later)


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"system": "linux", "files": {"../../etc/passwd": "x"}},
        {"system": "linux", "files": []},
        {"system": "linux", "probes": [{"name": "no such family", "outcome": "ok", "seconds": 0}]},
        {"system": "linux", "engines": {"llama.cpp": 3}},
        {"system": "linux", "links": {"a": "/etc"}},
    ],
)
def test_a_broken_record_is_a_refusal_in_words(raw: dict[str, object]) -> None:
    with pytest.raises(BadRequest, match="not the record of a machine"):
        replay_record(raw)


def test_records_of_families_join_without_losing_files() -> None:
    first = {"system": "linux", "files": {"a": "1"}, "nvml": 1}
    second = {"system": "linux", "files": {"a": "2", "b": "3"}, "vulkan": 2}
    assert merge_records([first, second]) == {"system": "linux", "files": {"a": "1", "b": "3"}, "nvml": 1, "vulkan": 2}
