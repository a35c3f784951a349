"""Every recorded Linux machine is read as its lesson demands."""

import pytest

from tests.machine_fixtures import MachineFixture, differences, fixtures

LINUX = fixtures("linux")


def test_there_are_enough_of_them() -> None:
    assert len(LINUX) >= 40


@pytest.mark.slow(cases=22)
@pytest.mark.parametrize("fixture", LINUX, ids=lambda fixture: fixture.name)
def test_machine(fixture: MachineFixture) -> None:
    assert not differences(fixture.machine(), fixture.expected_facts)
