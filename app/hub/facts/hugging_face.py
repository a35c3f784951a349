"""Configuration and safetensors headers -> `ModelFacts`, for every format that lies in such a folder.

Layers come from the configuration by the same rules as GGUF's; bytes from the headers, to the byte. Where there are no
headers yet, the configuration's shapes and the format's bits have to do, and the facts say that they are derived.

What a tensor of a Hugging Face model is for, told by its module's name.

The names differ by author more than llama.cpp's do; the patterns follow those of the transformers library.
"""

import re
from collections.abc import Iterable, Sequence
from math import prod

import msgspec

from app.core.machine import Confidence
from app.core.model_facts import AttentionKind, Layer, ModelFacts, WeightGroup, WeightKind
from app.hub.facts.architectures import RULES, rule_for
from app.hub.facts.capabilities import MAX_TEMPLATE_CHARACTERS, template_capabilities
from app.hub.facts.formats import WeightStorage, storage_of
from app.hub.facts.hf_config import metadata_of, text_part
from app.hub.facts.json_text import Object
from app.hub.facts.layers import active_parameters, layers_of
from app.hub.facts.metadata import Metadata
from app.hub.facts.packed import ModuleWeight, weights_of
from app.hub.facts.safetensors import FileTensor
from app.hub.facts.tensors import kind_of as gguf_kind_of
from app.hub.gguf.values import MAX_NUMBER, corrupt_error
from app.hub.shapes.architectures import build_outlines

NORM_BITS = 16.0
_EMBEDDERS = ("SentenceTransformer", "EmbeddingModel")
_GENERIC = "llama"
"""Whose tensors stand in for those of an architecture we cannot outline."""
_TIED = frozenset({"gemma", "gemma2", "gemma3_text", "gemma3n_text", "gemma4_text", "cohere", "cohere2", "gpt2", "t5"})
"""Model types that share input and output matrix unless their configuration says otherwise."""


class FolderContent(msgspec.Struct, frozen=True, kw_only=True):
    """What was read of a folder. Without `tensors` there are no weights yet."""

    config: Object
    tensors: list[FileTensor] = []
    weights: list[ModuleWeight] = []
    """Instead of `tensors`, where another kind of file says what the weights are."""
    storage: WeightStorage | None = None
    header_format: str = ""
    file_bytes: int = 0
    chat_template: str = ""


def facts_of(files: FolderContent, *, name: str, source: str) -> ModelFacts:
    """Return what configuration and headers say. Raises BadRequest (model_corrupt) for impossible figures."""
    metadata = metadata_of(files.config)
    storage = files.storage or storage_of(files.config, header_format=files.header_format)
    weights = files.weights or weights_of(files.tensors, storage.packing)
    if weights:
        layers, groups = _from_headers(metadata, weights)
        is_tied = not any(group.kind is WeightKind.OUTPUT for group in groups) and _generates_text(metadata)
    else:
        is_tied = _is_said_to_be_tied(files.config)
        layers = layers_of(metadata)
        groups = _from_shapes(metadata, storage, layers, is_tied=is_tied)
    hidden_size, vocabulary = metadata.read_number("embedding_length"), metadata.read_number("vocab_size")
    return ModelFacts(
        name=name,
        format=storage.format,
        architecture=metadata.architecture,
        quantization=storage.quantization,
        model_types=[name for name in (files.config.get("model_type"),) if isinstance(name, str)],
        class_names=_class_names(files.config),
        layers=layers,
        weights=groups,
        hidden=hidden_size,
        vocabulary=vocabulary,
        file_bytes=files.file_bytes or sum(group.bytes for group in groups),
        parameters=sum(group.elements for group in groups),
        active_parameters=active_parameters(
            groups, layers, rows=vocabulary, tied_elements=hidden_size * vocabulary * is_tied
        ),
        tied_embeddings=is_tied,
        trained_context=metadata.read_number("context_length") or None,
        chat_template=files.chat_template[:MAX_TEMPLATE_CHARACTERS],
        capabilities=_find_capabilities(files, metadata),
        needs_remote_code=isinstance(files.config.get("auto_map"), dict),
        confidence=_judge_confidence(metadata, layers, has_weights=bool(weights)),
        source=source,
    )


def _judge_confidence(metadata: Metadata, layers: Sequence[Layer], *, has_weights: bool) -> Confidence:
    """Say how far to trust it: a configuration may leave out what its class fills in, and describe no layer then."""
    keeps = any(layer.attention is not AttentionKind.NONE or layer.state_elements for layer in layers)
    if not keeps and rule_for(metadata.architecture).is_cached:
        return Confidence.UNKNOWN
    return Confidence.MEASURED if has_weights and metadata.architecture in RULES else Confidence.DERIVED


def _generates_text(metadata: Metadata) -> bool:
    return not rule_for(metadata.architecture).is_encoder


def _is_said_to_be_tied(config: Object) -> bool:
    text = text_part(config)
    stated_tie = text.get("tie_word_embeddings", config.get("tie_word_embeddings"))
    return stated_tie if isinstance(stated_tie, bool) else text.get("model_type") in _TIED


def _from_headers(metadata: Metadata, weights: Sequence[ModuleWeight]) -> tuple[list[Layer], list[WeightGroup]]:
    placed_weights = [(*kind_of(weight.module), weight) for weight in weights]
    expert_blocks = frozenset(
        block for kind, block, _ in placed_weights if kind is WeightKind.EXPERTS and block is not None
    )
    layers = layers_of(metadata, expert_blocks)
    groups = _sum_groups((*_in_its_layer(kind, block, layers), weight) for kind, block, weight in placed_weights)
    if not any(group.kind is WeightKind.DRAFT for group in groups):
        layers = [layer for layer in layers if not layer.is_draft]
    return layers, groups


def _in_its_layer(kind: WeightKind, block: int | None, layers: Sequence[Layer]) -> tuple[WeightKind, int | None]:
    if block is None:
        return kind, None
    if block == len(layers) and kind is WeightKind.NORM:  # ONNX numbers the last norm like a block
        return kind, None
    if block >= len(layers) or layers[block].is_draft:
        return WeightKind.DRAFT, block
    layer = layers[block]
    keeps_state = layer.attention is AttentionKind.NONE and (layer.state_elements or layer.conv_elements)
    return WeightKind.RECURRENT if keeps_state and kind is WeightKind.ATTENTION else kind, block


def _sum_groups(placed_weights: Iterable[tuple[WeightKind, int | None, ModuleWeight]]) -> list[WeightGroup]:
    sums: dict[tuple[WeightKind, int | None, str], list[int]] = {}
    for kind, block, weight in placed_weights:
        sum_so_far = sums.setdefault((kind, block, weight.type), [0, 0, 0])
        for place, value in enumerate((weight.tensors, weight.elements, weight.bytes)):
            sum_so_far[place] += value
    if any(value > MAX_NUMBER for values in sums.values() for value in values):
        raise corrupt_error("a tensor has an impossible size")
    return [
        WeightGroup(
            kind=kind, layer=block, type=type_name, tensors=count, elements=elements, bytes=size, padded_bytes=size
        )
        for (kind, block, type_name), (count, elements, size) in sums.items()
    ]


def _from_shapes(
    metadata: Metadata, storage: WeightStorage, layers: Sequence[Layer], *, is_tied: bool
) -> list[WeightGroup]:
    """Return the weights a model of these widths has, with the bits its format spends on each kind."""
    has = frozenset({"tied"}) if is_tied else frozenset[str]()
    return _sum_groups(
        (*_in_its_layer(kind, block, layers), _estimate_weight(kind, elements, storage))
        for kind, block, elements in _outline_weights(metadata, has)
    )


def _outline_weights(metadata: Metadata, has: frozenset[str]) -> list[tuple[WeightKind, int | None, int]]:
    if not metadata.block_count:
        return []
    try:
        tensor_outlines = build_outlines(metadata.values, has)
    except KeyError:
        own = f"{metadata.architecture}."
        values = {f"{_GENERIC}.{key.removeprefix(own)}": value for key, value in metadata.values.items()}
        tensor_outlines = build_outlines({**values, "general.architecture": _GENERIC}, has)
    return [(*gguf_kind_of(outline.name), prod(outline.shape)) for outline in tensor_outlines]


def _estimate_weight(kind: WeightKind, elements: int, storage: WeightStorage) -> ModuleWeight:
    bits = NORM_BITS if kind is WeightKind.NORM else storage.bits_of(kind)
    label = storage.quantization if kind in storage.bits else storage.dtype
    return ModuleWeight("", label, elements, round(elements * bits / 8), 1)


def _class_names(config: Object) -> list[str]:
    names = config.get("architectures")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _find_capabilities(files: FolderContent, metadata: Metadata) -> list[str]:
    classes = _class_names(files.config)
    if any(name.endswith("ForSequenceClassification") for name in classes):
        return ["rerank"]
    if any(name.startswith("WhisperFor") for name in classes):
        return ["transcription"]
    if not _generates_text(metadata) or any(name.endswith(_EMBEDDERS) for name in classes):
        return ["embedding"]
    capabilities = template_capabilities(files.chat_template)
    for what, keys in (("vision", ("vision_config", "visual")), ("audio", ("audio_config",))):
        if any(isinstance(files.config.get(key), dict) for key in keys):
            capabilities.append(what)
    return capabilities


_BLOCK = re.compile(r"(?:^|\.)(?:layers|h|blocks|block|layer|transformer_encoder|decoder_layer)\.(\d{1,4})\.(.+)$")
_LAST = re.compile(r"\.(?:weight|bias)$")
_PROJECTOR = re.compile(
    r"(?:^|\.)(?:vision\w*|visual|vit|image_newline|multi_modal_projector|\w*mm_\w+|audio_\w+|conformer|embed_vision|"
    r"embed_audio|patch_merger|merger|connector|vpm|apm|resampler|aligner|sam_model|projector|mlp_AR|mlp1)(?:\.|$)"
)
_DRAFT = re.compile(r"(?:^|\.)(?:mtp|nextn)(?:_\w+)?\.")
_DRAFT_INSIDE = re.compile(r"^(?:eh_proj|enorm|hnorm|shared_head|embed_tokens)(?:\.|$)")
_Table = Sequence[tuple[WeightKind, re.Pattern[str]]]
_NORM = re.compile(r"(?:norm|(?:^|[._])ln)[^.]*$|layer_scalar", re.IGNORECASE)
_RECURRENT = re.compile(
    r"linear_attn|mamba|(?:^|\.)conv\.|ssm|time_mix|conv1d|^(?:A_log|D|(?:in|x|dt|out)_proj)$|"
    r"(?:^|\.)mixer\.(?![qkvo]_proj|Wqkv|qkv_proj|up_proj|down_proj|fc\d)"
)
_INSIDE: _Table = (
    (WeightKind.SHARED_EXPERTS, re.compile(r"shared?_expert|shared_mlp")),
    (WeightKind.EXPERTS, re.compile(r"experts?\.|_experts$|switch_mlp|moe\.(?:(?:in|out)put_linear|linear|\w+_proj)")),
    (
        WeightKind.ROUTER,
        re.compile(r"(?:^|\.|_)(?:gate|router)(?:\.|_bias|$)|expert_bias|e_score_correction|moe_statics"),
    ),
    (WeightKind.NORM, _NORM),
    (WeightKind.RECURRENT, _RECURRENT),
    (WeightKind.ATTENTION, re.compile(r"attn|attention|[qkvo]_proj|qkv|^w[qkvo]$", re.IGNORECASE)),
    (
        WeightKind.FEED_FORWARD,
        re.compile(
            r"mlp|feed_forward|ffn|fc[12]|ff_|(?:up|down|gate|ff)_proj|per_layer|^intermediate|^output|DenseRelu"
        ),
    ),
)
_OUTSIDE: _Table = (
    (WeightKind.NORM, _NORM),
    (
        WeightKind.OUTPUT,
        re.compile(r"lm_head|embed_out|_for_head|(?:^|\.)(?:output(?:_layer)?|head|score)(?:\.|$)|classif"),
    ),
    (WeightKind.LOOKUP_TABLE, re.compile(r"embed_tokens_per_layer|ngram_embed|engram")),
    (WeightKind.INPUT_EMBEDDING, re.compile(r"embed(?!_pro)|(?:^|\.)w[tp]e|(?:^|\.)shared$")),
)


def kind_of(module: str) -> tuple[WeightKind, int | None]:
    """Return what a module's tensors are for, and their block. Vision and audio parts have blocks of their own."""
    module = _LAST.sub("", module)
    if _PROJECTOR.search(module):
        return WeightKind.PROJECTOR, None
    block = _BLOCK.search(module)
    number = int(block[1]) if block else None
    if _DRAFT.search(module):
        return WeightKind.DRAFT, None if module.startswith("mtp") else number
    if block is not None and _DRAFT_INSIDE.search(block[2]):
        return WeightKind.DRAFT, number
    if block is None:
        return _first_match(_OUTSIDE, module), None
    return _first_match(_INSIDE, block[2]), number


def _first_match(table: _Table, name: str) -> WeightKind:
    return next((kind for kind, pattern in table if pattern.search(name)), WeightKind.OTHER)
