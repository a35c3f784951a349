"""Making way for another program, and coming back."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from app.core.engines import EngineState
from app.core.events import Notice
from app.supervisor.memory_limits import MemoryReading
from app.supervisor.memory_watch import CALM_S, MemoryPressure, MemoryWatch
from app.supervisor.policy import LoadRequest, MemoryNeeds, ModelPolicy, SupervisorPolicy
from app.supervisor.pool import Supervisor
from app.supervisor.scheduling import Resident
from engines.api import ModelFormat, ModelSource
from tests.patience import PATIENCE_S
from tests.unit.supervisor.conftest import Ask, Recorder

S = EngineState


def idle(model: str, last_used: float, **holds: int) -> Resident:
    return Resident(model=model, last_used=last_used, is_idle=True, holds=holds)


def request(model: str, needs: Mapping[str, int] | None) -> LoadRequest:
    source = ModelSource(name=model, path=Path(model), format=ModelFormat.GGUF)
    return LoadRequest(engine="e", source=source, needs=None if needs is None else MemoryNeeds(pools=needs))


def test_what_is_worth_least_goes_and_no_more_than_is_missing() -> None:
    seats = [idle("old", 0.0, system=50), idle("new", 9.0, system=50)]
    assert MemoryPressure().models_to_stop({"system": 70}, 100, seats, now=10.0) == ["old"]
    assert MemoryPressure().models_to_stop({"system": 30}, 100, seats, now=10.0) == ["old", "new"]
    assert MemoryPressure().models_to_stop({"system": 100}, 100, seats, now=10.0) == []
    assert MemoryPressure().models_to_stop({"gpu": 0, "system": 100}, 100, seats, now=10.0) == [], (
        "they hold none of that"
    )


def test_nobody_goes_while_another_still_does() -> None:
    seats = [idle("a", 0.0, system=50), Resident(model="b", last_used=0.0, is_leaving=True, holds={"system": 50})]
    assert MemoryPressure().models_to_stop({"system": 0}, 100, seats, now=1.0) == []


def test_it_comes_back_once_there_was_room_for_a_while() -> None:
    way, model = MemoryPressure(), request("a", {"system": 50})
    way.note_unloaded("a", model, 0.0)
    assert way.model_to_load({"system": 149}, 100, 10.0) is None
    assert way.model_to_load({"system": 150}, 100, 20.0) is None
    assert way.model_to_load({"system": 150}, 100, 20.0 + CALM_S) is model


def test_a_moment_without_room_starts_the_wait_afresh() -> None:
    way, model = MemoryPressure(), request("a", {"system": 50})
    way.note_unloaded("a", model, 0.0)
    way.model_to_load({"system": 150}, 100, 0.0)
    way.model_to_load({"system": 140}, 100, 5.0)
    assert way.model_to_load({"system": 150}, 100, CALM_S) is None
    assert way.model_to_load({"system": 150}, 100, 2 * CALM_S) is model


def test_what_was_loaded_meanwhile_or_is_of_unknown_size_does_not_come_back_by_itself() -> None:
    way = MemoryPressure()
    way.note_unloaded("a", request("a", {"system": 1}), 0.0)
    way.note_loaded("a")
    way.note_unloaded("b", request("b", None), 0.0)
    for now in (0.0, CALM_S):
        assert way.model_to_load({"system": 1000}, 0, now) is None


@pytest.mark.slow
async def test_a_real_engine_makes_way_and_comes_back(
    supervisor: Supervisor, ask: Ask, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = {"system": 1000}

    async def gauge(_pids: object) -> MemoryReading:
        return MemoryReading(free=dict(free))

    monkeypatch.setattr("app.supervisor.memory_watch.CALM_S", 0.0)
    supervisor.gauge = gauge
    supervisor.policy = SupervisorPolicy(keep_free=100, models={"pinned": ModelPolicy(is_pinned=True)})
    watch_task = MemoryWatch(supervisor, recorder.publish)
    needs = MemoryNeeds(pools={"system": 50})
    for model in ("idle", "pinned", "busy"):
        await supervisor.ensure_ready(msgspec.structs.replace(ask(model), needs=needs))
    async with supervisor.lease(ask("busy")):
        free["system"] = 10
        await watch_task.check_once()
        await recorder.until_state(S.STOPPED, "idle")
        await watch_task.check_once()
        assert [status.model for status in supervisor.list_statuses() if status.state is S.READY] == ["busy", "pinned"]
        free["system"] = 200
        await asyncio.wait_for(watch_task.check_once(), PATIENCE_S)
    assert "idle" in [status.model for status in supervisor.list_statuses() if status.state is S.READY]
    codes = [event.code for event in recorder.events if isinstance(event, Notice)]
    assert codes == ["memory_yielded", "memory_returned"]


async def test_nothing_is_read_while_it_is_off(supervisor: Supervisor, recorder: Recorder) -> None:
    async def gauge(_pids: object) -> MemoryReading:
        raise AssertionError

    supervisor.gauge = gauge
    await MemoryWatch(supervisor, recorder.publish).check_once()


async def test_a_model_that_somebody_loaded_otherwise_meanwhile_is_left_as_it_is(
    supervisor: Supervisor, ask: Ask
) -> None:
    async with supervisor.lease(ask(slots=2)) as lease:
        pid = lease.status.pid
    await supervisor.load_again(ask(slots=1))
    (status,) = supervisor.list_statuses()
    assert (status.pid, status.slots) == (pid, 2)
