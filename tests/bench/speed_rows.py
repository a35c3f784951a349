"""Published measurements of speed as cases to predict: which machine, which model, how it was run, and how fast it was.

`tests/data/README.md` says where the rows come from and what decides to which set each belongs. Nothing is dropped: a
row that cannot be predicted fairly is in a set of its own.
"""

import csv
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import msgspec

from app.advisor.memory import estimate as memory
from app.advisor.memory.setting import SHIPPED_BUILD, RunSetting
from app.core.errors import NotFound
from app.core.machine import Confidence, Fact, Machine
from app.core.model_facts import ModelFacts, WeightKind
from app.hardware.description import machine_from
from app.hub import shapes
from tests.bench.engine_table import EXLLAMA_V3, LLAMA_CPP, MLX_LM, VLLM
from tests.bench.programs import ROOT

DATA = ROOT / "tests" / "data"
MEASURED, PUBLIC = DATA / "speed-measured.csv", DATA / "speed-public.csv"
EXL3 = DATA / "speed-exl3.csv"
_DEVICES, _MODELS = DATA / "speed-devices.csv", DATA / "speed-models.csv"

MAIN = "in memory"
SPILL = "spill"
BOARD = "card on a small board"
UNQUANTISED = "no quantisation told"
OTHER_ENGINE = "llamafile"
SEVERAL = "several GPUs"

_TRAINING = re.compile(r"discussion (4167|15013|10879|15396)|llama\.cpp benches|XiongjieDai|PR 16634")
"""Sources whose rows constants may be fitted to: llama.cpp's scoreboards and benchmark files, and one early table."""
_BUILDS = (
    (r"discussion 4167", 1600),
    (r"XiongjieDai", 2800),
    (r"issue 34\b|issue 39\b|4766|issue 9774|justine", 1000),
    (r"LocalScore", 4500),
    (r"discussion 10879", 5800),
    (r"15013|15396|geerlingguy|PR 16634", 6500),
)
"""llama.cpp's build at the time of a source; what is not here is of 2026."""
_DEPTHS = ((r"XiongjieDai|LocalScore", 512), (r"hiesch|llmfit|geerlingguy", 256), (r"Rapid-MLX", 576), (r"1569", 2100))
"""Tokens in the context halfway through the answer; 64 for llama-bench's tg128."""
_PROMPTS = ((r"pp2048|2048 in", 2048), (r"pp1024|1024", 1024), (r"p=512|pp512", 512))
USUAL_QUANTISATION = "Q4_K_M"
"""Ollama's default, taken where a row tells none; such rows are a set of their own."""
_RAM_GB = 64.0
"""Assumed of every host: what does not fit on the card must fit somewhere, and rows do not tell."""
_VENDOR_BACKENDS = {"nvidia": "cuda", "apple": "metal", "amd": "vulkan", "intel": "vulkan"}


class SpeedRow(msgspec.Struct, frozen=True, kw_only=True):
    """One published measurement. Rates in tokens per second; `chip` is what is held out together."""

    device: str
    chip: str
    model: str
    quantization: str
    engine: str
    source: str
    decode: float
    prefill: float | None
    machine: Machine
    setting: RunSetting
    facts: ModelFacts
    depth: int
    prompt: int
    is_training: bool
    group: str


class UnreadableRow(msgspec.Struct, frozen=True):
    """A row whose model has no known shape, or whose engine is none of ours."""

    model: str
    device: str
    why: str


class _MeasuredDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A device as a row names it, as our device table does."""

    device: str
    gpu: str
    memory_gb: str
    cores: str
    count: int
    host: str
    host_gb_s: str
    host_cores: str
    host_isa: str
    set: str


@cache
def all_rows() -> tuple[tuple[SpeedRow, ...], tuple[UnreadableRow, ...]]:
    """Return every row that can be predicted, and the others with the reason."""
    rows: list[SpeedRow] = []
    others: list[UnreadableRow] = []
    for path in (MEASURED, PUBLIC):
        for record in _read(path):
            row = _make_row(record, is_public=path == PUBLIC)
            if isinstance(row, SpeedRow):
                rows.append(row)
            else:
                others.append(row)
    return tuple(rows), tuple(others)


def fit_rows() -> list[SpeedRow]:
    """Return the rows that constants are fitted to."""
    return [row for row in all_rows()[0] if row.is_training and row.group == MAIN]


def evaluation_rows(group: str = MAIN) -> list[SpeedRow]:
    """Return the rows no constant is fitted to, of one set."""
    return [row for row in all_rows()[0] if not row.is_training and row.group == group]


def _make_row(record: dict[str, str], *, is_public: bool) -> SpeedRow | UnreadableRow:
    place = _places()[record["device"]]
    facts = facts_of(record["model"], record["quant"], record["engine"])
    if facts is None:
        return UnreadableRow(record["model"], record["device"], "no shape of that name")
    machine = _make_machine(place)
    setting = _make_setting(record, place, machine)
    setting, spills = _place_layers(facts, machine, setting)
    return SpeedRow(
        device=record["device"],
        chip=place.gpu or place.host,
        model=record["model"],
        quantization=record["quant"],
        engine=record["engine"],
        source=record["source"],
        decode=float(record["tg_tok_s"]),
        prefill=float(record["pp_tok_s"]) if record["pp_tok_s"] else None,
        machine=machine,
        setting=setting,
        facts=facts,
        depth=int(_first_match(_DEPTHS, record["source"], 64)),
        prompt=int(_first_match(_PROMPTS, record["source"], 512)),
        is_training=is_public or bool(_TRAINING.search(record["source"])),
        group=_group_of(record, place, spills=spills),
    )


def _group_of(record: dict[str, str], place: _MeasuredDevice, *, spills: bool) -> str:
    if place.set == "board" and place.count:
        return BOARD
    if place.count > 1:
        return SEVERAL
    if not record["quant"]:
        return UNQUANTISED
    if "llamafile" in record["engine"]:
        return OTHER_ENGINE
    return SPILL if spills else MAIN


@cache
def facts_of(model: str, quantization: str, engine: str) -> ModelFacts | None:
    """Return the shape of a model as a row names it; None when there is none of that name."""
    name, suffix = shapes.split_name(_models().get(model, model))
    try:
        return _facts_by_shape(
            name, quantization or suffix or USUAL_QUANTISATION, engine, has_wide_ends=model.endswith("-fp16")
        )
    except NotFound:
        return None


def _facts_by_shape(name: str, quantization: str, engine: str, *, has_wide_ends: bool) -> ModelFacts:
    if engine.startswith("mlx"):
        return shapes.shape_facts(name, "4bit" if quantization == "MXFP4" else quantization, format="mlx")
    if engine == "vllm":
        return shapes.shape_facts(name, quantization.removesuffix("-INT4"), format="safetensors")
    facts = shapes.shape_facts(name, quantization.upper())
    return _with_half_float_ends(facts) if has_wide_ends else facts


def _with_half_float_ends(facts: ModelFacts) -> ModelFacts:
    """Return a model as some uploads have it: embedding and output left in F16."""
    ends = (WeightKind.INPUT_EMBEDDING, WeightKind.OUTPUT)
    weights = [
        msgspec.structs.replace(group, type="F16", bytes=2 * group.elements, padded_bytes=2 * group.elements)
        if group.kind in ends
        else group
        for group in facts.weights
    ]
    return msgspec.structs.replace(facts, weights=weights, file_bytes=sum(group.padded_bytes for group in weights))


def _make_setting(record: dict[str, str], place: _MeasuredDevice, machine: Machine) -> RunSetting:
    engine = record["engine"].lower()
    ours = MLX_LM if engine.startswith("mlx") else VLLM if engine == "vllm" else LLAMA_CPP
    named_backend = next((name for name in ("vulkan", "rocm", "cuda", "metal") if name in engine), "")
    vendor = machine.gpus[0].vendor if machine.gpus else ""
    on_cpu = not place.count or (engine.endswith("cpu") and "gpu" not in engine)
    return RunSetting(
        engine=ours,
        backend="cpu" if on_cpu else named_backend or _VENDOR_BACKENDS.get(vendor, "vulkan"),
        gpus=max(1, place.count),
        build=int(_first_match(_BUILDS, record["source"], SHIPPED_BUILD)),
    )


def _place_layers(facts: ModelFacts, machine: Machine, setting: RunSetting) -> tuple[RunSetting, bool]:
    """Return the setting with as many layers on the GPU as the advisor would put there, and whether any stay away."""
    is_shared = any(gpu.integrated.value for gpu in machine.gpus)
    if not setting.uses_gpu or is_shared or memory.setting_fits(facts, machine, setting):
        return setting, False
    # The largest context is not asked for: it would be searched for longer than all else takes.
    offload = memory.estimate_memory(msgspec.structs.replace(facts, trained_context=1), machine, setting).offload
    if offload.cpu_moe_layers:
        return msgspec.structs.replace(setting, cpu_moe_layers=offload.cpu_moe_layers), True
    return msgspec.structs.replace(setting, gpu_layers=offload.gpu_layers), True


@cache
def exl3_rows() -> list[SpeedRow]:
    """Return what was measured of ExLlamaV3 by itself: without draft heads, which nobody told apart elsewhere."""
    return [_exl3_row(record) for record in _read(EXL3)]


def _exl3_row(record: dict[str, str]) -> SpeedRow:
    gpus = [{"name": record["device"], "vram_gb": float(record["memory_gb"])}]
    quantization = f"{record['bits']}bpw"
    return SpeedRow(
        device=record["device"],
        chip=record["device"],
        model=record["model"],
        quantization=quantization,
        engine="exllamav3",
        source=record["source"],
        decode=float(record["tg_tok_s"]),
        prefill=None,
        machine=_machine_of(json.dumps({"os": "linux", "ram_gb": _RAM_GB, "gpus": gpus})),
        setting=RunSetting(engine=EXLLAMA_V3, backend="cuda"),
        facts=shapes.shape_facts(record["model"], quantization, format="exl3"),
        depth=384,  # prompts of some 256 tokens, and half of the answer
        prompt=256,
        is_training=True,
        group=MAIN,
    )


@cache
def _machine_of(text: str) -> Machine:
    return machine_from(text.encode())


def _make_machine(place: _MeasuredDevice) -> Machine:
    card: dict[str, object] = {"name": place.gpu, "count": max(1, place.count)}
    if place.memory_gb:
        card |= {"vram_gb": float(place.memory_gb), "free_vram_gb": 0.97 * float(place.memory_gb)}
    if place.cores:
        card["cores"] = int(place.cores)
    description: dict[str, object] = {
        "gpus": [card] if place.gpu else [],
        "cpu": place.host or place.gpu,
        "ram_gb": _RAM_GB,
    }
    if place.host_cores:
        description |= {"cores": int(place.host_cores), "isa": place.host_isa.split()}
    machine = _machine_of(json.dumps(description, sort_keys=True))
    if not place.host_gb_s:
        return machine
    by_parts = Fact(value=float(place.host_gb_s), unit="GB/s", confidence=Confidence.DERIVED, source="channels x rate")
    return msgspec.structs.replace(
        machine, memory=msgspec.structs.replace(machine.memory, theoretical_gb_s=by_parts, bandwidth_gb_s=Fact())
    )


@cache
def _places() -> dict[str, _MeasuredDevice]:
    return {record["device"]: msgspec.convert(record, _MeasuredDevice, strict=False) for record in _read(_DEVICES)}


@cache
def _models() -> dict[str, str]:
    return {record["model"]: record["shape"] for record in _read(_MODELS)}


def _read(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _first_match(table: Sequence[tuple[str, int]], text: str, other: int) -> int:
    return next((value for pattern, value in table if re.search(pattern, text)), other)
