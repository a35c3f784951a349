"""Put the tensors of one weight together: packed numbers, scales, zero points, permutations.

A packed tensor's shape is not the weight's. How many parameters it holds follows from its companions' shapes where the
scheme has them, so that a configuration that lies, or is missing, changes nothing; else from the bits it states.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod

import msgspec

from app.hub.facts.safetensors import Stored

Parts = Mapping[str, Stored]
"""The tensors of one module by the last part of their names."""


class Weight(msgspec.Struct, frozen=True):
    """One module's weight: parameters, how they are stored, and all its bytes."""

    module: str
    type: str
    elements: int
    bytes: int
    tensors: int


def under(part: str, weights: Iterable[Weight]) -> list[Weight]:
    """Return weights with a part's name in front of their modules'."""
    return [msgspec.structs.replace(weight, module=f"{part}.{weight.module}") for weight in weights]


class Packing(msgspec.Struct, frozen=True):
    """What a configuration says of packed weights; `groups` has the modules whose group size differs (MLX)."""

    bits: int = 4
    group_size: int = 64
    groups: dict[str, int] = {}

    def group_of(self, module: str) -> int:
        """Return how many weights share a scale there."""
        return max(1, self.groups.get(module, self.group_size))


def weights_of(tensors: Iterable[Stored], packing: Packing) -> list[Weight]:
    """Return the weights in the order of the file."""
    modules: dict[str, dict[str, Stored]] = {}
    for tensor in tensors:
        module, _, part = _named(tensor.name).rpartition(".")
        modules.setdefault(module, {})[part] = tensor
    return [weight for module, parts in modules.items() for weight in _weights(module, parts, packing)]


def _named(name: str) -> str:
    """Give parts that are marked by an underscore (MXFP4) or below the weight (bitsandbytes) the usual dot."""
    for mark in ("_blocks", "_scales"):
        if name.endswith(mark):
            return f"{name.removesuffix(mark)}.{mark[1:]}"
    module, marker, below = name.partition(".weight.")
    return f"{module}.weight_{below.replace('.', '_')}" if marker else name


def _weights(module: str, parts: Parts, packing: Packing) -> list[Weight]:
    """Return one weight for a packed module, or each tensor of a plain one by itself."""
    for key, read in _SCHEMES:
        if key in parts:
            found = read(parts, max(1, packing.bits), packing.group_of(module))
            if found is not None:
                elements, kind = found
                return [_whole(module, parts.values(), elements=elements, kind=kind)]
    return [Weight(f"{module}.{part}", one.dtype, one.elements, one.bytes, 1) for part, one in parts.items()]


def _whole(module: str, parts: Iterable[Stored], *, elements: int, kind: str) -> Weight:
    found = list(parts)
    return Weight(module, kind, elements, sum(part.bytes for part in found), len(found))


_Found = tuple[int, str] | None
"""Parameters and the name of the scheme; None if the parts do not fit it."""


def _columns(tensor: Stored) -> int:
    return tensor.shape[-1] if tensor.shape else 0


def _rows(tensor: Stored) -> int:
    return prod(tensor.shape[:-1])


def _gptq_or_awq(parts: Parts, bits: int, group_size: int) -> _Found:
    """GPTQ packs along the inputs, AWQ along the outputs; both keep scales as (groups, outputs)."""
    packed, scales = parts["qweight"], parts.get("scales")
    if scales is None or len(packed.shape) != 2 or not all(scales.shape):  # noqa: PLR2004 -- a matrix
        return packed.elements * 32 // bits, f"{bits}-bit"
    outputs = _columns(scales)
    if "qzeros" in parts:
        bits = _columns(parts["qzeros"]) * 32 // outputs or bits
    inputs = packed.shape[0] * 32 // bits if _columns(packed) == outputs else packed.shape[0]
    return inputs * outputs, f"{bits}-bit g{inputs // scales.shape[0] or group_size}"


def _exl2(parts: Parts, _bits: int, _group_size: int) -> _Found:
    packed, order = parts["q_weight"], parts.get("q_invperm") or parts.get("q_perm")
    if order is None:
        return None
    elements = order.elements * _columns(packed)
    return elements, f"EXL2 {packed.bytes * 8 / elements:.1f}-bit" if elements else "EXL2"


def _exl3(parts: Parts, _bits: int, _group_size: int) -> _Found:
    """Read a trellis: tiles of 16 x 16 weights, each `bits` x 16 numbers of 16 bits."""
    trellis = parts["trellis"]
    if len(trellis.shape) < 3:  # noqa: PLR2004 -- rows, columns, tile
        return None
    return _rows(trellis) * 256, f"EXL3 {_columns(trellis) // 16}-bit"


def _four_bit_blocks(parts: Parts, _bits: int, _group_size: int) -> _Found:
    return parts["blocks"].elements * 2, "MXFP4"


def _compressed(parts: Parts, bits: int, _group_size: int) -> _Found:
    packed = parts["weight_packed"]
    if packed.dtype == "U8":
        is_nvidia = parts.get("weight_scale", packed).dtype == "F8_E4M3"
        return packed.elements * 2, "NVFP4" if is_nvidia else "MXFP4"
    return packed.elements * 32 // bits, f"{bits}-bit"


def _weight(parts: Parts, _bits: int, group_size: int) -> _Found:
    """Read a weight by its companions: MLX, FP8, NVIDIA's FP4, bitsandbytes."""
    weight = parts["weight"]
    if weight.dtype == "U32" and "scales" in parts:
        return _mlx(weight, parts["scales"], group_size)
    if weight.dtype.startswith("F8"):
        return weight.elements, "FP8"
    if weight.dtype == "U8" and "weight_scale" in parts:
        return weight.elements * 2, "NVFP4"
    if weight.dtype == "U8" and "weight_absmax" in parts:
        return weight.elements * 2, "4-bit (bitsandbytes)"
    if weight.dtype == "I8":
        return weight.elements, "INT8"
    return None


def _mlx(weight: Stored, scales: Stored, group_size: int) -> _Found:
    """Each row of U32 holds `bits` x inputs / 32 numbers, each row of scales inputs / group_size."""
    inputs = _columns(scales) * group_size
    bits = _columns(weight) * 32 // inputs if inputs else 0
    return _rows(weight) * inputs, f"{bits}-bit g{group_size}"


_SCHEMES: Sequence[tuple[str, Callable[[Parts, int, int], _Found]]] = (
    ("qweight", _gptq_or_awq),
    ("q_weight", _exl2),
    ("trellis", _exl3),
    ("blocks", _four_bit_blocks),
    ("weight_packed", _compressed),
    ("weight", _weight),
)
