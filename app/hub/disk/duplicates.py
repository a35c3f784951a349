"""Contents that lie on the disk more than once, and which of them may share their space.

Files of one size are compared by their ends, then by their hash. A copy may share only on the same disk, and only where
it belongs to this person; files of other programs' stores may be what is kept, and are never what is replaced.
"""

import contextlib
import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from app.core.library import Duplicate
from app.core.models import ModelInfo
from app.hub.disk.file_hashes import ReadProgress, sha256_of
from app.hub.disk.verification import files_of

SMALLEST_BYTES = 1 << 20
_END_BYTES = 64 << 10


class FileCopy(NamedTuple):
    """One file on the disk, whatever number of names it has, as it was when it was looked at."""

    path: Path
    model: str
    store: str
    device: int
    inode: int
    size: int
    changed_ns: int
    owner: int

    def is_as_it_was(self) -> bool:
        """Whether nobody replaced or wrote it since."""
        try:
            status = self.path.stat()
        except OSError:
            return False
        return (status.st_ino, status.st_size, status.st_mtime_ns) == (self.inode, self.size, self.changed_ns)


def find_suspects(models: Iterable[ModelInfo]) -> list[list[FileCopy]]:
    """Return files that have the size of another, largest first."""
    seen: dict[tuple[int, int], FileCopy] = {}
    for model in models:
        for copy in () if model.attached or model.is_builtin else _copies_of(model):
            seen.setdefault((copy.device, copy.inode), copy)
    by_size: dict[int, list[FileCopy]] = defaultdict(list)
    for copy in seen.values():
        by_size[copy.size].append(copy)
    return [by_size[size] for size in sorted(by_size, reverse=True) if len(by_size[size]) > 1]


def find_equal(group: Sequence[FileCopy], report: ReadProgress) -> Iterator[tuple[str, list[FileCopy]]]:
    """Yield, of files of one size, those that are equal, with their SHA-256. Raises what `report` raises."""
    by_ends: dict[bytes, list[FileCopy]] = defaultdict(list)
    for copy in group:
        with contextlib.suppress(OSError):
            by_ends[_read_ends(copy)].append(copy)
    for alike in by_ends.values():
        by_hash: dict[str, list[FileCopy]] = defaultdict(list)
        for copy in alike:
            with contextlib.suppress(OSError):  # gone, or not ours to read
                if len(alike) == 1:
                    report(copy.path, copy.size)  # its ends were enough
                else:
                    by_hash[sha256_of(copy.path, report)].append(copy)
        yield from ((digest, copies) for digest, copies in by_hash.items() if len(copies) > 1)


def describe_duplicate(digest: str, copies: Sequence[FileCopy]) -> tuple[Duplicate, FileCopy, list[FileCopy]]:
    """Return what is said of equal files, the one to keep, and those that may share its space."""
    kept = min(copies, key=lambda copy: (not copy.store, str(copy.path)))
    rest = [copy for copy in copies if copy is not kept]
    why = {copy.path: _obstacle_to_sharing(copy, kept) for copy in rest}
    free = [copy for copy in rest if not why[copy.path]]
    duplicate = Duplicate(
        sha256=digest,
        size_bytes=kept.size,
        paths=[str(copy.path) for copy in (kept, *rest)],
        models=sorted({copy.model for copy in copies}),
        reclaimable=[str(copy.path) for copy in free],
        notes=[f"{path}: {reason}" for path, reason in why.items() if reason],
    )
    return duplicate, kept, free


def _copies_of(model: ModelInfo) -> Iterator[FileCopy]:
    for file in files_of(model):
        with contextlib.suppress(OSError):
            status = file.stat()
            if stat.S_ISREG(status.st_mode) and status.st_size >= SMALLEST_BYTES:
                when = status.st_mtime_ns
                at = (status.st_dev, status.st_ino, status.st_size, when, status.st_uid)
                yield FileCopy(file, model.name, model.store, *at)


def _read_ends(copy: FileCopy) -> bytes:
    with copy.path.open("rb") as file:
        first = file.read(_END_BYTES)
        file.seek(-min(_END_BYTES, copy.size), os.SEEK_END)
        return first + file.read(_END_BYTES)


def _obstacle_to_sharing(copy: FileCopy, kept: FileCopy) -> str:
    """Return why a copy cannot share the space of the one that is kept; empty if it can."""
    if copy.store:
        return f"it belongs to {copy.store}, whose files are not changed."
    if copy.device != kept.device:
        return "it is on another disk."
    if hasattr(os, "getuid") and not copy.owner == kept.owner == os.getuid():
        return "it belongs to another user."
    if not os.access(copy.path.resolve().parent, os.W_OK):
        return "its folder is not writable."
    return ""
