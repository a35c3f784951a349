"""Models that came from a hub, found again by the name they were pulled with: owner/name, with or without a tag."""

import re
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import NamedTuple

from app.core.errors import BadRequest
from app.core.models import ModelInfo
from app.hub.library.candidates import split_stem
from app.hub.repositories.asked import parse
from app.hub.repositories.variants import quantization_of

_FOLDER = re.compile(r"models--(?P<owner>[^/\\]+?)--(?P<name>[^/\\]+)")
_NO_TAG = frozenset({"", "latest"})


class Origin(NamedTuple):
    """Where a file of the hub's cache is from; `path` is within the repository, "." for its root."""

    repository: str
    commit: str
    path: str


def origin_of(path: PurePath) -> Origin | None:
    """Return what a place in the hub's cache says of itself; None for any other place."""
    parts = path.parts
    for at, part in enumerate(parts[:-2]):
        folder = _FOLDER.fullmatch(part)
        if folder is not None and parts[at + 1] == "snapshots":
            rest = PurePath(*parts[at + 3 :]).as_posix()
            return Origin(f"{folder['owner']}/{folder['name']}", parts[at + 2], rest)
    return None


def find_pulled(models: Iterable[ModelInfo], typed: str) -> ModelInfo | None:
    """Return the model that was pulled by that name, the newest of several; None if there is none."""
    try:
        asked = parse(typed)
    except BadRequest:
        return None
    if not asked.repository:
        return None
    wanted = "" if asked.quantization.casefold() in _NO_TAG else asked.quantization.casefold()
    found = [model for model in models if _is_of(model, asked.repository, asked.file, wanted)]
    return max(found, key=lambda model: model.modified_at, default=None)


def _is_of(model: ModelInfo, repository: str, file: str, quantization: str) -> bool:
    origin = origin_of(Path(model.path))
    if origin is None or origin.repository.casefold() != repository.casefold() or model.preset is not None:
        return False
    named = quantization_of(split_stem(PurePath(origin.path).name)) or model.quantization
    return file in {"", origin.path} and quantization in {"", named.casefold()}
