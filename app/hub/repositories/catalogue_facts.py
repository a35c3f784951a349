"""What a model of the catalogue is made of: its published shape where one is known, else what its entry states.

An entry states layers, widths, what the layers keep of the past, and how many parameters there are, are read for a
token, and lie in tables. That fixes how much memory the past takes and how much is read; what it leaves open, how the
layers divide into attention and the rest, only moves a few per cent of the bytes.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from app.core.machine import Confidence
from app.core.model_facts import AttentionKind, Layer, ModelFacts, WeightGroup, WeightKind
from app.hub.repositories.catalogue_entry import CatalogueAttention, CatalogueEntry
from app.hub.shapes import ModelShape, find_shape, shape_facts, store_as

_SAME_SIZE = 0.25
"""A well-known model of the same name may differ so much, as a share, before it is taken for another model."""
_MOST_DRAFT_LAYERS = 2
"""What one source counts among the layers and another does not: layers that draft."""
_MOST_VISION = 0.15
"""More than such a share of the parameters is no vision tower."""
_PLAIN_BITS = 16
_DRAFT_BITS = {"fp8": 8.0, "gguf": 6.5, "exl3": 6.0}
"""What publishers store draft heads in; the others leave them as they were trained."""
_LATENT = 576
"""kv_lora_rank and rotated part of every model with latent attention in the catalogue (DeepSeek's: 512 + 64)."""
_STATE_DIM = 128
"""A head of a linear recurrence: Gated DeltaNet's and KDA's are of this width, with about twice `hidden` in all."""
_EXPERT_SHARE = 1 / 32
"""Of the experts a token is sent to so many where nobody states it: 8 of 256, as most."""
_EXPERT_WIDTH = 256
_BLOCK = 256
"""Rows of a multiple of this length can be quantised in every way."""
_VOCABULARY = 151_936
"""Qwen's: in the middle of what today's tokenisers have."""
_MOST_EMBEDDING = 0.2
"""The share of all parameters that an embedding is at most taken to have: small models have small vocabularies."""
_TIED_BELOW = 5e9
"""Smaller models use the embedding as output matrix too."""
_STATEFUL = frozenset({CatalogueAttention.HYBRID_LINEAR, CatalogueAttention.HYBRID_SSM, CatalogueAttention.HYBRID_CONV})


def catalogue_facts(entry: CatalogueEntry, quantization: str, *, format: str = "gguf") -> ModelFacts | None:  # noqa: A002 -- the field it fills
    """Return a model's facts in a quantisation; None where neither a shape is known nor the entry states enough.

    Raises BadRequest (quantization_unknown) for one that the format has not.
    """
    shape = shape_of_entry(entry)
    if shape is not None:
        return msgspec.structs.replace(shape_facts(shape.name, quantization, format=format), name=entry.title)
    plain = _entry_facts(entry)
    return store_as(plain, format, quantization) if plain is not None else None


def with_head(entry: CatalogueEntry, facts: ModelFacts) -> ModelFacts:
    """Return a form of a model with the head that drafts for it, where somebody publishes it so in this format.

    The head is a layer that attends like the others; publishers store it in more bits than the model.
    """
    has_head = any(place in entry.draft_repositories for place in entry.repositories.get(facts.format, []))
    attention_layer = next((layer for layer in facts.layers if layer.attention is not AttentionKind.NONE), None)
    if not has_head or not entry.draft_parameters or attention_layer is None or facts.has_draft_head:
        return facts
    layer = msgspec.structs.replace(attention_layer, is_draft=True, window=0, experts=0, experts_used=0)
    drafting_facts = msgspec.structs.replace(facts, layers=[*facts.layers, layer])
    size = round(entry.draft_parameters * _DRAFT_BITS.get(facts.format, _PLAIN_BITS) / 8)
    head = msgspec.structs.replace(
        _group(WeightKind.DRAFT, None, entry.draft_parameters), type="draft", bytes=size, padded_bytes=size
    )
    return msgspec.structs.replace(
        drafting_facts,
        weights=[*facts.weights, head],
        parameters=facts.parameters + entry.draft_parameters,
        file_bytes=facts.file_bytes + size,
    )


def download_bytes(entry: CatalogueEntry, facts: ModelFacts, *, has_vision: bool, has_draft: bool) -> int:
    """Return what a build of a model weighs, with the parts it has beside the text model: those stay in half precision.

    GGUF keeps what lets a model see in a file of its own.
    """
    stated_bytes = entry.build_bytes.get(f"{facts.format} {facts.quantization}")
    if stated_bytes:
        return stated_bytes
    in_facts = sum(group.elements for group in facts.weights if group.kind is WeightKind.DRAFT)
    draft = entry.draft_parameters if has_draft and not in_facts else 0
    text = facts.parameters - in_facts
    vision = max(0, entry.parameters - entry.draft_parameters - text) if "vision" in entry.good_for else 0
    is_part = has_vision and facts.format != "gguf" and vision < _MOST_VISION * entry.parameters
    bits = _DRAFT_BITS.get(facts.format, _PLAIN_BITS)
    return facts.file_bytes + (2 * vision if is_part else 0) + round(draft * bits / 8)


def shape_of_entry(entry: CatalogueEntry) -> ModelShape | None:
    """Return the published shape of a model, unless what its entry states speaks against it."""
    shape = find_shape(entry.base)
    return shape if shape is not None and _is_alike(shape, entry) else None


def _is_alike(shape: ModelShape, entry: CatalogueEntry) -> bool:
    values = shape.build_metadata()
    width, depth = (values.get(f"{shape.architecture}.{key}") for key in ("embedding_length", "block_count"))
    if entry.hidden and entry.layers:  # counts of parameters may hold a tied matrix twice, or vision towers
        return width == entry.hidden and isinstance(depth, int) and abs(depth - entry.layers) <= _MOST_DRAFT_LAYERS
    bare = entry.parameters - entry.draft_parameters
    return not entry.parameters or abs(bare - shape.parameters) <= _SAME_SIZE * shape.parameters


def _entry_facts(entry: CatalogueEntry) -> ModelFacts | None:
    """Return the facts of the weights as they were trained."""
    if not entry.parameters or not entry.layers or not entry.hidden:
        return None
    layers = list(_list_layers(entry))
    weights = list(_list_weights(entry, layers))
    return ModelFacts(
        name=entry.title,
        format="gguf",
        architecture="",  # nobody states which: an engine's names are not compared with it
        quantization="F16",
        layers=layers,
        weights=weights,
        hidden=entry.hidden,
        vocabulary=_embedding_elements(entry) // entry.hidden,
        file_bytes=sum(group.padded_bytes for group in weights),
        parameters=entry.parameters - entry.draft_parameters,
        active_parameters=entry.active_parameters or entry.parameters,
        tied_embeddings=_is_tied(entry),
        trained_context=entry.context or None,
        capabilities=["chat" if "chat" in entry.good_for or not entry.uses else entry.uses[0].value],
        confidence=Confidence.TABLE,
        source="catalogue",
    )


class _LayerSizes(NamedTuple):
    """How the weights of one layer divide: what mixes tokens, experts that tokens are sent to, what every token takes.

    `width` is that of the dense part or of one expert.
    """

    mixing: int
    routed: int
    dense: int
    width: int
    experts: int = 0
    experts_used: int = 0


def _layer_sizes(entry: CatalogueEntry) -> _LayerSizes:
    """Divide a layer so that as much is in it, and as much of it is read, as the entry says."""
    body, column = _body_elements(entry) // entry.layers, 3 * entry.hidden
    if entry.experts:
        return _stated_sizes(entry, body, column)
    mixing_elements = min(entry.hidden * (2 * entry.hidden + 2 * entry.kv_heads * entry.head_dim), body // 2)
    active = (entry.active_parameters - _embedding_elements(entry)) // entry.layers
    if not entry.active_parameters or active >= body:
        width = (body - mixing_elements) // (column * _BLOCK) * _BLOCK
        dense = column * width
        return _LayerSizes(mixing=body - dense, routed=0, dense=dense, width=width)
    mixing_elements = min(mixing_elements, max(entry.hidden, active // 2))
    share = min(_EXPERT_SHARE, (active - mixing_elements) / (body - mixing_elements))
    expert = column * _EXPERT_WIDTH
    experts = max(1, int((body - active) / (1 - share) / expert))
    dense = max(0, body - mixing_elements - experts * expert) // (column * _BLOCK) * column * _BLOCK
    return _LayerSizes(
        mixing=body - experts * expert - dense,
        routed=experts * expert,
        dense=dense,
        width=_EXPERT_WIDTH,
        experts=experts,
        experts_used=max(1, round(share * experts)),
    )


def _stated_sizes(entry: CatalogueEntry, body: int, column: int) -> _LayerSizes:
    """Return the division that the entry's experts leave: the rest is read for every token."""
    routed_elements = min(body, entry.experts * entry.expert_width * column)
    return _LayerSizes(
        mixing=body - routed_elements,
        routed=routed_elements,
        dense=0,
        width=entry.expert_width,
        experts=entry.experts,
        experts_used=entry.experts_used,
    )


def _list_layers(entry: CatalogueEntry) -> Iterator[Layer]:
    sizes, attention_layer = _layer_sizes(entry), _full_layer(entry)
    other = _other_layer(entry, attention_layer)
    for index in range(entry.layers):
        is_full = not entry.full_every or (index + 1) % entry.full_every == 0
        yield msgspec.structs.replace(
            attention_layer if is_full else other,
            feed_forward=sizes.width,
            experts=sizes.experts,
            experts_used=sizes.experts_used,
        )


def _full_layer(entry: CatalogueEntry) -> Layer:
    """Return a layer that keeps all tokens; without heads of its own it keeps one latent vector for each."""
    width = entry.head_dim or _STATE_DIM
    heads = max(entry.kv_heads, entry.hidden // width, 1)
    if entry.attention is CatalogueAttention.LATENT or not entry.kv_heads:
        return Layer(attention=AttentionKind.LATENT, heads=heads, key_dim=width, value_dim=width, latent_dim=_LATENT)
    return Layer(heads=heads, kv_heads=entry.kv_heads, key_dim=width, value_dim=width)


def _other_layer(entry: CatalogueEntry, attention_layer: Layer) -> Layer:
    """Return one of the layers between them."""
    if entry.attention in _STATEFUL:
        is_conv = entry.attention is CatalogueAttention.HYBRID_CONV
        state = 0 if is_conv else 2 * entry.hidden * _STATE_DIM
        return Layer(attention=AttentionKind.NONE, conv_elements=3 * entry.hidden, state_elements=state)
    if entry.window:
        is_chunked = entry.attention is CatalogueAttention.CHUNKED
        kind = AttentionKind.CHUNKED if is_chunked else AttentionKind.SLIDING
        return msgspec.structs.replace(attention_layer, attention=kind, window=entry.window)
    return attention_layer


def _list_weights(entry: CatalogueEntry, layers: list[Layer]) -> Iterator[WeightGroup]:
    embedding = _embedding_elements(entry)
    yield _group(WeightKind.INPUT_EMBEDDING, None, embedding)
    if not _is_tied(entry):
        yield _group(WeightKind.OUTPUT, None, embedding)
    if entry.table_parameters:
        yield _group(WeightKind.LOOKUP_TABLE, None, entry.table_parameters)
    sizes = _layer_sizes(entry)
    for index, layer in enumerate(layers):
        is_attending = layer.attention is not AttentionKind.NONE
        yield _group(WeightKind.ATTENTION if is_attending else WeightKind.RECURRENT, index, sizes.mixing)
        if sizes.routed:
            yield _group(WeightKind.EXPERTS, index, sizes.routed)
        if sizes.dense:
            kind = WeightKind.SHARED_EXPERTS if sizes.routed else WeightKind.FEED_FORWARD
            yield _group(kind, index, sizes.dense)


def _group(kind: WeightKind, layer: int | None, elements: int) -> WeightGroup:
    elements -= elements % (_BLOCK if elements > _BLOCK else 1)
    size = elements * 2
    tensors = 3 if kind in {WeightKind.FEED_FORWARD, WeightKind.EXPERTS, WeightKind.SHARED_EXPERTS} else 1
    return WeightGroup(
        kind=kind, layer=layer, type="F16", tensors=tensors, elements=elements, bytes=size, padded_bytes=size
    )


def _embedding_elements(entry: CatalogueEntry) -> int:
    rows = entry.vocabulary or min(_VOCABULARY, int(_MOST_EMBEDDING * entry.parameters / entry.hidden))
    return rows // 32 * 32 * entry.hidden  # whole blocks of every quantisation


def _is_tied(entry: CatalogueEntry) -> bool:
    return entry.parameters < _TIED_BELOW


def _body_elements(entry: CatalogueEntry) -> int:
    """Return what is in the layers."""
    ends = _embedding_elements(entry) * (1 if _is_tied(entry) else 2)
    return max(0, entry.parameters - entry.table_parameters - entry.draft_parameters - ends)
