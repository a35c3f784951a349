"""Changes to the engine store as jobs: what they say while they go on is kept, for `engines logs`."""

import time
from collections import deque
from collections.abc import Awaitable, Callable

import msgspec

from app.core.engine_store import EngineJob, Proof
from app.core.errors import Conflict, ErrorBody
from app.core.events import EngineJobChanged, Event, LogLine
from app.engine_store.environments import Progress
from app.gateway.jobs import BackgroundJob, JobRules, job_id

LINES = 500
Work = Callable[[Progress], Awaitable["JobOutcome"]]


class JobOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a job came to."""

    version: str = ""
    proofs: list[Proof] = []
    error: ErrorBody | None = None
    """What came of a job that was done and did not end well."""


class EngineJobs(BackgroundJob[EngineJob]):
    """Runs the one job there is, and keeps what it said."""

    def __init__(self, publish: Callable[[Event], None]) -> None:
        rules = JobRules(publish=lambda job: publish(EngineJobChanged(job=job)), end=self._end_job, conflict=_conflict)
        super().__init__(rules)
        self.lines: deque[LogLine] = deque(maxlen=LINES)
        """What jobs wrote."""

    def begin(self, engine: str, verb: str, work: Work, *, version: str = "", note: str = "") -> EngineJob:
        """Begin. Raises Conflict while another job runs."""

        async def finish_job() -> ErrorBody | None:
            outcome = await work(self._progress)
            self.keep(version=outcome.version or self.now.version, proofs=outcome.proofs)
            return outcome.error

        job = EngineJob(id=job_id(), engine=engine, verb=verb, version=version, note=note, stage="Starting")
        if note:
            self._note(note)
        return self.start(job, finish_job)

    def _progress(self, stage: str, fraction: float | None) -> None:
        if stage == self.now.stage:
            self.move(fraction=fraction)
        else:
            self._note(stage)
            self.tell(stage=stage, fraction=fraction)

    def _end_job(self, job: EngineJob, error: ErrorBody | None) -> EngineJob:
        if error is not None:
            self._note(" ".join(filter(None, (error.sentence, error.hint))))
            for line in error.detail.splitlines():
                self._note(f"  {line}")
        stage = "Ended" if error else "Done"
        self._note(stage)
        return msgspec.structs.replace(job, stage=stage, fraction=1.0, is_done=True, error=error)

    def _note(self, text: str) -> None:
        job = self.now
        self.lines.append(LogLine(model=job.engine, stream="out", text=f"{job.verb}: {text}", at=time.time()))


def _conflict(job: EngineJob) -> Conflict:
    return Conflict(
        f"Another job is going on: {job.verb} {job.engine}.",
        hint="Wait for it, or cancel it: `roundhouse engines cancel`.",
        code="engine_job_running",
    )
