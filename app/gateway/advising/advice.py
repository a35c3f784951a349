"""What the pure advisor is asked with, gathered here, and how true its answers turned out.

It is asked with machine, facts, calibrations, installed engines, and the files there are to choose from. Publishers
make the same handful of quantisations of nearly every model. What they would weigh is computed from the model's shape;
what a repository really offers is known once it has been looked at.

After every load, what was predicted, what the engine says it took, and what the system sees are kept side by side.
People are shown the difference, and what a process takes beyond its buffers is known from then on.
"""

import asyncio
import logging
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from statistics import median

import msgspec
import psutil

from app.advisor.choosing import targets
from app.advisor.choosing.engine_table import EngineTraits
from app.advisor.memory import estimate as memory
from app.advisor.memory.setting import RunSetting
from app.advisor.plans.drafting import judge_head
from app.advisor.plans.ranking import PlanInputs, build_advice
from app.advisor.speed import calibration as speed_seen
from app.advisor.speed import estimate as speed
from app.advisor.speed.estimate import prefill_rate
from app.config.store import SettingsStore
from app.core.advice import (
    Advice,
    Amount,
    Calibration,
    Estimate,
    EstimateAccuracy,
    EstimateConfidence,
    EstimateRequest,
    Generation,
    Intent,
    PlanRequest,
    Rate,
    best_calibration,
)
from app.core.engines import EngineInfo, EngineStatus
from app.core.errors import BadRequest, NotFound, RoundhouseError, quote_value
from app.core.events import EngineChanged
from app.core.machine import Confidence, Machine
from app.core.model_facts import ModelFacts
from app.core.models import ModelInfo, ModelSettings
from app.engine_store.host import described_host, host_of
from app.gateway.advising.companions import add_companions
from app.gateway.advising.engine_table import engine_table, engines_for
from app.gateway.advising.machine import MachineReader
from app.gateway.advising.model_facts import FactsReader, find_well_known
from app.gateway.advising.speed_measurements import SpeedMeasurements
from app.gateway.loading.draft_choice import choose_draft
from app.gateway.loading.gpu_choice import machine_with_gpu
from app.gateway.loading.launch import UNCHOSEN, choose_options, launch_options
from app.gateway.loading.measured_names import MeasuredAs, find_purpose
from app.gateway.services import Services
from app.hardware.description import machine_from
from app.hub.library.library import Library
from app.hub.repositories.answers import HubMemory
from engines.api import LaunchOptions

log = logging.getLogger(__name__)

KV_TYPES = ("f16", "q8_0", "q4_0")
USUAL_CONTEXT = 8192
"""What an estimate is for when nobody says: a long conversation, and within what every model was trained for."""
_LOADS_LOOKED_AT = 5
MOST_CONTEXT = 1 << 24

FORMS: dict[str, tuple[str, ...]] = {
    "gguf": ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "IQ4_XS", "Q3_K_M", "IQ3_M", "Q2_K"),
    "mlx": ("8bit", "6bit", "4bit", "3bit"),
    "exl2": ("8.0bpw", "6.0bpw", "5.0bpw", "4.0bpw", "3.0bpw"),
    "exl3": ("8.0bpw", "6.0bpw", "5.0bpw", "4.0bpw", "3.5bpw", "3.0bpw", "2.5bpw", "2.2bpw", "2.0bpw"),
    "safetensors": ("BF16",),
    "fp8": ("FP8",),
    "nvfp4": ("NVFP4",),
    "awq": ("4bit",),
    "gptq": ("4bit",),
    "openvino": ("int8", "int4"),
    "onnx-genai": ("int4",),
    "mlc": ("q4f16_1",),
}
"""Format -> the quantisations that are usually published, the best first.

EXL3's rates are branches of turboderp's repositories, such as Qwen3.8-27B-exl3 (October 2026).
"""

_MADE_NO_MORE = frozenset({"exl2"})
"""Formats whose library is frozen (ExLlamaV2's, since December 2025): only of some models there are such weights."""
DYNAMIC = ("UD-Q4_K_XL", "UD-Q3_K_XL", "UD-IQ3_XXS", "UD-Q2_K_XL", "UD-IQ2_XXS")
_WITH_DYNAMIC = re.compile(r"qwen3|qwen35|gemma[34]|llama4|glm4moe|deepseek2|mistral[34]|minimax|hunyuan-moe|kimi")
"""Architectures of models whose uploads by Unsloth are "dynamic" (2.0, since April 2025), by llama.cpp's names."""

REFERENCE = (
    "Qwen3 0.6B",
    "Qwen3 1.7B",
    "Qwen3 4B",
    "Qwen3 8B",
    "Qwen3 14B",
    "Qwen3 32B",
    "Llama 3.3 70B",
    "Qwen3 235B-A22B",
)
"""Well-known models from small to large, to take a machine's measure with where no model is named."""
_REFERENCE_FORMS = {"gguf": ("Q4_K_M",), "mlx": ("4bit",), "exl2": ("4.0bpw",), "exl3": ("4.0bpw",)}
_SERVED_FORMS = {"safetensors": ("BF16",), "fp8": ("FP8",), "openvino": ("int4",), "onnx-genai": ("int4",)}


NATIVE_FORMS = {"MXFP4": {"gguf": ("MXFP4",), "mxfp4": ("MXFP4",), "mlx": ("4bit",)}}
"""MLX repacks MXFP4 as its own four bits; the others keep it."""
PURPOSES = {"model": "weights", "kv": "kv", "recurrent": "state", "compute": "compute", "output": "output"}
"""What an adapter calls a buffer -> what an estimate calls it."""
_PREDICTED = ("weights", "kv", "state", "compute", "output", "runtime", "total")
SETTLES_S = 0.5
"""An engine may answer before the lines in which it says what it took have been written and read."""


class ObservedSpeeds(msgspec.Struct, frozen=True, kw_only=True):
    """What this machine showed: of the engine, and of the model itself."""

    calibrations: list[Calibration] = []
    generations: list[Generation] = []


class CandidateModels(msgspec.Struct, frozen=True, kw_only=True):
    """The candidates, the name to show, and whether there is nothing else of that model to be had."""

    candidates: Sequence[ModelFacts]
    model: str = ""
    is_fixed: bool = False


async def make_plan(
    services: Services, request: PlanRequest, candidates_found: CandidateModels | None = None
) -> Advice:
    """Return ranked plans, for the candidates given where no model was named.

    Raises BadRequest for impossible wishes, NotFound for an unknown model.
    """
    check_plan(request)
    machine, is_here = await machine_for(services.machine, request.machine)
    if candidates_found is None:
        name = request.model.strip()
        by_name = await find_candidates(services.facts, name)
        candidates_found = await asyncio.to_thread(_know_by_catalogue, services.hub, services.settings, name, by_name)
    own = await asyncio.to_thread(_preferences_for, services, request) if is_here else PlanPreferences()
    machine = machine_with_gpu(machine, own.gpu)
    engines = await asyncio.to_thread(services.catalogue.list_engines) if is_here else []
    host = host_of(machine) if is_here else described_host(machine)
    supports = await asyncio.to_thread(services.support.read_all) if is_here else {}
    inputs = PlanInputs(
        traits=engines_for(machine, services.catalogue.recipes, engines, host, supports),
        machine=machine,
        candidates=list(candidates_found.candidates),
        model=candidates_found.model,
        intent=request.intent,
        users=request.users,
        context=request.context or own.context,
        is_context_set=request.context is None,
        slots=own.slots if request.users == 1 else 1,
        preferred=own.engines,
        drafts=own.drafts,
        templates=own.templates,
        loras=request.loras,
        kv_type=request.kv_type or own.kv_type,
        engines=engines,
        calibrations=await services.speed_measurements.calibrations() if is_here else [],
        is_fixed=candidates_found.is_fixed,
    )
    return await asyncio.to_thread(build_advice, inputs)


class PlanPreferences(msgspec.Struct, frozen=True, kw_only=True):
    """What a person set that a plan for this computer keeps to, as a load does."""

    context: int | None = None
    slots: int = 1
    kv_type: str | None = None
    gpu: str | None = None
    engines: Sequence[str] = ()
    drafts: Mapping[str, str] = {}
    """Engine -> what drafts for the model there."""
    templates: Mapping[str, RunSetting] = {}
    """Engine -> a setting with what is loaded beside the model there."""


def _preferences_for(services: Services, request: PlanRequest) -> PlanPreferences:
    """Return what is set for a model of the library; for others, which engines are preferred. Reads disks."""
    preferred_engines = services.settings.get_list("engines.preferred")
    try:
        model = services.library.find_model(request.model.strip())
    except NotFound:
        return PlanPreferences(engines=preferred_engines)
    own = services.model_settings.settings_of(model.runs_as)
    unchosen_options = choose_options(services.settings, model, UNCHOSEN, own)
    loads = _loads_of(services, model, own)
    decided_engines = {engine for engine in loads if choose_draft(services, model, own, engine).is_decided}
    is_usual = request.intent is Intent.CHAT or own.context is not None
    return PlanPreferences(
        context=unchosen_options.context if is_usual else None,
        slots=unchosen_options.slots,
        kv_type=unchosen_options.kv_type,
        gpu=own.gpu,
        engines=[own.engine] if own.engine else preferred_engines,
        drafts={engine: options.draft_name for engine, options in loads.items() if engine in decided_engines},
        templates={
            engine: add_companions(
                services.facts,
                RunSetting(engine=engine_table()[engine]),
                options if engine in decided_engines else msgspec.structs.replace(options, draft=None),
            )
            for engine, options in loads.items()
            if engine in engine_table()
        },
    )


def _loads_of(services: Services, model: ModelInfo, own: ModelSettings) -> Mapping[str, LaunchOptions]:
    """Return what the engines here would be told; what cannot be had with one is the load's to refuse."""
    loads: dict[str, LaunchOptions] = {}
    for engine in () if model.attached else services.catalogue.readers_of(model.format):
        if engine.installed:
            with suppress(RoundhouseError):
                loads[engine.id] = launch_options(services, model, UNCHOSEN, own, engine=engine.id)
    return loads


async def estimate_model(services: Services, request: EstimateRequest) -> Estimate:
    """Return what running a model takes. Raises BadRequest for impossible wishes, NotFound for an unknown model."""
    _check_estimate(request)
    facts, (machine, is_here) = await asyncio.gather(
        services.facts.find(request.model), machine_for(services.machine, request.machine)
    )
    engines = await asyncio.to_thread(services.catalogue.list_engines) if is_here else []
    setting = setting_for(facts, machine, request, engines)
    loaded_setting = await asyncio.to_thread(_as_loaded, services, request.model, setting) if is_here else None
    setting = loaded_setting or _with_head(facts, setting)
    if is_here:
        shift = runtime_shift(await services.chats.list_loads(), setting.engine.id)
        setting = msgspec.structs.replace(setting, runtime_shift=shift)
    observed_speeds = (
        await collect_speeds(services.library, services.speed_measurements, request.model, setting)
        if is_here
        else ObservedSpeeds()
    )
    rates = predict_speed(facts, machine, observed_speeds, depth=request.depth)
    result = memory.estimate_memory(facts, machine, setting, speed=rates)
    if (
        result.is_parted and setting.has_own_draft and loaded_setting is None
    ):  # with a part in system memory no head pays
        whole = msgspec.structs.replace(setting, has_own_draft=False)
        result = memory.estimate_memory(facts, machine, whole, speed=rates)
    if not any(engine.id == setting.engine.id and engine.installed for engine in engines):
        result = with_verdict_of_engine(result, targets.explain_lack(machine, setting.engine))
    return _note_table_estimate(result, facts) if facts.confidence is Confidence.TABLE else result


def _with_head(facts: ModelFacts, setting: RunSetting) -> RunSetting:
    """Return the setting with the model's own head, where that is predicted to pay."""
    verdict = judge_head(facts, setting)
    return msgspec.structs.replace(setting, has_own_draft=True) if verdict is not None and verdict.pays else setting


def _as_loaded(services: Services, name: str, setting: RunSetting) -> RunSetting | None:
    """Return the setting with what a load of a model of the library brings besides: its draft, what it sees with.

    None for a model that is not in the library.
    """
    with suppress(RoundhouseError):  # a model of no library, or files that are the load's to refuse
        model = services.library.find_model(name.strip())
        own = services.model_settings.settings_of(model.runs_as)
        options = launch_options(services, model, UNCHOSEN, own, engine=setting.engine.id)
        return add_companions(services.facts, setting, options)
    return None


def with_verdict_of_engine(result: Estimate, why_not: str) -> Estimate:
    """Return the estimate as it is for a machine the engine runs on; elsewhere nothing fits, and `why_not` says why."""
    if not why_not:
        return result
    return msgspec.structs.replace(result, fits=False, largest_context=0, notes=[why_not, *result.notes])


def _note_table_estimate(result: Estimate, facts: ModelFacts) -> Estimate:
    """Return the estimate of a model known by name only, saying so: its publisher may have mixed types otherwise."""
    note = (
        f"Computed from the published shape of {facts.name} as {facts.quantization} ({facts.format}), not from a file."
    )
    weights = msgspec.structs.replace(result.weights, confidence=EstimateConfidence.TABLE)
    return msgspec.structs.replace(result, weights=weights, notes=[*result.notes, note])


def runtime_shift(loads: Sequence[EstimateAccuracy], engine: str) -> int | None:
    """Return by how much an engine's process turned out larger than predicted, over its last loads.

    Loads whose pages the system had not all in memory say nothing.
    """
    shifts = [
        load.resident - load.logged["total"] - (load.predicted["runtime"] - load.runtime_shift)
        for load in loads
        if load.engine == engine and load.resident and 0 < load.logged.get("total", 0) < load.resident
    ]
    return round(median(shifts[:_LOADS_LOOKED_AT])) if shifts else None


async def machine_for(machine: MachineReader, description: Mapping[str, msgspec.Raw] | None) -> tuple[Machine, bool]:
    """Return the machine described, or this one with what is free now; and whether it is this one."""
    if description is None:
        return await machine.read_free(), True
    return await asyncio.to_thread(machine_from, msgspec.json.encode(description)), False


async def collect_speeds(
    library: Library, measurements: SpeedMeasurements, model: str, setting: RunSetting
) -> ObservedSpeeds:
    """Return what was measured of an engine here, and of this model on it."""
    engine, backend = setting.engine.id, setting.backend
    try:
        name = (await asyncio.to_thread(library.find_model, model)).name
    except NotFound:
        name = model
    return ObservedSpeeds(
        calibrations=await measurements.calibrations(),
        generations=await measurements.generations(name, engine=engine, backend=backend),
    )


def predict_speed(
    facts: ModelFacts, machine: Machine, observed_speeds: ObservedSpeeds, *, depth: int = 0
) -> memory.SpeedModel:
    """Return how to predict the speed of a model: measured beats calibrated beats predicted."""

    def rates(setting: RunSetting, at: int) -> tuple[Rate | None, Rate | None]:
        calibration = best_calibration(observed_speeds.calibrations, engine=setting.engine.id, backend=setting.backend)
        decode = speed.decode_rate(facts, machine, setting, depth=at, calibration=calibration)
        if decode is not None and observed_speeds.generations:
            answer_rates = speed_seen.predict_answers(observed_speeds.generations, facts, machine, setting, calibration)
            decode = speed_seen.correct_by_answers(decode, answer_rates, observed_speeds.generations)
        return decode, prefill_rate(facts, machine, setting, depth=at, calibration=calibration)

    return memory.SpeedModel(rates=rates, depth=depth)


def setting_for(
    facts: ModelFacts, machine: Machine, request: EstimateRequest, engines: Sequence[EngineInfo]
) -> RunSetting:
    """Return the setting a request stands for. An engine that is installed runs on the backend it was built for."""
    table = engine_table()
    engine = table[request.engine] if request.engine else table.reader(facts.format)
    context = request.context or USUAL_CONTEXT
    return RunSetting(
        engine=engine,
        backend=backend_of(engine, machine, engines),
        context=min(context, facts.trained_context or context),
        slots=request.slots or 1,
        kv_type=request.kv_type or "f16",
        task="embed" if "chat" not in facts.capabilities and "embedding" in facts.capabilities else "chat",
        gpu_layers=request.gpu_layers,
        gpus=max(1, len(targets.gpus_for(machine, engine))),
    )


def backend_of(engine: EngineTraits, machine: Machine, engines: Sequence[EngineInfo]) -> str:
    """Return what an engine computes with: as it is installed here, else the best the machine offers it."""
    installed_engine = next(
        (engine_info for engine_info in engines if engine_info.id == engine.id and engine_info.installed), None
    )
    if installed_engine is not None and installed_engine.backend:
        return installed_engine.backend
    return targets.find_target(machine, engine).backend or "cpu"


def _check_estimate(request: EstimateRequest) -> None:
    if request.engine is not None and request.engine not in engine_table():
        raise BadRequest(
            f"There is no engine called {quote_value(request.engine)}.",
            hint=f"There are {', '.join(engine_table())}.",
            code="engine_unknown",
        )
    _check_figures(request, context=(1, MOST_CONTEXT), slots=(1, 1024), gpu_layers=(0, 4096), depth=(0, MOST_CONTEXT))


def check_plan(request: PlanRequest) -> None:
    """Raise BadRequest (invalid_value) for impossible wishes."""
    _check_figures(request, context=(1, MOST_CONTEXT), users=(1, 100_000), loras=(0, 10_000))


def _check_figures(request: PlanRequest | EstimateRequest, **bounds: tuple[int, int]) -> None:
    """Raise BadRequest for a figure that is out of bounds, and for a KV type nobody has."""
    for name, (least, most) in bounds.items():
        value = getattr(request, name)
        if value is not None and not least <= value <= most:
            raise BadRequest(f"`{name}` must be from {least} to {most}, not {value}.", code="invalid_value")
    if request.kv_type is not None and request.kv_type not in KV_TYPES:
        raise BadRequest(f"`kv_type` must be one of {', '.join(KV_TYPES)}.", code="invalid_value")


async def find_candidates(facts: FactsReader, model: str) -> CandidateModels:
    """Return what could be run when `model` is wanted. Raises NotFound or BadRequest."""
    if not model:
        return CandidateModels(candidates=list(reference_models()))
    well_known = None if await asyncio.to_thread(facts.is_here, model) else find_well_known(model)
    if well_known is None or well_known.quantization:
        facts_found = await facts.find(model)
        return CandidateModels(candidates=[facts_found], model=facts_found.name, is_fixed=True)
    forms = list(forms_of(well_known.name, native=well_known.native))
    return CandidateModels(candidates=forms, model=forms[0].name)


def _know_by_catalogue(
    hub: HubMemory, settings: SettingsStore, name: str, candidates: CandidateModels
) -> CandidateModels:
    """Return the candidates without formats that nobody makes any more, unless the catalogue lists some for the model.

    Those that are published with a head that drafts have it. Of a model that the catalogue does not have nothing is
    known, and its architecture decides.
    """
    if not name or candidates.is_fixed:
        return candidates
    match = hub.catalogue.find_match(name, key=settings.get_text("catalogue.key"))
    unknown = _MADE_NO_MORE - set(match.entry.repositories) if match is not None else frozenset()
    known_candidates = [facts for facts in candidates.candidates if facts.format not in unknown]
    if match is not None:
        from app.hub.repositories.catalogue_facts import with_head  # noqa: PLC0415 -- the gateway starts without shapes

        known_candidates = [with_head(match.entry, facts) for facts in known_candidates]
    return msgspec.structs.replace(candidates, candidates=known_candidates)


@cache
def forms_of(name: str, *, native: str = "") -> tuple[ModelFacts, ...]:
    """Return a well-known model in every usual form; `native` is the quantisation of one that comes in no other."""
    from app.hub.shapes import find_shape  # noqa: PLC0415 -- as below

    forms, shape = NATIVE_FORMS.get(native, FORMS), find_shape(name)
    if not native and shape is not None and _WITH_DYNAMIC.match(shape.architecture):
        forms = {**forms, "gguf": (*forms["gguf"], *DYNAMIC)}
    return _model_in_forms(name, forms)


@cache
def reference_models() -> tuple[ModelFacts, ...]:
    """Return the reference models in the usual balance of every format."""
    forms = {**_REFERENCE_FORMS, **_SERVED_FORMS}
    return tuple(facts for name in REFERENCE for facts in _model_in_forms(name, forms))


def _model_in_forms(name: str, forms: Mapping[str, tuple[str, ...]]) -> tuple[ModelFacts, ...]:
    from app.hub.shapes import shape_facts  # noqa: PLC0415 -- the gateway starts without it

    return tuple(
        shape_facts(name, quantization, format=kind)
        for kind, quantizations in forms.items()
        for quantization in quantizations
    )


async def watch_loads(services: Services) -> None:
    """Note every load until cancelled. A load that cannot be judged costs a line in the log, nothing else."""
    latest: dict[str, EngineStatus] = {}
    with services.events.watch(EngineChanged) as events:
        async with asyncio.TaskGroup() as group:

            def note_status(status: EngineStatus) -> None:
                before = latest.get(status.model)
                latest[status.model] = status
                if status.loaded_at is not None and (before is None or before.loaded_at != status.loaded_at):
                    group.create_task(_record_load(services, latest, status))

            for status in services.supervisor.list_statuses():  # loaded before anybody watched
                note_status(status)
            async for event in events:
                if isinstance(event, EngineChanged):
                    note_status(event.status)


async def _record_load(services: Services, latest: Mapping[str, EngineStatus], engine_status: EngineStatus) -> None:
    await asyncio.sleep(SETTLES_S)
    status = latest[engine_status.model]
    if status.loaded_at != engine_status.loaded_at:
        return  # it has gone again, and what it took was not all heard
    if find_purpose(status.model) not in {None, MeasuredAs.BENCHMARK}:
        return  # predicted is what is set for the model, and this was loaded otherwise
    try:
        await services.chats.add_load(await compare_load(services, status))
    except RoundhouseError as error:  # such as a model that is known by no name
        log.info("The load of %s was not compared with its prediction: %s", status.model, error)
    except Exception:  # one load that cannot be judged must not end the watching
        log.exception("The load of %s could not be compared with its prediction", status.model)


async def compare_load(services: Services, status: EngineStatus) -> EstimateAccuracy:
    """Return what a running engine took against what was predicted. Raises NotFound or BadRequest."""
    model = status.model.removesuffix(MeasuredAs.BENCHMARK)
    request = EstimateRequest(
        model=model,
        engine=status.engine,
        context=status.context,
        slots=status.slots,
        kv_type=status.kv_type or None,
    )
    shift = runtime_shift(await services.chats.list_loads(), status.engine)
    prediction = await estimate_model(services, request)
    amounts: dict[str, Amount] = {name: getattr(prediction, name) for name in _PREDICTED}
    return EstimateAccuracy(
        model=model,
        engine=status.engine,
        version=status.version,
        predicted={name: amount.bytes for name, amount in amounts.items()},
        logged=sum_buffers(status.buffers),
        resident=_resident_bytes(status.pid),
        runtime_shift=shift or 0,
        at=time.time(),
    )


def sum_buffers(buffers: Mapping[str, int]) -> dict[str, int]:
    """Return the engine's buffers by component, and their total."""
    sizes = {PURPOSES[purpose]: size for purpose, size in buffers.items() if purpose in PURPOSES}
    return {**sizes, "total": sum(sizes.values())} if sizes else {}


def _resident_bytes(pid: int | None) -> int | None:
    try:
        return None if pid is None else psutil.Process(pid).memory_info().rss
    except psutil.Error:
        return None
