"""Where llama.cpp puts which weights, and what the processor's own layout adds to them."""

from collections.abc import Iterator, Sequence

from app.advisor.memory.llama_cpp.layer_split import layer_places
from app.advisor.memory.llama_cpp.repack import types_to_repack
from app.advisor.memory.setting import HOST, MemoryComponent, MemoryPart, RunSetting
from app.advisor.memory.weight_sums import ByType, weight_sums
from app.core.model_facts import ModelFacts


def weight_parts(facts: ModelFacts, setting: RunSetting) -> list[MemoryPart]:
    """Return the weights by place: exact sums of padded tensors, the copies for the processor apart."""
    places = layer_places(facts, setting)
    sums: dict[int, int] = {}
    copied = 0
    repacked = types_to_repack(setting.isa) if setting.repacks else frozenset()
    for place, by_type in _weights_by_place(facts, setting, places):
        sums[place] = sums.get(place, 0) + sum(by_type.values())
        if place == HOST and repacked:
            copied += sum(size for kind, size in by_type.items() if kind in repacked)
    _add_embedding(sums, facts, places)
    arithmetic = _describe_tensors(facts, setting)
    parts = [
        MemoryPart(place=place, component=MemoryComponent.WEIGHTS, bytes=size, arithmetic=arithmetic)
        for place, size in sorted(sums.items())
    ]
    return [*parts, _copy_part(copied)] if copied else parts


def _weights_by_place(facts: ModelFacts, setting: RunSetting, places: Sequence[int]) -> Iterator[tuple[int, ByType]]:
    """Yield what is multiplied with, place by place."""
    sums = weight_sums(facts)
    for index, layer in enumerate(sums.layers):
        yield places[index], layer.others
        if layer.experts:
            yield HOST if index < setting.cpu_moe_layers else places[index], layer.experts
    yield places[-1], sums.outputs
    if facts.tied_embeddings:
        yield places[-1], sums.inputs


def _add_embedding(sums: dict[int, int], facts: ModelFacts, places: Sequence[int]) -> None:
    """Count the input embedding where it is read by rows: on the host, the same bytes as a tied output there."""
    if not (facts.tied_embeddings and places[-1] == HOST):
        sums[HOST] = sums.get(HOST, 0) + sum(weight_sums(facts).inputs.values())


def _copy_part(size: int) -> MemoryPart:
    return MemoryPart(
        place=HOST,
        component=MemoryComponent.WEIGHTS,
        bytes=size,
        arithmetic="a copy of the matrices in the processor's own layout",
        reclaimable=size,
    )


def _describe_tensors(facts: ModelFacts, setting: RunSetting) -> str:
    twice = ", the embedding twice" if facts.tied_embeddings and setting.uses_gpu else ""
    return f"{weight_sums(facts).tensors} tensors{twice}"
