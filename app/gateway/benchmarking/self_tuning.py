"""Self-tuning: a model is loaded with other settings and asked the same, and what is faster beyond noise is kept.

Each visit loads the model anew under a name of its own and times some requests one at a time, as a benchmark does.
Whether a setting helps is decided by visits in a drawn order; what is put together is tried against the settings of
before in turns, so that a computer that grows warm slows both down.
"""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from app.core.benchmarks import (
    BenchmarkSample,
    BenchmarkSettings,
    CandidateResult,
    LossResult,
    StartBenchmark,
    StartTune,
)
from app.core.errors import BadRequest, Conflict, EngineFailed, UserError
from app.core.events import TuneChanged
from app.core.models import CompanionKind, LoadOptions, ModelChoices, ModelSettings
from app.gateway.advising.measuring_job import MeasuringJob
from app.gateway.advising.quiet_rounds import read_processor_times
from app.gateway.benchmarking.race import keep_settings, require_own_model
from app.gateway.library.model_choices import list_choices
from app.gateway.loading.draft_choice import own_drafts_of
from app.gateway.loading.launch import load_request_for
from app.gateway.services import Services

if TYPE_CHECKING:
    from app.benchmark.tuning import CandidateScope, SettingCandidate
    from app.core.models import ModelInfo
    from app.gateway.benchmarking.run import BenchmarkRun
    from app.gateway.benchmarking.setting_search import SettingSearch
    from app.gateway.benchmarking.system_watch import ReadCounters

ANSWER_TOKENS = 48
VISIT_REQUESTS = 3
MOST_DRAFTS = 2
"""Smaller models that are tried as drafts."""


class SelfTuning(MeasuringJob[TuneChanged]):
    """Runs one at a time in the background. Belongs to the event loop's thread."""

    def __init__(
        self,
        services: Services,
        read: "ReadCounters | None" = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(
            services,
            read_processor_times,
            title="Self-tuning",
            conflict=lambda job: Conflict(f"Settings of {job.model} are being tried."),
        )
        self._read, self._clock = read, clock

    async def start(self, request: StartTune) -> TuneChanged:
        """Begin. Raises NotFound, BadRequest where there is nothing to try, Conflict while one runs."""
        from app.benchmark.tuning import list_untried, propose_candidates  # noqa: PLC0415 -- start-up must not pay for it

        self.job.check_idle()
        model = await require_own_model(self._services, request.model)
        if not model.chats or model.is_reranker:
            raise BadRequest(f"{model.title} does not answer in words.", code="model_unusable")
        own = self._services.model_settings.settings_of(model.runs_as)
        scope = await self._find_scope(model, own, request)
        candidates, untried_results = propose_candidates(own, scope), list_untried(scope)
        if not candidates:
            reasons = " ".join(f"{part.name.capitalize()}: {part.problem}" for part in untried_results)
            raise BadRequest(
                f"There is no other setting to try for {model.name}.", hint=reasons, code="nothing_to_tune"
            )
        return self.job.start(
            TuneChanged(model=model.name, stage="Getting ready", fraction=0.0),
            lambda: self._measure(self._run(request, model, SettingChoice(own, candidates, untried_results))),
        )

    async def _find_scope(self, model: "ModelInfo", own: ModelSettings, request: StartTune) -> "CandidateScope":
        from app.benchmark.tuning import CandidateScope  # noqa: PLC0415 -- start-up must not pay for it
        from app.gateway.benchmarking.loss import NO_LIKELY_TOKENS, tells_likely_tokens  # noqa: PLC0415 -- as above
        from app.gateway.loading.memory_fit import fit_load  # noqa: PLC0415 -- the advisor is brought in once it is needed

        services = self._services
        choices = await asyncio.to_thread(list_choices, services, model)
        load = await asyncio.to_thread(load_request_for, services, model, own=own)
        machine = await services.machine.read()
        planned_options = (await fit_load(services, load)).options if machine.gpus else None
        about = services.adapters[choices.engine].descriptor
        kv_problem = "" if request.most_loss is None or tells_likely_tokens(about) else NO_LIKELY_TOKENS
        return CandidateScope(
            takes=frozenset(choices.takes),
            engine=about.name,
            threads=load.options.threads,
            logical_cores=machine.cpu.logical_cores.value,
            usable_cores=machine.cpu.usable_cores.value,
            gpu_layers=planned_options.gpu_layers if planned_options is not None else None,
            cpu_moe_layers=planned_options.cpu_moe_layers if planned_options is not None else None,
            draft=choices.draft,
            draft_candidates=await asyncio.to_thread(_list_drafts, services, model, choices),
            tries_kv=request.most_loss is not None and not kv_problem,
            kv_problem=kv_problem,
            slots=load.options.slots,
            concurrency=request.concurrency,
        )

    async def _run(self, request: StartTune, model: "ModelInfo", choice: "SettingChoice") -> None:
        from app.benchmark.results import round_disturbances  # noqa: PLC0415 -- start-up must not pay for it
        from app.gateway.benchmarking.setting_search import SettingSearch  # noqa: PLC0415 -- as above

        run, own = self._make_run(), choice.own
        begun_at = self._clock()
        search = SettingSearch(
            own,
            choice.candidates,
            seed=request.seed,
            elapsed_s=lambda: self._clock() - begun_at,
            duration_s=request.duration_s,
        )
        settings = BenchmarkSettings(
            workload=request.workload,
            concurrency=[request.concurrency],
            requests=VISIT_REQUESTS,
            answer_tokens=ANSWER_TOKENS,
            seed=request.seed,
        )
        engine = ""
        disturbances: set[str] = set()

        async def visit_model(changed_settings: ModelSettings) -> list[BenchmarkSample]:
            nonlocal engine
            slots = changed_settings.slots or self._services.settings.get_int("models.slots")
            if changed_settings != own:
                await self._require_room(model, changed_settings, LoadOptions(slots=slots))
            start = StartBenchmark(
                model=request.model,
                settings=msgspec.structs.replace(settings, load=LoadOptions(slots=slots)),
                keeps_disturbed=request.keeps_disturbed,
            )
            timings, engine = await run.time_settings(start, changed_settings)
            if not timings.is_quiet:
                disturbances.update(round_disturbances([timings]))
            return [part.sample for part in timings.requests]

        await search.find_survivors(visit_model, self._publish_stage)
        losses = await self._measure_losses(request, search)
        kept_candidates = await search.decide(visit_model, self._publish_stage)
        result = search.make_result(model.name, engine, kept_candidates, losses)
        result = msgspec.structs.replace(result, entries=[*result.entries, *choice.untried])
        if disturbances:
            result = msgspec.structs.replace(result, is_change=False, disturbances=sorted(disturbances)[-1:])
        if result.is_change:
            await keep_settings(self._services, model, result.settings)
        self.job.keep(result=result)

    async def _require_room(self, model: "ModelInfo", changed_settings: ModelSettings, options: LoadOptions) -> None:
        """Raise BadRequest where changed settings take more memory than the model can have here."""
        from app.gateway.loading.memory_fit import fit_load  # noqa: PLC0415 -- as above

        load = await asyncio.to_thread(load_request_for, self._services, model, options, own=changed_settings)
        needs = (await fit_load(self._services, load, is_fixed=True)).needs
        capacity = await self._services.supervisor.model_capacity(model.runs_as)
        if needs is not None and any(size > capacity.get(pool, size) for pool, size in needs.pools.items()):
            raise BadRequest("There is not enough memory for it.", code="insufficient_memory")

    def _make_run(self) -> "BenchmarkRun":
        from app.gateway.benchmarking.run import BenchmarkRun  # noqa: PLC0415 -- start-up must not pay for it
        from app.gateway.benchmarking.system_watch import read_counters  # noqa: PLC0415 -- as above

        return BenchmarkRun(self._services, self.job.off, lambda _stage, _share: None, self._read or read_counters)

    async def _measure_losses(self, request: StartTune, search: "SettingSearch") -> dict[str, float]:
        """Return by how much those that can change answers do, and drop those that change them more than is allowed."""
        from app.gateway.benchmarking.setting_search import FINAL_SHARE  # noqa: PLC0415 -- as above

        losses: dict[str, float] = {}
        for candidate in search.faster:
            if candidate.can_change_answers and request.most_loss is not None:
                self._publish_stage(f"How {candidate.name} changes answers", 1 - FINAL_SHARE)
                loss = await self._measure_loss(request.model, search, candidate)
                if loss is None:
                    continue
                losses[candidate.name] = loss.kl_divergence
                if loss.kl_divergence > request.most_loss:
                    search.drop(candidate.name, "It changes answers more than is allowed.")
        return losses

    async def _measure_loss(
        self, model: str, search: "SettingSearch", candidate: "SettingCandidate"
    ) -> LossResult | None:
        """Return by how much a candidate changes answers; drop it, and return None, where that cannot be measured."""
        from app.gateway.benchmarking.loss import compare_settings  # noqa: PLC0415 -- as above

        try:
            return await compare_settings(self._services, model, search.own, candidate.apply_to(search.own))
        except (EngineFailed, UserError) as error:
            search.drop(candidate.name, str(error))
            return None

    def _publish_stage(self, stage: str, fraction: float) -> None:
        self.job.tell(stage=stage, fraction=min(1.0, fraction))


class SettingChoice(NamedTuple):
    """The settings of before, what is tried of others, and what cannot be."""

    own: ModelSettings
    candidates: "list[SettingCandidate]"
    untried: list[CandidateResult]


def _list_drafts(services: Services, model: "ModelInfo", choices: ModelChoices) -> tuple[str, ...]:
    """Return what can draft for a model: itself, and the smallest models here that fit it. Reads disks."""
    others = [part for part in choices.companions if part.kind is CompanionKind.DRAFT and not part.problem]
    smallest = sorted(others, key=lambda part: part.size_bytes)[:MOST_DRAFTS]
    return (*own_drafts_of(services, model, choices.engine), *(part.name for part in smallest))
