"""Where llama.cpp puts which weights, and what the processor's own layout adds to them."""

from collections.abc import Iterator, Sequence

from app.advisor.layer_split import layer_places
from app.advisor.memory_setting import HOST, Component, Part, Setting
from app.advisor.repack import repacked_bytes
from app.core.model_facts import ModelFacts, WeightGroup, WeightKind

_NOT_LOADED = (WeightKind.DRAFT, WeightKind.PROJECTOR)
"""Multi-token prediction is loaded only for speculation; a projector is a model of its own."""


def weight_parts(facts: ModelFacts, setting: Setting) -> list[Part]:
    """Return the weights by place: exact sums of padded tensors, the copies for the processor apart."""
    places = layer_places(facts, setting)
    parts: list[Part] = []
    for place, size in sorted(_sums(facts, places, setting).items()):
        parts.append(Part(place=place, component=Component.WEIGHTS, bytes=size, arithmetic=_arithmetic(facts, setting)))
    copied = sum(repacked_bytes(group, setting) for group in _computed_on_host(facts, places, setting))
    if copied:
        arithmetic = "a copy of the matrices in the processor's own layout"
        parts.append(
            Part(place=HOST, component=Component.WEIGHTS, bytes=copied, arithmetic=arithmetic, reclaimable=copied)
        )
    return parts


def _sums(facts: ModelFacts, places: Sequence[int], setting: Setting) -> dict[int, int]:
    sums: dict[int, int] = {}
    for group in facts.weights:
        for place in _places_of(group, facts, places=places, setting=setting):
            sums[place] = sums.get(place, 0) + group.padded_bytes
    return sums


def _places_of(group: WeightGroup, facts: ModelFacts, *, places: Sequence[int], setting: Setting) -> Iterator[int]:
    if group.kind in _NOT_LOADED:
        return
    if group.kind is WeightKind.INPUT_EMBEDDING:
        yield HOST
        if facts.tied_embeddings and places[-1] != HOST:
            yield places[-1]  # read by rows on the host, as a matrix on the device: held twice
    elif group.layer is None:
        yield places[-1]
    elif group.kind is WeightKind.EXPERTS and group.layer < setting.cpu_moe_layers:
        yield HOST
    else:
        yield places[group.layer]


def _computed_on_host(facts: ModelFacts, places: Sequence[int], setting: Setting) -> Iterator[WeightGroup]:
    for group in facts.weights:
        if HOST not in _places_of(group, facts, places=places, setting=setting):
            continue
        if group.kind is not WeightKind.INPUT_EMBEDDING or (facts.tied_embeddings and places[-1] == HOST):
            yield group


def _arithmetic(facts: ModelFacts, setting: Setting) -> str:
    loaded = sum(group.tensors for group in facts.weights if group.kind not in _NOT_LOADED)
    twice = ", the embedding twice" if facts.tied_embeddings and setting.uses_gpu else ""
    return f"{loaded} tensors{twice}"
