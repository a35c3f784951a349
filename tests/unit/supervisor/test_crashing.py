"""Engines that die, and what becomes of those who used them."""

import asyncio
import contextlib
import json
import sys
from pathlib import Path

import psutil
import pytest

from app.core.engines import EngineState
from app.core.errors import Bug, EngineFailed
from app.supervisor import ending
from app.supervisor.lease import Lease
from app.supervisor.machine import EngineMachine
from app.supervisor.pool import Supervisor, SupervisorFolders
from app.supervisor.readiness import EngineEndpoint, EngineReply
from engines.api import Exit, Failure, FailureKind
from tests.fake_engine.adapter import FakeAdapter
from tests.fake_engine.behaviour import Behaviour
from tests.patience import PATIENCE_S
from tests.unit.supervisor.conftest import WAIT_S, Ask, Recorder

S = EngineState
HI = json.dumps({"messages": [{"role": "user", "content": "Hi"}]}).encode()


async def chat(lease: Lease) -> EngineReply:
    endpoint = EngineEndpoint(base_url=lease.base_url, key=lease.key, served_name=lease.served_name)
    return await endpoint.send_request("POST", "/v1/chat/completions", body=HI, timeout_s=20.0)


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(
    "death",
    [
        pytest.param(("kill", -9), marks=pytest.mark.skipif(sys.platform == "win32", reason="signals")),
        pytest.param(("abort", -6), marks=pytest.mark.skipif(sys.platform == "win32", reason="signals")),
        ("exit", 3),
    ],
    ids=lambda death: death[0],
)
async def test_a_lease_on_an_engine_that_dies_learns_why_and_the_engine_comes_back(
    supervisor: Supervisor, ask: Ask, adapter: FakeAdapter, recorder: Recorder, death: tuple[str, int]
) -> None:
    how, code = death
    adapter.behaviours["m"] = Behaviour(dies_after=2, dies_by=how)
    async with supervisor.lease(ask()) as lease:
        with pytest.raises((OSError, ValueError)):
            await chat(lease)
        verdict = await lease.wait_for_verdict(timeout_s=10.0)
    assert verdict is not None
    assert str(verdict) == f"The fake engine ended with {code}."
    backing_off = await recorder.until_state(S.BACKING_OFF)
    assert backing_off.failure is not None
    assert backing_off.failure.exit_code == code
    assert (backing_off.restarts, backing_off.pid, backing_off.in_flight) == (1, None, 0)
    assert backing_off.retry_at is not None
    adapter.behaviours["m"] = Behaviour()
    async with supervisor.lease(ask()) as again:
        assert (await chat(again)).status == 200
        assert await again.wait_for_verdict(timeout_s=0.0) is None


@pytest.mark.slow
async def test_the_adapter_is_told_whether_an_engine_that_ended_had_been_ready(
    supervisor: Supervisor, ask: Ask, adapter: FakeAdapter, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    exits, classify_exit = list[Exit](), adapter.classify_exit

    def note_exit(end: Exit) -> Failure:
        exits.append(end)
        return classify_exit(end)

    monkeypatch.setattr(adapter, "classify_exit", note_exit)
    adapter.behaviours["broken"] = Behaviour(exit_code=1)
    with pytest.raises(EngineFailed):
        await supervisor.ensure_ready(ask("broken"))
    assert exits
    assert not any(end.was_ready for end in exits)
    exits.clear()
    status = await supervisor.ensure_ready(ask())
    psutil.Process(status.pid).kill()
    await recorder.until_state(S.FAILED)
    assert [end.was_ready for end in exits] == [True]


@pytest.mark.slow
async def test_an_idle_engine_that_dies_stays_down_until_somebody_asks(
    supervisor: Supervisor, ask: Ask, recorder: Recorder
) -> None:
    status = await supervisor.ensure_ready(ask())
    psutil.Process(status.pid).kill()
    failed_status = await recorder.until_state(S.FAILED)
    assert failed_status.failure is not None
    assert failed_status.failure.code == FailureKind.KILLED
    async with supervisor.lease(ask()) as lease:
        assert lease.status.pid != status.pid
    assert recorder.states()[-3:] == [S.STARTING, S.LOADING, S.READY]


@pytest.mark.slow
async def test_a_crash_loop_is_given_up(
    supervisor: Supervisor, ask: Ask, adapter: FakeAdapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = tmp_path / "starts"
    adapter.behaviours["m"] = Behaviour(crashes=99, state_file=str(starts))
    monkeypatch.setattr(ending, "back_off_delay", lambda restarts, _now: None if len(restarts) >= 3 else 0.05)
    failures = 0
    async with asyncio.timeout(PATIENCE_S):
        while not (statuses := supervisor.list_statuses()) or statuses[0].state is not S.FAILED:
            with contextlib.suppress(EngineFailed):
                await supervisor.ensure_ready(ask()) if not failures else await lease_once(supervisor, ask)
            failures += 1
    assert len(starts.read_bytes()) == 4, "the first start and three more"
    assert statuses[0].restarts == 3


async def lease_once(supervisor: Supervisor, ask: Ask) -> None:
    async with supervisor.lease(ask()):
        pass


@pytest.mark.slow
async def test_an_engine_that_crashes_once_while_loading_is_there_for_the_next_who_asks(
    supervisor: Supervisor, ask: Ask, adapter: FakeAdapter, tmp_path: Path
) -> None:
    adapter.behaviours["m"] = Behaviour(crashes=1, state_file=str(tmp_path / "starts"))
    with pytest.raises(EngineFailed):
        await lease_once(supervisor, ask)
    async with supervisor.lease(ask()) as lease:
        assert lease.status.restarts == 1


async def test_everybody_who_waits_hears_of_the_crash(supervisor: Supervisor, ask: Ask, adapter: FakeAdapter) -> None:
    adapter.behaviours["m"] = Behaviour(says=("model is corrupted or incomplete",), exit_code=1)
    results = await asyncio.gather(*(lease_once(supervisor, ask) for _ in range(10)), return_exceptions=True)
    assert [getattr(error, "code", None) for error in results] == [FailureKind.MODEL_CORRUPT] * 10


async def test_a_mistake_of_ours_ends_the_engine_and_is_told_to_whoever_asks(
    supervisor: Supervisor,
    ask: Ask,
    folders: SupervisorFolders,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with supervisor.lease(ask()):
        monkeypatch.setattr(EngineMachine, "step", lambda *_: 1 / 0)
        for _ in range(2):
            with pytest.raises(Bug, match="lost track of m"):
                await supervisor.ensure_ready(ask())
    assert "ended by a mistake of ours" in caplog.text
    async with asyncio.timeout(WAIT_S):
        while [*folders.records.glob("*"), *folders.scratch.glob("*")]:  # noqa: ASYNC110 -- its run ends alone, untold
            await asyncio.sleep(0.01)
