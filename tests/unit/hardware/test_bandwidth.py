"""The read probe: on this machine, in its child, and what it refuses to believe; and how its figure is kept."""

from pathlib import Path

import msgspec
import pytest

from app.core.machine import Machine, ProbeReport
from app.hardware import probe
from app.hardware.assemble import ProbeOutcome
from app.hardware.bandwidth import (
    FILE,
    ReadRate,
    best_read,
    block_bytes,
    judge_rate,
    store_bandwidth,
    with_bandwidth,
    with_stored_bandwidth,
)
from app.hardware.evidence import NoAnswer
from app.hardware.facts import ProbePart, measured_fact
from tests.patience import wait_until

MIB = 1 << 20
GIB = 1 << 30


@pytest.mark.parametrize(
    ("threads", "cache", "available", "block"),
    [
        (2, 32 * MIB, 16 * GIB, 64 * MIB),
        (64, 256 * MIB, 512 * GIB, 32 * MIB),
        (8, 768 * MIB, 64 * GIB, 384 * MIB),
        (4, 8 * MIB, 512 * MIB, 16 * MIB),
        (4, 0, 16 * GIB, 32 * MIB),
    ],
)
def test_blocks_reach_past_the_caches_and_not_far_into_free_memory(
    threads: int, cache: int, available: int, block: int
) -> None:
    assert block_bytes(threads, cache, available) == block


@pytest.mark.slow
def test_this_machine_is_read_at_a_speed_that_can_be() -> None:
    assert best_read(2, 32 * MIB).threads == 2
    wait_until(lambda: judge_rate(best_read(2, 32 * MIB)).value)  # a busy computer may be slower than can be, once


def test_too_little_memory_is_not_measured() -> None:
    with pytest.raises(NoAnswer, match="Too little memory"):
        best_read(2, MIB)


@pytest.mark.parametrize("rate", [1.9e9, 4001e9])
def test_what_cannot_be_is_not_believed(rate: float) -> None:
    bandwidth = judge_rate(ReadRate(threads=1, block_bytes=GIB, bytes_per_s=rate))
    assert bandwidth.value is None
    assert "cannot be" in bandwidth.note


@pytest.fixture
async def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("ROUNDHOUSE_HOME", str(tmp_path / "home"))  # where nothing is remembered yet
    return await probe.read_machine(families=("base",))


@pytest.mark.slow
async def test_it_is_measured_in_a_child_and_remembered(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROUNDHOUSE_HOME", str(tmp_path))
    assert machine.memory.bandwidth_gb_s.value is None
    bandwidth = await probe.measure_bandwidth(machine)
    assert bandwidth.probes[-1].name == "bandwidth"
    assert bandwidth.probes[-1].outcome == "ok"
    again = await probe.read_machine(families=("base",))
    is_quiet = not bandwidth.memory.bandwidth_gb_s.note.startswith("At least")  # tests run beside others
    assert (again.memory.bandwidth_gb_s == bandwidth.memory.bandwidth_gb_s) is is_quiet
    assert bandwidth.memory.bandwidth_gb_s.value or "cannot be" in bandwidth.memory.bandwidth_gb_s.note


async def test_another_computer_is_measured_anew(machine: Machine, tmp_path: Path) -> None:
    rate = judge_rate(ReadRate(threads=1, block_bytes=GIB, bytes_per_s=50e9))
    store_bandwidth(with_bandwidth(machine, rate), tmp_path)
    assert with_stored_bandwidth(machine, tmp_path).memory.bandwidth_gb_s.value == 50.0
    other = msgspec.structs.replace(
        machine, cpu=msgspec.structs.replace(machine.cpu, model=measured_fact("Another processor", "test"))
    )
    assert with_stored_bandwidth(other, tmp_path).memory.bandwidth_gb_s.value is None


def play_child(monkeypatch: pytest.MonkeyPatch, read: ReadRate) -> None:
    """Have the bandwidth's child find what is told; other families are probed."""
    part = ProbePart(bandwidth_gb_s=judge_rate(read), is_bandwidth_disturbed=read.is_disturbed)
    run_real = probe._run_child

    async def run_child(family: str, timeout_s: float) -> ProbeOutcome:
        report = ProbeReport(name=family, outcome="ok", seconds=0.0)
        return ProbeOutcome(report, part) if family == "bandwidth" else await run_real(family, timeout_s)

    monkeypatch.setattr(probe, "_run_child", run_child)


@pytest.mark.parametrize(("share", "stored_gb_s"), [(0.97, 9.0), (0.5, None)])
async def test_what_others_disturbed_is_not_remembered(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, stored_gb_s: float | None
) -> None:
    monkeypatch.setenv("ROUNDHOUSE_HOME", str(tmp_path))
    play_child(monkeypatch, ReadRate(threads=2, block_bytes=GIB, bytes_per_s=9e9, cpu_share=share))
    bandwidth_gb_s = (await probe.measure_bandwidth(machine)).memory.bandwidth_gb_s
    assert bandwidth_gb_s.value == 9.0
    assert ("other programs took 50 % of the processor" in bandwidth_gb_s.note) is (stored_gb_s is None)
    assert (await probe.read_machine(families=("base",))).memory.bandwidth_gb_s.value == stored_gb_s


async def test_what_others_disturbed_replaces_no_higher_figure(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROUNDHOUSE_HOME", str(tmp_path))
    quick = with_bandwidth(machine, judge_rate(ReadRate(threads=2, block_bytes=GIB, bytes_per_s=30e9)))
    play_child(monkeypatch, ReadRate(threads=2, block_bytes=GIB, bytes_per_s=9e9, cpu_share=0.5))
    assert (await probe.measure_bandwidth(quick)).memory.bandwidth_gb_s.value == 30.0


async def test_a_damaged_record_is_no_record(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{")
    assert with_stored_bandwidth(machine, tmp_path) == machine


async def test_a_folder_that_cannot_be_written_costs_only_the_memory_of_it(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    monkeypatch.setenv("ROUNDHOUSE_HOME", str(tmp_path))
    play_child(monkeypatch, ReadRate(threads=2, block_bytes=GIB, bytes_per_s=9e9))
    assert (await probe.measure_bandwidth(machine)).memory.bandwidth_gb_s.value == 9.0
    assert "could not be kept" in caplog.text
