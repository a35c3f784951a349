"""The models that Roundhouse moved to the trash, and deleting exactly those for good.

The note that Roundhouse wrote beside a file says so. Everything else there, and what has no note that can be read, is
left alone. Blocks.
"""

import contextlib
import hashlib
import os
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

_LARGEST_NOTE = 64 << 10
"""A path has at most 4096 bytes, thrice as many when all are written in percent."""
_NAMED = 5
"""So many of what remains are named."""


class TrashEntry(NamedTuple):
    """One file in the trash that Roundhouse put there."""

    file: Path
    note: Path
    original: Path
    """Where it lay."""
    stamp: FileStamp


class ModelsInTrash(NamedTuple):
    """The models in a disk's trash, and the same in figures; None if there are none."""

    entries: list[TrashEntry]
    contents: TrashContents | None


def find_in_trash(trash: Trash, top: Path) -> ModelsInTrash:
    """Return the models in the trash of the disk that begins there."""
    entries = [entry for place in trash.places_on(top) for entry in _iter_entries(place)]
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
    files = freed_bytes = 0
    failed_entries: list[tuple[TrashEntry, OSError]] = []
    for entry in entries:
        report(entry.original, 0)
        before = _measure_entries([entry])
        try:
            _delete_entry(trash, entry)
        except OSError as error:
            failed_entries.append((entry, error))
        after = _measure_entries([entry])
        files, freed_bytes = files + before[0] - after[0], freed_bytes + before[1] - after[1]
        report_result(deleted_files=files, reclaimed_bytes=freed_bytes)
        report(entry.original, before[1])
    if failed_entries:
        raise _make_trash_fault(failed_entries)


def _delete_entry(trash: Trash, entry: TrashEntry) -> None:
    with trash.lock:
        if stamp_of(entry.file) != entry.stamp:
            return
        entry.file.unlink()
        entry.note.unlink(missing_ok=True)


def _make_trash_fault(failed_entries: Sequence[tuple[TrashEntry, OSError]]) -> StorageFault:
    names = [entry.original.name for entry, _ in failed_entries]
    listed_names = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    why = failed_entries[0][1]
    return StorageFault(
        f"{listed_names} could not be deleted and {'are' if len(names) > 1 else 'is'} still in the trash: "
        f"{why.strerror or why}.",
        hint=f"Check the permissions of {failed_entries[0][0].file}.",
        code="trash_kept",
    )


def _iter_entries(place: Path) -> Iterator[TrashEntry]:
    """Yield what Roundhouse put into a trash, by name."""
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
        with note.open("rb") as stream:
            head, *lines = stream.read(_LARGEST_NOTE).decode("ascii").splitlines()
    except (OSError, ValueError):
        return None
    path = next((line.removeprefix(NOTE_PATH) for line in lines if line.startswith(NOTE_PATH)), "")
    original = place.parent / os.fsdecode(unquote_to_bytes(path))  # the top of its disk, where it is not written whole
    if stamp is None or stat.S_ISDIR(stamp.kind) or head != NOTE_HEAD or NOTE_OURS not in lines:
        return None  # we put files there, one by one
    if not path or "\0" in str(original) or ".." in original.parts:
        return None
    return TrashEntry(file, note, original, stamp)


def _measure_entries(entries: Iterable[TrashEntry]) -> tuple[int, int]:
    """Return how many files these are, and what is free without them: what has a name elsewhere stays on the disk."""
    counts: Counter[tuple[int, int, int, int]] = Counter()
    for entry in entries:
        with contextlib.suppress(OSError):
            status = entry.file.lstat()
            counts[(status.st_dev, status.st_ino, status.st_nlink, status.st_size)] += 1
    return counts.total(), sum(size for (_, _, names, size), count in counts.items() if count == names)
