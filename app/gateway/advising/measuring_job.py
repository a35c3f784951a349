"""What calibrations, trials of drafts and benchmarks share: a job that has models answer beside other programs."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeVar

import aiohttp
import msgspec

from app.core.advice import Generation
from app.core.errors import Bug, Conflict, EngineFailed, EnvironmentFault, ErrorBody
from app.core.events import (
    BenchmarkChanged,
    CalibrationChanged,
    DraftTrialChanged,
    RaceChanged,
    TrialChanged,
    TuneChanged,
)
from app.gateway.advising.quiet_rounds import QuietRounds, ReadTimes
from app.gateway.advising.speed_measurements import generation_from
from app.gateway.advising.stream_timer import StreamTimer
from app.gateway.jobs import BackgroundJob, JobRules
from app.gateway.services import Services
from app.supervisor.lease import Lease
from engines.api import Route

M = TypeVar("M", CalibrationChanged, DraftTrialChanged, BenchmarkChanged, RaceChanged, TrialChanged, TuneChanged)
_TIMEOUT = aiohttp.ClientTimeout(total=300)


class MeasuringJob(Generic[M]):
    """One at a time, in the background; it says how far it is, and can be stopped. Belongs to the event loop's thread.

    `title` begins the sentences of what went wrong: "The calibration".
    """

    def __init__(
        self, services: Services, read_times: ReadTimes, *, title: str, conflict: Callable[[M], Conflict]
    ) -> None:
        self._services = services
        self._read_times = read_times
        self._title = title
        self.job: BackgroundJob[M] = BackgroundJob(
            JobRules(
                publish=services.events.publish,
                end=_end_job,
                conflict=conflict,
                cancelled="It was stopped; nothing was changed.",
                bug=Bug(f"{title} failed because of a mistake in Roundhouse."),
            )
        )

    async def stop(self) -> None:
        """Stop it; harmless when none runs."""
        await self.job.cancel(at_once=True)

    def _make_rounds(self) -> QuietRounds:
        return QuietRounds(lambda stage: self.job.tell(stage=stage), self._read_times)

    async def _measure(self, work: Awaitable[None]) -> None:
        """Do the work. Raises EnvironmentFault where this computer, and not the engine, stands in its way."""
        try:
            await work
        except (OSError, aiohttp.ClientError) as error:
            raise EnvironmentFault(f"{self._title} failed: {error}.") from error

    async def _time_request(self, lease: Lease, route: Route, request: Mapping[str, object]) -> Generation:
        """Return the timing of one answer, as long as `max_tokens`. Raises EngineFailed where there is none."""
        routes = self._services.adapters[lease.engine].descriptor.routes
        body = {
            "model": lease.served_name,
            "ignore_eos": True,
            "cache_prompt": False,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **request,
        }
        # llama-server closes idle connections whenever it likes: each answer gets one of its own.
        headers = {"Authorization": f"Bearer {lease.key}", "Connection": "close"}
        stream = StreamTimer()
        url = lease.base_url + routes[route]
        async with self._services.http.post(url, json=body, headers=headers, timeout=_TIMEOUT) as response:
            async for line in response.content:
                stream.read_line(line)
        generation = generation_from(lease.status, stream.timings())
        if generation is None:
            raise EngineFailed("The engine did not say how long it took.", code="measurement_failed")
        return generation


def _end_job(job: M, error: ErrorBody | None) -> M:
    sentence = f"{error.sentence} {error.hint}".strip() if error else ""
    return msgspec.structs.replace(
        job,
        stage="Ended" if error else "Done",
        fraction=1.0,
        done=True,
        error=sentence,
        code=error.code if error else "",
    )
