"""`ModelFacts` of well-known models, and of models we have in another quantisation.

How many bits other formats than GGUF spend on which weights, from the format and the name of a quantisation.

What Hugging Face folders can say of themselves is put in their own words and read by the reader of such folders, so
that a model known by name and one read from a hub are counted alike.

Another quantisation of a GGUF whose tensor table is gone: tensors are put together again from sums by purpose.

A layer's heads and widths tell how its attention splits into queries, keys, values and output, and how long rows are:
all that llama.cpp's mixes look at. What cannot be told apart keeps the type it has.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import msgspec

from app.core.errors import BadRequest, NotFound
from app.core.identity import IdentityKey
from app.core.machine import Confidence
from app.core.model_facts import Layer, ModelFacts, WeightGroup, WeightKind
from app.hub.facts.formats import WeightStorage, storage_of
from app.hub.facts.gguf import facts_from
from app.hub.facts.hf_config import model_types_of
from app.hub.facts.json_text import Object
from app.hub.facts.metadata import Value
from app.hub.facts.tensors import TensorInfo, weight_groups
from app.hub.shapes.architectures import TensorOutline
from app.hub.shapes.mixes import TYPE_IDS, choose_types
from app.hub.shapes.shape import ModelShape, find_shape

GGUF = "gguf"
SOURCE = "table of well-known models"
EXL3 = "exl3"
_TILE = 128
"""Trellises are cut into tiles of that many columns."""
NORM_BITS = 16
"""Norms outside GGUF are stored as the model was trained, in half precision."""
SAME_MODEL = 1e-3
"""Share by which two counts of parameters of one model differ at most: padded vocabularies, tables of rotations."""


@lru_cache(maxsize=1024)
def shape_facts(name: str, quantization: str, *, format: str = GGUF) -> ModelFacts:  # noqa: A002 -- the field it fills
    """Return the facts of a well-known model in a quantisation ("Q4_K_M", "4bit", "4.0bpw", "FP8", "BF16", ...).

    Their confidence is TABLE. Raises NotFound (model_not_found), or BadRequest (quantization_unknown).
    """
    shape = find_shape(name)
    if shape is None:
        raise NotFound(f"No well-known model is called {name}.", code="model_not_found")
    plain = _plain_facts(IdentityKey(shape))
    if format == GGUF:
        return _mark_as_known(_with_weights(plain, _shape_weights(shape, quantization)), quantization)
    return _mark_as_known(store_as(plain, format, quantization), quantization)


@lru_cache(maxsize=16)
def _plain_facts(key: IdentityKey[ModelShape]) -> ModelFacts:
    """Return a model as it was trained."""
    shape = key.value
    return facts_from(shape.build_metadata(), shape.build_tensors("F16"), name=shape.name)


def store_as(plain: ModelFacts, model_format: str, quantization: str) -> ModelFacts:
    """Return a model whose weights are in F16 as a format stores it. Raises BadRequest (quantization_unknown)."""
    if model_format == GGUF:
        changed_facts = _with_weights(plain, remix_weights(plain, quantization))
    else:
        changed_facts = _with_storage(plain, storage_for(model_format, quantization))
    return msgspec.structs.replace(
        changed_facts, format=model_format, quantization=quantization, model_types=model_types_of(plain.architecture)
    )


def requantize(facts: ModelFacts, quantization: str) -> ModelFacts:
    """Return the same model in another quantisation of its format; what is not known of it is derived.

    Raises BadRequest (quantization_unknown) for one that the format has not.
    """
    if facts.format != GGUF:
        changed_facts = _with_storage(facts, storage_for(facts.format, quantization))
    else:
        shape = _same_shape(facts)
        weights = _shape_weights(shape, quantization) if shape else remix_weights(facts, quantization)
        changed_facts = _with_weights(facts, weights)
    return msgspec.structs.replace(
        changed_facts, quantization=quantization, confidence=Confidence.DERIVED, source=f"{facts.source}, requantised"
    )


def _mark_as_known(facts: ModelFacts, quantization: str) -> ModelFacts:
    capabilities = facts.capabilities or ["chat"]
    return msgspec.structs.replace(
        facts,
        quantization=quantization,
        confidence=Confidence.TABLE,
        source=SOURCE,
        capabilities=capabilities,
    )


def _same_shape(facts: ModelFacts) -> ModelShape | None:
    """Return the shape of this very model, if it is a well-known one."""
    shape = find_shape(facts.name)
    if shape is None or shape.architecture != facts.architecture:
        return None
    counted_parameters = _plain_facts(IdentityKey(shape)).parameters
    return shape if abs(counted_parameters - facts.parameters) <= SAME_MODEL * counted_parameters else None


def _shape_weights(shape: ModelShape, quantization: str) -> list[WeightGroup]:
    plain = _plain_facts(IdentityKey(shape))
    return weight_groups(shape.build_tensors(quantization), plain.layers, plain.alignment)


def _with_storage(facts: ModelFacts, storage: WeightStorage) -> ModelFacts:
    is_trellis = storage.format == EXL3
    weights = [
        _change_bits(_pad_experts(group, facts) if is_trellis else group, storage, group.elements)
        for group in facts.weights
    ]
    if not is_trellis or not facts.tied_embeddings:
        return _with_weights(facts, weights)
    head = _output_of_embedding(facts)
    return msgspec.structs.replace(
        _with_weights(facts, [*weights, _change_bits(head, storage, head.elements)]), tied_embeddings=False
    )


def _pad_experts(group: WeightGroup, facts: ModelFacts) -> WeightGroup:
    """Return experts as wide as trellises are: whole tiles of 128."""
    if group.kind is not WeightKind.EXPERTS or group.layer is None or not facts.layers[group.layer].feed_forward:
        return group
    width = facts.layers[group.layer].feed_forward
    return msgspec.structs.replace(group, elements=group.elements // width * (-(-width // _TILE) * _TILE))


def _output_of_embedding(facts: ModelFacts) -> WeightGroup:
    """Return the output matrix that is quantised apart though the embedding would serve as one."""
    elements = facts.hidden * facts.vocabulary
    return WeightGroup(
        kind=WeightKind.OUTPUT, layer=None, type="", tensors=1, elements=elements, bytes=0, padded_bytes=0
    )


def _change_bits(group: WeightGroup, storage: WeightStorage, elements: int) -> WeightGroup:
    """Return a group in other bits; `elements` are those of the model, which padding adds none to."""
    bits = NORM_BITS if group.kind is WeightKind.NORM else storage.bits_of(group.kind)
    size = round(group.elements * bits / 8)
    label = storage.quantization if group.kind in storage.bits else storage.dtype
    return msgspec.structs.replace(group, type=label, elements=elements, bytes=size, padded_bytes=size)


def _with_weights(facts: ModelFacts, weights: Sequence[WeightGroup]) -> ModelFacts:
    return msgspec.structs.replace(facts, weights=list(weights), file_bytes=_total_padded_bytes(weights))


def _total_padded_bytes(weights: Iterable[WeightGroup]) -> int:
    return sum(group.padded_bytes for group in weights)


_BITS = re.compile(r"(?P<bits>\d(?:\.\d+)?)[-_ ]?(?:bit|bpw)(?:[-_]?g(?P<group>\d+))?", re.IGNORECASE)
_INTEGER = re.compile(r"(?:int|w|q)(?P<bits>[48])", re.IGNORECASE)
MLX_GROUP = 64
"""mlx-lm's own default."""
INTEGER_GROUP = 128
"""What AWQ and GPTQ uploads are made with."""

_MATRICES = frozenset(
    {
        WeightKind.ATTENTION,
        WeightKind.FEED_FORWARD,
        WeightKind.EXPERTS,
        WeightKind.SHARED_EXPERTS,
        WeightKind.RECURRENT,
        WeightKind.DRAFT,
    }
)
_ENDS = frozenset({WeightKind.INPUT_EMBEDDING, WeightKind.LOOKUP_TABLE, WeightKind.OUTPUT})


def storage_for(model_format: str, quantization: str) -> WeightStorage:
    """Return the storage of a format and quantisation. Raises BadRequest (quantization_unknown)."""
    plain = {"BF16": "bfloat16", "F16": "float16", "FP16": "float16", "F32": "float32"}.get(quantization.upper())
    if plain is not None:
        return _rename_storage(storage_of({"torch_dtype": plain}), model_format)
    if model_format in {"openvino", "onnx-genai", "mlc"}:
        return _converter_storage(model_format, quantization)
    config = _build_config(model_format, quantization)
    if config is None:
        raise BadRequest(f"{quantization} is not a quantisation of {model_format} models.", code="quantization_unknown")
    return _rename_storage(storage_of(config), model_format)


def _rename_storage(storage: WeightStorage, model_format: str) -> WeightStorage:
    if model_format in {storage.format, "safetensors"}:
        return storage
    return WeightStorage(
        format=model_format,
        quantization=storage.quantization,
        packing=storage.packing,
        dtype=storage.dtype,
        bits=storage.bits,
    )


def _build_config(model_format: str, quantization: str) -> Object | None:
    """Return what such a folder's `config.json` would say."""
    bits = _parse_bits(quantization)
    if model_format == "mlx":
        return {"quantization": {"bits": round(bits[0]), "group_size": bits[1] or MLX_GROUP}} if bits else None
    if model_format in {"exl2", "exl3"}:
        return {"quantization_config": {"quant_method": model_format, "bits": bits[0]}} if bits else None
    name = quantization.upper()
    for label, stated_bits in _FLOATS.items():
        if label in name or model_format == label.casefold():
            return {"quantization_config": stated_bits}
    if bits is None and name not in {"AWQ", "GPTQ"}:
        return None
    method = "awq" if "awq" in {model_format, quantization.casefold()} else "gptq"
    width, group = bits or (4, 0)
    return {"quantization_config": {"quant_method": method, "bits": round(width), "group_size": group or INTEGER_GROUP}}


_FLOATS: dict[str, Object] = {
    "NVFP4": {"quant_method": "modelopt", "quant_algo": "NVFP4"},
    "MXFP4": {"quant_method": "mxfp4"},
    "FP8": {"quant_method": "fp8"},
}


def _parse_bits(quantization: str) -> tuple[float, int] | None:
    """Return bits and group size of "4bit", "8bit-g32", "4.0bpw", "int4"; 0 for a group that is not said."""
    match = _BITS.fullmatch(quantization)
    if match is not None:
        return float(match["bits"]), int(match["group"] or 0)
    integer = _INTEGER.match(quantization)
    return (float(integer["bits"]), 0) if integer else None


def _converter_storage(model_format: str, quantization: str) -> WeightStorage:
    """Return the defaults of the converters: NNCF (OpenVINO), the ONNX Runtime GenAI model builder, MLC.

    NNCF: groups of 128 with scale and zero point, the ends in eight bits. The others: groups of 32 with a half-float
    scale; the model builder leaves the embedding in half floats.
    """
    bits = _parse_bits(quantization)
    if bits is None:
        raise BadRequest(f"{quantization} is not a quantisation of {model_format} models.", code="quantization_unknown")
    width = bits[0]
    if model_format == "openvino":
        each = width + (16 + width) / 128 if width < 8 else 8.0  # noqa: PLR2004 -- bytes have a scale per channel
        ends = 8.0
    else:
        each = width + 16 / 32
        ends = each
    kinds = dict.fromkeys(_MATRICES, each) | dict.fromkeys(_ENDS, ends)
    if model_format == "onnx-genai":
        del kinds[WeightKind.INPUT_EMBEDDING], kinds[WeightKind.LOOKUP_TABLE]
    return WeightStorage(format=model_format, quantization=quantization, dtype="F16", bits=kinds)


_FULL_PRECISION = frozenset({"F32", "F16", "BF16"})
_KEPT = frozenset({WeightKind.NORM, WeightKind.ROUTER, WeightKind.OTHER, WeightKind.PROJECTOR})
_NGRAM_TABLE, _NGRAM_ROW = 10_000_000_000, 160
"""Larger tables hold n-grams; Qwen3.8 Flash Next's is [160, 320001536]."""
_END_NAMES = {
    WeightKind.INPUT_EMBEDDING: "token_embd",
    WeightKind.LOOKUP_TABLE: "per_layer_token_embd",
    WeightKind.OUTPUT: "output",
    WeightKind.DRAFT: "nextn.eh_proj",
}
_FEED_FORWARD = {WeightKind.FEED_FORWARD: "", WeightKind.EXPERTS: "_exps", WeightKind.SHARED_EXPERTS: "_shexp"}


def remix_weights(facts: ModelFacts, quantization: str) -> list[WeightGroup]:
    """Return the weights in another mix. Raises BadRequest (quantization_unknown)."""
    kept_groups = [group for group in facts.weights if _stays_as_is(group, facts)]
    outlines = [outline for group in _sum_by_purpose(facts, kept_groups) for outline in _outline_group(group, facts)]
    types = choose_types(quantization, outlines, _build_metadata(facts)).types
    tensors = [TensorInfo(outline.name, outline.shape, kind) for outline, kind in zip(outlines, types, strict=True)]
    return [*weight_groups(tensors, facts.layers, facts.alignment), *kept_groups]


def _stays_as_is(group: WeightGroup, facts: ModelFacts) -> bool:
    """Whether no mix changes these: small tensors, which quantised files leave in full precision."""
    if group.kind in _KEPT or group.type not in TYPE_IDS:
        return True
    return group.type == "F32" or (group.type in _FULL_PRECISION and facts.quantization not in _FULL_PRECISION)


def _sum_by_purpose(facts: ModelFacts, kept_groups: list[WeightGroup]) -> Iterator[WeightGroup]:
    """Yield one group per purpose and layer, whatever types it was in."""
    sums: dict[tuple[WeightKind, int | None], list[WeightGroup]] = {}
    for group in facts.weights:
        if group not in kept_groups:
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
    """Yield the embedding, a table beside it, or the output."""
    is_ngrams = group.kind is WeightKind.LOOKUP_TABLE and group.elements > _NGRAM_TABLE
    row = _NGRAM_ROW if is_ngrams else facts.hidden
    yield _outline_matrix(f"{_END_NAMES.get(group.kind, 'other')}.weight", row, group.elements)


def _outline_attention(group: WeightGroup, layer: Layer, block: str, hidden_size: int) -> Iterator[TensorOutline]:
    """Yield queries, keys, values and output; what they do not account for (MLA, gates) counts as queries."""
    key, value = hidden_size * layer.kv_heads * layer.key_dim, hidden_size * layer.kv_heads * layer.value_dim
    out = hidden_size * layer.heads * layer.value_dim
    if layer.latent_dim or key + value + out >= group.elements:
        key = value = out = 0
    rest = group.elements - key - value - out
    for name, row, elements in (
        ("attn_q", hidden_size, rest),
        ("attn_k", hidden_size, key),
        ("attn_v", hidden_size, value),
        ("attn_output", layer.heads * layer.value_dim, out),
    ):
        if elements:
            yield _outline_matrix(f"{block}.{name}.weight", row, elements)


def _outline_feed_forward(group: WeightGroup, layer: Layer, block: str, hidden_size: int) -> Iterator[TensorOutline]:
    """Yield gate, up and down, or only up and down; what they do not account for counts as neither."""
    experts = layer.experts if group.kind is WeightKind.EXPERTS else 1
    part = hidden_size * layer.feed_forward * experts
    count = 2 if group.tensors == 2 else 3  # noqa: PLR2004 -- two tensors have no gate
    if group.kind is WeightKind.SHARED_EXPERTS or not part or group.elements < 2 * part:
        part = group.elements // count
    names = ("ffn_up", "ffn_down", "ffn_gate")[: min(count, group.elements // part)]
    for name in names:
        row = layer.feed_forward if name == "ffn_down" and layer.feed_forward else hidden_size
        yield _outline_matrix(f"{block}.{name}{_FEED_FORWARD[group.kind]}.weight", row, part, experts)
    if rest := group.elements - part * len(names):
        yield _outline_matrix(f"{block}.proj.weight", hidden_size, rest)


def _outline_matrix(name: str, row: int, elements: int, experts: int = 1) -> TensorOutline:
    """Return a matrix of that many elements; rows are of a usual block's length where `row` does not divide them."""
    row = next(length for length in (row, 256, 32, 1) if length and elements % length == 0)
    rows = elements // row
    return TensorOutline(name, (row, rows // experts, experts) if experts > 1 and rows % experts == 0 else (row, rows))


def _build_metadata(facts: ModelFacts) -> Mapping[str, Value]:
    name = facts.architecture
    attention_layer = next((layer for layer in facts.layers if layer.kv_heads), Layer())
    return {
        "general.architecture": name,
        f"{name}.block_count": len(facts.layers),
        f"{name}.attention.head_count": attention_layer.heads,
        f"{name}.attention.head_count_kv": attention_layer.kv_heads,
        f"{name}.expert_count": max((layer.experts for layer in facts.layers), default=0),
    }
