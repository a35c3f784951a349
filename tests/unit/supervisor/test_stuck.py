"""An engine that was ready and answers nothing any more: found out by a question, killed, and started for who waits."""

import asyncio
import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator
from functools import partial

import msgspec
import psutil
import pytest

from app.core.engines import EngineState
from app.core.errors import EngineFailed
from app.supervisor import run
from app.supervisor.lease import Lease
from app.supervisor.pool import Supervisor
from tests.fake_engine.adapter import FakeAdapter, completion_readiness
from tests.patience import until
from tests.unit.supervisor.conftest import Ask, Recorder

Suspend = Callable[[Lease], psutil.Process]


@pytest.fixture
def suspend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Suspend]:
    """Suspend the process of a lease; it is woken when the test is over. It is looked at often."""
    monkeypatch.setattr(run, "PULSE_S", 0.05)
    processes: list[psutil.Process] = []

    def suspend_process(lease: Lease) -> psutil.Process:
        processes.append(psutil.Process(lease.status.pid))
        processes[-1].suspend()
        return processes[-1]

    yield suspend_process
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()


@pytest.mark.skipif(sys.platform == "win32", reason="in a venv the process is a launcher there; its child serves")
async def test_an_engine_that_hangs_does_not_answer_and_one_that_wakes_does(
    adapter: FakeAdapter,
    supervisor: Supervisor,
    ask: Ask,
    suspend: Suspend,
) -> None:
    adapter.descriptor = msgspec.structs.replace(adapter.descriptor, frozen_s=0.1)
    async with supervisor.lease(ask()) as lease:
        pass
    process = suspend(lease)
    assert await supervisor.is_answering(lease) is False
    process.resume()
    assert await supervisor.is_answering(lease) is True


def _has_gone_on(check_task: "asyncio.Task[bool | None]", use_counts: Iterator[int], until_s: int) -> bool:
    return check_task.done() or next(use_counts) > until_s


async def test_one_that_computes_has_longer(
    adapter: FakeAdapter, supervisor: Supervisor, ask: Ask, suspend: Suspend, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_counts = itertools.count()
    monkeypatch.setattr(run, "cpu_seconds", lambda _pids: float(next(use_counts)))
    for stuck_s in (0.3, 60.0):
        adapter.descriptor = msgspec.structs.replace(adapter.descriptor, frozen_s=0.2, stuck_s=stuck_s)
        async with supervisor.lease(ask(f"m{stuck_s}")) as lease:
            process = suspend(lease)
            check_task = asyncio.create_task(supervisor.is_answering(lease))
            await until(partial(_has_gone_on, check_task, use_counts, next(use_counts) + 100))
            process.resume()
            assert await check_task is (stuck_s > 1)


async def test_an_engine_that_would_have_to_generate_is_not_asked(
    supervisor: Supervisor, ask: Ask, adapter: FakeAdapter
) -> None:
    adapter.readiness = completion_readiness()
    async with supervisor.lease(ask()) as lease:
        assert await supervisor.is_answering(lease) is None


@pytest.mark.slow
async def test_a_stuck_engine_is_killed_and_the_next_serves_who_waits(
    supervisor: Supervisor,
    ask: Ask,
    recorder: Recorder,
    suspend: Suspend,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with supervisor.lease(ask(slots=1)) as lease:

        async def wait_for_slot() -> int | None:
            async with supervisor.lease(ask(slots=1)) as later:
                return later.status.pid

        waiter = asyncio.create_task(wait_for_slot())
        await recorder.until(lambda: recorder.statuses()[-1].queued == 1)
        process = suspend(lease)
        supervisor.report_stuck(lease)
        supervisor.report_stuck(lease)
        verdict = await lease.wait_for_verdict()
    assert isinstance(verdict, EngineFailed)
    assert (verdict.code, str(verdict)) == (
        "unresponsive",
        "The engine answered nothing any more, so it was stopped.",
    )
    assert "m answers nothing any more and is restarted." in caplog.text
    assert await waiter not in {None, process.pid}
    assert recorder.states()[-4:] == [
        EngineState.BACKING_OFF,
        EngineState.STARTING,
        EngineState.LOADING,
        EngineState.READY,
    ]


@pytest.mark.slow
async def test_an_earlier_run_is_not_what_is_killed(
    supervisor: Supervisor, ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    async with supervisor.lease(ask()) as lease:
        pass
    await supervisor.unload_model("m")
    assert await supervisor.is_answering(lease) is None
    async with supervisor.lease(ask()) as again:
        supervisor.report_stuck(lease)
        assert caplog.records == []
        assert (again.status.state, again.status.in_flight) == (EngineState.READY, 1)
