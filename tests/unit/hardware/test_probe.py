"""Probe children: real ones, one that crashes, one that is too slow, and how their parts are merged."""

import pytest

from app.core.errors import EnvironmentFault
from app.core.machine import Gpu
from app.hardware import probe
from app.hardware.assemble import ProbeOutcome, assemble_machine
from app.hardware.evidence import THIS_SYSTEM
from app.hardware.facts import ProbePart, derived_fact, measured_fact, unknown_fact
from app.hardware.families import families_of


def gpu(identity: str, *, is_integrated: bool) -> Gpu:
    return Gpu(
        id=identity,
        vendor="amd",
        name=measured_fact("Card", "test"),
        memory_total=unknown_fact("test", "not said"),
        memory_free=unknown_fact("test", "not said"),
        driver=unknown_fact("test", "not said"),
        compute=unknown_fact("test", "not said"),
        integrated=derived_fact(is_integrated, "test"),
    )


@pytest.mark.slow
async def test_this_machine_is_read_and_every_probe_reports() -> None:
    machine = await probe.read_machine()
    assert machine.cpu.logical_cores.value
    assert (machine.memory.total.value or 0) > (machine.memory.available.value or 0) > 0
    assert [report.name for report in machine.probes] == list(families_of(THIS_SYSTEM))
    assert all(report.outcome in {"ok", "absent"} for report in machine.probes)


async def test_a_crashing_probe_costs_only_its_own_facts() -> None:
    machine = await probe.read_machine(families=("base", "no-such-family"))
    assert machine.cpu.model.source
    assert machine.probes[1].outcome == "crashed"
    assert "no-such-family" in machine.probes[1].detail


async def test_a_slow_base_probe_is_an_error_in_words() -> None:
    with pytest.raises(EnvironmentFault, match="could not be examined") as error:
        await probe.read_machine(timeout_s=0.001, families=("base",))
    assert "No answer within" in error.value.body.detail


async def test_the_same_card_from_two_drivers_counts_once_and_shares_memory() -> None:
    base = await probe._run_child("base", 8.0)
    report = base.report
    twice = [ProbeOutcome(report, ProbePart(gpus=[gpu("a", is_integrated=True)])) for _ in range(2)]
    machine = assemble_machine([base, *twice])
    assert [card.id for card in machine.gpus] == ["a"]
    assert machine.memory.unified.value is True
