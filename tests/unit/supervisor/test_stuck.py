"""An engine that was ready and answers nothing any more: found out by its own question, recorded once, left running."""

import logging
import sys
from collections.abc import Iterator

import psutil
import pytest

from app.core.engines import EngineState
from app.supervisor import run
from app.supervisor.pool import Supervisor
from tests.fake_engine.adapter import FakeAdapter, completion_readiness
from tests.unit.supervisor.conftest import WAIT_S, Ask


@pytest.fixture
def suspended() -> Iterator[list[psutil.Process]]:
    """Processes to wake when the test is over."""
    processes: list[psutil.Process] = []
    yield processes
    for process in processes:
        process.resume()


@pytest.mark.skipif(sys.platform == "win32", reason="in a venv the process is a launcher there; its child serves")
async def test_an_engine_that_hangs_does_not_answer_and_one_that_wakes_does(
    supervisor: Supervisor, ask: Ask, suspended: list[psutil.Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "PROBE_S", 0.1)
    async with supervisor.lease(ask()) as lease:
        pass
    process = psutil.Process(lease.status.pid)
    suspended.append(process)
    process.suspend()
    assert await supervisor.is_answering(lease) is False
    process.resume()
    monkeypatch.setattr(run, "PROBE_S", WAIT_S)
    assert await supervisor.is_answering(lease) is True


async def test_an_engine_that_would_have_to_generate_is_not_asked(
    supervisor: Supervisor, ask: Ask, adapter: FakeAdapter
) -> None:
    adapter.readiness = completion_readiness()
    async with supervisor.lease(ask()) as lease:
        assert await supervisor.is_answering(lease) is None


async def test_a_stuck_engine_is_recorded_once_and_left_running(
    supervisor: Supervisor, ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    async with supervisor.lease(ask()) as lease:
        pid = lease.status.pid
        supervisor.report_stuck(lease)
        supervisor.report_stuck(lease)
        assert (lease.status.state, lease.status.pid, lease.status.in_flight) == (EngineState.READY, pid, 1)
    assert caplog.record_tuples == [
        (
            "app.supervisor.pool",
            logging.WARNING,
            "m may be stuck: after a cancelled request it answered nothing for 10 seconds.",
        )
    ]
    async with supervisor.lease(ask()) as again:
        assert again.status.pid == pid


async def test_nothing_is_said_of_an_engine_that_has_gone(
    supervisor: Supervisor, ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    async with supervisor.lease(ask()) as lease:
        pass
    await supervisor.unload_model("m")
    assert await supervisor.is_answering(lease) is None
    supervisor.report_stuck(lease)
    async with supervisor.lease(ask()):
        supervisor.report_stuck(lease)
    assert caplog.records == []
