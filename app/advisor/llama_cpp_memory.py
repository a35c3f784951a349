"""llama.cpp's accounting, as it prints it when it loads: model, KV, RS, compute and output buffers by device.

The numbers are those of a launch by Roundhouse: `context` x `slots` tokens in one cache per slot, flash attention where
it can be, logits for one token per slot.
"""

from collections.abc import Iterable, Iterator

from app.advisor import kv
from app.advisor.layer_split import layer_places
from app.advisor.llama_cpp_compute import compute_parts
from app.advisor.memory_setting import Component, Part, Setting
from app.advisor.memory_weights import weight_parts
from app.advisor.runtime_memory import runtime_parts
from app.core.model_facts import ModelFacts

LOGIT_BYTES = 4
_DRAFT_NAMES = "weights, KV, state and compute of the draft"


def parts(facts: ModelFacts, setting: Setting) -> list[Part]:
    """Return everything a launch takes, place by place."""
    own = [*model_parts(facts, setting), *runtime_parts(facts, setting)]
    return [*own, *_projector_parts(setting), *_draft_parts(setting)]


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
    return Part(place=-1, component=Component.OUTPUT, bytes=rows * width * LOGIT_BYTES, arithmetic=arithmetic)


def _cache_parts(facts: ModelFacts, setting: Setting) -> Iterator[Part]:
    places = layer_places(facts, setting)
    held: dict[tuple[int, Component], int] = {}
    for layer, place in zip(facts.layers, places[:-1], strict=True):
        if layer.is_draft:
            continue
        for component, size in (
            (Component.KV, kv.layer_kv(layer, setting)),
            (Component.STATE, kv.layer_state(layer, setting)),
        ):
            held[place, component] = held.get((place, component), 0) + size
    sums = {Component.KV: kv.kv_arithmetic(facts, setting), Component.STATE: kv.state_arithmetic(facts, setting)}
    for (place, component), size in held.items():
        yield Part(place=place, component=component, bytes=size, arithmetic=sums[component])


def _projector_parts(setting: Setting) -> Iterator[Part]:
    if setting.projector is None:
        return
    place = 0 if setting.uses_gpu else -1
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
