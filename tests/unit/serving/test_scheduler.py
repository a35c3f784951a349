"""Who is computed for, and with whom: without HTTP and without a library."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from engines.serving.backend import BackendSampling, StepOutcome, WorkItem
from engines.serving.metrics import WorkerMetrics
from engines.serving.scheduler import Scheduler
from tests.patience import until
from tests.unit.serving.scripted import Scripted


class Counting(Scripted):
    """Notes how many requests ran in each step."""

    def __init__(self) -> None:
        super().__init__(slots=4)
        self.steps: list[int] = []

    def step(self) -> Iterator[StepOutcome]:
        self.steps.append(len(self.active_work))
        yield from super().step()


async def test_a_request_is_in_the_queue_before_others_are_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection is accepted and made, and it is read and parsed, in a turn of the event loop each."""
    monkeypatch.setattr("engines.serving.scheduler.share_time", lambda _streams: 0.0005)  # a step each
    backend = Counting()
    scheduler = Scheduler(backend, slots=4, metrics=WorkerMetrics())
    task = asyncio.create_task(scheduler.run())
    scheduler.submit(work, answer())
    await until(lambda: backend.steps)

    def come_after(turns: int) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(come_after, turns - 1)
        else:
            scheduler.submit(work, answer())

    steps_before = len(backend.steps)
    come_after(4)
    await until(lambda: 2 in backend.steps)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert backend.steps[steps_before:].index(2) <= 2


def work(number: int) -> WorkItem:
    return WorkItem(id=number, prompt=[1], max_tokens=9, sampling=BackendSampling())


def answer() -> Any:  # noqa: ANN401 -- what the scheduler asks of one
    return SimpleNamespace(
        times=SimpleNamespace(), written=1, error=None, take_outcome=lambda _outcome: True, announce_text=lambda: None
    )


@pytest.mark.parametrize(("gather_s", "together"), [(0.1, 2), (0.0, 1)])
async def test_after_a_pause_a_first_request_waits_for_others_where_that_pays(gather_s: float, together: int) -> None:
    backend = Counting()
    scheduler = Scheduler(backend, slots=4, metrics=WorkerMetrics(), gather_s=gather_s)
    task = asyncio.create_task(scheduler.run())
    await asyncio.sleep(0)  # it waits for work
    scheduler.submit(work, answer())
    for _ in range(3):  # it has seen that
        await asyncio.sleep(0)
    scheduler.submit(work, answer())
    await until(lambda: backend.steps)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert backend.steps[0] == together
