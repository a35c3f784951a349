"""More models than there is room for."""

import asyncio

import pytest

from app.core.engines import EngineState
from app.core.errors import EngineFailed
from app.supervisor import scheduling
from app.supervisor.pool import Supervisor, SupervisorPolicy
from tests.patience import PATIENCE_S
from tests.unit.supervisor.conftest import Ask, Recorder

S = EngineState


def list_loaded(supervisor: Supervisor) -> list[str]:
    return [status.model for status in supervisor.list_statuses() if status.state is S.READY]


async def test_the_idle_model_that_was_used_least_recently_makes_room(
    supervisor: Supervisor, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling, "_LEAST_LOAD_S", 2 * PATIENCE_S)  # both took as long to load, however busy it is
    supervisor.policy = SupervisorPolicy(max_loaded=2)
    for model in ("a", "b"):
        await supervisor.ensure_ready(ask(model))
    async with supervisor.lease(ask("a")):
        pass
    await supervisor.ensure_ready(ask("c"))
    assert list_loaded(supervisor) == ["a", "c"]


@pytest.mark.slow
async def test_a_request_waits_while_every_model_is_busy(supervisor: Supervisor, ask: Ask, recorder: Recorder) -> None:
    supervisor.policy = SupervisorPolicy(max_loaded=1)
    async with supervisor.lease(ask("a")):
        waiter = asyncio.create_task(supervisor.ensure_ready(ask("b")))
        queued_status = await recorder.until_state(S.STARTING, "b")
        assert (queued_status.stage, queued_status.pid) == ("Waiting for another model to free memory", None)
        assert list_loaded(supervisor) == ["a"]
    assert (await waiter).state is S.READY
    assert list_loaded(supervisor) == ["b"]


async def test_a_load_that_has_room_never_says_that_it_waits_for_some(
    supervisor: Supervisor, ask: Ask, recorder: Recorder
) -> None:
    await supervisor.ensure_ready(ask("a"))
    stages = {status.stage for status in recorder.statuses("a")}
    assert not [stage for stage in stages if "room" in stage]
    assert recorder.statuses("a")[0].stage == "Starting"


async def test_a_queued_load_that_nobody_waits_for_evicts_nobody(
    supervisor: Supervisor, ask: Ask, recorder: Recorder
) -> None:
    supervisor.policy = SupervisorPolicy(max_loaded=1)
    async with supervisor.lease(ask("a")):
        waiter = asyncio.create_task(supervisor.ensure_ready(ask("b")))
        await recorder.until_state(S.STARTING, "b")
        waiter.cancel()
        await recorder.until_state(S.STOPPED, "b")
    assert list_loaded(supervisor) == ["a"]


@pytest.mark.slow
async def test_a_model_in_constant_use_gives_way_in_the_end_and_loses_no_request(
    supervisor: Supervisor, ask: Ask, recorder: Recorder
) -> None:
    supervisor.policy = SupervisorPolicy(max_loaded=1, patience_s=0.2)
    async with supervisor.lease(ask("a")) as lease:
        waiter = asyncio.create_task(supervisor.ensure_ready(ask("b")))
        await recorder.until_state(S.DRAINING, "a")
        more = asyncio.create_task(hold_once(supervisor, ask, "a"))
        await asyncio.sleep(0)
        assert not lease.end.done()
    assert (await waiter).state is S.READY
    await more
    assert list_loaded(supervisor) == ["a"]


async def hold_once(supervisor: Supervisor, ask: Ask, model: str) -> None:
    async with supervisor.lease(ask(model)):
        pass


@pytest.mark.slow
async def test_a_lowered_limit_takes_effect_at_once(supervisor: Supervisor, ask: Ask, recorder: Recorder) -> None:
    for model in ("a", "b"):
        await supervisor.ensure_ready(ask(model))
    supervisor.policy = SupervisorPolicy(max_loaded=1)
    await recorder.until_state(S.STOPPED, "a")
    assert list_loaded(supervisor) == ["b"]


async def test_a_failed_model_takes_no_room(supervisor: Supervisor, ask: Ask) -> None:
    supervisor.policy = SupervisorPolicy(max_loaded=1)
    # One after the other: asked for together, "a" may come second, rightly evict "b" for its place, and then fail.
    with pytest.raises(EngineFailed):
        await supervisor.ensure_ready(ask("a", slots=0))
    await supervisor.ensure_ready(ask("b"))
    assert list_loaded(supervisor) == ["b"]


@pytest.mark.slow
async def test_sixteen_models_take_turns_in_two_places(supervisor: Supervisor, ask: Ask, recorder: Recorder) -> None:
    supervisor.policy = SupervisorPolicy(max_loaded=2)
    await asyncio.gather(*(hold_once(supervisor, ask, f"m{at}") for at in range(16)))
    present: set[str] = set()
    most = 0
    for event in recorder.events:
        status = getattr(event, "status", None)
        if status is None:
            continue
        present -= {status.model}
        present |= {status.model} if status.pid else set()
        most = max(most, len(present))
    assert most == 2
