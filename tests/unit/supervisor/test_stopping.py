"""Going down: politely, impatiently, and against resistance."""

import asyncio
import json
import sys
import threading
from pathlib import Path

import msgspec
import psutil
import pytest

from app.core.engines import EngineState
from app.core.errors import EngineFailed, Unavailable
from app.supervisor import ending
from app.supervisor.pool import Supervisor, SupervisorPolicy
from app.supervisor.readiness import EngineEndpoint
from engines.api import FailureKind, SoftStop, StopPlan
from tests.fake_engine.adapter import FakeAdapter
from tests.fake_engine.behaviour import Behaviour
from tests.fake_engine.server import LAST_LINE
from tests.unit.supervisor.conftest import WAIT_S, Ask, Recorder, launched_below

S = EngineState
posix = pytest.mark.skipif(sys.platform == "win32", reason="process groups and signals")


@pytest.mark.parametrize(
    "stop",
    [
        pytest.param(StopPlan(how=SoftStop.SIGTERM), marks=posix),
        pytest.param(StopPlan(how=SoftStop.SIGINT), marks=posix),
        StopPlan(how=SoftStop.STDIN_EOF),
        StopPlan(how=SoftStop.HTTP, path="/shutdown"),
    ],
    ids=lambda stop: stop.how.value,
)
async def test_every_way_to_ask_an_engine_to_end(
    supervisor: Supervisor, ask: Ask, adapter: FakeAdapter, recorder: Recorder, stop: StopPlan
) -> None:
    adapter.stop = msgspec.structs.replace(stop, grace_s=60.0)
    adapter.has_lifeline = stop.how is SoftStop.STDIN_EOF
    await supervisor.ensure_ready(ask())
    status = await supervisor.unload_model("m")
    assert (status.state, status.pid, status.failure) == (S.STOPPED, None, None)
    assert recorder.states() == [S.STARTING, S.LOADING, S.READY, S.STOPPING, S.STOPPED]
    assert supervisor.list_statuses() == []
    assert [line for line in recorder.lines() if LAST_LINE in line], "it was not killed"


async def test_an_engine_that_refuses_to_end_is_killed(supervisor: Supervisor, ask: Ask, adapter: FakeAdapter) -> None:
    adapter.stop = StopPlan(grace_s=0.3)
    adapter.behaviours["m"] = Behaviour(refuses_to_end=True)
    status = await supervisor.ensure_ready(ask())
    assert (await supervisor.unload_model("m")).state is S.STOPPED
    assert not psutil.pid_exists(status.pid or 0)


@posix
async def test_what_an_engine_started_dies_with_it(
    supervisor: Supervisor, ask: Ask, adapter: FakeAdapter, tmp_path: Path
) -> None:
    adapter.behaviours["m"] = Behaviour(child=True)
    await supervisor.ensure_ready(ask())
    assert len(launched_below(tmp_path)) == 2
    await supervisor.unload_model("m")
    assert launched_below(tmp_path) == []


async def test_unloading_waits_for_leases(supervisor: Supervisor, ask: Ask, recorder: Recorder) -> None:
    async with supervisor.lease(ask()):
        unload_task = asyncio.create_task(supervisor.unload_model("m"))
        status = await recorder.until_state(S.DRAINING)
        assert status.in_flight == 1
        assert not unload_task.done()
    assert (await unload_task).state is S.STOPPED


async def test_unloading_by_force_does_not_and_its_user_hears_so(supervisor: Supervisor, ask: Ask) -> None:
    async with supervisor.lease(ask()) as lease:
        assert (await supervisor.unload_model("m", force=True)).state is S.STOPPED
        verdict = await lease.wait_for_verdict(timeout_s=0.0)
    assert verdict is not None
    assert (verdict.code, str(verdict)) == ("engine_stopped", "m was stopped while it answered.")


async def test_draining_ends_after_a_while(supervisor: Supervisor, ask: Ask) -> None:
    supervisor.policy = SupervisorPolicy(drain_s=0.1)
    async with supervisor.lease(ask()):
        assert (await supervisor.unload_model("m")).state is S.STOPPED


async def test_an_explicit_load_calls_the_unloading_off(supervisor: Supervisor, ask: Ask, recorder: Recorder) -> None:
    async with supervisor.lease(ask()) as lease:
        unload_task = asyncio.create_task(supervisor.unload_model("m"))
        await recorder.until_state(S.DRAINING)
        assert (await supervisor.ensure_ready(ask())).pid == lease.status.pid
    assert (await unload_task).state is S.READY


@pytest.mark.slow
async def test_who_asks_while_it_stops_gets_the_next_one(supervisor: Supervisor, ask: Ask, recorder: Recorder) -> None:
    async with supervisor.lease(ask()) as lease:
        first = lease.status.pid
        unload_task = asyncio.create_task(supervisor.unload_model("m"))
        await recorder.until_state(S.DRAINING)
        request_task = asyncio.create_task(hold_once(supervisor, ask))
        await asyncio.sleep(0)
    assert await request_task != first
    await unload_task


async def hold_once(supervisor: Supervisor, ask: Ask) -> int | None:
    async with supervisor.lease(ask()) as lease:
        return lease.status.pid


async def test_unloading_while_loading(
    supervisor: Supervisor, ask: Ask, adapter: FakeAdapter, recorder: Recorder
) -> None:
    adapter.behaviours["m"] = Behaviour(load_s=60.0)
    load_task = asyncio.create_task(supervisor.ensure_ready(ask()))
    await recorder.until_state(S.LOADING)
    assert (await supervisor.unload_model("m")).state is S.STOPPED
    with pytest.raises(Unavailable) as error:
        await load_task
    assert error.value.code == "unloaded"


async def test_unloading_before_there_is_a_process(
    supervisor: Supervisor, ask: Ask, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "KILL_S", WAIT_S * 10)  # that it is given up as lost must not be what ends it
    load_task = asyncio.create_task(supervisor.ensure_ready(ask()))
    await recorder.until_state(S.STARTING)
    assert (await supervisor.unload_model("m", force=True)).state is S.STOPPED
    with pytest.raises(Unavailable):
        await load_task


async def test_unloading_what_is_not_loaded_is_no_error(supervisor: Supervisor, ask: Ask) -> None:
    assert (await supervisor.unload_model("never heard of")).state is S.STOPPED
    await supervisor.ensure_ready(ask())
    await supervisor.unload_model("m")
    assert (await supervisor.unload_model("m")).state is S.STOPPED


async def test_unloading_forgets_a_failure(supervisor: Supervisor, ask: Ask, adapter: FakeAdapter) -> None:
    adapter.behaviours["m"] = Behaviour(says=("out of memory",), exit_code=1)
    with pytest.raises(EngineFailed):
        await supervisor.ensure_ready(ask())
    assert supervisor.list_statuses()[0].state is S.FAILED
    assert (await supervisor.unload_model("m")).failure is None
    assert supervisor.list_statuses() == []


async def test_an_unused_engine_is_unloaded_and_one_that_works_is_not(
    supervisor: Supervisor, ask: Ask, recorder: Recorder
) -> None:
    supervisor.policy = SupervisorPolicy(idle_s=0.3)
    async with supervisor.lease(ask()):
        await asyncio.sleep(0.6)
        assert supervisor.list_statuses()[0].state is S.READY
    await recorder.until_state(S.STOPPED)


async def test_an_engine_that_survives_being_killed_is_given_up_and_remembered(
    supervisor: Supervisor, ask: Ask, adapter: FakeAdapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter.stop = StopPlan(grace_s=0.1)
    adapter.behaviours["m"] = Behaviour(refuses_to_end=True)
    monkeypatch.setattr(ending, "KILL_S", 0.1)
    await supervisor.ensure_ready(ask())
    (process,) = launched_below(tmp_path)
    run = supervisor._owners["m"]._run
    assert run is not None
    with monkeypatch.context() as immortal:
        immortal.setattr(run, "kill", lambda: None)  # as if it hung in the kernel
        assert (await supervisor.unload_model("m")).state is S.STOPPED
    assert len(list(supervisor._deps.folders.records.glob("*.json"))) == 1
    process.kill()
    for thread in threading.enumerate():
        if thread.name == "engine-server":
            thread.join(WAIT_S)
    supervisor._deps.records._own.clear()
    assert supervisor._deps.records.reap_orphans() == [], "it is gone by itself"
    for left_file in supervisor._deps.folders.scratch.iterdir():
        left_file.rmdir()


async def test_a_client_that_goes_away_cancels_the_fake_engines_work(
    supervisor: Supervisor, ask: Ask, adapter: FakeAdapter
) -> None:
    adapter.behaviours["m"] = Behaviour(never_answers=True)
    async with supervisor.lease(ask()) as lease:
        endpoint = EngineEndpoint(base_url=lease.base_url, key=lease.key, served_name="m")
        with pytest.raises(TimeoutError):
            await endpoint.send_request("POST", "/v1/completions", body=b"{}", timeout_s=1.0)
        async with asyncio.timeout(WAIT_S):
            while (await stats_of(endpoint))["cancelled"] != 1:
                pass
        assert (await stats_of(endpoint))["finished"] == 0


async def stats_of(endpoint: EngineEndpoint) -> dict[str, int]:
    stats: dict[str, int] = json.loads((await endpoint.send_request("GET", "/fake/stats", timeout_s=WAIT_S)).body)
    return stats


async def test_a_stall_while_stopping_is_a_stop(
    supervisor: Supervisor, ask: Ask, adapter: FakeAdapter, recorder: Recorder
) -> None:
    supervisor.policy = SupervisorPolicy(stall_s=0.4)
    adapter.stop = StopPlan(grace_s=1.0)
    adapter.behaviours["m"] = Behaviour(is_silent=True, refuses_to_end=True)
    load_task = asyncio.create_task(supervisor.ensure_ready(ask()))
    await recorder.until_state(S.LOADING)
    assert (await supervisor.unload_model("m")).state is S.STOPPED
    with pytest.raises(Unavailable):
        await load_task
    assert FailureKind.STALLED not in {status.failure and status.failure.code for status in recorder.statuses()}
