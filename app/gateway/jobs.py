"""Work that takes a while, one of its kind at a time: it says how far it is, can be called off, and is remembered.

All that is to know of a job is one value, published whole each time: an `EngineJob`, a `LibraryJob`, an `UpdateJob`, a
`CalibrationChanged`. What differs between these kinds is in their `JobRules`; how jobs begin, go on and end is here.
"""

import asyncio
import logging
import secrets
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from app.core.errors import Bug, Conflict, ErrorBody, RoundhouseError
from app.gateway.background import Background
from app.hub.download.wire import DownloadStopped

log = logging.getLogger(__name__)

J = TypeVar("J", bound=msgspec.Struct)
_BUG = Bug("It failed because of a mistake in Roundhouse.", hint="Please report this.")
STEP_S = 0.1
"""Bytes are counted thousands of times a second; nobody sees more than ten figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRules(Generic[J]):
    """How one kind of job is told of."""

    publish: Callable[[J], object]
    end: Callable[[J, ErrorBody | None], J]
    """Returns a job as it is once it is over, and what went wrong if something did."""
    conflict: Callable[[J], Conflict]
    """Returns why another cannot begin while this one goes on."""
    cancelled: str = "It was called off; nothing was changed."
    bug: Bug = _BUG


class BackgroundJob(Generic[J]):
    """The owner of the one job of its kind. Belongs to the event loop; threads use `off` and `hand_over` only."""

    def __init__(self, rules: JobRules[J]) -> None:
        self._rules = rules
        self._background = Background()
        self._task: asyncio.Task[None] | None = None
        self._told_at = 0.0
        self.off = threading.Event()
        """Set when the job is called off: what works in a thread raises `DownloadStopped` then."""
        self.last: J | None = None
        """The job that runs, or ran last: who listens late is told it first."""

    @property
    def is_busy(self) -> bool:
        """Whether one runs."""
        return self._task is not None and not self._task.done()

    @property
    def now(self) -> J:
        """The job that runs."""
        if self.last is None:
            raise Bug("A job says something before it began.")
        return self.last

    def check_idle(self) -> None:
        """Raise Conflict while one runs."""
        if self.is_busy:
            raise self._rules.conflict(self.now)

    def start(self, job: J, work: Callable[[], Awaitable[ErrorBody | None]]) -> J:
        """Begin. What `work` raises or returns is what went wrong. Raises Conflict while another runs."""
        self.check_idle()
        self.off.clear()
        self._publish(job)
        self._task = self._background.spawn(self._run(work))
        return job

    async def cancel(self, *, at_once: bool = False) -> None:
        """Call the job off and wait until nothing of it is left; harmless when none runs.

        It ends where it looks at `off`, or with `at_once` wherever it waits.
        """
        self.off.set()
        if self._task is not None and not self._task.done():
            await asyncio.sleep(0)  # a task that never began would end without a word
            if at_once:
                self._task.cancel()
            await asyncio.wait({self._task})

    async def wait(self) -> None:
        """Wait until no job runs."""
        await self._background.join()

    def hand_over(self, change: Callable[[], object]) -> None:
        """Have the event loop call `change`: what a thread that works for the job has to say of it."""
        assert self._task is not None  # noqa: S101 -- for the type checker: threads work for a job
        self._task.get_loop().call_soon_threadsafe(change)

    def keep(self, **changes: object) -> None:
        """Change what the job is; it is told with what comes next."""
        self.last = msgspec.structs.replace(self.now, **changes)

    def tell(self, **changes: object) -> None:
        """Change what the job is, and tell it now."""
        self.keep(**changes)
        self._publish(self.now)

    def move(self, **changes: object) -> None:
        """Change how far the job is, and tell it if that was not done a moment ago."""
        self.keep(**changes)
        if time.monotonic() - self._told_at > STEP_S:
            self._publish(self.now)

    async def _run(self, work: Callable[[], Awaitable[ErrorBody | None]]) -> None:
        cancellation = ErrorBody(code="cancelled", sentence=self._rules.cancelled)
        try:
            error = await work()
        except asyncio.CancelledError:
            self._end(cancellation)
            raise
        except DownloadStopped:
            error = cancellation
        except RoundhouseError as fault:
            error = fault.body
        except Exception:
            log.exception("A job ended by a mistake of ours: %s", self.now)
            error = self._rules.bug.body
        self._end(error)

    def _end(self, error: ErrorBody | None) -> None:
        self._publish(self._rules.end(self.now, error))

    def _publish(self, job: J) -> None:
        self.last, self._told_at = job, time.monotonic()
        self._rules.publish(job)


def job_id() -> str:
    """Return a name for a job that no other has."""
    return secrets.token_hex(6)
