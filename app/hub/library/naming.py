"""What models are called: the file's stem, made unique, and found again however a client spells it."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from app.core.models import ModelInfo

_NOT_MODELS = frozenset({"adapter", "imatrix", "mmproj", "dataset", "controlvector"})
"""`general.type` of GGUF files that no engine loads as a model."""
_PROJECTOR_ARCHITECTURE = "clip"
_BRANCHES = "snapshots"
"""Where the hub's cache has each branch of a repository: a folder whose name tells nothing."""
GENERATION_CONFIG = "generation_config.json"
"""Where the makers of a model recommend how its tokens are chosen."""


def is_projector_kind(kind: str, architecture: str) -> bool:
    """Whether a header describes the image part of another model."""
    return kind == "mmproj" or architecture == _PROJECTOR_ARCHITECTURE


def is_model_kind(kind: str, architecture: str) -> bool:
    """Whether a header describes something that can be loaded by itself."""
    return kind not in _NOT_MODELS and not is_projector_kind(kind, architecture)


def fold_name(name: str) -> str:
    """Return the form in which names are compared.

    Ollama clients add ":latest", and may write its registry and the namespace `library` in front; people add the file's
    ending.
    """
    plain = name.strip().casefold().removeprefix("registry.ollama.ai/").removeprefix("library/")
    return plain.removesuffix(":latest").removesuffix(".gguf")


def rename_model(model: ModelInfo, name: str, *, title: str = "", is_builtin: bool = False) -> ModelInfo:
    """Return the same model under another name."""
    return msgspec.structs.replace(model, name=name, title=title or model.title, is_builtin=is_builtin)


def with_unique_names(models: Iterable[ModelInfo], *, taken_names: Iterable[str]) -> list[ModelInfo]:
    """Give each model a name of its own: a second of a name gets its quantisation or folder added, then a number."""
    used_names = {fold_name(name) for name in taken_names}
    with_names: list[ModelInfo] = []
    for model in models:
        name = next(name for name in _possible_names(model) if fold_name(name) not in used_names)
        used_names.add(fold_name(name))
        with_names.append(rename_model(model, name))
    return with_names


def _possible_names(model: ModelInfo) -> Iterable[str]:
    yield model.name
    folder = Path(model.path).parent.name
    if folder == _BRANCHES and model.quantization:
        yield f"{model.name}-{model.quantization}"
    longer = f"{model.name}@{folder}"
    yield longer
    number = 2
    while True:
        yield f"{longer}-{number}"
        number += 1
