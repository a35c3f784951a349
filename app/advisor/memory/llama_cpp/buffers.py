"""llama.cpp's accounting, as it prints it when it loads: model, KV, RS, compute and output buffers by device.

The numbers are those of a launch by Roundhouse: `context` x `slots` tokens in one cache per slot, flash attention where
it can be, logits for one token per slot.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from app.advisor.memory import kv
from app.advisor.memory.llama_cpp.compute import compute_parts
from app.advisor.memory.llama_cpp.layer_split import layer_places
from app.advisor.memory.llama_cpp.weights import weight_parts
from app.advisor.memory.runtime import runtime_parts
from app.advisor.memory.setting import HOST, MemoryComponent, MemoryPart, RunSetting
from app.advisor.memory.weight_sums import weight_sums
from app.core.model_facts import ModelFacts

LOGIT_BYTES = 4
_DRAFT_NAMES = "weights, KV, state and compute of the draft"


def llama_parts(facts: ModelFacts, setting: RunSetting) -> list[MemoryPart]:
    """Return everything a launch takes, place by place."""
    return [*fixed_parts(facts, setting), *context_parts(facts, setting), *_arithmetic_parts(facts, setting)]


def fixed_parts(facts: ModelFacts, setting: RunSetting) -> list[MemoryPart]:
    """Return what does not depend on the context."""
    return [*weight_parts(facts, setting), *runtime_parts(facts, setting), *_projector_parts(setting)]


def context_parts(facts: ModelFacts, setting: RunSetting) -> list[MemoryPart]:
    """Return what does."""
    own = [*_cache_parts(facts, setting), *compute_parts(facts, setting), output_part(facts, setting)]
    return [*own, *_draft_parts(setting)]


def model_parts(facts: ModelFacts, setting: RunSetting) -> list[MemoryPart]:
    """Return what one model takes with its context: what the oracle logs."""
    return [
        *weight_parts(facts, setting),
        *_cache_parts(facts, setting),
        *compute_parts(facts, setting),
        output_part(facts, setting),
    ]


def output_part(facts: ModelFacts, setting: RunSetting) -> MemoryPart:
    """Return the logits (and embeddings) handed to the caller: F32, one row per slot, always in system memory."""
    rows = setting.slots if setting.limits_outputs else setting.batch
    width = facts.vocabulary + (facts.hidden if setting.task != "chat" else 0)
    arithmetic = f"{rows} x {width} x {LOGIT_BYTES} B"
    return MemoryPart(
        place=HOST, component=MemoryComponent.OUTPUT, bytes=rows * width * LOGIT_BYTES, arithmetic=arithmetic
    )


def _cache_parts(facts: ModelFacts, setting: RunSetting) -> Iterator[MemoryPart]:
    places = layer_places(facts, setting)
    alike = weight_sums(facts).alike
    counts = Counter((place, first) for place, first in zip(places, alike, strict=False))
    widest = 0 if setting.flash_attention else kv.widest_values(facts)
    sizes: dict[tuple[int, MemoryComponent], int] = {}
    for (place, first), count in counts.items():
        layer = facts.layers[first]
        if layer.is_draft:
            continue
        for component, size in (
            (MemoryComponent.KV, kv.layer_kv(layer, setting, widest=widest)),
            (MemoryComponent.STATE, kv.layer_state(layer, setting)),
        ):
            sizes[place, component] = sizes.get((place, component), 0) + count * size
    for (place, component), size in sizes.items():
        yield MemoryPart(place=place, component=component, bytes=size)


def _arithmetic_parts(facts: ModelFacts, setting: RunSetting) -> Iterator[MemoryPart]:
    """Yield the sums of KV and state in words, once for all places."""
    for component, sums in (
        (MemoryComponent.KV, kv.kv_arithmetic(facts, setting)),
        (MemoryComponent.STATE, kv.state_arithmetic(facts, setting)),
    ):
        yield MemoryPart(place=HOST, component=component, bytes=0, arithmetic=sums)


def _projector_parts(setting: RunSetting) -> Iterator[MemoryPart]:
    if setting.projector is None:
        return
    place = 0 if setting.uses_gpu else HOST
    size = sum(group.padded_bytes for group in setting.projector.weights)
    yield MemoryPart(place=place, component=MemoryComponent.PROJECTOR, bytes=size, arithmetic="the projector's tensors")


def _draft_parts(setting: RunSetting) -> Iterator[MemoryPart]:
    """Yield a draft model as one component: it has a cache and a compute buffer of its own."""
    if setting.draft is None:
        return
    yield from _as_draft(model_parts(setting.draft, setting))


def _as_draft(draft_parts: Iterable[MemoryPart]) -> Iterator[MemoryPart]:
    for part in draft_parts:
        yield MemoryPart(
            place=part.place,
            component=MemoryComponent.DRAFT,
            bytes=part.bytes,
            confidence=part.confidence,
            arithmetic=_DRAFT_NAMES,
            reclaimable=part.reclaimable,
        )
