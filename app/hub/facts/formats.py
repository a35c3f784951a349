"""Which format a Hugging Face folder is in, told by its configuration, and how many bits that format spends on what.

The bits serve where there is only a configuration: a 4-bit scheme keeps scales, and leaves parts of a model alone.
"""

import msgspec

from app.core.model_facts import WeightKind, bit_rate_name
from app.hub.facts.hf_config import read_count, text_part
from app.hub.facts.json_text import Object
from app.hub.facts.packed import WeightPacking

SCALE_BITS = 16
"""Scales and biases are half floats in MLX, AWQ and GPTQ."""
EXL_DEFAULT_HEAD_BITS = 6
"""What both ExLlama converters use unless told otherwise."""

EXL3_DRAFT_BITS = 6.0
"""What heads that draft take at least: 13.84 GB of Qwen3.8-27B at 3 bits (0xSero's registry, October 2026)."""
EXL3_MOST_TABLE_BITS = 6
EXL3_ROW_SCALE_BITS = 0.12
"""A row of Flash-Next's table holds 160 elements and a scale: 32.64 GB in five bits are 5.12 for each."""
MAX_BITS = 32

_BLOCK_KINDS = frozenset(
    {
        WeightKind.ATTENTION,
        WeightKind.FEED_FORWARD,
        WeightKind.EXPERTS,
        WeightKind.SHARED_EXPERTS,
        WeightKind.RECURRENT,
        WeightKind.DRAFT,
    }
)
_DTYPE_NAMES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32", "half": "F16"}
_PLAIN_BITS = {"BF16": 16.0, "F16": 16.0, "F32": 32.0}


class WeightStorage(msgspec.Struct, frozen=True, kw_only=True):
    """How weights are stored. `quantization` is what people call it; `bits` counts what one parameter takes."""

    format: str
    quantization: str
    packing: WeightPacking = WeightPacking()
    dtype: str = "BF16"
    bits: dict[WeightKind, float] = {}
    """Of the kinds that are not stored as `dtype`, scales included."""

    def bits_of(self, kind: WeightKind) -> float:
        """Return the bits one parameter of a kind takes."""
        return self.bits.get(kind, _PLAIN_BITS.get(self.dtype, 16.0))


def storage_of(config: Object, *, header_format: str = "") -> WeightStorage:
    """Return how a model is stored. `header_format` is what its safetensors files say ("mlx"), if they were read."""
    dtype = _find_dtype(config)
    mlx, stated_config = config.get("quantization"), config.get("quantization_config")
    if isinstance(stated_config, dict) and "quant_method" not in stated_config and "bits" in stated_config:
        mlx = mlx if isinstance(mlx, dict) else stated_config
    if isinstance(mlx, dict) and "bits" in mlx:
        return _mlx_storage(mlx, dtype)
    if isinstance(stated_config, dict):
        return _storage_from_config(stated_config, dtype)
    return WeightStorage(format="mlx" if header_format == "mlx" else "safetensors", quantization=dtype, dtype=dtype)


def _find_dtype(config: Object) -> str:
    for part in (config, text_part(config)):
        for name in ("dtype", "torch_dtype"):
            value = part.get(name)
            if isinstance(value, str) and value in _DTYPE_NAMES:
                return _DTYPE_NAMES[value]
    return "BF16"


def _mlx_storage(quantization: Object, dtype: str) -> WeightStorage:
    """MLX also packs the embedding; each group has a scale and a bias."""
    bits, group = max(1, read_count(quantization, "bits", 4)), max(1, read_count(quantization, "group_size", 64))
    groups = {
        module: read_count(own, "group_size", group) for module, own in quantization.items() if isinstance(own, dict)
    }
    each = bits + 2 * SCALE_BITS / group
    ends = {WeightKind.INPUT_EMBEDDING, WeightKind.LOOKUP_TABLE, WeightKind.OUTPUT}
    kinds = {*_BLOCK_KINDS, *ends, WeightKind.ROUTER}
    return WeightStorage(
        format="mlx",
        quantization=f"{bits}bit",
        packing=WeightPacking(bits, group, groups),
        dtype=dtype,
        bits=dict.fromkeys(kinds, each),
    )


def _storage_from_config(stated_config: Object, dtype: str) -> WeightStorage:
    method = str(stated_config.get("quant_method", "")).lower()
    if method in ("exl2", "exl3"):
        return _exllama_storage(method, stated_config)
    if method in ("awq", "gptq", "auto-round"):
        return _integer_storage(method, stated_config, dtype)
    if method == "compressed-tensors":
        return _storage_of_compressed(stated_config, dtype)
    if method in ("fp8", "fbgemm_fp8", "modelopt", "mxfp4", "modelopt_fp4"):
        return _float_storage(method, stated_config, dtype)
    if method == "bitsandbytes":
        bits = 4 if stated_config.get("load_in_4bit") is True else 8
        return _block_storage("safetensors", f"bnb-{bits}bit", WeightPacking(bits), dtype, bits + 0.5)
    return WeightStorage(format="safetensors", quantization=method or dtype, dtype=dtype)


def _block_storage(name: str, label: str, weight_packing: WeightPacking, dtype: str, bits: float) -> WeightStorage:
    """Return a scheme that packs the blocks and leaves embedding, output and router alone."""
    return WeightStorage(
        format=name, quantization=label, packing=weight_packing, dtype=dtype, bits=dict.fromkeys(_BLOCK_KINDS, bits)
    )


def _exllama_storage(method: str, stated_config: Object) -> WeightStorage:
    """Read bits per weight, which need not be whole, and those of the output matrix; the embedding stays F16."""
    bits, head = (
        _parse_float(stated_config, "bits", 4.0),
        _parse_float(stated_config, "head_bits", EXL_DEFAULT_HEAD_BITS),
    )
    kinds = {**dict.fromkeys(_BLOCK_KINDS, bits), WeightKind.OUTPUT: head}
    if method == "exl3":
        kinds |= {WeightKind.LOOKUP_TABLE: _exl3_table_bits(bits), WeightKind.DRAFT: max(bits, EXL3_DRAFT_BITS)}
    return WeightStorage(
        format=method,
        quantization=bit_rate_name(bits),
        packing=WeightPacking(max(1, round(bits))),
        dtype="F16",
        bits=kinds,
    )


def _exl3_table_bits(bits: float) -> float:
    """Return the bits of an n-gram table's element, its row's scale included.

    Those of Qwen3.8-Flash-Next-exl3 are in its branches' names: "2.05bpw_h4_ng4", "3.05bpw_h5_ng5", "4.05bpw_h6_ng6".
    """
    return min(EXL3_MOST_TABLE_BITS, int(bits) + 2) + EXL3_ROW_SCALE_BITS


def _integer_storage(method: str, stated_config: Object, dtype: str) -> WeightStorage:
    """AWQ and GPTQ: each group has a half-float scale and a packed zero point."""
    bits, group = max(1, read_count(stated_config, "bits", 4)), read_count(stated_config, "group_size", 128) or 128
    each = bits + (SCALE_BITS + bits) / group
    name = "awq" if method == "awq" or "awq" in str(stated_config.get("packing_format", "")) else "gptq"
    return _block_storage(name, f"{bits}bit", WeightPacking(bits, group), dtype, each)


def _storage_of_compressed(stated_config: Object, dtype: str) -> WeightStorage:
    groups = stated_config.get("config_groups")
    group: object = next(iter(groups.values()), {}) if isinstance(groups, dict) else {}
    weights = group.get("weights") if isinstance(group, dict) else {}
    weights = weights if isinstance(weights, dict) else {}
    bits, size = max(1, read_count(weights, "num_bits", 8)), read_count(weights, "group_size") or 128
    label = str(stated_config.get("format", ""))
    if "nvfp4" in label:
        return _block_storage("nvfp4", "NVFP4", WeightPacking(4, 16), dtype, 4.5)
    if "mxfp4" in label:
        return _block_storage("mxfp4", "MXFP4", WeightPacking(4, 32), dtype, 4.25)
    each = bits + (SCALE_BITS / size if bits < 8 else 0)  # noqa: PLR2004 -- bytes carry one scale per channel
    kind = "FP" if weights.get("type") == "float" else "INT"
    return _block_storage("compressed-tensors", f"{kind}{bits}", WeightPacking(bits, size), dtype, each)


def _float_storage(method: str, stated_config: Object, dtype: str) -> WeightStorage:
    """FP8, and the four-bit floats of NVIDIA (a scale per 16) and of the OCP (a shared exponent per 32)."""
    algorithm = str(stated_config.get("quant_algo", "")).upper()
    if method == "mxfp4":
        return WeightStorage(
            format="mxfp4",
            quantization="MXFP4",
            packing=WeightPacking(4, 32),
            dtype=dtype,
            bits={WeightKind.EXPERTS: 4.25},
        )
    if "FP4" in algorithm or method == "modelopt_fp4":
        return _block_storage("nvfp4", "NVFP4", WeightPacking(4, 16), dtype, 4.5)
    return _block_storage("fp8", "FP8", WeightPacking(8), dtype, 8 + 32 / (128 * 128))


def _parse_float(stated_config: Object, name: str, default: float) -> float:
    value = stated_config.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= MAX_BITS:
        return default
    return float(value)
