"""What the pure advisor is asked with, gathered here, and how true its answers turned out.

It is asked with machine, facts, calibrations, installed engines, and the files there are to choose from. Publishers
make the same handful of quantisations of nearly every model. What they would weigh is computed from the model's shape;
what a repository really offers is known once it has been looked at.

After every load, what was predicted, what the engine says it took, and what the system sees are kept side by side.
People are shown the difference, and what a process takes beyond its buffers is known from then on.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from functools import cache
from statistics import median

import msgspec
import psutil

from app.advisor.choosing import targets
from app.advisor.choosing.engine_table import EngineTraits
from app.advisor.memory import estimate as memory
from app.advisor.memory.setting import Setting
from app.advisor.plans.ranking import PlanInputs, advise
from app.advisor.speed import estimate as speed
from app.advisor.speed import seen as speed_seen
from app.advisor.speed.prefill import prefill
from app.core.advice import (
    Advice,
    Amount,
    Calibration,
    Estimate,
    EstimateConfidence,
    EstimateRequest,
    Generation,
    LoadTruth,
    PlanRequest,
    Rate,
)
from app.core.engines import EngineInfo, EngineStatus
from app.core.errors import BadRequest, NotFound, RoundhouseError
from app.core.events import EngineChanged
from app.core.machine import Confidence, Machine
from app.core.model_facts import ModelFacts
from app.gateway.advising.engine_table import engine_table
from app.gateway.advising.machine import MachineReader
from app.gateway.advising.measuring import Measuring, best_for
from app.gateway.advising.model_facts import FactsReader, well_known
from app.gateway.services import Services
from app.hardware.description import machine_from
from app.hub.library.library import Library

log = logging.getLogger(__name__)

KV_TYPES = ("f16", "q8_0", "q4_0")
USUAL_CONTEXT = 8192
"""What an estimate is for when nobody says: a long conversation, and within what every model was trained for."""
_LOADS_LOOKED_AT = 5
MOST_CONTEXT = 1 << 24

FORMS: dict[str, tuple[str, ...]] = {
    "gguf": ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q3_K_M", "Q2_K"),
    "mlx": ("8bit", "6bit", "4bit", "3bit"),
    "exl2": ("8.0bpw", "6.0bpw", "5.0bpw", "4.0bpw", "3.0bpw"),
    "exl3": ("8.0bpw", "6.0bpw", "5.0bpw", "4.0bpw", "3.0bpw", "2.0bpw"),
    "safetensors": ("BF16",),
    "fp8": ("FP8",),
    "nvfp4": ("NVFP4",),
    "awq": ("4bit",),
    "gptq": ("4bit",),
    "openvino": ("int8", "int4"),
    "onnx-genai": ("int4",),
    "mlc": ("q4f16_1",),
}
"""Format -> the quantisations that are usually published, the best first."""

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


_NATIVE_FORMS = {"MXFP4": {"gguf": ("MXFP4",), "mxfp4": ("MXFP4",), "mlx": ("4bit",)}}
"""MLX repacks MXFP4 as its own four bits; the others keep it."""
PURPOSES = {"model": "weights", "kv": "kv", "recurrent": "state", "compute": "compute", "output": "output"}
"""What an adapter calls a buffer -> what an estimate calls it."""
_PREDICTED = ("weights", "kv", "state", "compute", "output", "runtime", "total")
SETTLES_S = 0.5
"""An engine may answer before the lines in which it says what it took have been written and read."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What this machine showed: of the engine, and of the model itself."""

    calibrations: list[Calibration] = []
    generations: list[Generation] = []


async def plan(services: Services, request: PlanRequest) -> Advice:
    """Return ranked plans. Raises BadRequest for impossible wishes, NotFound for an unknown model."""
    _check_plan(request)
    found, (machine, is_here) = await asyncio.gather(
        candidates(services.facts, request.model.strip()), machine_for(services.machine, request.machine)
    )
    inputs = PlanInputs(
        traits=engine_table(),
        machine=machine,
        candidates=found.candidates,
        model=found.model,
        intent=request.intent,
        users=request.users,
        context=request.context,
        loras=request.loras,
        kv_type=request.kv_type,
        engines=await asyncio.to_thread(services.catalogue.list) if is_here else [],
        calibrations=await services.measuring.calibrations() if is_here else [],
        is_fixed=found.is_fixed,
    )
    return await asyncio.to_thread(advise, inputs)


async def estimate(services: Services, request: EstimateRequest) -> Estimate:
    """Return what running a model takes. Raises BadRequest for impossible wishes, NotFound for an unknown model."""
    _check(request)
    facts, (machine, is_here) = await asyncio.gather(
        services.facts.find(request.model), machine_for(services.machine, request.machine)
    )
    engines = await asyncio.to_thread(services.catalogue.list) if is_here else []
    setting = setting_for(facts, machine, request, engines)
    if is_here:
        shift = runtime_shift(await services.chats.loads(), setting.engine.id)
        setting = msgspec.structs.replace(setting, runtime_shift=shift)
    known = await seen(services.library, services.measuring, request.model, setting) if is_here else Seen()
    found = memory.estimate(facts, machine, setting, speed=speed_of(facts, machine, known, depth=request.depth))
    if not any(engine.id == setting.engine.id and engine.installed for engine in engines):
        found = where_it_runs(found, targets.lack(machine, setting.engine))
    return _by_name(found, facts) if facts.confidence is Confidence.TABLE else found


def where_it_runs(found: Estimate, why_not: str) -> Estimate:
    """Return the estimate as it is for a machine the engine runs on; elsewhere nothing fits, and `why_not` says why."""
    if not why_not:
        return found
    return msgspec.structs.replace(found, fits=False, largest_context=0, notes=[why_not, *found.notes])


def _by_name(found: Estimate, facts: ModelFacts) -> Estimate:
    """Return the estimate of a model known by name only, saying so: its publisher may have mixed types otherwise."""
    note = (
        f"Computed from the published shape of {facts.name} as {facts.quantization} ({facts.format}), not from a file."
    )
    weights = msgspec.structs.replace(found.weights, confidence=EstimateConfidence.TABLE)
    return msgspec.structs.replace(found, weights=weights, notes=[*found.notes, note])


def runtime_shift(loads: Sequence[LoadTruth], engine: str) -> int | None:
    """Return by how much an engine's process turned out larger than predicted, over its last loads.

    Loads whose pages the system had not all in memory say nothing.
    """
    seen = [
        load.resident - load.logged["total"] - (load.predicted["runtime"] - load.runtime_shift)
        for load in loads
        if load.engine == engine and load.resident and 0 < load.logged.get("total", 0) < load.resident
    ]
    return round(median(seen[:_LOADS_LOOKED_AT])) if seen else None


async def machine_for(machine: MachineReader, described: Mapping[str, msgspec.Raw] | None) -> tuple[Machine, bool]:
    """Return the machine described, or this one with what is free now; and whether it is this one."""
    if described is None:
        return await machine.read_free(), True
    return await asyncio.to_thread(machine_from, msgspec.json.encode(described)), False


async def seen(library: Library, measuring: Measuring, model: str, setting: Setting) -> Seen:
    """Return what was measured of an engine here, and of this model on it."""
    engine, backend = setting.engine.id, setting.backend
    try:
        name = (await asyncio.to_thread(library.find, model)).name
    except NotFound:
        name = model
    return Seen(
        calibrations=await measuring.calibrations(),
        generations=await measuring.generations(name, engine=engine, backend=backend),
    )


def speed_of(facts: ModelFacts, machine: Machine, known: Seen, *, depth: int = 0) -> memory.Speed:
    """Return how to predict the speed of a model: measured beats calibrated beats predicted."""

    def rates(setting: Setting, at: int) -> tuple[Rate | None, Rate | None]:
        found = best_for(known.calibrations, engine=setting.engine.id, backend=setting.backend)
        decode = speed.decode(facts, machine, setting, depth=at, calibration=found)
        if decode is not None and known.generations:
            expected = speed_seen.expectations(known.generations, facts, machine, setting, found)
            decode = speed_seen.measured(decode, expected, known.generations)
        return decode, prefill(facts, machine, setting, depth=at, calibration=found)

    return memory.Speed(rates=rates, depth=depth)


def setting_for(
    facts: ModelFacts, machine: Machine, request: EstimateRequest, engines: Sequence[EngineInfo]
) -> Setting:
    """Return the setting a request stands for. An engine that is installed runs on the backend it was built for."""
    known = engine_table()
    engine = known[request.engine] if request.engine else known.reader(facts.format)
    wanted = request.context or USUAL_CONTEXT
    return Setting(
        engine=engine,
        backend=backend_of(engine, machine, engines),
        context=min(wanted, facts.trained_context or wanted),
        slots=request.slots or 1,
        kv_type=request.kv_type or "f16",
        task="embed" if "chat" not in facts.capabilities and "embedding" in facts.capabilities else "chat",
        gpu_layers=request.gpu_layers,
        gpus=max(1, len(targets.gpus_for(machine, engine))),
    )


def backend_of(engine: EngineTraits, machine: Machine, engines: Sequence[EngineInfo]) -> str:
    """Return what an engine computes with: as it is installed here, else the best the machine offers it."""
    installed = next((found for found in engines if found.id == engine.id and found.installed), None)
    if installed is not None and installed.backend:
        return installed.backend
    return targets.target(machine, engine).backend or "cpu"


def _check(request: EstimateRequest) -> None:
    if request.engine is not None and request.engine not in engine_table():
        raise BadRequest(
            f"There is no engine called {request.engine!r}.",
            hint=f"There are {', '.join(engine_table())}.",
            code="engine_unknown",
        )
    _check_figures(request, context=(1, MOST_CONTEXT), slots=(1, 1024), gpu_layers=(0, 4096), depth=(0, MOST_CONTEXT))


def _check_plan(request: PlanRequest) -> None:
    _check_figures(request, context=(1, MOST_CONTEXT), users=(1, 100_000), loras=(0, 10_000))


def _check_figures(request: PlanRequest | EstimateRequest, **bounds: tuple[int, int]) -> None:
    """Raise BadRequest for a figure that is out of bounds, and for a KV type nobody has."""
    for name, (least, most) in bounds.items():
        value = getattr(request, name)
        if value is not None and not least <= value <= most:
            raise BadRequest(f"`{name}` must be from {least} to {most}, not {value}.", code="invalid_value")
    if request.kv_type is not None and request.kv_type not in KV_TYPES:
        raise BadRequest(f"`kv_type` must be one of {', '.join(KV_TYPES)}.", code="invalid_value")


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The candidates, the name to show, and whether there is nothing else of that model to be had."""

    candidates: list[ModelFacts]
    model: str = ""
    is_fixed: bool = False


async def candidates(facts: FactsReader, model: str) -> Found:
    """Return what could be run when `model` is wanted. Raises NotFound or BadRequest."""
    if not model:
        return Found(candidates=list(reference()))
    known = None if await asyncio.to_thread(facts.is_here, model) else well_known(model)
    if known is None or known.quantization:
        found = await facts.find(model)
        return Found(candidates=[found], model=found.name, is_fixed=True)
    forms = list(forms_of(known.name, native=known.native))
    return Found(candidates=forms, model=forms[0].name)


@cache
def forms_of(name: str, *, native: str = "") -> tuple[ModelFacts, ...]:
    """Return a well-known model in every usual form; `native` is the quantisation of one that comes in no other."""
    return _shaped(name, _NATIVE_FORMS.get(native, FORMS))


@cache
def reference() -> tuple[ModelFacts, ...]:
    """Return the reference models in the usual balance of every format."""
    forms = {**_REFERENCE_FORMS, **_SERVED_FORMS}
    return tuple(facts for name in REFERENCE for facts in _shaped(name, forms))


def _shaped(name: str, forms: Mapping[str, tuple[str, ...]]) -> tuple[ModelFacts, ...]:
    from app.hub.shapes import shape_facts  # noqa: PLC0415 -- the gateway starts without it

    return tuple(shape_facts(name, one, format=kind) for kind, quantizations in forms.items() for one in quantizations)


async def watch_loads(services: Services) -> None:
    """Note every load until cancelled. A load that cannot be judged costs a line in the log, nothing else."""
    latest: dict[str, EngineStatus] = {}
    with services.events.subscribe() as events:
        async with asyncio.TaskGroup() as settling:
            async for event in events:
                if not isinstance(event, EngineChanged):
                    continue
                status, before = event.status, latest.get(event.status.model)
                latest[status.model] = status
                if status.loaded_at is not None and (before is None or before.loaded_at != status.loaded_at):
                    settling.create_task(_note(services, latest, status))


async def _note(services: Services, latest: Mapping[str, EngineStatus], loaded: EngineStatus) -> None:
    await asyncio.sleep(SETTLES_S)
    status = latest[loaded.model]
    if status.loaded_at != loaded.loaded_at:
        return  # it has gone again, and what it took was not all heard
    try:
        await services.chats.add_load(await truth_of(services, status))
    except RoundhouseError as error:  # such as a model that is known by no name
        log.info("The load of %s was not compared with its prediction: %s", status.model, error)
    except Exception:  # one load that cannot be judged must not end the watching
        log.exception("The load of %s could not be compared with its prediction", status.model)


async def truth_of(services: Services, status: EngineStatus) -> LoadTruth:
    """Return what a running engine took against what was predicted. Raises NotFound or BadRequest."""
    asked = EstimateRequest(
        model=status.model,
        engine=status.engine,
        context=status.context,
        slots=status.slots,
        kv_type=status.kv_type or None,
    )
    shift = runtime_shift(await services.chats.loads(), status.engine)
    predicted = await estimate(services, asked)
    amounts: dict[str, Amount] = {name: getattr(predicted, name) for name in _PREDICTED}
    return LoadTruth(
        model=status.model,
        engine=status.engine,
        version=status.version,
        predicted={name: amount.bytes for name, amount in amounts.items()},
        logged=logged(status.buffers),
        resident=_resident(status.pid),
        runtime_shift=shift or 0,
        at=time.time(),
    )


def logged(buffers: Mapping[str, int]) -> dict[str, int]:
    """Return the engine's buffers by component, and their total."""
    found = {PURPOSES[purpose]: size for purpose, size in buffers.items() if purpose in PURPOSES}
    return {**found, "total": sum(found.values())} if found else {}


def _resident(pid: int | None) -> int | None:
    try:
        return None if pid is None else psutil.Process(pid).memory_info().rss
    except psutil.Error:
        return None
