"""Where a model folder keeps its chat template."""

from pathlib import Path

import msgspec

from app.core.errors import BadRequest, NotFound
from app.hub.facts.json_text import read_text

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
