"""Every recorded Windows and macOS machine is found as it should be. Replayed: none of these systems is here."""

from collections.abc import Iterator

import pytest

from app.hardware.assemble import examine_evidence
from app.hardware.evidence import replay_evidence
from tests.machine_fixtures import MachineFixture, differences, fixtures

RECORDED = [*fixtures("windows"), *fixtures("macos")]


@pytest.mark.parametrize("fixture", RECORDED, ids=lambda fixture: fixture.name)
def test_machine_is_found_as_it_is(fixture: MachineFixture) -> None:
    with replay_evidence(fixture.raw) as evidence:
        assert not differences(examine_evidence(evidence), fixture.expected_facts)


def expected_keys() -> Iterator[str]:
    return (key for fixture in RECORDED for key in fixture.expected_facts)


def test_the_recorded_machines_cover_what_matters() -> None:
    assert len(RECORDED) >= 40
    assert {"limits", "gpus.0.carve_out", "npus.0.vendor", "memory.limit", "gpus.0.memory_free"} <= set(expected_keys())
