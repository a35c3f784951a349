"""Background jobs: one of a kind at a time, told while it goes on, called off, and remembered."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator

import msgspec
import pytest

from app.core.engine_store import EngineJob
from app.core.errors import BadRequest, Bug, Conflict, ErrorBody
from app.gateway import jobs
from app.gateway.jobs import BackgroundJob, JobRules, job_id
from app.hub.download.wire import DownloadStopped

PATIENCE_S = 10.0
WRONG = ErrorBody(code="wrong", sentence="It is wrong.")


def begin_job(verb: str = "install") -> EngineJob:
    return EngineJob(id=job_id(), engine="llama.cpp", verb=verb)


def end_job(job: EngineJob, error: ErrorBody | None) -> EngineJob:
    return msgspec.structs.replace(job, is_done=True, error=error)


@pytest.fixture
def updates() -> list[EngineJob]:
    return []


@pytest.fixture
async def job(updates: list[EngineJob]) -> AsyncIterator[BackgroundJob[EngineJob]]:
    rules = JobRules(publish=updates.append, end=end_job, conflict=lambda job: Conflict(f"{job.verb} goes on."))
    job = BackgroundJob(rules)
    yield job
    await job.cancel(at_once=True)


async def for_ever() -> None:
    await asyncio.Event().wait()


async def over(job: BackgroundJob[EngineJob]) -> EngineJob:
    async with asyncio.timeout(PATIENCE_S):
        await job.wait()
    assert not job.is_busy
    return job.now


async def test_a_job_is_told_from_its_beginning_to_its_end(
    job: BackgroundJob[EngineJob], updates: list[EngineJob]
) -> None:
    async def work() -> None:
        job.tell(stage="Unpacking", fraction=0.5)
        job.keep(version="b2")

    first = job.start(begin_job(), work)
    assert (job.is_busy, job.last) == (True, first)
    last = await over(job)
    assert (last.stage, last.version, last.is_done, last.error) == ("Unpacking", "b2", True, None)
    assert [update.stage for update in updates] == ["", "Unpacking", "Unpacking"], (
        "what is kept goes with what comes next"
    )
    assert updates[-1] == last


async def test_one_goes_on_at_a_time(job: BackgroundJob[EngineJob]) -> None:
    job.start(begin_job("test"), for_ever)
    with pytest.raises(Conflict, match="test goes on"):
        job.start(begin_job(), for_ever)
    await job.cancel(at_once=True)
    job.start(begin_job(), for_ever)
    assert job.now.verb == "install"


async def test_how_far_it_is_is_told_now_and_then_and_always_known(
    job: BackgroundJob[EngineJob], updates: list[EngineJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "STEP_S", 3600.0)

    async def work() -> None:
        for step in range(100):
            job.move(fraction=step / 100)

    job.start(begin_job(), work)
    assert (await over(job)).fraction == 0.99
    assert len(updates) == 2, "its beginning and its end"


async def test_work_that_waits_is_called_off_at_once(job: BackgroundJob[EngineJob]) -> None:
    job.start(begin_job(), for_ever)
    await asyncio.sleep(0)
    await job.cancel(at_once=True)
    assert job.now.error == ErrorBody(code="cancelled", sentence="It was called off; nothing was changed.")
    before = job.now
    await job.cancel()
    assert job.now == before, "calling off what is over changes nothing"


async def test_work_in_a_thread_is_called_off_where_it_looks(job: BackgroundJob[EngineJob]) -> None:
    works = threading.Event()

    def read() -> None:
        job.hand_over(lambda: job.tell(stage="Reading"))
        works.set()
        assert job.off.wait(PATIENCE_S)
        raise DownloadStopped

    async def work() -> None:
        await asyncio.to_thread(read)

    job.start(begin_job(), work)
    assert await asyncio.to_thread(works.wait, PATIENCE_S)
    await job.cancel()
    assert (job.now.stage, job.now.error and job.now.error.code) == ("Reading", "cancelled")
    job.start(begin_job(), for_ever)
    assert not job.off.is_set(), "the next one is not called off"


async def test_what_went_wrong_is_kept_whether_it_is_raised_or_returned(job: BackgroundJob[EngineJob]) -> None:
    async def raises() -> None:
        raise BadRequest("No.", hint="Ask otherwise.", code="no")

    async def returns() -> ErrorBody:
        return WRONG

    job.start(begin_job(), raises)
    assert (await over(job)).error == ErrorBody(code="no", sentence="No.", hint="Ask otherwise.")
    job.start(begin_job(), returns)
    assert (await over(job)).error == WRONG


async def test_a_mistake_of_ours_is_logged_and_said(
    job: BackgroundJob[EngineJob], caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        raise ZeroDivisionError

    with caplog.at_level(logging.ERROR):
        job.start(begin_job(), work)
        error = (await over(job)).error
    assert error is not None
    assert (error.code, error.hint) == (Bug.default_code, "Please report this.")
    assert "A job ended by a mistake of ours" in caplog.text
