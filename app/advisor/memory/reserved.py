"""Engines that reserve a share of each GPU at the start, as those do that are made for servers.

The question for them is not what they take but what remains for the cache: how many tokens, and so how many
conversations of the wanted length at once.
"""

from collections.abc import Iterator
from itertools import groupby

import msgspec

from app.advisor.memory import kv
from app.advisor.memory.runtime import MIB, cuda_context
from app.advisor.memory.setting import HOST, MemoryComponent, MemoryPart, RunSetting
from app.core.advice import EstimateConfidence
from app.core.model_facts import AttentionKind, Layer, ModelFacts, WeightKind
from engines.api.traits import ReservedMemory

GIB = 1024 * MIB
HALF = 2
BLOCK = 16
"""Tokens of one page of the cache: the default of paged attention."""
DEFAULT_GPU = 24 * GIB
"""Taken for the size of a GPU that is not known."""


class CacheCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """What remains for the cache on all GPUs together: `bytes`, and the tokens that is for one long conversation."""

    bytes: int
    tokens: int
    conversations: float
    """How many of the wanted length fit at once."""


def reserve_parts(facts: ModelFacts, setting: RunSetting) -> list[MemoryPart]:
    """Return what a launch takes: weights, activations, and a cache that fills the rest of the share."""
    reserve, sizes = _reserve(setting), _gpu_sizes(setting)
    placed_parts = [_memory_part(HOST, MemoryComponent.RUNTIME, reserve.process, "the engine's processes")]
    caches = _cache_sizes(facts, setting)
    weights, draft = weight_share(facts, setting), draft_share(facts, setting)
    state, compute = _state_bytes(facts, setting), activation_bytes(facts, setting)
    for place, memory in enumerate(sizes, start=HOST if _is_on_processor(setting) else 0):
        placed_parts += [
            _memory_part(place, MemoryComponent.WEIGHTS, weights, f"weights / {len(sizes)}"),
            _memory_part(place, MemoryComponent.KV, max(0, caches[memory]), _cache_arithmetic(setting)),
            _memory_part(place, MemoryComponent.STATE, state, "recurrent state"),
            _memory_part(place, MemoryComponent.DRAFT, draft, "weights of the draft; its KV is in the cache"),
            _memory_part(place, MemoryComponent.COMPUTE, compute, "activations and graphs"),
            _memory_part(place, MemoryComponent.RUNTIME, _context_bytes(setting, memory), "CUDA's context"),
        ]
    return placed_parts


def cache_capacity(facts: ModelFacts, setting: RunSetting) -> CacheCapacity:
    """Return how much of the past can be kept."""
    room = min(_cache_sizes(facts, setting).values())
    row = sum(count * _row_bytes(layer, setting) for layer, count in _group_alike(facts, setting))
    demand = cache_demand(facts, msgspec.structs.replace(setting, slots=1))
    conversations = room / demand if demand and room > 0 else 0.0
    return CacheCapacity(bytes=max(0, room), tokens=max(0, room) // row if row else 0, conversations=conversations)


def cache_demand(facts: ModelFacts, setting: RunSetting) -> int:
    """Return the bytes per GPU that `slots` conversations of `context` tokens need."""
    tokens = -(-setting.context // BLOCK) * BLOCK
    held_bytes = sum(
        count * _row_bytes(layer, setting) * _tokens_in_window(layer, setting, tokens)
        for layer, count in _group_alike(facts, setting)
    )
    return held_bytes * setting.slots


def weight_share(facts: ModelFacts, setting: RunSetting) -> int:
    """Return the weights on one GPU: matrices are cut, norms are small enough not to matter."""
    size = sum(group.bytes for group in facts.weights if group.kind is not WeightKind.DRAFT)
    return -(-size // max(1, setting.gpus))


def draft_share(facts: ModelFacts, setting: RunSetting) -> int:
    """Return the weights on one GPU of what drafts: another model, the model's own head, or nothing."""
    head = [group.bytes for group in facts.weights if setting.has_own_draft and group.kind is WeightKind.DRAFT]
    return -(-sum(head) // max(1, setting.gpus)) + (weight_share(setting.draft, setting) if setting.draft else 0)


def activation_bytes(facts: ModelFacts, setting: RunSetting) -> int:
    """Return the peak of activations, logits and graphs on one GPU."""
    reserve = _reserve(setting)
    widest = max((max(1, layer.experts_used) * layer.feed_forward for layer in facts.layers), default=0)
    step = (3 * widest // max(1, setting.gpus) + 5 * facts.hidden) * reserve.tokens * HALF
    logits = facts.vocabulary * reserve.sequences * 4
    return step + logits + (0 if _is_on_processor(setting) else reserve.graphs)


def _cache_sizes(facts: ModelFacts, setting: RunSetting) -> dict[int, int]:
    """Return the bytes left for the cache by the size of the GPU: cards are mostly alike, and there may be many."""
    taken_bytes = weight_share(facts, setting) + draft_share(facts, setting) + _state_bytes(facts, setting)
    beside = activation_bytes(facts, setting)
    if _is_told_tokens(setting):
        return dict.fromkeys(_gpu_sizes(setting), cache_demand(facts, setting))
    return {
        memory: _cache_bytes(setting, memory, taken_bytes=taken_bytes, beside=beside + _context_bytes(setting, memory))
        for memory in set(_gpu_sizes(setting))
    }


def _cache_bytes(setting: RunSetting, memory: int, *, taken_bytes: int, beside: int) -> int:
    reserve = _reserve(setting)
    if reserve.is_of_rest:
        return int((memory - taken_bytes - beside) * _share_of_gpu(setting))
    share = int(memory * _share_of_gpu(setting))
    return (
        share - taken_bytes - beside
        if reserve.holds_activations
        else min(share - taken_bytes, memory - taken_bytes - beside)
    )


def _reserve(setting: RunSetting) -> ReservedMemory:
    memory = setting.engine.memory
    if not isinstance(memory, ReservedMemory):
        raise TypeError(f"{setting.engine.name} reserves nothing")
    return memory


def _is_on_processor(setting: RunSetting) -> bool:
    return setting.backend == "cpu"


def _is_told_tokens(setting: RunSetting) -> bool:
    return _is_on_processor(setting) and not (setting.memory_fraction or _reserve(setting).processor_fraction)


def _cache_arithmetic(setting: RunSetting) -> str:
    if _is_told_tokens(setting):
        return f"{setting.slots} x {setting.context:,} tokens"
    whole = "computer's memory" if _is_on_processor(setting) else "GPU"
    return f"the rest of {_share_of_gpu(setting):g} of the {whole}"


def _context_bytes(setting: RunSetting, memory: int) -> int:
    return 0 if _is_on_processor(setting) else cuda_context(memory)


def _share_of_gpu(setting: RunSetting) -> float:
    if setting.memory_fraction is not None:
        return setting.memory_fraction
    return _reserve(setting).processor_fraction if _is_on_processor(setting) else _reserve(setting).fraction


def _gpu_sizes(setting: RunSetting) -> list[int]:
    """Return the size of each GPU in use; at least one."""
    sizes = setting.gpu_memory
    return [sizes[place] if place < len(sizes) else DEFAULT_GPU for place in range(max(1, setting.gpus))]


def _state_bytes(facts: ModelFacts, setting: RunSetting) -> int:
    return sum(kv.layer_state(layer, setting) for layer in kv.decode_layers(facts)) // max(1, setting.gpus)


def _row_bytes(layer: Layer, setting: RunSetting) -> int:
    """Return the bytes of one token on one GPU: heads are shared out until each GPU has one; a latent is not."""
    native = msgspec.structs.replace(setting, kv_type="fp8" if kv.is_small(setting.kv_type) else "f16", value_type="")
    row = kv.row_bytes(layer, native)
    if layer.attention is AttentionKind.LATENT or not layer.kv_heads:
        return row
    return row // min(max(1, setting.gpus), layer.kv_heads)


def _group_alike(facts: ModelFacts, setting: RunSetting) -> Iterator[tuple[Layer, int]]:
    """Yield each layer that keeps a cache with how many equal ones follow: models have hundreds, of a few kinds."""
    head = [layer for layer in facts.layers if setting.has_own_draft and layer.is_draft]
    draft_layers = kv.decode_layers(setting.draft) if setting.draft is not None else []
    return ((layer, sum(1 for _ in run)) for layer, run in groupby([*kv.decode_layers(facts), *head, *draft_layers]))


def _tokens_in_window(layer: Layer, setting: RunSetting, tokens: int) -> int:
    return min(tokens, layer.window + _reserve(setting).tokens) if layer.window else tokens


def _memory_part(place: int, component: MemoryComponent, size: int, arithmetic: str) -> MemoryPart:
    confidence = EstimateConfidence.EXACT if component is MemoryComponent.WEIGHTS else EstimateConfidence.PREDICTED
    return MemoryPart(place=place, component=component, bytes=size, confidence=confidence, arithmetic=arithmetic)


def reserve_notes(facts: ModelFacts, setting: RunSetting) -> Iterator[str]:
    """Yield what the reservation means in words."""
    if _is_told_tokens(setting):
        return
    capacity = cache_capacity(facts, setting)
    whole = "the computer's memory" if _is_on_processor(setting) else "each GPU"
    yield (
        f"It reserves {_share_of_gpu(setting):.0%} of {whole}. The cache then holds {capacity.tokens:,} tokens: "
        f"{capacity.conversations:.1f} conversations of {setting.context:,} tokens at once."
    )
