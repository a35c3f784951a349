"""Two paired gateways as programs: none lends the other its memory before a person says so, and each says why not."""

from collections.abc import Iterator

import pytest

from app.core.across import AcrossPlan, AcrossRequest, MachineMemory
from app.core.engines import EngineStatus
from app.core.errors import NotFound, RoundhouseError
from app.core.machines import ChangeMachine, MachineStanding
from app.core.models import LoadModel, LoadOptions
from tests.gateway.admin.real_gateway import RealGateway
from tests.gateway.machines.test_paired_gateways import Pair, list_machines, pair, pair_up, wait_until

pytestmark = pytest.mark.slow

__all__ = ["pair"]


@pytest.fixture
def friends(pair: Pair) -> Iterator[Pair]:
    pair_up(pair)
    yield pair
    for gateway in pair:
        for machine in list_machines(gateway).machines:
            gateway.client.delete(f"/machines/{machine.name}")


def memory_of_desk(friends: Pair) -> MachineMemory:
    (lender,) = friends.lap.client.get("/machines/memory", list[MachineMemory])
    return lender


def lend(gateway: RealGateway, name: str, *, lends: bool) -> MachineStanding:
    return gateway.client.patch(f"/machines/{name}", ChangeMachine(lends_memory=lends), MachineStanding)


def test_memory_is_lent_once_a_person_says_so_and_then_its_engine_decides(friends: Pair) -> None:
    assert (memory_of_desk(friends).name, memory_of_desk(friends).is_away) == ("desk", False)
    assert "does not lend" in memory_of_desk(friends).problem
    assert "`roundhouse machines lend lap`" in memory_of_desk(friends).hint
    assert lend(friends.desk, "lap", lends=True).lends_memory
    wait_until(lambda: list_machines(friends.lap).machines[0].is_lender)
    assert not list_machines(friends.lap).machines[0].lends_memory, "each decides for itself"
    assert "no engine called" in memory_of_desk(friends).problem, "this gateway's engines are scripted"
    lend(friends.desk, "lap", lends=False)
    assert "does not lend" in memory_of_desk(friends).problem


def test_a_machine_that_was_revoked_lends_nothing_and_says_so(friends: Pair) -> None:
    lend(friends.desk, "lap", lends=True)
    friends.desk.client.delete("/machines/lap")
    assert "not paired" in memory_of_desk(friends).problem
    friends.lap.client.delete("/machines/desk")
    assert friends.lap.client.get("/machines/memory", list[MachineMemory]) == []


@pytest.mark.parametrize("across", [["box"], ["desk", "box"], ["../desk"], [""]])
def test_a_machine_that_is_not_paired_is_named(friends: Pair, across: list[str]) -> None:
    with pytest.raises(NotFound, match="paired"):
        friends.lap.client.post("/plan/across", AcrossRequest(model="quick", across=across), AcrossPlan)
    body = LoadModel(model="quick", options=LoadOptions(across=tuple(across)))
    with pytest.raises(NotFound, match="paired"):
        friends.lap.client.post("/load", body, EngineStatus)


@pytest.mark.parametrize(
    "body", [{}, {"lends_memory": "yes"}, {"lends_memory": None}, {"lends_memory": True, "certificate": "A"}, [], 3]
)
def test_what_is_no_change_of_a_machine_is_refused(friends: Pair, body: object) -> None:
    with pytest.raises(RoundhouseError) as error:
        friends.lap.client.patch("/machines/desk", body, MachineStanding)
    assert 400 <= error.value.status < 500
    with pytest.raises(NotFound):
        lend(friends.lap, "box", lends=True)


def test_a_plan_without_the_worker_here_says_what_brings_it(friends: Pair) -> None:
    lend(friends.desk, "lap", lends=True)
    with pytest.raises(RoundhouseError, match="rpc") as error:
        friends.lap.client.post("/plan/across", AcrossRequest(model="quick", across=["desk"]), AcrossPlan)
    assert error.value.code == "not_installed"
    with pytest.raises(RoundhouseError, match="No other machine"):
        friends.lap.client.post("/plan/across", AcrossRequest(model="quick", across=["here"]), AcrossPlan)
