"""Who is computed for: as many requests at once as there are slots, the rest in the order they came.

The library is stepped while anybody waits for it. Steps that take microseconds share one look at the network: what they
bring within `share_time` is sent together, so that serving costs a fast model little and a slow one's words come at
once.
"""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from engines.serving.answer import WorkerAnswer
from engines.serving.backend import BackendSampling, StepOutcome, WorkerBackend, WorkItem, share_time
from engines.serving.metrics import WorkerMetrics
from engines.serving.refusals import RequestRefused, engine_failure

_MOST_WAITS = 10
"""Of a first request for others."""
_PASSES = 4
"""From a connection to a request in the queue it is so many turns of the event loop: accepted, made, read, parsed."""


@dataclass(slots=True)
class _QueuedWork:
    work: WorkItem
    answer: WorkerAnswer


class Scheduler:
    """Owns the backend once it is loaded. Belongs to the event loop's thread."""

    def __init__(self, backend: WorkerBackend, *, slots: int, metrics: WorkerMetrics, gather_s: float = 0.0) -> None:
        """`gather_s`: how long the first request after a pause waits for others (`LoadResult.gather_s`)."""
        self._backend = backend
        self._slots = slots
        self._gather_s = gather_s
        self._metrics = metrics
        self._queue: deque[_QueuedWork] = deque()
        self._running_work: dict[int, _QueuedWork] = {}
        self._ids = itertools.count(1)
        self._awake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        metrics.queue = lambda: (len(self._running_work), len(self._queue))

    def submit(self, make: Callable[[int], WorkItem], answer: WorkerAnswer) -> int:
        """Put a request in the queue; return its number."""
        work = make(next(self._ids))
        self._queue.append(_QueuedWork(work, answer))
        self._idle.clear()
        self._awake.set()
        return work.id

    def cancel(self, number: int) -> None:
        """Let go of a request, wherever it is; one that is over is none."""
        if number in self._running_work:
            del self._running_work[number]
            self._backend.cancel(number)
            self._metrics.cancelled += 1
        else:
            jobs_left = deque(job for job in self._queue if job.work.id != number)
            self._metrics.cancelled += len(self._queue) - len(jobs_left)
            self._queue = jobs_left

    async def wait_until_idle(self) -> None:
        """Return once nobody is computed for."""
        await self._idle.wait()

    async def run(self) -> None:
        """Compute for ever. Raises RuntimeError when the library fails; whoever waited has been told."""
        while True:
            if not self._running_work and not self._queue:
                self._idle.set()
                self._awake.clear()
                await self._awake.wait()
                await self._gather_others()
            try:
                self._admit()
                self._compute()
            except RuntimeError as error:
                self._fail_all(engine_failure(f"The engine failed: {error}"))
                raise
            for _ in range(_PASSES):
                await asyncio.sleep(0)

    async def _gather_others(self) -> None:
        """Wait as long as others come, each within `gather_s` of the one before; no longer than `_MOST_WAITS` of it."""
        count = 0
        for _ in range(_MOST_WAITS if self._gather_s else 0):
            if count == len(self._queue):
                return
            count = len(self._queue)
            await asyncio.sleep(self._gather_s)

    def _admit(self) -> None:
        while self._queue and len(self._running_work) < self._slots:
            job = self._queue.popleft()
            job.answer.times.begun_at = time.perf_counter()
            try:
                self._backend.start(job.work)
            except RequestRefused as refusal:
                job.answer.fail_with(refusal)
                continue
            self._running_work[job.work.id] = job

    def _compute(self) -> None:
        """Step until something is due to be sent, then make text of what came and send it.

        A first token and an end are due at once. A step of the library leaves little of ours in the processor's caches,
        so what is done once for many tokens costs a fast model much less than what is done for each.
        """
        until = time.perf_counter() + share_time(len(self._running_work))
        outcomes_by_work: dict[int, list[StepOutcome]] = {}
        is_due = False
        while self._running_work and not is_due and time.perf_counter() < until:
            for outcome in self._backend.step():
                job = self._running_work.get(outcome.work)
                if job is None:
                    continue
                outcomes_by_work.setdefault(outcome.work, []).append(outcome)
                is_due |= outcome.finish is not None or outcome.error is not None or not job.answer.written
        for number, outcomes in outcomes_by_work.items():
            self._take(self._running_work[number], outcomes)

    def _take(self, job: _QueuedWork, outcomes: list[StepOutcome]) -> None:
        goes_on = all(job.answer.take_outcome(outcome) for outcome in outcomes)
        if not goes_on:
            del self._running_work[job.work.id]
            self._backend.cancel(job.work.id)
            if job.answer.error is None:
                self._metrics.count_answer(job.answer)
        job.answer.announce_text()

    def _fail_all(self, error: RequestRefused) -> None:
        for job in (*self._running_work.values(), *self._queue):
            job.answer.fail_with(error)
        self._running_work.clear()
        self._queue.clear()


def work_of(answer: WorkerAnswer, prompt: list[int], *, context: int) -> Callable[[int], WorkItem]:
    """Return what makes the work of an answer, once it has a number."""
    request = answer.request
    room = context - len(prompt)
    sampling: BackendSampling = request.sampling
    return lambda number: WorkItem(
        id=number,
        prompt=prompt,
        max_tokens=min(request.max_tokens or room, room),
        sampling=sampling,
        ignores_end=request.ignores_end,
        schema=request.schema,
        logprobs=request.logprobs,
    )
