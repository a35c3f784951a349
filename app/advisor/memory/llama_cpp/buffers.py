"""llama.cpp's accounting, as it prints it when it loads: model, KV, RS, compute and output buffers by device.

The numbers are those of a launch by Roundhouse: `context` x `slots` tokens in one cache per slot, flash attention where
it can be, logits for one token per slot.

The buffers llama.cpp computes in: its graph, played through its allocator.

The graphs are those of build 11549. They were read from its scheduler's own listing for some eighty small models, and
the result is compared with the logged buffers in a test. Builds before LIMITS_OUTPUTS_FROM reserved the logits of a
whole batch, which outweighs everything else: a closed form holds for them.
"""

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from operator import attrgetter

from app.advisor.memory import kv
from app.advisor.memory.llama_cpp.blocks import (
    ROTATION,
    add_blocks,
    build_blocks,
    layer_inputs,
    rotation_width,
    shorten_runs,
)
from app.advisor.memory.llama_cpp.recipes import ALIGNMENT, TensorGraph
from app.advisor.memory.llama_cpp.traits import GraphTrait, has_trait
from app.advisor.memory.llama_cpp.weights import layer_places, weight_parts
from app.advisor.memory.runtime import runtime_parts
from app.advisor.memory.setting import HOST, MemoryComponent, MemoryPart, RunSetting, as_draft
from app.advisor.memory.weight_sums import REMEMBERED, weight_sums
from app.core.advice import EstimateConfidence
from app.core.identity import IdentityKey
from app.core.model_facts import AttentionKind, ModelFacts, WeightKind

LOGIT_BYTES = 4


def llama_parts(facts: ModelFacts, setting: RunSetting) -> list[MemoryPart]:
    """Return everything a launch takes, place by place, with the sums in words."""
    return [*count_parts(facts, setting), *_arithmetic_parts(facts, setting)]


def count_parts(facts: ModelFacts, setting: RunSetting) -> list[MemoryPart]:
    """Return everything a launch takes, for whoever only wants to know whether it fits."""
    return [*fixed_parts(facts, setting), *context_parts(facts, setting)]


def fixed_parts(facts: ModelFacts, setting: RunSetting) -> list[MemoryPart]:
    """Return what does not depend on the context."""
    return [*weight_parts(facts, setting), *runtime_parts(facts, setting), *_projector_parts(setting)]


def context_parts(facts: ModelFacts, setting: RunSetting) -> list[MemoryPart]:
    """Return what does."""
    own = [*_cache_parts(facts, setting), *compute_parts(facts, setting), output_part(facts, setting)]
    return [*own, *_draft_parts(facts, setting)]


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


def _draft_parts(facts: ModelFacts, setting: RunSetting) -> Iterator[MemoryPart]:
    """Yield a draft model as one component: it has a cache and a compute buffer of its own."""
    if setting.draft is not None:
        yield from as_draft(model_parts(setting.draft, setting))
    if setting.has_own_draft and facts.has_draft_head:
        yield from as_draft(_head_parts(facts, setting))


def _head_parts(facts: ModelFacts, setting: RunSetting) -> Iterator[MemoryPart]:
    """Yield what a model's own head takes: the weights of its layers, their cache, and a graph as large as its own.

    llama.cpp makes a second context against the same model for it; published logs show a cache of one layer and a
    second compute buffer of the first one's size.
    """
    places = layer_places(facts, setting)
    last = places[-1] if places else HOST
    for group in facts.weights:
        if group.kind is WeightKind.DRAFT:
            place = last if group.layer is None or group.layer >= len(places) else places[group.layer]
            yield MemoryPart(place=place, component=MemoryComponent.WEIGHTS, bytes=group.padded_bytes)
    for index, layer in enumerate(facts.layers):
        if layer.is_draft:
            size = kv.layer_kv(layer, setting)
            yield MemoryPart(place=places[index], component=MemoryComponent.KV, bytes=size)
    yield from compute_parts(facts, setting)


FLOAT, HALF, INDEX, TOKEN = 4, 2, 8, 4
"""Bytes of an F32, an F16, a row index (I64) and a token (I32)."""
LIMITS_OUTPUTS_FROM = 10_000
"""About the first build whose server reserves logits for one token per conversation instead of for a whole batch:
reports of May 2026 show the old size, of August 2026 the new."""
DEEP = 4
"""The embedding and three layers' worth of image features beside it (Qwen3-VL's `n_deepstack_layers`)."""
_MASKED = (AttentionKind.FULL, AttentionKind.LATENT, AttentionKind.SLIDING, AttentionKind.CHUNKED)


def compute_parts(facts: ModelFacts, setting: RunSetting) -> Iterator[MemoryPart]:
    """Yield the compute buffers of system memory and of every GPU used."""
    places = sorted({place for place in layer_places(facts, setting) if place != HOST})
    is_classic = not setting.limits_outputs or setting.build < LIMITS_OUTPUTS_FROM
    for place in places:
        yield _compute_part(
            place, _classic_bytes(facts, setting) if is_classic else graph_bytes(facts, setting, has_embedding=False)
        )
    if places:
        yield _compute_part(HOST, _host_inputs(facts, setting))
    else:
        yield _compute_part(HOST, graph_bytes(facts, setting))


def tokens_at_once(setting: RunSetting) -> int:
    """Return the tokens of the largest graph: a batch, in whole numbers per cache."""
    streams = kv.cache_streams(setting)
    return -(-min(setting.batch, setting.total_context) // streams) * streams


def graph_bytes(facts: ModelFacts, setting: RunSetting, *, has_embedding: bool = True) -> int:
    """Return what the largest graph takes on the device that computes it all; GPUs get the embedding made.

    With flash attention the context shows in the masks only. They lie first and to the end, so the rest is played once.
    """
    tokens = tokens_at_once(setting)
    if not setting.flash_attention:
        return _graph_peak(facts, setting, tokens, has_embedding=has_embedding)
    rest = _without_masks(_SameGraph(facts), _SameSetting(setting), tokens, has_embedding=has_embedding)
    return rest + sum(_mask_bytes(facts, setting, tokens).values())


class _SameSetting(IdentityKey[RunSetting]):
    """A setting whose graphs are those of another: they differ in context, placement, processor or other models."""

    __slots__ = ()
    _list_fields = attrgetter(
        *("slots", "kv_type", "value_type", "batch", "flash_attention", "task", "is_kv_unified", "is_swa_full"),
        *("rollback_copies", "limits_outputs"),
    )

    def __hash__(self) -> int:
        return hash(self._list_fields(self.value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameSetting) and self._list_fields(self.value) == self._list_fields(other.value)


class _SameGraph(IdentityKey[ModelFacts]):
    """A model that is computed as another: made of the very same layers, in whatever types its weights are."""

    __slots__ = ()

    def __hash__(self) -> int:
        return id(self.value.layers)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _SameGraph) or other.value.layers is not self.value.layers:
            return False
        return self._list_sizes() == other._list_sizes()

    def _list_sizes(self) -> tuple[object, ...]:
        facts = self.value
        return facts.architecture, facts.parameters, facts.hidden, facts.vocabulary, facts.tied_embeddings


@lru_cache(maxsize=4 * REMEMBERED)
def _without_masks(same: _SameGraph, like: _SameSetting, tokens: int, *, has_embedding: bool) -> int:
    facts, setting = same.value, like.value
    masks = sum(_mask_bytes(facts, setting, tokens).values())
    return _graph_peak(facts, setting, tokens, has_embedding=has_embedding) - masks


@lru_cache(maxsize=4 * REMEMBERED)
def _inputs_without_masks(same: _SameGraph, like: _SameSetting, tokens: int) -> int:
    facts, setting = same.value, like.value
    return _inputs_peak(facts, setting, tokens) - sum(_mask_bytes(facts, setting, tokens).values())


def _graph_peak(facts: ModelFacts, setting: RunSetting, tokens: int, *, has_embedding: bool) -> int:
    graph = TensorGraph()
    names = _add_inputs(facts, setting, graph, tokens=tokens)
    width = facts.hidden * tokens * FLOAT
    deep = has_trait(facts.architecture, GraphTrait.DEEP_EMBEDDING)
    own = layer_inputs(facts)
    if own:
        names["i"] = graph.add_tensor(own * tokens * FLOAT)
    names["x"] = _add_embedding(graph, width, copies=DEEP if deep else 1) if has_embedding else graph.add_tensor(width)
    names["m"] = names["x"]
    add_blocks(shorten_runs(build_blocks(facts, setting, tokens)), graph, names)
    rows = setting.slots if setting.limits_outputs and setting.task == "chat" else tokens
    graph.add_tensor(weight_sums(facts).has_logits * facts.vocabulary * rows * FLOAT, [names["x"]])
    return graph.peak_bytes()


def _mask_bytes(facts: ModelFacts, setting: RunSetting, tokens: int) -> dict[int, int]:
    """Return the bytes of the attention masks by window: one for each kind of cache."""
    layer_by_window = {
        layer.window: layer for layer in facts.layers if layer.attention in _MASKED and not layer.is_draft
    }
    size = HALF if setting.flash_attention else FLOAT
    return {
        window: -(-kv.cache_cells(layer, setting) * tokens * size // ALIGNMENT) * ALIGNMENT
        for window, layer in layer_by_window.items()
    }


def _add_inputs(facts: ModelFacts, setting: RunSetting, graph: TensorGraph, *, tokens: int) -> dict[str, int]:
    """Add what is there from the start, and return what the blocks read of it by name."""
    names: dict[str, int] = {}
    for window, size in _mask_bytes(facts, setting, tokens).items():
        names[f"mask {window}"] = graph.add_tensor(size)
        graph.keep_tensor(names[f"mask {window}"])
    for size in (INDEX, INDEX, TOKEN, TOKEN, TOKEN):
        graph.add_tensor(size * tokens)
    if kv.is_quantised(setting.kv_type):
        names["vrot"] = graph.add_tensor(ROTATION * ROTATION * FLOAT)
    for window, width in _rotation_widths(facts, setting).items():
        names[f"krot {window}"] = graph.add_tensor(width * width * FLOAT)
        if not setting.flash_attention:
            names["vidx"] = graph.add_tensor(kv.widest_values(facts) * tokens * INDEX)
            graph.keep_tensor(names["vidx"])
    if all(layer.attention is AttentionKind.NONE and not layer.conv_elements for layer in facts.layers):
        for _ in range(2 if has_trait(facts.architecture, GraphTrait.TWO_MASKS) else 1):
            graph.keep_tensor(graph.add_tensor(tokens * tokens * HALF))
    return names


def _rotation_widths(facts: ModelFacts, setting: RunSetting) -> dict[int, int]:
    """Return the width of the matrix that rotates keys, by window; 0 where none does."""
    masked_layers = [layer for layer in facts.layers if layer.attention in _MASKED and not layer.is_draft]
    return {layer.window: rotation_width(layer, setting) for layer in masked_layers}


def _add_embedding(graph: TensorGraph, width: int, *, copies: int = 1) -> int:
    """Add the embedding, with the second way in that images take: it is reserved whether or not there are any."""
    image_input = graph.add_tensor(copies * width)
    graph.keep_tensor(image_input)
    x, rows = graph.add_tensor(width), graph.add_tensor(width)
    if copies > 1:
        x, rows = graph.add_tensor(copies * width, [x]), graph.add_tensor(copies * width, [rows])
        graph.keep_tensor(x)
    copy = graph.add_tensor(copies * width, [image_input])
    graph.keep_tensor(copy)
    graph.add_tensor(0, [rows, copy])
    return x


def _classic_bytes(facts: ModelFacts, setting: RunSetting) -> int:
    """Return the device's buffer in builds to mid-2026: logits and hidden state of a batch in F32."""
    return (facts.vocabulary + facts.hidden) * tokens_at_once(setting) * FLOAT


def _host_inputs(facts: ModelFacts, setting: RunSetting) -> int:
    """Return what the host holds for GPUs: masks and the embedding with its second way in."""
    tokens = tokens_at_once(setting)
    if not setting.flash_attention:
        return _inputs_peak(facts, setting, tokens)
    rest = _inputs_without_masks(_SameGraph(facts), _SameSetting(setting), tokens)
    return rest + sum(_mask_bytes(facts, setting, tokens).values())


def _inputs_peak(facts: ModelFacts, setting: RunSetting, tokens: int) -> int:
    graph = TensorGraph()
    _add_inputs(facts, setting, graph, tokens=tokens)
    _add_embedding(graph, facts.hidden * tokens * FLOAT)
    return graph.peak_bytes()


def _compute_part(place: int, size: int) -> MemoryPart:
    return MemoryPart(
        place=place,
        component=MemoryComponent.COMPUTE,
        bytes=size,
        confidence=EstimateConfidence.PREDICTED,
        arithmetic="the fullest moment of the graph",
    )
