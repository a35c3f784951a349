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
        self.steps.append(len(self.running))
        yield from super().step()


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
    running = asyncio.create_task(scheduler.run())
    await asyncio.sleep(0)  # it waits for work
    scheduler.submit(work, answer())
    for _ in range(3):  # it has seen that
        await asyncio.sleep(0)
    scheduler.submit(work, answer())
    await until(lambda: backend.steps)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert backend.steps[0] == together
