"""From a GGUF tensor table to bytes by purpose: what a tensor is for is told by llama.cpp's names for it."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from app.core.model_facts import Layer, WeightGroup, WeightKind
from app.hub.gguf.tables import TYPE_NAMES
from app.hub.gguf.values import MAX_NUMBER, TensorInfo, bytes_of, corrupt_error

__all__ = ["TensorInfo", "expert_blocks", "kind_of", "weight_groups"]

_BLOCK = re.compile(r"^(?:[ed](?:nc|ec)\.)?blk\.(\d{1,4})\.(.+)$")
_PROJECTOR = ("v.", "mm.", "a.", "resampler.", "model.image_newline", "s.")
_NORM = re.compile(r"norm(?:_\d)?(?:\.|$)|^ls\d|layer_output_scale|^per_dim")
_INSIDE: tuple[tuple[WeightKind, re.Pattern[str]], ...] = (
    (WeightKind.DRAFT, re.compile(r"^nextn")),
    (WeightKind.PROJECTOR, re.compile(r"^vis_")),
    (WeightKind.NORM, _NORM),
    (WeightKind.SHARED_EXPERTS, re.compile(r"shexp")),
    (WeightKind.EXPERTS, re.compile(r"_(?:ch)?exps|^ffn_(?:gate|up|down)\.\d+\.")),
    (WeightKind.ROUTER, re.compile(r"^ffn_gate_inp|^exp_probs|^ffn_gate_tid2eid")),
    (WeightKind.RECURRENT, re.compile(r"^ssm_|^time_mix|^channel_mix|^shortconv")),
    (WeightKind.ATTENTION, re.compile(r"^attn_|^attn\.|^cross_attn|^indexer")),
    (WeightKind.FEED_FORWARD, re.compile(r"^ffn[_.]|^inp_gate|^proj")),
)
_OUTSIDE: tuple[tuple[WeightKind, re.Pattern[str]], ...] = (
    (WeightKind.NORM, _NORM),
    (WeightKind.LOOKUP_TABLE, re.compile(r"^per_layer_token_embd")),
    (WeightKind.INPUT_EMBEDDING, re.compile(r"^(?:token_embd|position_embd|token_types)")),
    (WeightKind.OUTPUT, re.compile(r"^output\.|^cls")),
    (WeightKind.DRAFT, re.compile(r"^nextn")),
)


@lru_cache(maxsize=16_384)  # models have the same names, and each is asked for in every quantisation
def kind_of(name: str) -> tuple[WeightKind, int | None]:
    """Return what a llama.cpp tensor is for, and its block."""
    block = _BLOCK.match(name)
    if block:
        return _first_match(_INSIDE, block[2]), int(block[1])
    if name.startswith(_PROJECTOR):
        return WeightKind.PROJECTOR, None
    return _first_match(_OUTSIDE, name), None


def _first_match(table: Sequence[tuple[WeightKind, re.Pattern[str]]], name: str) -> WeightKind:
    return next((kind for kind, pattern in table if pattern.search(name)), WeightKind.OTHER)


def expert_blocks(tensors: Iterable[TensorInfo]) -> frozenset[int]:
    """Return the blocks that have routed experts."""
    kinds = (kind_of(tensor.name) for tensor in tensors)
    return frozenset(block for kind, block in kinds if kind is WeightKind.EXPERTS and block is not None)


@dataclass(slots=True)
class _GroupSum:
    tensors: int = 0
    elements: int = 0
    bytes: int = 0
    padded_bytes: int = 0


def weight_groups(tensors: Iterable[TensorInfo], layers: Sequence[Layer], alignment: int) -> list[WeightGroup]:
    """Return the tensors summed by kind, block and type, in the order of the file.

    A draft block is all DRAFT; the projections of a purely recurrent block are RECURRENT. Raises BadRequest.
    """
    sums: dict[tuple[WeightKind, int | None, int], _GroupSum] = {}
    total = 0
    for tensor in tensors:
        kind, block = kind_of(tensor.name)
        layer = layers[block] if block is not None and block < len(layers) else None
        elements = tensor.elements
        total += elements
        if total > MAX_NUMBER:
            raise corrupt_error("a tensor has an impossible size")
        key = (_in_its_layer(kind, layer), block, tensor.type)
        group_sum = sums.get(key)
        if group_sum is None:
            sums[key] = group_sum = _GroupSum()
        size = bytes_of(elements, tensor.type)
        group_sum.tensors += 1
        group_sum.elements += elements
        group_sum.bytes += size
        group_sum.padded_bytes += -(-size // alignment) * alignment
    return [_build_group(key, group_sum) for key, group_sum in sums.items()]


def _in_its_layer(kind: WeightKind, layer: Layer | None) -> WeightKind:
    if layer is None:
        return kind
    if layer.is_draft:
        return WeightKind.DRAFT
    if kind is WeightKind.ATTENTION and layer.attention == "none" and (layer.state_elements or layer.conv_elements):
        return WeightKind.RECURRENT
    return kind


def _build_group(key: tuple[WeightKind, int | None, int], group_sum: _GroupSum) -> WeightGroup:
    kind, layer, type_id = key
    return WeightGroup(
        kind=kind,
        layer=layer,
        type=TYPE_NAMES.get(type_id, str(type_id)),
        tensors=group_sum.tensors,
        elements=group_sum.elements,
        bytes=group_sum.bytes,
        padded_bytes=group_sum.padded_bytes,
    )
