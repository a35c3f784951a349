"""Where llama.cpp puts which weights, and what the processor's own layout adds to them.

The copy llama.cpp makes of matrices the processor multiplies, in a layout its vector units read best.

The file stays mapped besides, so these weights are counted twice. Rule: `ggml_repack_get_optimal_repack_type`; for x86
checked against the loaded buffers of xllamacpp 2026.10.11549, for ARM read in the source only.

Which layer lies where in llama.cpp, by its own rule: the last `gpu_layers` on the GPUs, in the order of the split.

The output counts as one layer more than the blocks (`llama_model::load_tensors`).
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from app.advisor.memory.setting import HOST, MemoryComponent, MemoryPart, RunSetting
from app.advisor.memory.weight_sums import ByType, weight_sums
from app.core.model_facts import ModelFacts

TABLES_MAPPED = "lookup tables, mapped from the file"


def weight_parts(facts: ModelFacts, setting: RunSetting) -> list[MemoryPart]:
    """Return the weights by place: exact sums of padded tensors, the copies for the processor apart."""
    places = layer_places(facts, setting)
    sums: dict[int, int] = {}
    copied_bytes = 0
    repacked_types = types_to_repack(setting.isa) if setting.repacks else frozenset()
    for place, by_type in _weights_by_place(facts, setting, places):
        sums[place] = sums.get(place, 0) + sum(by_type.values())
        if place == HOST and repacked_types:
            copied_bytes += sum(size for kind, size in by_type.items() if kind in repacked_types)
    _add_embedding(sums, facts, places)
    arithmetic = _describe_tensors(facts, setting)
    parts = [
        MemoryPart(place=place, component=MemoryComponent.WEIGHTS, bytes=size, arithmetic=arithmetic)
        for place, size in sorted(sums.items())
    ]
    tables = sum(weight_sums(facts).tables.values())
    return [*parts, *([_copy_part(copied_bytes)] if copied_bytes else []), *([_table_part(tables)] if tables else [])]


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


def _table_part(size: int) -> MemoryPart:
    """Return tables of rows: llama.cpp maps them, and the few rows of a token are read from wherever they lie."""
    return MemoryPart(
        place=HOST, component=MemoryComponent.WEIGHTS, bytes=size, arithmetic=TABLES_MAPPED, reclaimable=size
    )


def _describe_tensors(facts: ModelFacts, setting: RunSetting) -> str:
    twice = ", the embedding twice" if facts.tied_embeddings and setting.uses_gpu else ""
    return f"{weight_sums(facts).tensors} tensors{twice}"


_AVX2 = frozenset({"Q4_0", "Q4_K", "IQ4_NL", "MXFP4"})
"""Q2_K would join with AVX-512, but the wheel is built for AVX2."""
_DOT_PRODUCT = frozenset({"Q4_0", "Q4_K", "Q5_K", "Q6_K", "Q8_0", "IQ4_NL", "MXFP4", "Q1_0"})
_ARM = ("asimddp", "dotprod", "i8mm")
"""How Linux and macOS name the extensions that bring integer dot products to ARM."""


def types_to_repack(isa: tuple[str, ...]) -> frozenset[str]:
    """Return the ggml types that a processor with these extensions gets a second copy of."""
    if "avx2" in isa:
        return _AVX2
    return _DOT_PRODUCT if any(name in isa for name in _ARM) else frozenset()


def layer_places(facts: ModelFacts, setting: RunSetting) -> list[int]:
    """Return the place of every block, and last that of the output."""
    count = len(facts.layers) + 1
    on_gpu = gpu_layer_count(facts, setting)
    first = count - on_gpu
    bounds = _share_bounds(setting)
    return [HOST if index < first else bisect_right(bounds, (index - first) / on_gpu) for index in range(count)]


def gpu_layer_count(facts: ModelFacts, setting: RunSetting) -> int:
    """Return how many of blocks and output are on GPUs."""
    every = len(facts.layers) + 1
    if not setting.uses_gpu:
        return 0
    return every if setting.gpu_layers is None else min(setting.gpu_layers, every)


def _share_bounds(setting: RunSetting) -> list[float]:
    """Return where one GPU's share ends and the next begins; the last share is open."""
    shares = setting.split or (1.0,) * setting.gpus
    total = sum(shares) or 1.0
    return [share_end / total for share_end in accumulate(shares)][:-1]
