"""GGUF metadata and tensor table -> `ModelFacts`. The one place where llama.cpp's keys become layers and bytes."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from app.core.errors import BadRequest
from app.core.machine import Confidence
from app.core.model_facts import ModelFacts, WeightGroup, WeightKind
from app.hub.facts.architectures import RULES, rule_for
from app.hub.facts.capabilities import header_capabilities, metadata_capabilities, template_of
from app.hub.facts.layers import active_parameters, layers_of
from app.hub.facts.metadata import Metadata
from app.hub.facts.tensors import expert_blocks, weight_groups
from app.hub.gguf.header import GgufHeader, alignment_of
from app.hub.gguf.tables import FILE_TYPES
from app.hub.gguf.values import TensorInfo, Value
from app.hub.library.naming import is_model_kind, is_projector_kind

__all__ = ["TensorInfo", "Value", "facts_from", "facts_of_headers"]

_REPOSITORY_URL = re.compile(r"https://huggingface\.co/([A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95})")
_PROJECTOR_ARCHITECTURE = "clip"


def facts_of_headers(headers: Sequence[GgufHeader], *, name: str) -> ModelFacts:
    """Return what the headers of a GGUF file, or of all its parts, say. Raises BadRequest as `facts_from` does.

    The first part describes the model; what belongs to another model (an adapter) is refused: model_unsupported.
    """
    first = headers[0]
    _check_is_model(first.values, name)
    facts = facts_from(first.values, [tensor for header in headers for tensor in header.tensors], name=name)
    return msgspec.structs.replace(
        facts,
        file_bytes=sum(header.file_bytes for header in headers),
        vocabulary=facts.vocabulary or first.tokens,
        capabilities=header_capabilities(first),
    )


def _check_is_model(values: Mapping[str, Value], name: str) -> None:
    kind, architecture = (str(values.get(f"general.{key}", "")) for key in ("type", "architecture"))
    if not is_model_kind(kind, architecture) and not is_projector_kind(kind, architecture):
        raise BadRequest(
            f"{name} is part of another model and cannot be loaded on its own.",
            hint="Choose the model itself.",
            code="model_unsupported",
        )


def facts_from(values: Mapping[str, Value], tensors: Sequence[TensorInfo], *, name: str) -> ModelFacts:
    """Return what GGUF metadata and a tensor table say. `file_bytes` counts the padded tensors.

    Raises BadRequest: model_corrupt for figures no model has, model_unsupported for a number format we do not know.
    An architecture we do not know is read by the keys that are there; its confidence is then DERIVED.
    """
    metadata = Metadata(values)
    alignment = alignment_of(values)
    layers = layers_of(metadata, expert_blocks(tensors) if tensors else None)
    groups = weight_groups(tensors, layers, alignment)
    template, tool_template = template_of(values), template_of(values, ".tool_use")
    is_tied = _is_tied(metadata, tensors)
    hidden_size, vocabulary = metadata.read_number("embedding_length"), _vocabulary_rows(metadata, tensors)
    return ModelFacts(
        name=name,
        format="gguf",
        architecture=metadata.architecture,
        quantization=_quantization_name(values, groups),
        tokenizer=_tokenizer_name(values),
        layers=layers,
        weights=groups,
        hidden=hidden_size,
        vocabulary=vocabulary,
        file_bytes=sum(group.padded_bytes for group in groups),
        parameters=sum(group.elements for group in groups),
        active_parameters=active_parameters(
            groups, layers, rows=vocabulary, tied_elements=hidden_size * vocabulary * is_tied
        ),
        tied_embeddings=is_tied,
        trained_context=metadata.read_number("context_length") or None,
        chat_template=template,
        base_model=_base_model(values),
        tool_template=tool_template,
        capabilities=metadata_capabilities(metadata, template + tool_template),
        alignment=alignment,
        confidence=Confidence.MEASURED if _is_known(metadata) else Confidence.DERIVED,
        source="GGUF header",
    )


def _tokenizer_name(values: Mapping[str, Value]) -> str:
    name = values.get("tokenizer.ggml.pre", "")
    return name if isinstance(name, str) and name != "default" else ""


def _base_model(values: Mapping[str, Value]) -> str:
    url = values.get("general.base_model.0.repo_url", "")
    match = _REPOSITORY_URL.fullmatch(url) if isinstance(url, str) else None
    return match[1] if match else ""


def _is_known(metadata: Metadata) -> bool:
    return metadata.architecture in RULES or metadata.architecture == _PROJECTOR_ARCHITECTURE


def _is_tied(metadata: Metadata, tensors: Sequence[TensorInfo]) -> bool:
    names = {tensor.name for tensor in tensors}
    return (
        "token_embd.weight" in names and "output.weight" not in names and not rule_for(metadata.architecture).is_encoder
    )


def _vocabulary_rows(metadata: Metadata, tensors: Sequence[TensorInfo]) -> int:
    """Return the rows of the embedding, which may be padded beyond the tokeniser's; else what the keys say."""
    for tensor in tensors:
        if tensor.name in ("token_embd.weight", "output.weight") and len(tensor.shape) > 1:
            return tensor.shape[1]
    tokens = metadata.values.get("tokenizer.ggml.tokens")
    return metadata.read_number("vocab_size", len(tokens) if isinstance(tokens, list) else 0)


def _quantization_name(values: Mapping[str, Value], groups: Sequence[WeightGroup]) -> str:
    """Return the name the file gives its mix; without one, the type most bytes are in."""
    file_type = values.get("general.file_type")
    if isinstance(file_type, int) and file_type in FILE_TYPES:
        return FILE_TYPES[file_type]
    inside = [group for group in groups if group.kind not in {WeightKind.INPUT_EMBEDDING, WeightKind.LOOKUP_TABLE}]
    by_type: dict[str, int] = {}
    for group in inside:
        by_type[group.type] = by_type.get(group.type, 0) + group.bytes
    return max(by_type, key=lambda name: by_type[name], default="")
