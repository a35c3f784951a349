"""`ModelFacts` of well-known models, and of models we have in another quantisation."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

from app.core.errors import NotFound
from app.core.machine import Confidence
from app.core.model_facts import ModelFacts, WeightGroup, WeightKind
from app.hub.facts.formats import WeightStorage
from app.hub.facts.gguf import facts_from
from app.hub.shapes.pseudo import remix_weights
from app.hub.shapes.shape import ModelShape
from app.hub.shapes.storages import storage_for
from app.hub.shapes.table import find_shape

GGUF = "gguf"
SOURCE = "table of well-known models"
NORM_BITS = 16
"""Norms outside GGUF are stored as the model was trained, in half precision."""
SAME_MODEL = 1e-3
"""Share by which two counts of parameters of one model differ at most: padded vocabularies, tables of rotations."""


@lru_cache(maxsize=1024)
def shape_facts(name: str, quantization: str, *, format: str = GGUF) -> ModelFacts:  # noqa: A002 -- the field it fills
    """Return the facts of a well-known model in a quantisation ("Q4_K_M", "4bit", "4.0bpw", "FP8", "BF16", ...).

    Their confidence is TABLE. Raises NotFound (model_not_found), or BadRequest (quantization_unknown).
    """
    shape = find_shape(name)
    if shape is None:
        raise NotFound(f"No well-known model is called {name}.", code="model_not_found")
    if format == GGUF:
        return _mark_as_known(
            facts_from(shape.build_metadata(), shape.build_tensors(quantization), name=shape.name), quantization
        )
    plain = facts_from(shape.build_metadata(), shape.build_tensors("F16"), name=shape.name)
    storage = storage_for(format, quantization)
    return msgspec.structs.replace(_mark_as_known(_with_storage(plain, storage), quantization), format=format)


def requantize(facts: ModelFacts, quantization: str) -> ModelFacts:
    """Return the same model in another quantisation of its format; what is not known of it is derived.

    Raises BadRequest (quantization_unknown) for one that the format has not.
    """
    if facts.format != GGUF:
        changed = _with_storage(facts, storage_for(facts.format, quantization))
    else:
        shape = _same_shape(facts)
        weights = _shape_weights(shape, quantization) if shape else remix_weights(facts, quantization)
        changed = _with_weights(facts, weights)
    return msgspec.structs.replace(
        changed, quantization=quantization, confidence=Confidence.DERIVED, source=f"{facts.source}, requantised"
    )


def _mark_as_known(facts: ModelFacts, quantization: str) -> ModelFacts:
    capabilities = facts.capabilities or ["chat"]
    return msgspec.structs.replace(
        facts,
        quantization=quantization,
        confidence=Confidence.TABLE,
        source=SOURCE,
        capabilities=capabilities,
    )


def _same_shape(facts: ModelFacts) -> ModelShape | None:
    """Return the shape of this very model, if it is a well-known one."""
    shape = find_shape(facts.name)
    if shape is None or shape.architecture != facts.architecture:
        return None
    counted = sum(group.elements for group in _shape_weights(shape, "F16"))
    return shape if abs(counted - facts.parameters) <= SAME_MODEL * counted else None


def _shape_weights(shape: ModelShape, quantization: str) -> list[WeightGroup]:
    return facts_from(shape.build_metadata(), shape.build_tensors(quantization), name=shape.name).weights


def _with_storage(facts: ModelFacts, storage: WeightStorage) -> ModelFacts:
    return _with_weights(facts, [_change_bits(group, storage) for group in facts.weights])


def _change_bits(group: WeightGroup, storage: WeightStorage) -> WeightGroup:
    bits = NORM_BITS if group.kind is WeightKind.NORM else storage.bits_of(group.kind)
    size = round(group.elements * bits / 8)
    label = storage.quantization if group.kind in storage.bits else storage.dtype
    return msgspec.structs.replace(group, type=label, bytes=size, padded_bytes=size)


def _with_weights(facts: ModelFacts, weights: Sequence[WeightGroup]) -> ModelFacts:
    return msgspec.structs.replace(facts, weights=list(weights), file_bytes=_total_padded_bytes(weights))


def _total_padded_bytes(weights: Iterable[WeightGroup]) -> int:
    return sum(group.padded_bytes for group in weights)
