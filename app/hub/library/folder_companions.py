"""What goes with a model that is a folder: adapters as PEFT writes them, and smaller models that draft. Blocks."""

from pathlib import Path
from typing import TYPE_CHECKING

from app.core.errors import RoundhouseError

if TYPE_CHECKING:
    from app.hub.facts.json_text import Object

FORMATS = frozenset({"exl2", "exl3"})
"""Whose engines take both."""
_ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
_SPARE_TOKENS = 128
"""By so many may vocabularies differ in length: they are padded."""


def adapter_place(path: Path) -> Path:
    """Return the folder of an adapter of which the file of weights was named; other paths as they are."""
    return path.parent if path.name in _ADAPTER_WEIGHTS else path


def why_no_adapter(adapter: Path) -> str:
    """Return why something is no LoRA adapter in a folder; empty if it is one."""
    folder = adapter_place(adapter)
    config = _try_object(folder / "adapter_config.json")
    if not isinstance(config.get("r"), int) or not any((folder / name).is_file() for name in _ADAPTER_WEIGHTS):
        return (
            f"{folder.name} is no folder with a LoRA adapter as PEFT writes it: adapter_config.json and "
            f"{_ADAPTER_WEIGHTS[0]}."
        )
    if config.get("fan_in_fan_out"):
        return f"{folder.name} keeps its matrices the other way round (fan_in_fan_out), which ExLlama does not read."
    return ""


def why_no_draft(model: Path, draft: Path) -> str:
    """Return why a folder cannot draft for a model; empty if it can: it needs the same vocabulary."""
    mine, other = _vocabulary_of(model), _vocabulary_of(draft)
    if other is None:
        return f"{draft.name} is not a model, so it cannot be a draft model."
    if mine is not None and abs(mine - other) > _SPARE_TOKENS:
        return f"{draft.name} cannot be its draft model: it has {other:,} tokens, and this model has {mine:,}."
    return ""


def _vocabulary_of(folder: Path) -> int | None:
    config = _try_object(folder / "config.json")
    text = config.get("text_config")
    sizes = (part.get("vocab_size") for part in (text, config) if isinstance(part, dict))
    return next((size for size in sizes if isinstance(size, int)), None)


def _try_object(path: Path) -> "Object":
    from app.hub.facts.json_text import read_object_if_there  # noqa: PLC0415 -- it brings readers of models in

    try:
        return read_object_if_there(path)
    except RoundhouseError:
        return {}
