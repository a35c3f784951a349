"""Models that came from a hub, found again by the name they were pulled with: owner/name, with or without a tag."""

from collections.abc import Iterable
from pathlib import Path, PurePath

from app.core.errors import BadRequest
from app.core.models import ModelInfo
from app.core.origins import origin_of
from app.hub.library.candidates import split_stem
from app.hub.repositories.model_reference import parse_reference
from app.hub.repositories.variants import quantization_of

_NO_TAG = frozenset({"", "latest"})


def find_by_pull_name(models: Iterable[ModelInfo], typed: str) -> ModelInfo | None:
    """Return the model that was pulled by that name, the newest of several; None if there is none."""
    try:
        reference = parse_reference(typed)
    except BadRequest:
        return None
    if not reference.repository:
        return None
    quantization = "" if reference.quantization.casefold() in _NO_TAG else reference.quantization.casefold()
    matches = [model for model in models if _is_of(model, reference.repository, reference.file, quantization)]
    return max(matches, key=lambda model: model.modified_at, default=None)


def _is_of(model: ModelInfo, repository: str, file: str, quantization: str) -> bool:
    origin = origin_of(Path(model.path))
    if origin is None or origin.repository.casefold() != repository.casefold() or model.preset is not None:
        return False
    named = quantization_of(split_stem(PurePath(origin.path).name)) or model.quantization
    return file in {"", origin.path} and quantization in {"", named.casefold()}
