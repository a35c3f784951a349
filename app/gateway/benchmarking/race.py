"""The race: engines on the same weights under the same workload, one after the other; the winner is used for the model.

Only engines that are here run, unless a person names others to be installed. A race that other programs disturb changes
nothing; an engine that cannot load the model is out of it.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from app.core.advice import EstimateRequest
from app.core.benchmarks import (
    BenchmarkReceipt,
    BenchmarkSettings,
    RaceCandidate,
    RaceEntry,
    RacePlan,
    RaceResult,
    StartBenchmark,
    StartRace,
)
from app.core.errors import BadRequest, Conflict, EngineFailed, RoundhouseError, UserError
from app.core.events import RaceChanged, SettingChanged
from app.gateway.advising.measuring_job import MeasuringJob
from app.gateway.advising.quiet_rounds import read_processor_times
from app.gateway.library.model_choices import settings_for_engine
from app.gateway.loading.launch import engine_for, find_model
from app.gateway.services import Services

if TYPE_CHECKING:
    from app.core.models import ModelInfo, ModelSettings
    from app.gateway.benchmarking.system_watch import ReadCounters
    from app.gateway.benchmarking.text_density import TextDensities

_USUAL = BenchmarkSettings()
InstallEngineNow = Callable[[str], Awaitable[None]]
"""Installs an engine and returns once it is there. Raises RoundhouseError."""


async def plan_race(services: Services, name: str, settings: BenchmarkSettings = _USUAL) -> RacePlan:
    """Return who could run, and what it takes. Raises NotFound, or BadRequest for a model that runs elsewhere."""
    from app.benchmark.racing import DOWNLOAD_BYTES_S  # noqa: PLC0415 -- start-up must not pay for it
    from app.engine_store.host import host_of, unfit_reason  # noqa: PLC0415 -- as above

    model = await require_own_model(services, name)
    readers = await asyncio.to_thread(services.catalogue.readers_of, model.format)
    current = await asyncio.to_thread(_current_engine, services, model)
    host = host_of(await services.machine.read())
    earlier = [
        receipt
        for receipt in await services.chats.list_benchmarks(model=model.name)
        if receipt.settings.workload is settings.workload and not receipt.disturbances
    ]
    candidates: list[RaceCandidate] = []
    for reader in readers:
        recipe = services.catalogue.recipes.get(reader.id)
        variants = [variant for variant in recipe.variants if not unfit_reason(variant, host)] if recipe else []
        if not reader.installed and not variants:
            continue
        variant = None if reader.installed else variants[0]
        last = next((receipt for receipt in earlier if receipt.target.engine == reader.id), None)
        candidates.append(
            RaceCandidate(
                engine=reader.id,
                name=reader.name,
                version=reader.version,
                is_installed=reader.installed,
                is_current=reader.id == current,
                measured_version=last.target.engine_version if last else "",
                download_bytes=variant.download_bytes if variant else 0,
                disk_bytes=variant.disk_bytes if variant else 0,
                download_s=variant.download_bytes / DOWNLOAD_BYTES_S if variant else 0.0,
                measure_s=await _estimate_duration(services, model, reader.id, settings, last),
            )
        )
    return RacePlan(model=model.name, candidates=candidates)


async def _estimate_duration(
    services: Services, model: "ModelInfo", engine: str, settings: BenchmarkSettings, last: BenchmarkReceipt | None
) -> float | None:
    """Return how long measuring takes: as it took, else by the advisor's speeds; None where it knows none."""
    from app.benchmark.racing import duration_of, predict_duration_s  # noqa: PLC0415 -- start-up must not pay for it
    from app.gateway.advising.advice import estimate_model  # noqa: PLC0415 -- as above

    if last is not None and last.settings.concurrency == settings.concurrency:
        return duration_of(last)
    try:
        estimate = await estimate_model(services, EstimateRequest(model=model.name, engine=engine))
    except RoundhouseError:
        return None
    if estimate.decode is None or estimate.prefill is None:
        return None
    return predict_duration_s(
        settings,
        size_bytes=model.size_bytes,
        prefill_tokens_s=estimate.prefill.tokens_per_second,
        decode_tokens_s=estimate.decode.tokens_per_second,
    )


class Races(MeasuringJob[RaceChanged]):
    """Runs one race at a time in the background. Belongs to the event loop's thread."""

    def __init__(self, services: Services, read: "ReadCounters | None" = None) -> None:
        super().__init__(
            services,
            read_processor_times,
            title="The race",
            conflict=lambda job: Conflict(f"A race with {job.model} goes on."),
        )
        self._read = read

    async def start(self, request: StartRace, install: InstallEngineNow) -> RaceChanged:
        """Begin. Raises NotFound, BadRequest where there is nobody to race against, Conflict while one runs."""
        self.job.check_idle()
        plan = await plan_race(self._services, request.model, request.settings)
        candidate_by_engine = {candidate.engine: candidate for candidate in plan.candidates}
        for name in request.installs:
            if name not in candidate_by_engine:
                raise BadRequest(
                    f"{name} cannot be installed here, or does not read this model.", code="engine_unusable"
                )
        names = [name for name, part in candidate_by_engine.items() if part.is_installed or name in request.installs]
        if len(names) < 2:  # noqa: PLR2004 -- a race has two
            raise BadRequest(
                f"Only {names[0] if names else 'no engine'} is installed that reads {plan.model}.",
                hint=_install_hint(plan),
                code="nobody_to_race",
            )
        missing_engines = [name for name in names if not candidate_by_engine[name].is_installed]
        return self.job.start(
            RaceChanged(model=plan.model, stage="Getting ready", fraction=0.0),
            lambda: self._measure(self._run(request, plan, names, _Installer(install, missing_engines))),
        )

    async def _run(self, request: StartRace, plan: RacePlan, names: list[str], installer: "_Installer") -> None:
        from app.gateway.benchmarking.text_density import TextDensities  # noqa: PLC0415 -- start-up must not pay for it

        for name in installer.missing:
            self.job.tell(stage=f"Installing {name}", fraction=0.0)
            await installer.install(name)
        model = await require_own_model(self._services, request.model)
        before = await asyncio.to_thread(_current_engine, self._services, model)
        order = list(names)
        random.Random(request.settings.seed).shuffle(order)  # noqa: S311 -- drawn, so that nobody always comes first
        densities = TextDensities()
        receipts: dict[str, BenchmarkReceipt] = {}
        problems: dict[str, str] = {}
        for place, name in enumerate(order):
            try:
                receipts[name] = await self._measure_engine(request, name, (place, len(order)), densities)
            except (EngineFailed, UserError) as error:
                if isinstance(error, Conflict):  # disturbed: nobody's figures could be set against the others'
                    raise
                problems[name] = str(error)
        await self._conclude(model, before, receipts, problems, plan)

    async def _measure_engine(
        self, request: StartRace, engine: str, place: tuple[int, int], densities: "TextDensities"
    ) -> BenchmarkReceipt:
        from app.gateway.benchmarking.run import BenchmarkRun  # noqa: PLC0415 -- start-up must not pay for it
        from app.gateway.benchmarking.system_watch import read_counters  # noqa: PLC0415 -- as above

        number, count = place

        def publish(stage: str, fraction: float) -> None:
            self.job.tell(stage=f"{engine}: {stage}", fraction=(number + fraction) / count)

        settings = msgspec.structs.replace(request.settings, engine=engine)
        run = BenchmarkRun(self._services, self.job.off, publish, self._read or read_counters)
        run.densities = densities  # so that all get the same prompts, also those that cannot count
        return await run.measure(StartBenchmark(model=request.model, settings=settings))

    async def _conclude(
        self,
        model: "ModelInfo",
        before: str,
        receipts: dict[str, BenchmarkReceipt],
        problems: dict[str, str],
        plan: RacePlan,
    ) -> None:
        """Keep what was measured, and use the winner."""
        from app.benchmark.racing import describe_race, pick_winner, race_entry  # noqa: PLC0415 -- as above

        services = self._services
        if not receipts:
            raise EngineFailed(f"No engine ran {model.name}: {'; '.join(problems.values())}", code="race_failed")
        entries: list[RaceEntry] = []
        for receipt in receipts.values():
            note = await self._note_change(receipt)
            entries.append(race_entry(receipt, receipts.get(before), note=note))
            await services.chats.save_benchmark(receipt)
        entries += [RaceEntry(engine=name, problem=problem) for name, problem in problems.items()]
        winner = pick_winner(entries, before)
        own = changed_settings = services.model_settings.settings_of(model.runs_as)
        if winner != before:
            changed_settings = await asyncio.to_thread(settings_for_engine, services, model, own, winner)
            await keep_settings(services, model, changed_settings)
        titles = {candidate.engine: candidate.name for candidate in plan.candidates}
        result = RaceResult(
            model=model.name,
            engine_before=before,
            settings_before=own,
            settings=changed_settings,
            winner=winner,
            is_change=winner != before,
            sentence=describe_race(entries, before, winner, titles),
            entries=entries,
        )
        self.job.keep(result=result)

    async def _note_change(self, receipt: BenchmarkReceipt) -> str:
        """Return how much slower this version is than the one measured before, in words; empty if it is not."""
        from app.benchmark.comparison import compare_receipts  # noqa: PLC0415 -- as above
        from app.benchmark.gains import format_ratio  # noqa: PLC0415 -- as above

        target = receipt.target
        for earlier in await self._services.chats.list_benchmarks(model=target.model):
            is_other_version = earlier.target.engine == target.engine
            is_other_version = is_other_version and earlier.target.engine_version != target.engine_version
            if is_other_version and earlier.settings == receipt.settings and not earlier.disturbances:
                figures = compare_receipts(earlier, receipt).figures
                slower = next((part for part in figures if part.name == "End to end" and part.ratio.low > 1), None)
                if slower is None:
                    return ""
                return f"{format_ratio(slower.ratio)} times as slow as version {earlier.target.engine_version}"
        return ""


class _Installer(msgspec.Struct, frozen=True):
    """Who is to be installed, and how."""

    install: InstallEngineNow
    missing: list[str]


def _install_hint(plan: RacePlan) -> str:
    names = [candidate.engine for candidate in plan.candidates if not candidate.is_installed]
    return f"Others that could be installed: {', '.join(names)}." if names else ""


async def require_own_model(services: Services, name: str) -> "ModelInfo":
    """Return a model of this computer. Raises NotFound, or BadRequest for one that runs elsewhere."""
    model = await find_model(services, name)
    if model.attached:
        raise BadRequest(f"{model.name} runs elsewhere: its endpoint decides what runs it.", code="model_unusable")
    return model


async def keep_settings(services: Services, model: "ModelInfo", settings: "ModelSettings") -> None:
    """Have what was measured to be faster count from the next load on."""
    await asyncio.to_thread(services.model_settings.change_settings, model.runs_as, settings)
    services.events.publish(SettingChanged(name=f"model.{model.runs_as}"))


def _current_engine(services: Services, model: "ModelInfo") -> str:
    return engine_for(services, model, services.model_settings.settings_of(model.runs_as)).id
