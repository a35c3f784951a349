"""What calibrations and trials of drafts share: a job that loads models and has them answer beside other programs.

An answer is timed as it streams. Engines that say themselves how long it took are believed; of the others the clock is
taken from the first piece to the last, over the tokens that they count.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeVar

import aiohttp
import msgspec

from app.core.advice import Generation
from app.core.errors import Bug, Conflict, EngineFailed, EnvironmentFault, ErrorBody
from app.core.events import CalibrationChanged, DraftTrialChanged
from app.gateway.advising.quiet_rounds import QuietRounds, ReadTimes
from app.gateway.advising.speed_measurements import generation_from
from app.gateway.jobs import BackgroundJob, JobRules
from app.gateway.services import Services
from app.supervisor.lease import Lease
from engines.api import Route

M = TypeVar("M", CalibrationChanged, DraftTrialChanged)
_TIMEOUT = aiohttp.ClientTimeout(total=300)
_MS = 1e3
_DATA = b"data:"


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
        stream = _TimedStream()
        url = lease.base_url + routes[route]
        async with self._services.http.post(url, json=body, headers=headers, timeout=_TIMEOUT) as response:
            async for line in response.content:
                stream.read_line(line)
        generation = generation_from(lease.status, stream.timings())
        if generation is None:
            raise EngineFailed("The engine did not say how long it took.", code="measurement_failed")
        return generation


class _TimedStream:
    """The lines of one answer, with the times at which its first and last piece came."""

    def __init__(self) -> None:
        self._begun_at = time.monotonic()
        self._first_at = self._last_at = 0.0
        self._last = _Piece()
        self._usage = _Usage()

    def read_line(self, line: bytes) -> None:
        """Take a line in. What is no piece of an answer is passed over."""
        if not line.startswith(_DATA):
            return
        try:
            piece = msgspec.json.decode(line[len(_DATA) :], type=_Piece)
        except msgspec.DecodeError:  # "[DONE]", or an error in the engine's own words
            return
        if piece.choices:
            self._last_at = time.monotonic()
            self._first_at = self._first_at or self._last_at
        if piece.timings:
            self._last = piece
        self._usage = piece.usage or self._usage

    def timings(self) -> dict[str, float]:
        """Return the times in llama-server's words: the engine's own, else by the clock."""
        if self._last.timings:
            return self._last.timings
        return {
            "prompt_n": self._usage.prompt_tokens,
            "prompt_ms": (self._first_at - self._begun_at) * _MS,
            "predicted_n": self._usage.completion_tokens,
            "predicted_ms": (self._last_at - self._first_at) * _MS,
        }


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Piece(msgspec.Struct):
    choices: list[msgspec.Raw] = []
    usage: _Usage | None = None
    timings: dict[str, float] = {}


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
