"""EXL3 made of a model's original weights by ExLlamaV3's converter: one at a time, told as it goes on, resumed later.

The converter runs in the engine's environment, confined like the engine, and may write into one folder: that of its
work, which lies hidden among the models, so that the result is put in its place by renaming. A run that was stopped,
failed or died leaves that folder; the next one of the same model and bits goes on from its last checkpoint.
"""

import asyncio
import re
import shutil
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import msgspec

from app.config.programs import child_environment
from app.confinement.confiner import LaunchPlaces
from app.confinement.rules import LaunchOrder
from app.core.errors import BadRequest, Conflict, EngineFailed, ErrorBody, write_fault
from app.core.events import ModelsChanged, QuantizeChanged
from app.core.machine import Machine
from app.core.model_facts import ModelFacts, WeightKind
from app.core.models import ModelInfo
from app.core.quantize import QuantizeModel, QuantizePlan, QuantizeResult, is_original
from app.gateway.benchmarking.race import require_own_model
from app.gateway.engines.confinement import make_confiner
from app.gateway.hosting.line_process import LineProcess
from app.gateway.jobs import BackgroundJob, JobRules
from app.gateway.services import Services
from engines import worker_base
from engines.api import (
    EngineInstallation,
    Exit,
    LaunchOptions,
    LaunchPlan,
    ModelFormat,
    ModelSource,
    Readiness,
    Suspicion,
)
from engines.exllama.quantize import EVENT, has_checkpoint, restore_checkpoint
from engines.worker_launch import worker_process

ENGINE = "exllamav3"
_MODULE = "engines.exllama.quantize"
_ROWS, _COLUMNS = 250, 2048
"""Texts that the converter calibrates with, and their tokens: its own defaults."""
_HALF = 2
_CHECKPOINT_S = 120
_SPARE = 1 << 30
_PROCESS = 4 << 30
"""System memory of interpreter, libraries and one layer on its way to the card; assumed."""
_END_WITHIN_S = 10.0
_TAIL = 40
_ORDER = "order.json"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class Quantizer:
    """Belongs to the event loop."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.job: BackgroundJob[QuantizeChanged] = BackgroundJob(
            JobRules(
                publish=services.events.publish,
                end=_end_job,
                conflict=lambda job: Conflict(f"{job.model} is being quantised.", code="quantization_running"),
                cancelled="It was stopped. What is done so far is kept: the next run goes on from there.",
            )
        )

    async def plan_run(self, request: QuantizeModel) -> QuantizePlan:
        """Say what it takes. Raises NotFound, or BadRequest for a model of which no EXL3 can be made."""
        model, facts = await self._find_model(request)
        return await asyncio.to_thread(self._plan, request, model, facts, await self._services.machine.read())

    async def start_run(self, request: QuantizeModel) -> QuantizeChanged:
        """Begin, or go on. Raises as `plan`, Conflict while one runs, BadRequest with what stands in its way."""
        self.job.check_idle()
        model, facts = await self._find_model(request)
        plan = await asyncio.to_thread(self._plan, request, model, facts, await self._services.machine.read())
        if plan.problems:
            raise BadRequest(plan.problems[0], hint=" ".join(plan.problems[1:]), code="cannot_quantize")
        first_change = QuantizeChanged(model=model.name, stage="Getting ready", fraction=0.0)
        return self.job.start(first_change, lambda: self._run(model, plan))

    async def stop_run(self) -> None:
        """Stop it; harmless when none runs."""
        await self.job.cancel(at_once=True)

    def find_installation(self) -> EngineInstallation:
        """Return where the engine is. Raises EngineFailed."""
        return self._services.catalogue.find_installation(ENGINE)

    async def _find_model(self, request: QuantizeModel) -> tuple[ModelInfo, ModelFacts]:
        model = await require_own_model(self._services, request.model)
        if not is_original(model):
            raise BadRequest(
                f"{model.name} is {model.format} ({model.quantization}): EXL3 is made of original weights, "
                "safetensors in 16 bits.",
                hint="Pull the repository of the model's makers, and quantise that.",
                code="model_unusable",
            )
        facts = await asyncio.to_thread(self._services.facts.read_model, model)
        if facts is None:
            raise BadRequest(f"{model.name} cannot be read, so nobody knows what it takes.", code="model_unusable")
        return model, facts

    def _plan(self, request: QuantizeModel, model: ModelInfo, facts: ModelFacts, machine: Machine) -> QuantizePlan:
        from app.advisor.memory import placement  # noqa: PLC0415 -- the advisor is brought in once it is needed

        name = request.name or f"{_UNSAFE.sub('-', model.name).strip('-.')}-exl3-{request.bits:g}bpw"
        folder = self._services.paths.models / name
        work = _work_folder(self._services.paths.models, name)
        states = _ROWS * _COLUMNS * facts.hidden * _HALF
        result = _result_bytes(facts, request)
        gpu = next(iter(placement.gpus_for(machine, "cuda")), None)
        plan = QuantizePlan(
            model=model.name,
            name=name,
            folder=str(folder),
            bits=request.bits,
            head_bits=request.head_bits,
            result_bytes=result,
            disk_bytes=2 * result + 4 * states,
            free_bytes=_free_bytes(folder),
            memory_bytes=2 * states + _PROCESS,
            card="" if gpu is None else gpu.name.value or "an NVIDIA card",
            card_bytes=None if gpu is None else placement.free_on(machine, gpu),
            needed_card_bytes=_card_bytes(facts),
            resumes=not request.restarts and _is_same_order(work, model, request) and has_checkpoint(work),
        )
        return msgspec.structs.replace(plan, problems=list(self._problems(plan, machine)))

    def _problems(self, plan: QuantizePlan, machine: Machine) -> Sequence[str]:
        problems = []
        try:
            self.find_installation()
        except EngineFailed as error:
            problems.append(f"{error} `roundhouse engines install {ENGINE}` installs it where it can run.")
        if not plan.card:
            problems.append("There is no NVIDIA card here, and the converter computes on one.")
        elif plan.card_bytes is not None and plan.card_bytes < plan.needed_card_bytes:
            problems.append(f"Too little is free on {plan.card}: unload models, or close programs that use it.")
        available = machine.memory.available.value
        if available is not None and available < plan.memory_bytes:
            problems.append("Too little memory is free for the texts that it calibrates with.")
        has_part = plan.resumes  # what an earlier run wrote is on the disk already
        if plan.free_bytes is not None and plan.free_bytes < plan.disk_bytes // (2 if has_part else 1):
            problems.append("Too little is free on the disk of the models folder.")
        if Path(plan.folder).exists():
            problems.append(f"There is a folder {plan.name} among the models already: choose another name.")
        return problems

    async def _run(self, model: ModelInfo, plan: QuantizePlan) -> ErrorBody | None:
        began = time.monotonic()
        work = _work_folder(self._services.paths.models, plan.name)
        try:
            launch = await asyncio.to_thread(self._prepare_launch, model, plan, work)
        except OSError as error:
            raise write_fault("the working folder", error, action="made", place=str(work.parent)) from error
        process, tail = LineProcess(), deque[str](maxlen=_TAIL)
        await process.start(launch)
        try:
            async for line in process.read_lines():
                self._note(line, tail)
        finally:
            await process.stop(_END_WITHIN_S)
        tail.extend(process.last_words.splitlines())
        output = work / "out"
        if not (output / "config.json").is_file() or not (output / "quantization_config.json").is_file():
            return self._explain(list(tail))
        self.job.tell(stage="Putting the model in its place", fraction=0.99)
        try:
            size = await asyncio.to_thread(_publish, output, Path(plan.folder), work)
        except OSError as error:
            raise write_fault("the model", error, place=plan.folder) from error
        self._services.events.publish(ModelsChanged())
        took_s = time.monotonic() - began
        result = QuantizeResult(model=plan.name, folder=plan.folder, size_bytes=size, took_s=took_s)
        self.job.keep(result=result)
        return None

    def _note(self, line: bytes, tail: deque[str]) -> None:
        try:
            event = msgspec.json.decode(line, type=_ConverterLine)
        except msgspec.MsgspecError:
            tail.append(line.decode("utf-8", "replace").rstrip())
            return
        if event.event == EVENT:
            self.job.move(stage=event.stage, fraction=event.fraction)

    def _explain(self, tail: list[str]) -> ErrorBody:
        """Return why the converter ended, as the engine's own reader names it."""
        adapter = self._services.adapters[ENGINE]
        events = [event for line in tail for event in adapter.read_log(line)]
        suspicions = [event for event in events if isinstance(event, Suspicion)]
        end = Exit(code=worker_base.ExitCode.REFUSED, suspicions=suspicions, tail=tail[-10:], was_ready=False)
        failure = adapter.classify_exit(end)
        return ErrorBody(code=failure.kind.value, sentence=failure.sentence, hint=failure.hint, detail="\n".join(tail))

    def _prepare_launch(self, model: ModelInfo, plan: QuantizePlan, work: Path) -> LaunchOrder:
        """Return how the converter is started; its working folder is made, or kept where it is gone on from. Blocks."""
        if plan.resumes:
            restore_checkpoint(work)
        else:
            shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True, exist_ok=True)
        order = {
            "model": model.path,
            "work": str(work),
            "out": str(work / "out"),
            "bits": plan.bits,
            "head_bits": plan.head_bits,
            "checkpoint_s": _CHECKPOINT_S,
            "resumes": plan.resumes,
        }
        (work / _ORDER).write_bytes(msgspec.json.encode(_order_of(model, plan.bits, plan.head_bits)))
        installation = self.find_installation()
        spec = worker_process(installation, _MODULE, order, "", env={})
        scratch = work / "tmp"
        confinement = make_confiner(self._services.paths, self._services.settings).confine(
            self._services.adapters[ENGINE].descriptor,
            ModelSource(name=plan.name, path=Path(model.path), format=ModelFormat.SAFETENSORS),
            LaunchOptions(),
            installation,
            plan=LaunchPlan(processes=(spec,), base_url="", served_name=plan.name, readiness=Readiness()),
            places=LaunchPlaces(scratch=scratch, short=scratch, port=1),
            inherited_environment=child_environment(),
        )
        own: dict[str, str] = {} if confinement is None else dict(confinement.environment)
        rules = None if confinement is None else confinement.rules
        if rules is not None:
            rules = msgspec.structs.replace(rules, write=(*rules.write, str(work.resolve())), bind=())
        ours = child_environment()
        passed_on: dict[str, str] = {name: ours[name] for name in ("PATH", "SYSTEMROOT") if name in ours}
        environment = {**passed_on, **own, **spec.env, **spec.secrets}
        return LaunchOrder(argv=spec.argv, env=environment, cwd=str(work), confinement=rules)


class _ConverterLine(msgspec.Struct):
    event: str
    stage: str = ""
    fraction: float | None = None


def _work_folder(models: Path, name: str) -> Path:
    """Return where a run works: hidden, so that no half of a model is listed."""
    return models / ".quantizing" / name


def _order_of(model: ModelInfo, bits: float, head_bits: int) -> dict[str, object]:
    return {"model": model.path, "bits": bits, "head_bits": head_bits}


def _is_same_order(work: Path, model: ModelInfo, request: QuantizeModel) -> bool:
    try:
        order = msgspec.json.decode((work / _ORDER).read_bytes())
    except (OSError, msgspec.DecodeError):
        return False
    return bool(order == _order_of(model, request.bits, request.head_bits))


def _result_bytes(facts: ModelFacts, request: QuantizeModel) -> int:
    """Return what the result weighs: the embedding in half precision, output and layers in their bits."""
    matrix = facts.vocabulary * facts.hidden
    body = max(0, facts.parameters - matrix * (1 if facts.tied_embeddings else 2))
    return int(body * request.bits / 8 + matrix * _HALF + matrix * request.head_bits / 8)


def _card_bytes(facts: ModelFacts) -> int:
    """Return what the card must have free: the largest layer in half precision, and its errors' sums in full."""
    layers: dict[int | None, int] = {}
    for group in facts.weights:
        if group.kind is not WeightKind.INPUT_EMBEDDING:
            layers[group.layer] = layers.get(group.layer, 0) + group.bytes
    widest = max((layer.feed_forward for layer in facts.layers), default=facts.hidden)
    return max(layers.values(), default=0) + 4 * (facts.hidden**2 + widest**2) + _SPARE


def _free_bytes(folder: Path) -> int | None:
    place = next((parent for parent in folder.parents if parent.exists()), None)
    return None if place is None else shutil.disk_usage(place).free


def _publish(output: Path, folder: Path, work: Path) -> int:
    """Put the result in its place, throw the rest away, and return its size."""
    output.rename(folder)
    shutil.rmtree(work, ignore_errors=True)
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _end_job(job: QuantizeChanged, error: ErrorBody | None) -> QuantizeChanged:
    sentence = f"{error.sentence} {error.hint}".strip() if error else ""
    return msgspec.structs.replace(
        job,
        stage="Ended" if error else "Done",
        fraction=1.0,
        done=True,
        error=sentence,
        code=error.code if error else "",
    )
