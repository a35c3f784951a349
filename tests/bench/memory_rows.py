"""Published and logged memory sizes as cases: how each row's run is read as a setting, and what of it was measured.

A row tells ctx, slots, KV type, engine with date, and backend. Where it tells the bytes of the weights, those are the
header's truth, as a user has the header; else the weights are those of the well-known model in that quantisation.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TypeVar

import msgspec

from app.advisor.memory.llama_cpp.weights import weight_parts
from app.advisor.memory.setting import HOST, RunSetting
from app.core.errors import RoundhouseError
from app.core.model_facts import ModelFacts, WeightGroup
from app.hub.facts.gguf import facts_from
from app.hub.facts.tensors import TensorInfo
from app.hub.shapes import find_shape, shape_facts
from tests.bench.engine_table import LLAMA_CPP, MLX_LM
from tests.bench.programs import ROOT

T = TypeVar("T")

DATA = ROOT / "tests" / "data" / "memory-measured.csv"
MIB = 1024 * 1024
_GB = 1_000_000_000
UNIFIED_BY_DEFAULT = "llama-server"
_NAMES = (("shape", ""), ("Qwen3.5 32-layer hybrid", "Qwen3.5 9B"), ("unnamed 64 KiB/token model", "Qwen3.5 27B"))
"""Words of a row's model, and what it means by them."""
_BACKENDS = (("CUDA", "cuda"), ("HIP", "rocm"), ("ROCm", "rocm"), ("Vulkan", "vulkan"), ("Metal", "metal"))
_BUILDS = (("2024", 2200), ("2025-05", 5500), ("2025-08", 6100), ("b8467", 8467), ("2026-05", 9500), ("2026", 10800))
"""llama.cpp's build at a date: where the old compute buffers end is all that depends on it."""
_GPU_GB = (("8 GB laptop", 8), ("5090", 32), ("4070", 12))
_MIXED = (12, 14)
"""ggml's Q4_K and Q6_K."""

SERVED = {
    "75": "gave HIP's workspace",
    "76": "gave HIP's idle share",
    "77": "gave Vulkan's share in prompts",
    "78": "gave Vulkan's idle share",
    "37": "showed that MLX computes all logits of a prompt's last chunk",
}
"""Rows that served a constant: they are no test of it."""
UNREADABLE = {
    "2": "a draft's context only",
    "30": "an encoder, for which older builds still allocated a cache",
    "31": "of a very large batch that is not told",
    "32": "of a fork, on two GPUs, with a batch that is not told",
}


class MemoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row as it is read. Sizes in MiB, None where the row does not tell."""

    id: str
    model: str
    facts: ModelFacts
    setting: RunSetting
    counts_runtime: bool
    """Whether what was measured holds the driver's and the process's own share."""
    total: float | None
    kv: float | None
    state: float | None
    compute: float | None
    aside: str = ""
    """Why the row is no test; empty for one."""

    @property
    def setting_text(self) -> str:
        """How the run was read, in a few words."""
        setting = self.setting
        parts = [setting.engine.id, setting.backend, f"{setting.context} x {setting.slots}", setting.kv_type]
        parts += [f"b{setting.build}"] if setting.engine.is_ggml else []
        parts += ["one cache for all"] if setting.is_kv_unified else []
        parts += ["all logits"] if not setting.limits_outputs else []
        parts += [] if setting.prefills else ["no prompt"]
        return ", ".join(parts)


def read_rows() -> list[MemoryRow]:
    """Return the rows that can be read, those that cannot be with the reason in `aside`."""
    with DATA.open(encoding="utf-8") as file:
        return [row for raw in csv.DictReader(file) if (row := _read_row(raw)) is not None]


def _read_row(raw: Mapping[str, str]) -> MemoryRow | None:
    name = raw["model"]
    for words, component_name in _NAMES:
        name = name.replace(words, component_name)
    setting = _setting(raw)
    facts = _facts(raw, name, setting)
    if facts is None:
        return None
    return MemoryRow(
        id=raw["id"],
        model=raw["model"],
        facts=facts,
        setting=setting,
        counts_runtime=not re.search(r"fit projection|fit result|fit reduced|REPACK", raw["notes"]),
        total=_number(raw["total_device_mib"]),
        kv=_number(raw["kv_mib"]),
        state=_number(raw["recurrent_mib"]),
        compute=_number(raw["compute_device_mib"]),
        aside=SERVED.get(raw["id"], UNREADABLE.get(raw["id"], "")),
    )


def _number(text: str) -> float | None:
    return float(text) if text else None


def _setting(raw: Mapping[str, str]) -> RunSetting:
    engine = raw["engine"]
    slots = int(raw["n_seq_max"] or 1)
    context = int(raw["ctx"] or 4096)
    keys, values = _kv_types(raw["kv_type"])
    setting = RunSetting(
        engine=MLX_LM if "mlx" in engine else LLAMA_CPP,
        backend=_first_match(_BACKENDS, raw["backend_device"]) or ("metal" if "mlx" in engine else "cpu"),
        context=context // slots,
        slots=slots,
        kv_type=keys,
        value_type=values,
        is_kv_unified=UNIFIED_BY_DEFAULT in engine and "kv_unified=false" not in raw["notes"],
        build=_first_match(_BUILDS, engine) or 11549,
        limits_outputs=not re.search(r"llama-bench|fit-params|2024|2025", engine),
        gpu_memory=tuple(size * _GB for size in [_first_match(_GPU_GB, raw["backend_device"])] if size),
        isa=("avx2",),
        repacks="repacking on" in raw["backend_device"],
    )
    return msgspec.structs.replace(setting, **_read_notes(raw["notes"]))


def _read_notes(notes: str) -> dict[str, int | bool]:
    """Return what the notes say of the run: its batch, whether prompts were computed, experts aside."""
    values: dict[str, int | bool] = {"prefills": "tg128" not in notes}
    if batch := re.search(r"n_ubatch (\d+)", notes):
        values["batch"] = int(batch[1])
    return values


def _kv_types(text: str) -> tuple[str, str]:
    match = re.search(r"K (\w+)/V (\w+)", text)
    return (match[1], match[2]) if match else (text or "f16", "")


def _first_match(table: Sequence[tuple[str, T]], text: str) -> T | None:
    return next((value for key, value in table if key in text), None)


@cache
def _shape_facts(name: str, quantization: str, format_name: str) -> ModelFacts | None:
    try:
        return shape_facts(name, quantization, format=format_name)
    except RoundhouseError:
        return None


def _facts(raw: Mapping[str, str], name: str, setting: RunSetting) -> ModelFacts | None:
    quantization = raw["quant"].partition(" ")[0]
    if "mix" in raw["quant"]:
        facts = _mix_facts(name)
    else:
        facts = _shape_facts(name, quantization, "mlx" if setting.engine is MLX_LM else "gguf")
        facts = facts or _shape_facts(name, "Q4_K_M", "gguf")
    if facts is None:
        return None
    stated_bytes = re.search(r"GGUF tensor bytes (\d+) MiB", raw["notes"])
    if stated_bytes:
        return scale_facts(facts, int(stated_bytes[1]) * MIB / sum(group.padded_bytes for group in facts.weights))
    if raw["model_device_mib"]:
        place = [part.bytes for part in weight_parts(facts, setting) if (part.place != HOST) == setting.uses_gpu]
        return scale_facts(facts, float(raw["model_device_mib"]) * MIB / (place[0] if place else 1))
    return facts


def _mix_facts(name: str) -> ModelFacts | None:
    """Return the model as our own runs wrote it: Q4_K, but Q6_K for values, the way down and the output."""
    shape = find_shape(name)
    if shape is None:
        return None
    tensors = [TensorInfo(t.name, t.shape, _type_in_mix(t)) for t in shape.build_tensors("Q4_K_M")]
    return facts_from(shape.build_metadata(), tensors, name=name)


def _type_in_mix(tensor: TensorInfo) -> int:
    if len(tensor.shape) == 1:
        return tensor.type
    return _MIXED[bool(re.search(r"attn_v|ffn_down|^output", tensor.name))]


def scale_facts(facts: ModelFacts, factor: float) -> ModelFacts:
    """Return the facts with all weights so many times as large: their header's sum is known, not its parts."""

    def grow_group(group: WeightGroup) -> WeightGroup:
        return msgspec.structs.replace(
            group, bytes=round(group.bytes * factor), padded_bytes=round(group.padded_bytes * factor)
        )

    return msgspec.structs.replace(facts, weights=[grow_group(group) for group in facts.weights])
