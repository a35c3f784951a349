"""Put the tensors of one weight together: packed numbers, scales, zero points, permutations.

A packed tensor's shape is not the weight's. How many parameters it holds follows from its companions' shapes where the
scheme has them, so that a configuration that lies, or is missing, changes nothing; else from the bits it states.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod

import msgspec

from app.hub.facts.safetensors import FileTensor

Parts = Mapping[str, FileTensor]
"""The tensors of one module by the last part of their names."""


class ModuleWeight(msgspec.Struct, frozen=True):
    """One module's weight: parameters, how they are stored, and all its bytes."""

    module: str
    type: str
    elements: int
    bytes: int
    tensors: int


def prefix_modules(part: str, weights: Iterable[ModuleWeight]) -> list[ModuleWeight]:
    """Return weights with a part's name in front of their modules'."""
    return [msgspec.structs.replace(weight, module=f"{part}.{weight.module}") for weight in weights]


class WeightPacking(msgspec.Struct, frozen=True):
    """What a configuration says of packed weights; `groups` has the modules whose group size differs (MLX)."""

    bits: int = 4
    group_size: int = 64
    groups: dict[str, int] = {}

    def group_of(self, module: str) -> int:
        """Return how many weights share a scale there."""
        return max(1, self.groups.get(module, self.group_size))


def weights_of(tensors: Iterable[FileTensor], weight_packing: WeightPacking) -> list[ModuleWeight]:
    """Return the weights in the order of the file."""
    modules: dict[str, dict[str, FileTensor]] = {}
    for tensor in tensors:
        module, _, part = _with_dots(tensor.name).rpartition(".")
        modules.setdefault(module, {})[part] = tensor
    return [weight for module, parts in modules.items() for weight in _module_weights(module, parts, weight_packing)]


def _with_dots(name: str) -> str:
    """Give parts that are marked by an underscore (MXFP4) or below the weight (bitsandbytes) the usual dot."""
    for mark in ("_blocks", "_scales"):
        if name.endswith(mark):
            return f"{name.removesuffix(mark)}.{mark[1:]}"
    module, marker, below = name.partition(".weight.")
    return f"{module}.weight_{below.replace('.', '_')}" if marker else name


def _module_weights(module: str, parts: Parts, weight_packing: WeightPacking) -> list[ModuleWeight]:
    """Return one weight for a packed module, or each tensor of a plain one by itself."""
    for key, read in _SCHEMES:
        if key in parts:
            result = read(parts, max(1, weight_packing.bits), weight_packing.group_of(module))
            if result is not None:
                elements, kind = result
                return [_whole_weight(module, parts.values(), elements=elements, kind=kind)]
    return [
        ModuleWeight(f"{module}.{part}", tensor.dtype, tensor.elements, tensor.bytes, 1)
        for part, tensor in parts.items()
    ]


def _whole_weight(module: str, parts: Iterable[FileTensor], *, elements: int, kind: str) -> ModuleWeight:
    tensors = list(parts)
    return ModuleWeight(module, kind, elements, sum(part.bytes for part in tensors), len(tensors))


_SchemeResult = tuple[int, str] | None
"""Parameters and the name of the scheme; None if the parts do not fit it."""


def _column_count(tensor: FileTensor) -> int:
    return tensor.shape[-1] if tensor.shape else 0


def _row_count(tensor: FileTensor) -> int:
    return prod(tensor.shape[:-1])


def _gptq_or_awq(parts: Parts, bits: int, group_size: int) -> _SchemeResult:
    """GPTQ packs along the inputs, AWQ along the outputs; both keep scales as (groups, outputs)."""
    packed_weight, scales = parts["qweight"], parts.get("scales")
    if scales is None or len(packed_weight.shape) != 2 or not all(scales.shape):  # noqa: PLR2004 -- a matrix
        return packed_weight.elements * 32 // bits, f"{bits}-bit"
    outputs = _column_count(scales)
    if "qzeros" in parts:
        bits = _column_count(parts["qzeros"]) * 32 // outputs or bits
    inputs = packed_weight.shape[0] * 32 // bits if _column_count(packed_weight) == outputs else packed_weight.shape[0]
    return inputs * outputs, f"{bits}-bit g{inputs // scales.shape[0] or group_size}"


def _read_exl2(parts: Parts, _bits: int, _group_size: int) -> _SchemeResult:
    packed_weight, order = parts["q_weight"], parts.get("q_invperm") or parts.get("q_perm")
    if order is None:
        return None
    elements = order.elements * _column_count(packed_weight)
    return elements, f"EXL2 {packed_weight.bytes * 8 / elements:.1f}-bit" if elements else "EXL2"


def _read_exl3(parts: Parts, _bits: int, _group_size: int) -> _SchemeResult:
    """Read a trellis: tiles of 16 x 16 weights, each `bits` x 16 numbers of 16 bits; and its codebook's mark."""
    trellis = parts["trellis"]
    if len(trellis.shape) < 3:  # noqa: PLR2004 -- rows, columns, tile
        return None
    codebook = next((f" {mark}" for mark in ("mul1", "mcg") if mark in parts), "")
    return _row_count(trellis) * 256, f"EXL3 {_column_count(trellis) // 16}-bit{codebook}"


def _four_bit_blocks(parts: Parts, _bits: int, _group_size: int) -> _SchemeResult:
    return parts["blocks"].elements * 2, "MXFP4"


def _read_compressed(parts: Parts, bits: int, _group_size: int) -> _SchemeResult:
    packed_weight = parts["weight_packed"]
    if packed_weight.dtype == "U8":
        is_nvidia = parts.get("weight_scale", packed_weight).dtype == "F8_E4M3"
        return packed_weight.elements * 2, "NVFP4" if is_nvidia else "MXFP4"
    return packed_weight.elements * 32 // bits, f"{bits}-bit"


def _read_weight(parts: Parts, _bits: int, group_size: int) -> _SchemeResult:
    """Read a weight by its companions: MLX, FP8, NVIDIA's FP4, bitsandbytes."""
    weight = parts["weight"]
    if weight.dtype == "U32" and "scales" in parts:
        return _read_mlx(weight, parts["scales"], group_size)
    if weight.dtype.startswith("F8"):
        return weight.elements, "FP8"
    if weight.dtype == "U8" and "weight_scale" in parts:
        return weight.elements * 2, "NVFP4"
    if weight.dtype == "U8" and "weight_absmax" in parts:
        return weight.elements * 2, "4-bit (bitsandbytes)"
    if weight.dtype == "I8":
        return weight.elements, "INT8"
    return None


def _read_mlx(weight: FileTensor, scales: FileTensor, group_size: int) -> _SchemeResult:
    """Each row of U32 holds `bits` x inputs / 32 numbers, each row of scales inputs / group_size."""
    inputs = _column_count(scales) * group_size
    bits = _column_count(weight) * 32 // inputs if inputs else 0
    return _row_count(weight) * inputs, f"{bits}-bit g{group_size}"


_SCHEMES: Sequence[tuple[str, Callable[[Parts, int, int], _SchemeResult]]] = (
    ("qweight", _gptq_or_awq),
    ("q_weight", _read_exl2),
    ("trellis", _read_exl3),
    ("blocks", _four_bit_blocks),
    ("weight_packed", _read_compressed),
    ("weight", _read_weight),
)
