"""A model's weights summed once by layer and purpose, so that a search over settings need not add up tensors again."""

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from app.core.identity import IdentityKey
from app.core.model_facts import ModelFacts, WeightGroup, WeightKind

NOT_LOADED = (WeightKind.DRAFT, WeightKind.PROJECTOR)
"""Multi-token prediction is loaded only for speculation; a projector is a model of its own."""
REMEMBERED = 8
"""Models whose sums are kept: as many as one plan compares."""

ByType = dict[str, int]


class LayerWeights(msgspec.Struct, frozen=True, kw_only=True):
    """One block: padded bytes by type, routed experts apart, and elements by kind."""

    others: ByType = {}
    experts: ByType = {}
    elements: dict[WeightKind, int] = {}


class WeightSums(msgspec.Struct, frozen=True, kw_only=True):
    """All loaded weights; bytes padded."""

    layers: list[LayerWeights]
    inputs: ByType
    """What is read by rows: the input embedding."""
    tables: ByType
    """What is looked up beside it, and stays in the mapped file."""
    outputs: ByType
    """What comes after the blocks, or belongs to none."""
    tensors: int
    has_logits: bool
    """Whether it computes logits at all: an encoder has no output matrix."""
    alike: list[int]
    """Per block, the first block that is like it: what holds of one holds of all."""


def weight_sums(facts: ModelFacts) -> WeightSums:
    """Return the sums, kept for the last few models asked for."""
    return _sum_weights(IdentityKey(facts))


@lru_cache(maxsize=REMEMBERED)
def _sum_weights(key: IdentityKey[ModelFacts]) -> WeightSums:
    facts = key.value
    layers = [LayerWeights(others={}, experts={}, elements={}) for _ in facts.layers]
    inputs: ByType = {}
    tables: ByType = {}
    outputs: ByType = {}
    outside = {WeightKind.INPUT_EMBEDDING: inputs, WeightKind.LOOKUP_TABLE: tables}
    for group in facts.weights:
        if group.layer is not None and group.layer < len(layers):
            _add_to_layer(layers[group.layer], group)
        elif group.kind not in NOT_LOADED:
            _add_group(outside.get(group.kind, outputs), group)
    return WeightSums(
        layers=layers,
        inputs=inputs,
        tables=tables,
        outputs=outputs,
        tensors=sum(group.tensors for group in facts.weights if group.kind not in NOT_LOADED),
        has_logits=facts.tied_embeddings or any(group.kind is WeightKind.OUTPUT for group in facts.weights),
        alike=_first_alike(facts, layers),
    )


def _first_alike(facts: ModelFacts, sums: Sequence[LayerWeights]) -> list[int]:
    first: dict[object, int] = {}
    shapes = [
        (layer, weights.elements.get(WeightKind.FEED_FORWARD), weights.elements.get(WeightKind.SHARED_EXPERTS))
        for layer, weights in zip(facts.layers, sums, strict=True)
    ]
    return [first.setdefault(shape, index) for index, shape in enumerate(shapes)]


def _add_to_layer(layer: LayerWeights, group: WeightGroup) -> None:
    layer.elements[group.kind] = layer.elements.get(group.kind, 0) + group.elements
    if group.kind not in NOT_LOADED:
        _add_group(layer.experts if group.kind is WeightKind.EXPERTS else layer.others, group)


def _add_group(sums: ByType, group: WeightGroup) -> None:
    sums[group.type] = sums.get(group.type, 0) + group.padded_bytes
