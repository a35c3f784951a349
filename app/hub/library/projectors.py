"""Which projector goes with which models, told by where they lie and what they are called. Blocks.

A projector goes with the models whose name it bears, and where it bears none, with the only model beside it, in however
many quantisations. Beside it is the same folder; within a version of a repository in the hub's cache also the folders
below, since publishers put large quantisations into folders of their own and the projector above them.
"""

import re
import time
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path, PurePath

from app.core.models import CompanionKind
from app.core.origins import origin_of
from app.hub.library.candidates import candidate_for
from app.hub.library.companions import kind_by_name, projector_place

_QUANTIZATION = re.compile(r"[-._](?:ud-)?(?:i?q\d\w*|[tm]xfp4\w*|nvfp4|bf16|f16|f32|fp16)$")

_SETTLED_NS = 2_000_000_000  # file systems tell times by ticks of up to 2 s (FAT): within one a folder can change again
_MOST_KNOWN = 256


def projector_beside(model: Path) -> Path | None:
    """Return the projector to load with a GGUF file; None if none lies there that is known to be this model's."""
    return next(iter(projectors_beside(model)), None)


def projectors_beside(model: Path) -> list[Path]:
    """Return the projectors that go with a GGUF file, the one to take first at the head."""
    if model.suffix.lower() != ".gguf":
        return []
    try:
        for place in projector_folders(model):
            folder_models = _folder_models_at(place)
            matches = [file for file, owner in folder_models.owners.items() if owner == _base_name(model)]
            if matches:
                return sorted(matches, key=lambda file: projector_place(file.name))
    except OSError:
        return []
    return []


def models_with(projector: Path) -> set[Path]:
    """Return the models a projector goes with, each by its first file. Raises OSError."""
    folder_models = _FolderModels(projector.parent)
    owner = folder_models.owner_of(projector)
    there = (
        file
        for file in (*folder_models.models, *folder_models.below)
        if owner is not None and _base_name(file) == owner
    )
    return {candidate_for(file).first for file in there}


def projector_folders(model: Path) -> Iterator[Path]:
    """Yield the folders whose projectors may go with a GGUF file, the nearest first."""
    yield model.parent
    origin = origin_of(model.parent)
    yield from model.parent.parents[: len(PurePath(origin.path).parts) if origin is not None else 0]


def _folder_models_at(place: Path) -> "_FolderModels":
    """Return the files of a folder, looked at again once it changed: lists ask for those of each model in it."""
    changed_ns = place.stat().st_mtime_ns
    known = _KNOWN.get(place)
    if known is not None and known[0] == changed_ns:
        return known[1]
    folder_models = _FolderModels(place)
    # In the hub's cache folders below count too, whose changes do not show here; each model has its own place there.
    if origin_of(place) is None and time.time_ns() - changed_ns > _SETTLED_NS:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[place] = (changed_ns, folder_models)
    return folder_models


class _FolderModels:
    """The GGUF files of one folder."""

    def __init__(self, place: Path) -> None:
        self._place = place
        files = _filter_ggufs(place.iterdir())
        self.projectors = [file for file in files if _is_projector(file)]
        self.models = [file for file in files if not _is_projector(file)]

    @cached_property
    def owners(self) -> dict[Path, str | None]:
        """Each projector, and the name of the models it goes with."""
        return {file: self.owner_of(file) for file in self.projectors}

    @cached_property
    def below(self) -> list[Path]:
        """The models in folders below, where those belong together."""
        if origin_of(self._place) is None:
            return []
        return [
            file
            for file in _filter_ggufs(self._place.rglob("*"))
            if not (file.parent == self._place or _is_projector(file))
        ]

    def owner_of(self, projector: Path) -> str | None:
        """Return the name of the models a projector goes with; None if nobody knows whose it is."""
        files = self.models or self.below
        name_part = projector.stem.lower().replace("mmproj", "")
        longest_match = max((name for name in map(_base_name, files) if name in name_part), key=len, default=None)
        models = {_base_name(file) for file in files if kind_by_name(file.name) is None}
        return longest_match or (models.pop() if len(models) == 1 else None)


def _filter_ggufs(files: Iterable[Path]) -> list[Path]:
    ggufs = (file for file in files if file.suffix.lower() == ".gguf")
    return [file for file in ggufs if "imatrix" not in file.name.lower()]


def _is_projector(file: Path) -> bool:
    return kind_by_name(file.name) is CompanionKind.PROJECTOR


def _base_name(file: Path) -> str:
    """Return a model's name without its quantisation, in small letters."""
    return _QUANTIZATION.sub("", candidate_for(file).stem.lower())


_KNOWN: dict[Path, tuple[int, _FolderModels]] = {}
"""Folders by when they changed last, in nanoseconds."""
