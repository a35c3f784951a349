"""Engines that reserve a share of each GPU at the start, as those do that are made for servers.

The question for them is not what they take but what remains for the cache: how many tokens, and so how many
conversations of the wanted length at once.
"""

from collections.abc import Iterator
from itertools import groupby

import msgspec

from app.advisor.memory import kv
from app.advisor.memory.runtime import MIB, cuda_context
from app.advisor.memory.setting import HOST, Component, Part, Setting
from app.core.advice import EstimateConfidence
from app.core.model_facts import AttentionKind, Layer, ModelFacts, WeightKind
from engines.api.traits import ReservedMemory

GIB = 1024 * MIB
HALF = 2
BLOCK = 16
"""Tokens of one page of the cache: the default of paged attention."""
DEFAULT_GPU = 24 * GIB
"""Taken for the size of a GPU that is not known."""


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """What remains for the cache on all GPUs together: `bytes`, and the tokens that is for one long conversation."""

    bytes: int
    tokens: int
    conversations: float
    """How many of the wanted length fit at once."""


def parts(facts: ModelFacts, setting: Setting) -> list[Part]:
    """Return what a launch takes: weights, activations, and a cache that fills the rest of the share."""
    reserve, sizes = _reserve(setting), _memories(setting)
    found = [_part(HOST, Component.RUNTIME, reserve.process, "the engine's processes")]
    caches = _caches(facts, setting)
    weights, state, compute = weight_share(facts, setting), _state(facts, setting), activations(facts, setting)
    for place, memory in enumerate(sizes):
        found += [
            _part(place, Component.WEIGHTS, weights, f"weights / {len(sizes)}"),
            _part(place, Component.KV, max(0, caches[memory]), f"the rest of {_fraction(setting):g} of the GPU"),
            _part(place, Component.STATE, state, "recurrent state"),
            _part(place, Component.COMPUTE, compute, "activations and graphs"),
            _part(place, Component.RUNTIME, cuda_context(memory), "CUDA's context"),
        ]
    return found


def capacity(facts: ModelFacts, setting: Setting) -> Capacity:
    """Return how much of the past can be kept."""
    room = min(_caches(facts, setting).values())
    row = sum(count * _row(layer, setting) for layer, count in _alike(facts))
    wanted = wanted_cache(facts, msgspec.structs.replace(setting, slots=1))
    conversations = room / wanted if wanted and room > 0 else 0.0
    return Capacity(bytes=max(0, room), tokens=max(0, room) // row if row else 0, conversations=conversations)


def wanted_cache(facts: ModelFacts, setting: Setting) -> int:
    """Return the bytes per GPU that `slots` conversations of `context` tokens need."""
    tokens = -(-setting.context // BLOCK) * BLOCK
    held = sum(count * _row(layer, setting) * _kept(layer, setting, tokens) for layer, count in _alike(facts))
    return held * setting.slots


def weight_share(facts: ModelFacts, setting: Setting) -> int:
    """Return the weights on one GPU: matrices are cut, norms are small enough not to matter."""
    size = sum(group.bytes for group in facts.weights if group.kind is not WeightKind.DRAFT)
    return -(-size // max(1, setting.gpus))


def activations(facts: ModelFacts, setting: Setting) -> int:
    """Return the peak of activations, logits and graphs on one GPU."""
    reserve = _reserve(setting)
    widest = max((max(1, layer.experts_used) * layer.feed_forward for layer in facts.layers), default=0)
    step = (3 * widest // max(1, setting.gpus) + 5 * facts.hidden) * reserve.tokens * HALF
    logits = facts.vocabulary * reserve.sequences * 4
    return step + logits + reserve.graphs


def _caches(facts: ModelFacts, setting: Setting) -> dict[int, int]:
    """Return the bytes left for the cache by the size of the GPU: cards are mostly alike, and there may be many."""
    taken, beside = weight_share(facts, setting) + _state(facts, setting), activations(facts, setting)
    return {
        memory: _cache_bytes(setting, memory, taken=taken, beside=beside + cuda_context(memory))
        for memory in set(_memories(setting))
    }


def _cache_bytes(setting: Setting, memory: int, *, taken: int, beside: int) -> int:
    reserve = _reserve(setting)
    if reserve.is_of_rest:
        return int((memory - taken - beside) * _fraction(setting))
    share = int(memory * _fraction(setting))
    return share - taken - beside if reserve.holds_activations else min(share - taken, memory - taken - beside)


def _reserve(setting: Setting) -> ReservedMemory:
    memory = setting.engine.memory
    if not isinstance(memory, ReservedMemory):
        raise TypeError(f"{setting.engine.name} reserves nothing")
    return memory


def _fraction(setting: Setting) -> float:
    return _reserve(setting).fraction if setting.memory_fraction is None else setting.memory_fraction


def _memories(setting: Setting) -> list[int]:
    """Return the size of each GPU in use; at least one."""
    told = setting.gpu_memory
    return [told[place] if place < len(told) else DEFAULT_GPU for place in range(max(1, setting.gpus))]


def _state(facts: ModelFacts, setting: Setting) -> int:
    return sum(kv.layer_state(layer, setting) for layer in kv.cached_layers(facts)) // max(1, setting.gpus)


def _row(layer: Layer, setting: Setting) -> int:
    """Return the bytes of one token on one GPU: heads are shared out until each GPU has one; a latent is not."""
    native = msgspec.structs.replace(setting, kv_type="fp8" if kv.is_small(setting.kv_type) else "f16", value_type="")
    row = kv.row_bytes(layer, native)
    if layer.attention is AttentionKind.LATENT or not layer.kv_heads:
        return row
    return row // min(max(1, setting.gpus), layer.kv_heads)


def _alike(facts: ModelFacts) -> Iterator[tuple[Layer, int]]:
    """Yield each layer with how many equal ones follow: models have hundreds, of a few kinds."""
    return ((layer, sum(1 for _ in run)) for layer, run in groupby(kv.cached_layers(facts)))


def _kept(layer: Layer, setting: Setting, tokens: int) -> int:
    return min(tokens, layer.window + _reserve(setting).tokens) if layer.window else tokens


def _part(place: int, component: Component, size: int, arithmetic: str) -> Part:
    confidence = EstimateConfidence.EXACT if component is Component.WEIGHTS else EstimateConfidence.PREDICTED
    return Part(place=place, component=component, bytes=size, confidence=confidence, arithmetic=arithmetic)


def notes(facts: ModelFacts, setting: Setting) -> Iterator[str]:
    """Yield what the reservation means in words."""
    left = capacity(facts, setting)
    yield (
        f"It reserves {_fraction(setting):.0%} of each GPU. The cache then holds {left.tokens:,} tokens: "
        f"{left.conversations:.1f} conversations of {setting.context:,} tokens at once."
    )
