"""Engines that load a whole model and grow its cache as needed, as libraries do.

Each engine's traits say what it keeps where; none of them can be asked the way llama.cpp can, so only weights and KV
are exact and the rest is called predicted.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from app.advisor.memory import kv
from app.advisor.memory.runtime import cuda_context, share_between
from app.advisor.memory.setting import HOST, MemoryComponent, MemoryPart, RunSetting, as_draft
from app.core.advice import EstimateConfidence
from app.core.machine import Confidence
from app.core.model_facts import Layer, ModelFacts, WeightGroup, WeightKind
from engines.api.traits import GrowingMemory

HALF = 2
"""Activations and logits are F16 or BF16."""
_CARD, _LARGE_CARD = 24_000_000_000, 80_000_000_000
"""Bytes of a card from which on a library takes more of it, and of one where that was seen."""


_BY_ROWS = frozenset({WeightKind.INPUT_EMBEDDING, WeightKind.LOOKUP_TABLE})


def library_parts(facts: ModelFacts, setting: RunSetting) -> list[MemoryPart]:
    """Return what such an engine takes, place by place."""
    library = setting.engine.memory
    if not isinstance(library, GrowingMemory):
        raise TypeError(f"{setting.engine.name} does not grow its cache")
    return [
        *_model_parts(facts, setting, library),
        *_runtime_parts(setting, library),
        *as_draft(_draft_parts(facts, setting, library)),
    ]


def _model_parts(facts: ModelFacts, setting: RunSetting, library: GrowingMemory) -> Iterator[MemoryPart]:
    yield from _weight_parts(facts, setting, library)
    yield from _cache_parts(facts, setting, library)
    yield from _compute_part(facts, setting, library)


def _draft_parts(facts: ModelFacts, setting: RunSetting, library: GrowingMemory) -> Iterator[MemoryPart]:
    """Yield what drafts for the model: another model, or its own head with a cache and a working set beside it."""
    if setting.draft is not None:
        yield from _model_parts(setting.draft, setting, library)
    if setting.has_own_draft and facts.has_draft_head:
        weights = sum(group.bytes for group in facts.weights if group.kind is WeightKind.DRAFT)
        yield from _spread_part(setting, MemoryComponent.WEIGHTS, weights, "")
        heads = [layer for layer in facts.layers if layer.is_draft]
        yield from _spread_part(setting, MemoryComponent.KV, _held_bytes(heads, setting, library), "")
        yield from _compute_part(facts, setting, library)


def compute_places(setting: RunSetting) -> list[int]:
    """Return the places that compute."""
    return list(range(setting.gpus)) if setting.uses_gpu else [HOST]


def _weight_parts(facts: ModelFacts, setting: RunSetting, library: GrowingMemory) -> Iterator[MemoryPart]:
    loaded_groups = [group for group in facts.weights if group.kind is not WeightKind.DRAFT]
    experts = [group for group in loaded_groups if _is_aside(group, setting)]
    aside = [group for group in loaded_groups if library.embedding_on_host and group.kind in _BY_ROWS]
    on_host = sum(group.bytes for group in aside)
    total = sum(group.bytes for group in loaded_groups)
    matrix = sum(group.bytes for group in aside if group.kind is WeightKind.INPUT_EMBEDDING)
    stays = matrix if facts.tied_embeddings else 0  # a tied matrix is needed on the GPU as well
    on_gpu = total - on_host + stays - sum(group.bytes for group in experts)
    yield from _spread_part(
        setting, MemoryComponent.WEIGHTS, on_gpu, f"{sum(g.tensors for g in loaded_groups)} tensors"
    )
    if on_host:
        yield MemoryPart(place=HOST, component=MemoryComponent.WEIGHTS, bytes=on_host, arithmetic="the embedding")
    if experts:
        yield _expert_part(experts)


def _is_aside(group: WeightGroup, setting: RunSetting) -> bool:
    """Tell whether a group stays in system memory by the setting: experts of the first layers."""
    is_expert = group.kind is WeightKind.EXPERTS and group.layer is not None and group.layer < setting.cpu_moe_layers
    return is_expert and setting.uses_gpu and setting.engine.keeps_experts_aside


def _expert_part(experts: Sequence[WeightGroup]) -> MemoryPart:
    layers = len({group.layer for group in experts})
    return MemoryPart(
        place=HOST,
        component=MemoryComponent.WEIGHTS,
        bytes=sum(group.bytes for group in experts),
        arithmetic=f"the experts of {layers} layers",
    )


def can_set_experts_aside(facts: ModelFacts, setting: RunSetting) -> bool:
    """Tell whether such an engine can compute this model's experts on the processor, as far as its files say."""
    mark = setting.engine.memory.expert_mark if isinstance(setting.engine.memory, GrowingMemory) else ""
    experts = [group for group in facts.weights if group.kind is WeightKind.EXPERTS]
    return bool(experts) and (
        facts.confidence is not Confidence.MEASURED or all(group.type.endswith(mark) for group in experts)
    )


def _cache_parts(facts: ModelFacts, setting: RunSetting, library: GrowingMemory) -> Iterator[MemoryPart]:
    layers = kv.decode_layers(facts)
    arithmetic = f"{_held_tokens(setting, library)} tokens of {_native_kv(setting, library)}"
    yield from _spread_part(setting, MemoryComponent.KV, _held_bytes(layers, setting, library), arithmetic)
    state = sum(kv.layer_state(layer, setting) for layer in layers)
    yield from _spread_part(setting, MemoryComponent.STATE, state, kv.state_arithmetic(facts, setting))


def _held_bytes(layers: Iterable[Layer], setting: RunSetting, library: GrowingMemory) -> int:
    """Return what the cache of these layers takes."""
    native = msgspec.structs.replace(setting, kv_type=_native_kv(setting, library), value_type="")
    tokens = _held_tokens(setting, library)
    return sum(kv.row_bytes(layer, native) * _tokens_in_window(layer.window, setting, tokens) for layer in layers)


def _native_kv(setting: RunSetting, library: GrowingMemory) -> str:
    return library.kv_types.get(setting.kv_type, library.plain_kv.get(setting.backend, "f16"))


def _held_tokens(setting: RunSetting, library: GrowingMemory) -> int:
    return setting.cache_tokens or cache_tokens(setting, library)


def _tokens_in_window(window: int, setting: RunSetting, tokens: int) -> int:
    return min(tokens, (window + setting.batch) * setting.slots) if window else tokens


def cache_tokens(setting: RunSetting, library: GrowingMemory) -> int:
    """Return the tokens the cache holds for all conversations, in whole steps."""
    step = library.cache_step
    return (-(-setting.context // step) * step + library.cache_spare) * setting.slots


def _compute_part(facts: ModelFacts, setting: RunSetting, library: GrowingMemory) -> Iterator[MemoryPart]:
    size = _working_set(facts, setting, library)
    return _spread_part(setting, MemoryComponent.COMPUTE, size, "the working set of a prompt")


def _working_set(facts: ModelFacts, setting: RunSetting, library: GrowingMemory) -> int:
    """Return what a prompt's chunk needs: its logits, or the widest feed-forward part, whichever is more."""
    tokens = min(library.chunk, setting.context)
    widest = max((max(1, layer.experts_used) * layer.feed_forward for layer in facts.layers), default=0)
    activations = (3 * widest + 5 * facts.hidden) * tokens * HALF
    logits = (facts.vocabulary + facts.hidden) * tokens * HALF
    return max(activations, logits) if library.computes_all_logits else activations


def _runtime_parts(setting: RunSetting, library: GrowingMemory) -> Iterator[MemoryPart]:
    yield _runtime_part(HOST, library.process, "interpreter and libraries")
    if library.expert_process and setting.cpu_moe_layers and setting.uses_gpu:
        yield _runtime_part(HOST, library.expert_process, "the process that computes experts")
    if setting.uses_gpu and setting.backend == "cuda":
        for place in range(setting.gpus):
            gpu_memory = setting.gpu_memory[place] if place < len(setting.gpu_memory) else None
            size = cuda_context(gpu_memory) + _device_spare(library, gpu_memory)
            yield _runtime_part(place, size, "CUDA's context and the allocator's spare")


def _device_spare(library: GrowingMemory, gpu_memory: int | None) -> int:
    """Return what the library takes on a card of so many bytes besides weights, cache and working set."""
    more = max(0, library.device_large - library.device)
    return library.device + int(more * share_between(gpu_memory or 0, _CARD, _LARGE_CARD))


def _runtime_part(place: int, size: int, arithmetic: str) -> MemoryPart:
    confidence = EstimateConfidence.TABLE
    return MemoryPart(
        place=place, component=MemoryComponent.RUNTIME, bytes=size, confidence=confidence, arithmetic=arithmetic
    )


def _spread_part(setting: RunSetting, component: MemoryComponent, size: int, arithmetic: str) -> Iterator[MemoryPart]:
    """Yield a component in even shares over the places that compute."""
    places = compute_places(setting)
    is_exact = component in {MemoryComponent.WEIGHTS, MemoryComponent.KV, MemoryComponent.STATE}
    confidence = EstimateConfidence.EXACT if is_exact else EstimateConfidence.PREDICTED
    for place in places:
        share = size // len(places)
        yield MemoryPart(place=place, component=component, bytes=share, confidence=confidence, arithmetic=arithmetic)
