"""One change to the engine store at a time, in the background: it says how far it is, and can be called off."""

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable

import msgspec

from app.core.engine_store import EngineJob, Proof
from app.core.errors import Bug, Conflict, ErrorBody, RoundhouseError
from app.core.events import EngineJobChanged, Event, LogLine
from app.engine_store.environments import Progress
from app.gateway.background import Background

log = logging.getLogger(__name__)

LINES = 500
STEP_S = 0.1
"""A download says how far it is thousands of times a second; nobody sees more than ten."""
Work = Callable[[Progress], Awaitable["Outcome"]]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a job came to."""

    version: str = ""
    proofs: list[Proof] = []
    error: ErrorBody | None = None
    """What came of a job that was done and did not end well."""


class Jobs:
    """Runs the one job there is. Belongs to the event loop."""

    def __init__(self, publish: Callable[[Event], None]) -> None:
        self._publish = publish
        self._background = Background()
        self._task: asyncio.Task[None] | None = None
        self._said_at = 0.0
        self.last: EngineJob | None = None
        """The job that runs, or ran last: who listens late is told it first."""
        self.lines: deque[LogLine] = deque(maxlen=LINES)
        """What jobs wrote, for `engines logs`."""

    @property
    def is_busy(self) -> bool:
        """Whether one runs."""
        return self._task is not None and not self._task.done()

    def start(self, engine: str, verb: str, work: Work, *, version: str = "") -> EngineJob:
        """Begin. Raises Conflict while another job runs."""
        if self.is_busy and self.last is not None:
            raise Conflict(
                f"Another job is going on: {self.last.verb} {self.last.engine}.",
                hint="Wait for it, or cancel it: `roundhouse engines cancel`.",
                code="engine_job_running",
            )
        job = EngineJob(id=secrets.token_hex(6), engine=engine, verb=verb, version=version, stage="Starting")
        self._tell(job)
        self._task = self._background.spawn(self._run(work))
        return job

    async def cancel(self) -> None:
        """Call the job off, and wait until nothing of it is left; harmless when none runs."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self, work: Work) -> None:
        try:
            outcome = await work(self._progress)
        except asyncio.CancelledError:
            self._end(Outcome(error=ErrorBody(code="cancelled", sentence="It was called off; nothing was changed.")))
            raise
        except RoundhouseError as error:
            self._end(Outcome(error=error.body))
        except Exception:
            log.exception("A job of the engine store ended by a mistake of ours")
            bug = Bug("It failed because of a mistake in Roundhouse.", hint="Please report this.")
            self._end(Outcome(error=bug.body))
        else:
            self._end(outcome)

    def _progress(self, stage: str, fraction: float | None) -> None:
        job = self._job()
        is_new = stage != job.stage
        if not is_new and time.monotonic() - self._said_at < STEP_S:
            return
        if is_new:
            self._note(stage)
        self._tell(msgspec.structs.replace(job, stage=stage, fraction=fraction))

    def _end(self, found: Outcome) -> None:
        job, error = self._job(), found.error
        if error is not None:
            self._note(" ".join(filter(None, (error.sentence, error.hint))))
            for line in error.detail.splitlines():
                self._note(f"  {line}")
        stage = "Ended" if error else "Done"
        self._note(stage)
        self._tell(
            msgspec.structs.replace(
                job,
                stage=stage,
                fraction=1.0,
                is_done=True,
                error=error,
                version=found.version or job.version,
                proofs=found.proofs,
            )
        )

    def _job(self) -> EngineJob:
        if self.last is None:
            raise Bug("A job of the engine store says something before it began.")
        return self.last

    def _note(self, text: str) -> None:
        job = self._job()
        self.lines.append(LogLine(model=job.engine, stream="out", text=f"{job.verb}: {text}", at=time.time()))

    def _tell(self, job: EngineJob) -> None:
        self.last, self._said_at = job, time.monotonic()
        self._publish(EngineJobChanged(job=job))
