"""What a model can do, told by its chat template and by what else its files hold.

Where a model folder keeps its chat template.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from app.core.capabilities import InfillStyle
from app.core.errors import BadRequest, NotFound
from app.hub.facts.architectures import rule_for
from app.hub.facts.json_text import read_text
from app.hub.facts.metadata import Metadata
from app.hub.gguf.header import INFILL_MARKS, TEMPLATE, TOKENS, GgufHeader, texts_under
from app.hub.gguf.tables import POOLING_RANK
from app.hub.gguf.values import Value
from app.hub.sources import open_file

MAX_TEMPLATE_CHARACTERS = 256 * 1024
"""The longest templates known are below 40 KiB; what is longer is cut."""

_TOOLS = re.compile(r"\btools\b|tool_call|available_tools|function_call")
_THINKING = re.compile(r"<think>|</think>|enable_thinking|reasoning_content|reasoning_effort|<\|channel\|?>|\[THINK\]")
_INFILL_KEYS = tuple(
    f"tokenizer.ggml.{name}_token_id" for name in ("fim_pre", "fim_suf", "prefix", "suffix", "fim_mid", "middle")
)


def template_capabilities(template: str) -> list[str]:
    """Return what a chat template says a model can do."""
    capabilities = ["chat"] if template.strip() else []
    if _TOOLS.search(template):
        capabilities.append("tools")
    if _THINKING.search(template):
        capabilities.append("thinking")
    return capabilities


def header_capabilities(header: GgufHeader) -> list[str]:
    """Return what a GGUF file's header says the model can do. Raises BadRequest for figures no model has."""
    template = template_of(header.values) + template_of(header.values, ".tool_use")
    capabilities = metadata_capabilities(Metadata(header.values), template)
    # Base models for completion have no chat template.
    can_fill_in = header.has_infill_tokens and not {"infill", "embedding", "rerank"} & {*capabilities}
    return [*capabilities, *(["infill"] if can_fill_in else [])]


def read_infill_style(path: Path) -> InfillStyle | None:
    """Return how a GGUF file's model wants the prompt for a gap; None where its vocabulary does not say.

    Reads the whole vocabulary, which takes some tenths of a second.
    """
    try:
        with open_file(path) as source:
            words = {word.lstrip("\u2581") for word in texts_under(source, TOKENS)}
    except (BadRequest, NotFound):
        return None
    return next((style for mark, style in INFILL_MARKS.items() if mark in words), None)


def template_of(values: Mapping[str, Value], variant: str = "") -> str:
    """Return a chat template of GGUF metadata; empty where there is none."""
    value = values.get(TEMPLATE + variant, "")
    return value[:MAX_TEMPLATE_CHARACTERS] if isinstance(value, str) else ""


def metadata_capabilities(metadata: Metadata, template: str) -> list[str]:
    """Return what GGUF metadata says a model can do."""
    pooling_type = metadata.read_number("pooling_type")
    if pooling_type == POOLING_RANK:
        return ["rerank"]
    if pooling_type or rule_for(metadata.architecture).is_encoder:
        return ["embedding"]
    capabilities = template_capabilities(template)
    capabilities += [name for name in ("vision", "audio") if metadata.read_flag(f"has_{name}_encoder")]
    if any(key in metadata.values for key in _INFILL_KEYS):
        capabilities.append("infill")
    return capabilities


MAX_BYTES = 16 << 20
"""Tokeniser configurations with a hundred thousand added tokens have a few MiB."""


class _Tokenizer(msgspec.Struct):
    """Where templates are kept: as one text, or as a list of named ones."""

    chat_template: str | list[dict[str, str]] | None = None


def chat_template_of(folder: Path) -> str:
    """Return the chat template; empty if there is none, or none that can be read: it is no reason to refuse a model."""
    try:
        own = folder / "chat_template.jinja"
        if own.is_file():
            return read_text(own, MAX_BYTES).decode(errors="replace")
        return template_in(read_text(folder / "tokenizer_config.json", MAX_BYTES))
    except (BadRequest, NotFound):
        return ""


def template_in(text: bytes) -> str:
    """Return the default template of a tokeniser's configuration, or all of several."""
    try:
        template = msgspec.json.decode(text, type=_Tokenizer).chat_template
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    if isinstance(template, list):
        return "\n".join(entry.get("template", "") for entry in template)
    return template or ""
