"""One calibration at a time: the Guide and a synthetic model run on the installed engine, and two figures come of it.

It loads through the supervisor like anybody else, so it waits its turn, may be evicted afterwards, and cannot push out
a model that answers. What it measures is kept with the engine's version and backend.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import msgspec

from app.config.paths import guide_gguf
from app.core.advice import Generation
from app.core.errors import Bug, Conflict, EngineFailed, EnvironmentFault, ErrorBody
from app.core.events import CalibrationChanged
from app.gateway.advising.speed_measurements import generation_from
from app.gateway.jobs import BackgroundJob, JobRules
from app.gateway.services import Services
from app.supervisor.lease import Lease
from app.supervisor.policy import LoadRequest
from engines.api import LaunchOptions, ModelFormat, ModelSource, Route

if TYPE_CHECKING:
    from app.advisor.choosing.engine_table import EngineTraits
    from app.advisor.speed.calibration import SpeedSample

log = logging.getLogger(__name__)

CONTEXT = 1024
PROMPT_TOKENS, ANSWER_TOKENS, ROUNDS = 512, 64, 3
"""What scoreboards use; of several rounds the fastest counts, since whatever else runs only ever slows one down."""
_TIMEOUT = aiohttp.ClientTimeout(total=300)
_AS_LARGE_MODELS = {"GOMP_SPINCOUNT": "1000"}
"""The Guide's threads would sleep between steps, and tell nothing of models that people wait for."""
_SPREAD = 7919
"""A prime: prompts of different rounds share no beginning, so that nothing is taken from the cache."""


class Calibrator:
    """Runs in the background, says how far it is, and can be stopped. Belongs to the event loop's thread."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.job = BackgroundJob(
            JobRules(
                publish=services.events.publish,
                end=_end_job,
                conflict=lambda _job: Conflict("A calibration goes on."),
                cancelled="It was stopped.",
                bug=Bug("The calibration failed because of a mistake in Roundhouse."),
            )
        )

    def start(self) -> None:
        """Begin, unless one runs already."""
        with suppress(Conflict):
            self.job.start(CalibrationChanged(stage="Reading memory", fraction=0.0), self._run)

    async def stop(self) -> None:
        """Stop it; harmless when none runs."""
        await self.job.cancel(at_once=True)

    async def _run(self) -> None:
        try:
            await self._calibrate()
        except (OSError, aiohttp.ClientError) as error:
            log.warning("The calibration failed: %s", error)
            raise EnvironmentFault(f"The calibration failed: {error}.") from error

    async def _calibrate(self) -> None:
        from app.advisor.speed.calibration import solve_calibration  # noqa: PLC0415 -- the advisor is brought in once it is needed

        await self._services.machine.measure()
        self._publish_stage("Creating a model to measure with", 0.1)
        async with self._synthetic_model() as synthetic:
            samples = await self._measure_model(guide_gguf(), "calibration-guide", share=0.3)
            samples += await self._measure_model(synthetic, "calibration-synthetic", share=0.6)
        if not samples:
            raise EngineFailed("No measurement succeeded on this machine.", code="calibration_failed")
        await self._services.measuring.keep_calibration(solve_calibration(samples))

    async def _measure_model(self, path: Path, name: str, *, share: float) -> "list[SpeedSample]":
        """Return what one model showed."""
        from app.gateway.loading.memory_fit import fit_load  # noqa: PLC0415 -- as above
        from app.hardware.cpu import engine_threads  # noqa: PLC0415 -- as above

        self._publish_stage("Running the built-in model" if "guide" in name else "Running the synthetic model", share)
        request = LoadRequest(
            engine=_engine().id,
            source=ModelSource(name=name, path=path, format=ModelFormat.GGUF),
            options=LaunchOptions(context=CONTEXT, slots=1, threads=engine_threads(), extra_env=_AS_LARGE_MODELS),
        )
        request = await fit_load(self._services, request, is_fixed=True)
        try:
            async with self._services.supervisor.lease(request) as lease:
                generations = [await self._time_answer(lease, number) for number in range(ROUNDS)]
        finally:
            await self._services.supervisor.unload_model(name)
        best = [min(generations, key=lambda generation: generation.decode_s / generation.completion_tokens)]
        return [sample for generation in best if (sample := await self._make_sample(generation, path)) is not None]

    async def _make_sample(self, generation: Generation, path: Path) -> "SpeedSample | None":
        from app.advisor.memory.setting import RunSetting  # noqa: PLC0415 -- as above
        from app.advisor.speed.calibration import sample_from  # noqa: PLC0415 -- as above

        facts, machine = await self._services.facts.of_file(path), await self._services.machine.read()
        setting = RunSetting(engine=_engine(), backend=generation.backend, context=CONTEXT)
        return sample_from(generation, facts, machine, setting)

    async def _time_answer(self, lease: Lease, number: int) -> Generation:
        """Return the timing of one answer. Raises EngineFailed when the engine says none."""
        routes = self._services.adapters[_engine().id].descriptor.routes
        body = {
            "model": lease.served_name,
            "prompt": [32 + (_SPREAD * (number + 1) + index) % 90 for index in range(PROMPT_TOKENS)],
            "max_tokens": ANSWER_TOKENS,
            "ignore_eos": True,
            "cache_prompt": False,
            "temperature": 0,
        }
        headers = {"Authorization": f"Bearer {lease.key}"}
        url = lease.base_url + routes[Route.COMPLETIONS]
        async with self._services.http.post(url, json=body, headers=headers, timeout=_TIMEOUT) as response:
            answer = msgspec.json.decode(await response.read(), type=_TimedAnswer)
        generation = generation_from(lease.status, answer.timings)
        if generation is None:
            raise EngineFailed("The engine did not say how long it took.", code="calibration_failed")
        return generation

    @asynccontextmanager
    async def _synthetic_model(self) -> AsyncIterator[Path]:
        """Have the synthetic model on disk for as long as the block runs."""
        from app.hub.synthetic import write_synthetic  # noqa: PLC0415 -- as above

        path = self._services.paths.state / "calibration.gguf"
        await asyncio.to_thread(write_synthetic, path)
        try:
            yield path
        finally:
            await asyncio.to_thread(path.unlink, missing_ok=True)

    def _publish_stage(self, stage: str, fraction: float) -> None:
        self.job.tell(stage=stage, fraction=fraction)


def _end_job(_job: CalibrationChanged, error: ErrorBody | None) -> CalibrationChanged:
    sentence = f"{error.sentence} {error.hint}".strip() if error else ""
    return CalibrationChanged(stage="Ended" if error else "Done", fraction=1.0, done=True, error=sentence)


def _engine() -> "EngineTraits":
    """Return the engine for what is measured with: models in GGUF."""
    from app.gateway.advising.engine_table import engine_table  # noqa: PLC0415 -- as above

    return engine_table().reader(ModelFormat.GGUF)


class _TimedAnswer(msgspec.Struct):
    timings: dict[str, float] = {}
