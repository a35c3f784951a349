"""The one benchmark that runs: begun, followed by events, called off, and its receipt kept."""

from typing import TYPE_CHECKING

import msgspec

from app.core.benchmarks import StartBenchmark
from app.core.errors import Conflict
from app.core.events import BenchmarkChanged
from app.gateway.advising.measuring_job import MeasuringJob
from app.gateway.advising.quiet_rounds import read_processor_times
from app.gateway.services import Services

if TYPE_CHECKING:
    from app.gateway.benchmarking.system_watch import ReadCounters


class Benchmarks(MeasuringJob[BenchmarkChanged]):
    """Runs one at a time in the background. Belongs to the event loop's thread."""

    def __init__(self, services: Services, read: "ReadCounters | None" = None) -> None:
        super().__init__(
            services,
            read_processor_times,
            title="The benchmark",
            conflict=lambda job: Conflict(f"A benchmark of {job.model} goes on."),
        )
        self._read = read

    async def start(self, request: StartBenchmark) -> BenchmarkChanged:
        """Begin. Raises NotFound, BadRequest or EngineFailed for what cannot be measured, Conflict while one runs."""
        from app.gateway.benchmarking.targets import check_request  # noqa: PLC0415 -- start-up must not pay for it

        self.job.check_idle()
        levels = sorted(set(request.settings.concurrency))
        request = msgspec.structs.replace(
            request, settings=msgspec.structs.replace(request.settings, concurrency=levels)
        )
        await check_request(self._services, request)
        return self.job.start(
            BenchmarkChanged(model=request.model or request.url, stage="Getting ready", fraction=0.0),
            lambda: self._measure(self._run(request)),
        )

    async def _run(self, request: StartBenchmark) -> None:
        from app.gateway.benchmarking.run import BenchmarkRun  # noqa: PLC0415 -- as above
        from app.gateway.benchmarking.system_watch import read_counters  # noqa: PLC0415 -- as above

        run = BenchmarkRun(self._services, self.job.off, self._publish_stage, self._read or read_counters)
        receipt = await run.measure(request)
        await self._services.chats.save_benchmark(receipt)
        self.job.keep(receipt=receipt.id)

    def _publish_stage(self, stage: str, fraction: float) -> None:
        self.job.tell(stage=stage, fraction=fraction)
