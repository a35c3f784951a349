"""Another quantisation of a GGUF whose tensor table is gone: tensors are put together again from sums by purpose.

A layer's heads and widths tell how its attention splits into queries, keys, values and output, and how long rows are:
all that llama.cpp's mixes look at. What cannot be told apart keeps the type it has.
"""

from collections.abc import Iterator, Mapping

from app.core.model_facts import Layer, ModelFacts, WeightGroup, WeightKind
from app.hub.facts.metadata import Value
from app.hub.facts.tensors import TensorInfo, weight_groups
from app.hub.shapes.architectures import TensorOutline
from app.hub.shapes.mixes import TYPE_IDS, choose_types

_FULL_PRECISION = frozenset({"F32", "F16", "BF16"})
_KEPT = frozenset({WeightKind.NORM, WeightKind.ROUTER, WeightKind.OTHER, WeightKind.PROJECTOR})
_FEED_FORWARD = {WeightKind.FEED_FORWARD: "", WeightKind.EXPERTS: "_exps", WeightKind.SHARED_EXPERTS: "_shexp"}


def remix_weights(facts: ModelFacts, quantization: str) -> list[WeightGroup]:
    """Return the weights in another mix. Raises BadRequest (quantization_unknown)."""
    kept = [group for group in facts.weights if _stays_as_is(group, facts)]
    outlines = [outline for group in _sum_by_purpose(facts, kept) for outline in _outline_group(group, facts)]
    types = choose_types(quantization, outlines, _build_metadata(facts)).types
    tensors = [TensorInfo(outline.name, outline.shape, kind) for outline, kind in zip(outlines, types, strict=True)]
    return [*weight_groups(tensors, facts.layers, facts.alignment), *kept]


def _stays_as_is(group: WeightGroup, facts: ModelFacts) -> bool:
    """Whether no mix changes these: small tensors, which quantised files leave in full precision."""
    if group.kind in _KEPT or group.type not in TYPE_IDS:
        return True
    return group.type == "F32" or (group.type in _FULL_PRECISION and facts.quantization not in _FULL_PRECISION)


def _sum_by_purpose(facts: ModelFacts, kept: list[WeightGroup]) -> Iterator[WeightGroup]:
    """Yield one group per purpose and layer, whatever types it was in."""
    sums: dict[tuple[WeightKind, int | None], list[WeightGroup]] = {}
    for group in facts.weights:
        if group not in kept:
            sums.setdefault((group.kind, group.layer), []).append(group)
    for (kind, layer), groups in sums.items():
        yield WeightGroup(
            kind=kind,
            layer=layer,
            type="",
            tensors=sum(group.tensors for group in groups),
            elements=sum(group.elements for group in groups),
            bytes=0,
            padded_bytes=0,
        )


def _outline_group(group: WeightGroup, facts: ModelFacts) -> Iterator[TensorOutline]:
    if group.layer is None:
        yield from _outline_ends(group, facts)
        return
    layer, block = facts.layers[group.layer], f"blk.{group.layer}"
    if group.kind is WeightKind.ATTENTION:
        yield from _outline_attention(group, layer, block, facts.hidden)
    elif group.kind in _FEED_FORWARD:
        yield from _outline_feed_forward(group, layer, block, facts.hidden)
    else:
        part = "nextn.eh_proj" if group.kind is WeightKind.DRAFT else "ssm_in"
        yield _outline_matrix(f"{block}.{part}.weight", facts.hidden, group.elements)


def _outline_ends(group: WeightGroup, facts: ModelFacts) -> Iterator[TensorOutline]:
    """Yield embedding or output; what an embedding holds beyond its vocabulary is Gemma's, one per layer."""
    if group.kind is not WeightKind.INPUT_EMBEDDING:
        name = "output" if group.kind is WeightKind.OUTPUT else "other"
        yield _outline_matrix(f"{name}.weight", facts.hidden, group.elements)
        return
    words = min(group.elements, facts.hidden * facts.vocabulary)
    for name, elements in (("token_embd", words), ("per_layer_token_embd", group.elements - words)):
        if elements:
            yield _outline_matrix(f"{name}.weight", facts.hidden, elements)


def _outline_attention(group: WeightGroup, layer: Layer, block: str, hidden: int) -> Iterator[TensorOutline]:
    """Yield queries, keys, values and output; what they do not account for (MLA, gates) counts as queries."""
    key, value = hidden * layer.kv_heads * layer.key_dim, hidden * layer.kv_heads * layer.value_dim
    out = hidden * layer.heads * layer.value_dim
    if layer.latent_dim or key + value + out >= group.elements:
        key = value = out = 0
    rest = group.elements - key - value - out
    for name, row, elements in (
        ("attn_q", hidden, rest),
        ("attn_k", hidden, key),
        ("attn_v", hidden, value),
        ("attn_output", layer.heads * layer.value_dim, out),
    ):
        if elements:
            yield _outline_matrix(f"{block}.{name}.weight", row, elements)


def _outline_feed_forward(group: WeightGroup, layer: Layer, block: str, hidden: int) -> Iterator[TensorOutline]:
    """Yield gate, up and down, or only up and down; what they do not account for counts as neither."""
    experts = layer.experts if group.kind is WeightKind.EXPERTS else 1
    part = hidden * layer.feed_forward * experts
    count = 2 if group.tensors == 2 else 3  # noqa: PLR2004 -- two tensors have no gate
    if group.kind is WeightKind.SHARED_EXPERTS or not part or group.elements < 2 * part:
        part = group.elements // count
    names = ("ffn_up", "ffn_down", "ffn_gate")[: min(count, group.elements // part)]
    for name in names:
        row = layer.feed_forward if name == "ffn_down" and layer.feed_forward else hidden
        yield _outline_matrix(f"{block}.{name}{_FEED_FORWARD[group.kind]}.weight", row, part, experts)
    if rest := group.elements - part * len(names):
        yield _outline_matrix(f"{block}.proj.weight", hidden, rest)


def _outline_matrix(name: str, row: int, elements: int, experts: int = 1) -> TensorOutline:
    """Return a matrix of that many elements; rows are of a usual block's length where `row` does not divide them."""
    row = next(length for length in (row, 256, 32, 1) if length and elements % length == 0)
    rows = elements // row
    return TensorOutline(name, (row, rows // experts, experts) if experts > 1 and rows % experts == 0 else (row, rows))


def _build_metadata(facts: ModelFacts) -> Mapping[str, Value]:
    name = facts.architecture
    attending = next((layer for layer in facts.layers if layer.kv_heads), Layer())
    return {
        "general.architecture": name,
        f"{name}.block_count": len(facts.layers),
        f"{name}.attention.head_count": attending.heads,
        f"{name}.attention.head_count_kv": attending.kv_heads,
        f"{name}.expert_count": max((layer.experts for layer in facts.layers), default=0),
    }
