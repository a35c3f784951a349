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
from app.advisor.memory.setting import HOST, Component, Part, Setting
from app.advisor.memory.weight_sums import weight_sums
from app.core.model_facts import ModelFacts

LOGIT_BYTES = 4
_DRAFT_NAMES = "weights, KV, state and compute of the draft"


def parts(facts: ModelFacts, setting: Setting) -> list[Part]:
    """Return everything a launch takes, place by place."""
    return [*fixed_parts(facts, setting), *context_parts(facts, setting), *_explanations(facts, setting)]


def fixed_parts(facts: ModelFacts, setting: Setting) -> list[Part]:
    """Return what does not depend on the context."""
    return [*weight_parts(facts, setting), *runtime_parts(facts, setting), *_projector_parts(setting)]


def context_parts(facts: ModelFacts, setting: Setting) -> list[Part]:
    """Return what does."""
    own = [*_cache_parts(facts, setting), *compute_parts(facts, setting), output_part(facts, setting)]
    return [*own, *_draft_parts(setting)]


def model_parts(facts: ModelFacts, setting: Setting) -> list[Part]:
    """Return what one model takes with its context: what the oracle logs."""
    return [
        *weight_parts(facts, setting),
        *_cache_parts(facts, setting),
        *compute_parts(facts, setting),
        output_part(facts, setting),
    ]


def output_part(facts: ModelFacts, setting: Setting) -> Part:
    """Return the logits (and embeddings) handed to the caller: F32, one row per slot, always in system memory."""
    rows = setting.slots if setting.limits_outputs else setting.batch
    width = facts.vocabulary + (facts.hidden if setting.task != "chat" else 0)
    arithmetic = f"{rows} x {width} x {LOGIT_BYTES} B"
    return Part(place=HOST, component=Component.OUTPUT, bytes=rows * width * LOGIT_BYTES, arithmetic=arithmetic)


def _cache_parts(facts: ModelFacts, setting: Setting) -> Iterator[Part]:
    places = layer_places(facts, setting)
    alike = weight_sums(facts).alike
    counts = Counter((place, first) for place, first in zip(places, alike, strict=False))
    widest = 0 if setting.flash_attention else kv.widest_values(facts)
    held: dict[tuple[int, Component], int] = {}
    for (place, first), count in counts.items():
        layer = facts.layers[first]
        if layer.is_draft:
            continue
        for component, size in (
            (Component.KV, kv.layer_kv(layer, setting, widest=widest)),
            (Component.STATE, kv.layer_state(layer, setting)),
        ):
            held[place, component] = held.get((place, component), 0) + count * size
    for (place, component), size in held.items():
        yield Part(place=place, component=component, bytes=size)


def _explanations(facts: ModelFacts, setting: Setting) -> Iterator[Part]:
    """Yield the sums of KV and state in words, once for all places."""
    for component, sums in (
        (Component.KV, kv.kv_arithmetic(facts, setting)),
        (Component.STATE, kv.state_arithmetic(facts, setting)),
    ):
        yield Part(place=HOST, component=component, bytes=0, arithmetic=sums)


def _projector_parts(setting: Setting) -> Iterator[Part]:
    if setting.projector is None:
        return
    place = 0 if setting.uses_gpu else HOST
    size = sum(group.padded_bytes for group in setting.projector.weights)
    yield Part(place=place, component=Component.PROJECTOR, bytes=size, arithmetic="the projector's tensors")


def _draft_parts(setting: Setting) -> Iterator[Part]:
    """Yield a draft model as one component: it has a cache and a compute buffer of its own."""
    if setting.draft is None:
        return
    yield from _renamed(model_parts(setting.draft, setting))


def _renamed(found: Iterable[Part]) -> Iterator[Part]:
    for part in found:
        yield Part(
            place=part.place,
            component=Component.DRAFT,
            bytes=part.bytes,
            confidence=part.confidence,
            arithmetic=_DRAFT_NAMES,
            reclaimable=part.reclaimable,
        )
