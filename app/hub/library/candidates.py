"""What in a folder tree is a model: GGUF files, the parts of a split one taken together, and folders of other formats.

The walk is bounded in depth and number, follows links without going round in circles, and never opens a file.

What folders hold, listed again only once they changed: looking through thousands again costs a `stat` each.

A folder's time of change tells that names came, went or were replaced. One that changed a moment ago is listed every
time, since it may change again within the tick of its file system's clock.
"""

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

SETTLED_NS = 2_500_000_000
"""FAT's clock ticks every two seconds."""


class FolderListing(NamedTuple):
    """One folder: its identity, the names in it that can be shown, in order, and those of its folders."""

    identity: tuple[int, int]
    files: tuple[str, ...]
    folders: tuple[str, ...]


class FolderListings:
    """Remembers what was listed. Not thread-safe: its owner holds a lock."""

    def __init__(self) -> None:
        self._listings: dict[str, tuple[int, FolderListing]] = {}
        self._used_folders: set[str] = set()

    def listing_of(self, folder: str) -> FolderListing | None:
        """Return what a folder holds; None if it cannot be listed."""
        try:
            status = os.stat(folder)  # noqa: PTH116 -- thousands of times; a Path takes longer than the question
            identity = (status.st_dev, status.st_ino)
            self._used_folders.add(folder)
            known_listing = self._listings.get(folder)
            if (
                known_listing is not None
                and known_listing[0] == status.st_mtime_ns
                and known_listing[1].identity == identity
            ):
                return known_listing[1]
            listing, is_sure = _list_folder(folder, identity)
        except OSError:
            return None
        if is_sure and status.st_mtime_ns < time.time_ns() - SETTLED_NS:
            self._listings[folder] = (status.st_mtime_ns, listing)
        return listing

    def forget_unused(self) -> None:
        """Forget folders that nobody asked for since the last call."""
        for folder in self._listings.keys() - self._used_folders:
            del self._listings[folder]
        self._used_folders.clear()


def _list_folder(folder: str, identity: tuple[int, int]) -> tuple[FolderListing, bool]:
    """Return what is in a folder, and whether that stays so while its time of change does."""
    with os.scandir(folder) as entries:
        sorted_entries = sorted((entry for entry in entries if is_text(entry.name)), key=lambda entry: entry.name)
    folders = tuple(entry.name for entry in sorted_entries if _is_folder(entry))
    inside = frozenset(folders)
    files = [entry for entry in sorted_entries if entry.name not in inside and _is_file(entry)]
    # What a link leads to comes and goes without this folder's knowledge.
    return FolderListing(identity, tuple(entry.name for entry in files), folders), not any(map(_leads_nowhere, files))


def is_text(name: str) -> bool:
    """Return whether a name is Unicode: one that is not could be neither shown nor sent."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Return whether it is a plain file. A link that leads nowhere is kept, to be listed with its problem."""
    try:
        return entry.is_file() or entry.is_symlink()
    except OSError:
        return False


def _leads_nowhere(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_symlink() and not entry.is_file()
    except OSError:
        return True


def walk_folders(
    listings: FolderListings, folder: str, depth: int, seen_folders: set[tuple[int, int]]
) -> Iterator[tuple[str, FolderListing]]:
    """Yield a folder and those below it, hidden ones left out. `seen` has those visited: a link back ends there."""
    listing = listings.listing_of(folder)
    if listing is None or listing.identity in seen_folders:
        return
    seen_folders.add(listing.identity)
    yield folder, listing
    for name in listing.folders if depth > 0 else ():
        if not name.startswith("."):
            yield from walk_folders(listings, f"{folder}{os.sep}{name}", depth - 1, seen_folders)


MAX_DEPTH = 8
MAX_FILES = 20_000
"""A folder with more is not a model folder; whatever comes after is left out."""
MAX_PARTS = 512
"""A name can claim 99,999 parts; every one of them would be looked for."""

_SPLIT = re.compile(r"^(?P<stem>.+)-(?P<part>\d{5})-of-(?P<count>\d{5})$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One model by its file names: `first` is what an engine is given, `parts` are all files there should be."""

    first: Path
    stem: str
    parts: tuple[Path, ...]
    identity: object = field(hash=False)
    """Equal for two paths to the same file."""
    is_folder: bool = False
    format: str = "gguf"
    """As far as file names tell it; "safetensors" stands for every format kept in those files."""
    store: str = ""
    """The program that keeps it, where that is another one."""

    @property
    def is_projector(self) -> bool:
        """Whether the name says it is the image part of another model."""
        return self.stem.lower().startswith("mmproj") or self.stem.lower().endswith("-mmproj")


def candidate_for(path: Path) -> Candidate:
    """Return the model a file belongs to. A part of a split model stands for the whole."""
    return _build_candidate(str(path))


def _build_candidate(path: str) -> Candidate:
    parts, stem = _parse_parts(path)
    return Candidate(first=parts[0], stem=stem, parts=parts, identity=identity_of(parts[0]))


@lru_cache(maxsize=MAX_FILES)
def _parse_parts(path: str) -> tuple[tuple[Path, ...], str]:
    """Return the parts and the stem that a file's name tells: the same names are looked at again and again."""
    file = Path(path)
    return tuple(file.with_name(name) for name in split_parts(file.name)), split_stem(file.name)


def candidate_at(path: Path) -> Candidate:
    """Return what a path means: a model folder, or a file of a model."""
    return folder_candidate(path) if path.is_dir() else candidate_for(path)


def folder_candidate(folder: Path) -> Candidate:
    """Return the model that a folder is."""
    return _build_folder(folder, folder_format(path.name for path in folder.iterdir()) or "safetensors")


def _build_folder(folder: Path, kind: str) -> Candidate:
    return Candidate(folder, _folder_stem(folder), (folder,), identity_of(folder), is_folder=True, format=kind)


def folder_format(files: Iterable[str]) -> str:
    """Return the format of a folder that holds files of these names; empty if it is no model folder."""
    names = frozenset(files)
    if "genai_config.json" in names:
        return "onnx-genai"
    if names & {"openvino_model.xml", "openvino_language_model.xml"}:
        return "openvino"
    if any(name.endswith(".uqff") for name in names):  # its safetensors are what is left beside the weights
        return ""
    has_weights = any(name.endswith(".safetensors") for name in names)
    return "safetensors" if has_weights and "config.json" in names else ""


def _folder_stem(folder: Path) -> str:
    """Return what a folder's model is called; in the hub's cache folders are called after commits."""
    for at, parent in enumerate((folder, *folder.parents)):
        if parent.parent.name == "snapshots" and parent.parent.parent.name.startswith("models--"):
            name = parent.parent.parent.name.rpartition("--")[2]
            return name if at == 0 else f"{name}-{folder.name}"
    return folder.name


def split_parts(name: str) -> list[str]:
    """Return the names of all parts of the model one file belongs to: its own, unless it says it is one of several."""
    split = _match_split(name)
    if split is None:
        return [name]
    stem, count, extension = split["stem"], split["count"], name[len(split[0]) :]
    return [f"{stem}-{part:05d}-of-{count}{extension}" for part in range(1, int(count) + 1)]


def split_stem(name: str) -> str:
    """Return the file name without its ending and without the number of its part."""
    split = _match_split(name)
    return split["stem"] if split else Path(name).stem


def _match_split(name: str) -> re.Match[str] | None:
    split = _SPLIT.match(Path(name).stem)
    is_one = split is not None and 1 <= int(split["part"]) <= int(split["count"]) <= MAX_PARTS
    return split if is_one else None


def find_candidates(
    folders: Sequence[Path], listings: FolderListings | None = None, *, with_projectors: bool = False
) -> list[Candidate]:
    """Return what looks like a model in these folders, each split model once, projectors left out unless asked for.

    `listings` is what is remembered of them from the last time.
    """
    by_path: dict[Path, Candidate] = {}
    for candidate in _limit_count(_iter_candidates(folders, FolderListings() if listings is None else listings)):
        if with_projectors or not candidate.is_projector:
            by_path.setdefault(candidate.first, candidate)
    return list(by_path.values())


def _limit_count(candidates: Iterator[Candidate]) -> Iterator[Candidate]:
    for _number, candidate in zip(range(MAX_FILES), candidates, strict=False):
        yield candidate


def _iter_candidates(folders: Sequence[Path], listings: FolderListings) -> Iterator[Candidate]:
    seen_folders: set[tuple[int, int]] = set()
    for folder in folders:
        for place, listing in walk_folders(listings, str(folder), MAX_DEPTH, seen_folders):
            yield from _candidates_in(place, listing)


def _candidates_in(place: str, listing: FolderListing) -> Iterator[Candidate]:
    kind = folder_format(listing.files)
    if kind and is_text(place):
        yield _build_folder(Path(place), kind)
    for name in listing.files:
        if name.lower().endswith(".gguf"):
            yield _build_candidate(f"{place}{os.sep}{name}")


def identity_of(path: Path) -> object:
    """Return what is equal for two paths to the same file.

    Hard links are two files that share their space: each was put where it is by somebody who will look for it there.
    """
    try:
        status = path.stat()
    except OSError:
        return str(path)
    if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
        return ("hard link", os.path.realpath(path))
    is_plain = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return (status.st_dev, status.st_ino) if is_plain and status.st_ino else str(path)
