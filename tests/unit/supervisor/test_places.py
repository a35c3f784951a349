"""What the room remembers: who is in, who waits, and memory that is on its way back or being filled."""

import asyncio
from collections.abc import Sequence

import pytest

from app.supervisor import messages
from app.supervisor.memory_arbiter import BACK_S, LOOK_S, MemoryArbiter, MemoryLedger
from app.supervisor.memory_limits import MemoryReading
from app.supervisor.policy import SupervisorPolicy
from app.supervisor.scheduling import EvictEngine, GrantRoom, MemoryLimits, PendingLoad, Resident
from tests.patience import PATIENCE_S

GB = 1 << 30
IDLE = Resident(model="idle", last_used=0.0, is_idle=True, holds={"gpu": 20 * GB})
LOADING = Resident(model="new", last_used=0.0, holds={"gpu": 30 * GB})


class Stage:
    """Places whose engines are as the test says."""

    def __init__(self) -> None:
        self.seats: dict[str, Resident] = {}
        self.places = MemoryLedger(SupervisorPolicy, lambda model: self.seats[model])

    def seat(self, seat: Resident) -> None:
        """Let an engine in, as it is."""
        self.seats[seat.model] = seat
        self.places.join_queue(PendingLoad(model=seat.model, since=0.0), 1)
        self.places.decide_effects(MemoryLimits(), 0.0)

    def decide_at(self, gpu: int, now: float) -> list[object]:
        return [effect for effect, _ in self.places.decide_effects(MemoryLimits(pools={"gpu": gpu * GB}), now)]


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_while_a_load_fills_graphics_memory_nobody_has_to_go_for_what_it_seems_to_take(stage: Stage) -> None:
    stage.seat(IDLE)
    stage.seat(LOADING)
    stage.places.join_queue(PendingLoad(model="third", since=10.0, needs={"gpu": 25 * GB}), 7)
    assert stage.decide_at(59, 10.0) == [], "20 of the 30 are missing from what is free, and counted as to come"
    assert stage.places.next_due(10.0) == 10.0 + SupervisorPolicy().patience_s, "it says itself when it is ready"
    stage.seats["new"] = Resident(model="new", last_used=0.0, is_busy=True, holds=LOADING.holds)
    assert stage.decide_at(79, 11.0) == [GrantRoom(model="third")]


def test_memory_that_does_not_come_back_is_waited_for_only_so_long(stage: Stage) -> None:
    stage.seat(IDLE)
    resident = Resident(model="gone", last_used=0.0, is_idle=True, holds={"gpu": 40 * GB})
    stage.seat(resident)
    stage.places.join_queue(PendingLoad(model="next", since=100.0, needs={"gpu": 50 * GB}), 7)
    assert stage.decide_at(80, 100.0) == [EvictEngine(model="gone")]
    stage.places.leave_queue("gone", 101.0)
    assert stage.decide_at(40, 101.0) == []
    assert stage.places.next_due(101.0) == 101.0 + LOOK_S
    assert stage.decide_at(60, 101.0 + BACK_S) == [EvictEngine(model="idle")], "that is all there is"


def test_who_turns_out_to_wait_is_told_once(stage: Stage) -> None:
    stage.seat(Resident(model="busy", last_used=0.0, is_busy=True, holds={"gpu": 60 * GB}))
    stage.places.join_queue(PendingLoad(model="next", since=0.0, needs={"gpu": 50 * GB}), 7)
    assert not stage.places.is_queued("next"), "nobody has looked yet"
    stage.decide_at(80, 0.0)
    assert stage.places.take_newly_blocked() == [("next", 7)]
    assert stage.places.is_queued("next")
    stage.decide_at(80, 1.0)
    assert stage.places.take_newly_blocked() == []


async def test_what_came_while_memory_was_read_has_it_read_again() -> None:
    """What was read first is of before, when another program still had its memory."""
    readings, granted_models = [40 * GB, 90 * GB], set[str]()
    is_reading, may_go_on, everybody_is_in = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def gauge(_pids: Sequence[int]) -> MemoryReading:
        memory_reading = MemoryReading(free={"gpu": readings.pop(0)})
        is_reading.set()
        await may_go_on.wait()
        return memory_reading

    def send(model: str, message: messages.Message) -> None:
        if isinstance(message, messages.RoomGranted):
            granted_models.add(model)
        if granted_models == {"busy", "first", "second"}:
            everybody_is_in.set()

    def describe(model: str) -> Resident:
        return Resident(model=model, last_used=0.0, is_busy=True, holds={"gpu": 30 * GB})

    arbiter = MemoryArbiter(lambda: SupervisorPolicy(patience_s=PATIENCE_S), describe_resident=describe, send=send)
    arbiter.join_queue("busy", 1, {"gpu": 30 * GB})
    arbiter.gauge = gauge
    arbiter.join_queue("first", 2, {"gpu": 50 * GB})
    await asyncio.wait_for(is_reading.wait(), PATIENCE_S)
    arbiter.join_queue("second", 3, {"gpu": 20 * GB})
    may_go_on.set()
    await asyncio.wait_for(everybody_is_in.wait(), PATIENCE_S)
    arbiter.close()
