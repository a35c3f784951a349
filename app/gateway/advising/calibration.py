"""One calibration at a time: the Guide and a synthetic model run on the installed engine, and two figures come of it.

It loads through the supervisor like anybody else, so it waits its turn, may be evicted afterwards, and cannot push out
a model that answers. What it measures is kept with the engine's version and backend.

It waits until other programs leave the processors alone, and repeats what they disturbed. A run that was disturbed all
the same replaces no earlier one; where there is none, it is kept with what disturbed it, and no prediction rests on it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from app.config.paths import guide_gguf
from app.core.advice import Generation
from app.core.errors import Conflict, EngineFailed
from app.core.events import CalibrationChanged
from app.gateway.advising.measuring_job import MeasuringJob
from app.gateway.advising.quiet_rounds import QuietRounds, ReadTimes, read_processor_times
from app.gateway.services import Services
from app.supervisor.lease import Lease
from app.supervisor.policy import LoadRequest
from engines.api import LaunchOptions, ModelFormat, ModelSource, Route

if TYPE_CHECKING:
    from app.advisor.choosing.engine_table import EngineTraits
    from app.advisor.speed.calibration import SpeedSample
    from app.advisor.speed.disturbance import SpeedRound

CONTEXT = 1024
PROMPT_TOKENS, ANSWER_TOKENS = 512, 64
"""What scoreboards use."""
_AS_LARGE_MODELS = {"GOMP_SPINCOUNT": "1000"}
"""The Guide's threads would sleep between steps, and tell nothing of models that people wait for."""
_SPREAD = 7919
"""A prime: prompts of different rounds share no beginning, so that nothing is taken from the cache."""


class Calibrator(MeasuringJob[CalibrationChanged]):
    """Runs in the background, says how far it is, and can be stopped. Belongs to the event loop's thread."""

    def __init__(self, services: Services, read_times: ReadTimes = read_processor_times) -> None:
        super().__init__(
            services, read_times, title="The calibration", conflict=lambda _job: Conflict("A calibration goes on.")
        )

    def start(self) -> None:
        """Begin, unless one runs already."""
        with suppress(Conflict):
            self.job.start(
                CalibrationChanged(stage="Reading memory", fraction=0.0), lambda: self._measure(self._calibrate())
            )

    async def _calibrate(self) -> None:
        rounds = self._make_rounds()
        await rounds.wait_for_quiet()
        await self._services.machine.measure()
        self._publish_stage("Creating a model to measure with", 0.1)
        async with self._synthetic_model() as synthetic:
            runs = [
                await self._measure_model(guide_gguf(), "calibration-guide", rounds, share=0.3),
                await self._measure_model(synthetic, "calibration-synthetic", rounds, share=0.6),
            ]
        await self._keep_result(
            [sample for sample, _ in runs if sample is not None], [timing for sample, timing in runs if sample]
        )

    async def _keep_result(self, samples: "list[SpeedSample]", runs: "list[list[SpeedRound]]") -> None:
        """Keep what the runs show. Raises Conflict where it was disturbed and there is an earlier result."""
        from app.advisor.memory.setting import RunSetting  # noqa: PLC0415 -- the advisor is brought in once it is needed
        from app.advisor.speed.calibration import solve_calibration  # noqa: PLC0415 -- as above
        from app.advisor.speed.disturbance import expected_gb_s, find_disturbances  # noqa: PLC0415 -- as above

        if not samples:
            raise EngineFailed("No measurement succeeded on this machine.", code="calibration_failed")
        result = solve_calibration(samples)
        setting = RunSetting(engine=_engine(), backend=result.backend, context=CONTEXT)
        expected_rate = expected_gb_s(await self._services.machine.read(), setting)
        earlier = await self._services.speed_measurements.find_calibration(result)
        disturbances = find_disturbances(
            runs, samples, result, least_gb_s=expected_rate[1] if expected_rate else None, earlier=earlier
        )
        if disturbances and earlier is not None:
            raise Conflict(
                f"The run was disturbed, so the earlier result stays. {' '.join(disturbances)}",
                code="calibration_disturbed",
                hint="Close what is busy and calibrate again; to measure anew whatever was before, forget the results.",
            )
        await self._services.speed_measurements.keep_calibration(
            msgspec.structs.replace(
                result, expected_gb_s=expected_rate[0] if expected_rate else None, disturbances=disturbances
            )
        )

    async def _measure_model(
        self, path: Path, name: str, rounds: QuietRounds, *, share: float
    ) -> "tuple[SpeedSample | None, list[SpeedRound]]":
        """Return what one model showed, and the rounds it rests on."""
        from app.advisor.speed.disturbance import fastest_round  # noqa: PLC0415 -- as above
        from app.gateway.loading.memory_fit import fit_load  # noqa: PLC0415 -- as above
        from app.hardware.cpu import engine_threads  # noqa: PLC0415 -- as above

        stage = "Running the built-in model" if "guide" in name else "Running the synthetic model"
        self._publish_stage(stage, share)
        request = LoadRequest(
            engine=_engine().id,
            source=ModelSource(name=name, path=path, format=ModelFormat.GGUF),
            options=LaunchOptions(context=CONTEXT, slots=1, threads=engine_threads(), extra_env=_AS_LARGE_MODELS),
        )
        request = await fit_load(self._services, request, is_fixed=True)
        try:
            async with self._services.supervisor.lease(request) as lease:
                timing = await rounds.run_rounds(lease.status.pid, stage, partial(self._time_answer, lease))
        finally:
            await self._services.supervisor.unload_model(name)
        return await self._make_sample(fastest_round(timing).generation, path), timing

    async def _make_sample(self, generation: Generation, path: Path) -> "SpeedSample | None":
        from app.advisor.memory.setting import RunSetting  # noqa: PLC0415 -- as above
        from app.advisor.speed.calibration import sample_from  # noqa: PLC0415 -- as above

        facts, machine = await self._services.facts.of_file(path), await self._services.machine.read()
        setting = RunSetting(engine=_engine(), backend=generation.backend, context=CONTEXT)
        return sample_from(generation, facts, machine, setting)

    async def _time_answer(self, lease: Lease, number: int) -> Generation:
        """Return the timing of one answer. Raises EngineFailed when the engine says none."""
        prompt = [32 + (_SPREAD * (number + 1) + index) % 90 for index in range(PROMPT_TOKENS)]
        return await self._time_request(lease, Route.COMPLETIONS, {"prompt": prompt, "max_tokens": ANSWER_TOKENS})

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


def _engine() -> "EngineTraits":
    """Return the engine for what is measured with: models in GGUF."""
    from app.gateway.advising.engine_table import engine_table  # noqa: PLC0415 -- as above

    return engine_table().reader(ModelFormat.GGUF)
