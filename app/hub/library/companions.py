"""Files that go with a model: a projector that lets it see, adapters that change it, smaller models that draft for it.

A companion made for another model would end a load minutes later, or answer nonsense: what headers tell is compared
before. Blocks; call it from a thread.

Which projector goes with which models, told by where they lie and what they are called. Blocks.

A projector goes with the models whose name it bears, and where it bears none, with the only model beside it, in however
many quantisations. Beside it is the same folder; within a version of a repository in the hub's cache also the folders
below, since publishers put large quantisations into folders of their own and the projector above them.
"""

import re
import time
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from pathlib import Path, PurePath

from app.core.capabilities import Capability
from app.core.errors import RoundhouseError
from app.core.hub import origin_of
from app.core.models import CompanionKind
from app.hub.gguf.header import TOKENS, GgufHeader, read_header, texts_under
from app.hub.library import naming
from app.hub.library.candidates import candidate_for
from app.hub.sources import open_file

ADAPTER = "adapter"
"""`general.type` of a LoRA adapter."""
PROJECTORS = ("bf16", "f16", "q8_0", "f32")
"""Of several projectors the first of these is taken: half precision loses nothing that shows."""
_LORA = re.compile(r"(?:^|[-_.])(?:lora|adapter)(?:$|[-_.])", re.IGNORECASE)
_DRAFT = re.compile(r"(?:^|[-_.])(?:draft|drafter|dflash|mtp|eagle-?\d?|nextn)(?:$|[-_.])", re.IGNORECASE)
_KINDS = ((re.compile("eagle", re.IGNORECASE), "eagle3"), (re.compile("mtp|nextn", re.IGNORECASE), "mtp"))
_SPARE_TOKENS = 128
"""By so many may vocabularies differ in length: they are padded (llama.cpp, speculative.cpp)."""
_FIRST_COMPARED = 5
"""The first tokens are marks, which makers name as they like (as above)."""
_UNCHANGED_NAMES = ("token_embd.weight", "output.weight")
"""Adapters keep these transposed, or for one side only."""


def kind_by_name(path: str) -> CompanionKind | None:
    """Return what a GGUF file's name says it is; None for a model."""
    stem = Path(path).stem
    if "mmproj" in stem.lower():
        return CompanionKind.PROJECTOR
    if _LORA.search(stem):
        return CompanionKind.LORA
    return CompanionKind.DRAFT if _DRAFT.search(stem) else None


def draft_kind(path: Path) -> str:
    """Return the `engines.api.Draft.kind` of a file, told by its name."""
    return next((kind for words, kind in _KINDS if words.search(path.stem)), "model")


def projector_place(path: str) -> tuple[int, str]:
    """Return what projectors are sorted by, the one to take first."""
    name = path.lower()
    order = (number for number, kind in enumerate(PROJECTORS) if re.search(rf"(?<![a-z]){kind}", name))
    return next(order, len(PROJECTORS)), name


def why_no_lora(model: Path, adapter: Path) -> str:
    """Return why an adapter does not go with a GGUF model; empty if it does."""
    mine, theirs = _try_header(model), _try_header(adapter)
    if mine is None or theirs is None:
        return f"{adapter.name if theirs is None else model.name} cannot be read as GGUF."
    if theirs.values.get("general.type") != ADAPTER:
        return f"{adapter.name} is not a LoRA adapter."
    made_for, own = (str(header.values.get("general.architecture", "")) for header in (theirs, mine))
    if made_for != own:
        return f"{adapter.name} was made for {made_for or 'another'} models, and this model is {own}."
    return _why_other_shape(mine, theirs, adapter.name)


def _why_other_shape(mine: GgufHeader, theirs: GgufHeader, name: str) -> str:
    shapes = {tensor.name: tensor.shape for tensor in mine.tensors}
    for tensor in theirs.tensors:
        changed_part, _, side = tensor.name.rpartition(".")
        at = {"lora_a": 0, "lora_b": 1}.get(side)
        if at is None or changed_part in _UNCHANGED_NAMES or len(tensor.shape) <= at:
            continue
        shape = shapes.get(changed_part, ())
        if len(shape) <= at or shape[at] != tensor.shape[at]:
            return f"{name} was made for another model: {changed_part} has another shape here, or is not there."
    return ""


def why_no_projector(projector: Path) -> str:
    """Return why a file is no projector; empty if it is one."""
    header = _try_header(projector)
    if header is None:
        return f"{projector.name} cannot be read as GGUF."
    kind, architecture = (str(header.values.get(f"general.{key}", "")) for key in ("type", "architecture"))
    return "" if naming.is_projector_kind(kind, architecture) else f"{projector.name} is not a projector."


def projector_senses(projector: Path) -> frozenset[Capability]:
    """Return whether a projector lets its model see or hear. One that does not say, or cannot be read, is for sight."""
    try:
        status = projector.stat()
    except OSError:
        return frozenset({Capability.VISION})
    return _read_senses(projector, (status.st_size, status.st_mtime_ns))


@lru_cache(maxsize=64)
def _read_senses(projector: Path, _stamp: tuple[int, int]) -> frozenset[Capability]:
    header = _try_header(projector)
    flags = {} if header is None else header.values
    encoders = {Capability.VISION: "clip.has_vision_encoder", Capability.AUDIO: "clip.has_audio_encoder"}
    return frozenset(sense for sense, flag in encoders.items() if flags.get(flag)) or frozenset({Capability.VISION})


def why_no_draft(model: Path, draft: Path) -> str:
    """Return why a GGUF file cannot draft for a model; empty if it can. A plain draft needs the same vocabulary."""
    theirs = _try_header(draft)
    if theirs is None:
        return f"{draft.name} cannot be read as GGUF."
    if not naming.is_model_kind(str(theirs.values.get("general.type", "")), ""):
        return f"{draft.name} is not a model, so it cannot be a draft model."
    if draft_kind(draft) != "model":
        return ""
    mine, other = _read_vocabulary(model), _read_vocabulary(draft)
    shared_count = min(len(mine), len(other))
    if not shared_count or abs(len(mine) - len(other)) > _SPARE_TOKENS:
        return (
            f"{draft.stem} cannot be its draft model: it has {len(other):,} tokens, and this model has {len(mine):,}."
        )
    if mine[_FIRST_COMPARED:shared_count] != other[_FIRST_COMPARED:shared_count]:
        return f"{draft.stem} cannot be its draft model: its tokens differ from this model's."
    return ""


def _try_header(path: Path) -> GgufHeader | None:
    try:
        with open_file(path) as source:
            return read_header(source)
    except RoundhouseError:
        return None


def _read_vocabulary(path: Path) -> list[str]:
    try:
        status = path.stat()
        return _read_tokens(path, (status.st_size, status.st_mtime_ns))
    except (RoundhouseError, OSError):
        return []


@lru_cache(maxsize=8)
def _read_tokens(path: Path, _stamp: tuple[int, int]) -> list[str]:
    with open_file(path) as source:
        return texts_under(source, TOKENS)


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
    known_models = _KNOWN.get(place)
    if known_models is not None and known_models[0] == changed_ns:
        return known_models[1]
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
