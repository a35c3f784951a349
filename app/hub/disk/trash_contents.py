"""Models in the trash: which of what lies there were models, and deleting exactly those for good.

Where a thing lay, as its note says, decides, never its name in the trash. What Roundhouse put there says so. What
anybody else did counts if it lay in a folder that is looked through and is what models are made of; a folder, if there
is nothing else in it. What has no note that can be read is left alone, as all the rest is. Blocks.
"""

import contextlib
import hashlib
import os
import re
import shutil
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from app.core.errors import StorageFault
from app.core.library import TrashContents
from app.hub.disk.trash import NOTE_ENDING, NOTE_HEAD, NOTE_OURS, NOTE_PATH, FileStamp, Trash, stamp_of
from app.hub.disk.verification import ReadProgress
from app.hub.library.candidates import folder_format

_LARGEST_NOTE = 64 << 10
"""A path has at most 4096 bytes, thrice as many when all are written in percent."""
_MOST_FILES = 10_000
"""A folder with more is no model's."""
_WEIGHTS = (".gguf", ".safetensors")
_OF_MODELS = (*_WEIGHTS, ".json", ".jinja", ".model", ".tiktoken", ".onnx", ".onnx_data", ".xml", ".bin")
_BESIDE = frozenset({"merges.txt", "vocab.txt", "readme.md", "license", "license.txt", "notice", ".gitattributes"})
_REPOSITORY = re.compile(r"models--[^/]+?--[^/]+")
_CACHED = frozenset({"blobs", "snapshots", "refs"})
_NAMED = 5
"""So many of what remains are named."""


class TrashEntry(NamedTuple):
    """One thing in the trash whose note can be read."""

    file: Path
    note: Path
    original: Path
    """Where it lay."""
    is_ours: bool
    stamp: FileStamp


class ModelsInTrash(NamedTuple):
    """What of a disk's trash were models, and the same in figures; None if nothing was."""

    entries: list[TrashEntry]
    contents: TrashContents | None


def find_in_trash(trash: Trash, top: Path, folders: Iterable[Path]) -> ModelsInTrash:
    """Return the models in the trash of the disk that begins there; `folders` are those that are looked through."""
    roots = {place for folder in folders for place in (folder, Path(os.path.realpath(folder)))}
    entries = [entry for place in trash.places_on(top) for entry in _iter_entries(place) if _was_model(entry, roots)]
    if not entries:
        return ModelsInTrash([], None)
    files, size = _measure_entries(entries)
    contents = TrashContents(
        files=files,
        size_bytes=size,
        paths=[str(entry.original) for entry in entries],
        digest=hashlib.sha256(repr((entries, files, size)).encode(errors="surrogateescape")).hexdigest(),
    )
    return ModelsInTrash(entries, contents)


def delete_entries(
    trash: Trash, entries: Sequence[TrashEntry], report: ReadProgress, report_result: Callable[..., None]
) -> None:
    """Delete these for good, saying each; what is no longer what it was is left.

    Raises what `report` raises before the next, and at the end StorageFault (trash_kept) with what remains.
    """
    files = freed = 0
    remaining: list[tuple[TrashEntry, OSError]] = []
    for entry in entries:
        report(entry.original, 0)
        before = _measure_entries([entry])
        try:
            _delete_entry(trash, entry)
        except OSError as error:
            remaining.append((entry, error))
        after = _measure_entries([entry])
        files, freed = files + before[0] - after[0], freed + before[1] - after[1]
        report_result(deleted_files=files, reclaimed_bytes=freed)
        report(entry.original, before[1])
    if remaining:
        raise _remaining_fault(remaining)


def _delete_entry(trash: Trash, entry: TrashEntry) -> None:
    with trash.lock:
        if stamp_of(entry.file) != entry.stamp:
            return
        if stat.S_ISDIR(entry.file.lstat().st_mode):
            shutil.rmtree(entry.file)
        else:
            entry.file.unlink()
        entry.note.unlink(missing_ok=True)


def _remaining_fault(remaining: Sequence[tuple[TrashEntry, OSError]]) -> StorageFault:
    names = [entry.original.name for entry, _ in remaining]
    listed_names = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    why = remaining[0][1]
    return StorageFault(
        f"{listed_names} could not be deleted and {'are' if len(names) > 1 else 'is'} still in the trash: "
        f"{why.strerror or why}.",
        hint=f"Check the permissions of {remaining[0][0].file}.",
        code="trash_kept",
    )


def _iter_entries(place: Path) -> Iterator[TrashEntry]:
    """Yield what in a trash has a note, by name."""
    if any(folder.is_symlink() for folder in (place / "files", place / "info")):
        return  # whoever made it so leads us elsewhere
    with contextlib.suppress(OSError):
        for note in sorted((place / "info").iterdir()):
            if note.name.endswith(NOTE_ENDING) and not note.is_symlink() and note.is_file():
                entry = _parse_entry(place, note)
                if entry is not None:
                    yield entry


def _parse_entry(place: Path, note: Path) -> TrashEntry | None:
    file = place / "files" / note.name.removesuffix(NOTE_ENDING)
    stamp = stamp_of(file)
    try:
        with note.open("rb") as opened:
            head, *lines = opened.read(_LARGEST_NOTE).decode("ascii").splitlines()
    except (OSError, ValueError):
        return None
    path = next((line.removeprefix(NOTE_PATH) for line in lines if line.startswith(NOTE_PATH)), "")
    original = place.parent / os.fsdecode(unquote_to_bytes(path))  # the top of its disk, where it is not written whole
    if stamp is None or head != NOTE_HEAD or not path or "\0" in str(original) or ".." in original.parts:
        return None
    return TrashEntry(file, note, original, NOTE_OURS in lines, stamp)


def _was_model(entry: TrashEntry, roots: set[Path]) -> bool:
    is_folder = entry.file.is_dir() and not entry.file.is_symlink()
    if entry.is_ours and not is_folder:  # we put files there, one by one
        return True
    locations = {entry.original, Path(os.path.realpath(entry.original.parent), entry.original.name)}
    inside = [parts for path in locations for parts in _paths_inside(path, roots)]
    if not inside:
        return False
    if is_folder:
        return any(map(_is_repository, inside)) or _is_model_folder(entry.file)
    return any(map(_is_cached, inside)) or entry.original.name.lower().endswith(_WEIGHTS)


def _paths_inside(path: Path, roots: set[Path]) -> Iterator[tuple[str, ...]]:
    """Yield what a path is called within each folder that it lies in."""
    for steps, around in enumerate((path, *path.parents)):
        if around in roots:
            yield path.parts[len(path.parts) - steps :]


def _is_repository(parts: Sequence[str]) -> bool:
    """Whether a place is a repository of the hub's cache, or within one."""
    return _is_cached(parts) or (len(parts) == 1 and _REPOSITORY.fullmatch(parts[0]) is not None)


def _is_cached(parts: Sequence[str]) -> bool:
    return len(parts) > 1 and _REPOSITORY.fullmatch(parts[0]) is not None and parts[1] in _CACHED


def _is_model_folder(folder: Path) -> bool:
    """Whether a folder holds a model, and nothing that no model has."""
    try:
        files = list(_files_below(folder))
    except OSError:
        return False
    names = [file.name.lower() for file in files]
    if len(names) > _MOST_FILES or not all(name.endswith(_OF_MODELS) or name in _BESIDE for name in names):
        return False
    return any(name.endswith(_WEIGHTS) for name in names) or bool(folder_format(names))


def _measure_entries(entries: Iterable[TrashEntry]) -> tuple[int, int]:
    """Return how many files these are, and what is free without them: what has a name elsewhere stays on the disk."""
    files = [file for entry in entries for file in _files_of(entry.file)]
    counts: Counter[tuple[int, int, int, int]] = Counter()
    for file in files:
        with contextlib.suppress(OSError):
            status = file.lstat()
            counts[(status.st_dev, status.st_ino, status.st_nlink, status.st_size)] += 1
    return len(files), sum(size for (_, _, names, size), count in counts.items() if count == names)


def _files_of(path: Path) -> list[Path]:
    if stamp_of(path) is None:
        return []
    if path.is_symlink() or not path.is_dir():
        return [path]
    with contextlib.suppress(OSError):
        return list(_files_below(path))
    return []


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield everything below a folder that is no folder itself; links are not followed. Raises OSError."""
    waiting = [folder]
    while waiting:
        with os.scandir(waiting.pop()) as there:
            for entry in there:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
                else:
                    yield Path(entry.path)
