"""Contents that lie on the disk more than once, and which of them may share their space.

Files of one size are compared by their ends, then by their hash. A copy may share only on the same disk, and only where
it belongs to this person; files of other programs' stores may be what is kept, and are never what is replaced.

Letting a copy share the space of its equal, and giving it space of its own again.

A copy is replaced in one step, and only if nobody wrote either file since they were read to be equal: by a clone where
the file system has such, else by a hard link. A clone parts by itself once either file is written; a hard link is taken
apart by copying, which needs the space again.
"""

import contextlib
import os
import shutil
import stat
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from app.core import words
from app.core.errors import StorageFault, write_fault
from app.core.library import Duplicate
from app.core.models import ModelInfo
from app.hub.disk.verification import STRETCH_BYTES, ReadProgress, files_of, sha256_of

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
    seen_copies: dict[tuple[int, int], FileCopy] = {}
    for model in models:
        for copy in () if model.attached or model.is_builtin else _copies_of(model):
            seen_copies.setdefault((copy.device, copy.inode), copy)
    by_size: dict[int, list[FileCopy]] = defaultdict(list)
    for copy in seen_copies.values():
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
    kept_copy = min(copies, key=lambda copy: (not copy.store, str(copy.path)))
    rest = [copy for copy in copies if copy is not kept_copy]
    why = {copy.path: _obstacle_to_sharing(copy, kept_copy) for copy in rest}
    free = [copy for copy in rest if not why[copy.path]]
    duplicate = Duplicate(
        sha256=digest,
        size_bytes=kept_copy.size,
        paths=[str(copy.path) for copy in (kept_copy, *rest)],
        models=sorted({copy.model for copy in copies}),
        reclaimable=[str(copy.path) for copy in free],
        notes=[f"{path}: {reason}" for path, reason in why.items() if reason],
    )
    return duplicate, kept_copy, free


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


def _obstacle_to_sharing(copy: FileCopy, kept_copy: FileCopy) -> str:
    """Return why a copy cannot share the space of the one that is kept; empty if it can."""
    if copy.store:
        return f"it belongs to {copy.store}, whose files are not changed."
    if copy.device != kept_copy.device:
        return "it is on another disk."
    if hasattr(os, "getuid") and not copy.owner == kept_copy.owner == os.getuid():
        return "it belongs to another user."
    if not os.access(copy.path.resolve().parent, os.W_OK):
        return "its folder is not writable."
    return ""


_FICLONE = 0x40049409
"""Linux's ioctl by which one file shares another's blocks until either is written (linux/fs.h)."""
_HEAD_ROOM_BYTES = 1 << 30
"""Left free on a disk that is copied to: a full one stops everything else."""


class SharedFile(NamedTuple):
    """A file that took on the space of another."""

    place: Path
    kept: Path
    size: int
    is_clone: bool
    accessed_ns: int
    changed_ns: int
    """The times it had by itself."""

    def is_as_it_was(self) -> bool:
        """Whether it is still the same file as the one whose space it took on."""
        try:
            return self.place.samefile(self.kept)
        except OSError:
            return False


def share_space(kept_copy: FileCopy, copy: FileCopy) -> SharedFile | None:
    """Let a copy share the space of the one kept; None if it cannot be done, and nothing is changed then."""
    if not (kept_copy.is_as_it_was() and copy.is_as_it_was()):
        return None
    place = copy.path.resolve()  # a link of the hub's cache stays; its blob is what is replaced
    try:
        before = place.stat()
        with _temporary_name(place) as staged_path:
            is_clone = _clone_blocks(kept_copy.path, staged_path)
            if is_clone:
                os.utime(staged_path, ns=(before.st_atime_ns, before.st_mtime_ns))
            else:
                os.link(kept_copy.path.resolve(), staged_path)
            if not copy.is_as_it_was():
                return None
            staged_path.replace(place)
    except OSError:
        return None
    return SharedFile(place, kept_copy.path.resolve(), copy.size, is_clone, before.st_atime_ns, before.st_mtime_ns)


def check_room(shared_files: list[SharedFile]) -> None:
    """Raise StorageFault (disk_full) if there is no room for files to have space of their own again."""
    for device, size in _bytes_by_device(shared_files).items():
        folder = next(file.place.parent for file in shared_files if file.place.parent.stat().st_dev == device)
        free = shutil.disk_usage(folder).free
        if free < size + _HEAD_ROOM_BYTES:
            raise StorageFault(
                f"Separate copies need {words.format_bytes(size)}, and {words.format_bytes(free)} are free.",
                hint="The files keep sharing disk space.",
                code="disk_full",
            )


def separate_copy(shared_file: SharedFile, report: ReadProgress) -> bool:
    """Give a file space of its own again, by copying; False if it is no longer what it was made.

    Raises StorageFault, and what `report` raises; nothing is changed then.
    """
    if not shared_file.is_as_it_was():
        return False
    try:
        with _temporary_name(shared_file.place) as staged_path:
            _copy_file(shared_file.kept, staged_path, shared_file.place, report)
            os.utime(staged_path, ns=(shared_file.accessed_ns, shared_file.changed_ns))
            shutil.copymode(shared_file.place, staged_path)
            staged_path.replace(shared_file.place)
    except OSError as error:
        raise write_fault(shared_file.place.name, error, action="copied") from error
    return True


def _bytes_by_device(shared_files: list[SharedFile]) -> dict[int, int]:
    """Return the bytes that copies need, by disk."""
    sizes: dict[int, int] = {}
    for file in shared_files:
        if file.is_as_it_was():
            device = file.place.parent.stat().st_dev
            sizes[device] = sizes.get(device, 0) + file.size
    return sizes


def _copy_file(source: Path, target: Path, shown_path: Path, report: ReadProgress) -> None:
    with source.open("rb", buffering=0) as original, target.open("xb", buffering=0) as new:
        while stretch := original.read(STRETCH_BYTES):
            new.write(stretch)
            report(shown_path, len(stretch))
        os.fsync(new.fileno())


@contextmanager
def _temporary_name(place: Path) -> Iterator[Path]:
    """Give a name beside a file for what is to replace it; what is left there is taken away."""
    folder = Path(tempfile.mkdtemp(prefix=".share-", dir=place.parent))
    staged_path = folder / place.name
    try:
        yield staged_path
    finally:
        staged_path.unlink(missing_ok=True)
        folder.rmdir()


def _clone_blocks(source: Path, target: Path) -> bool:
    """Make a file that shares its blocks until either is written, where the file system can."""
    if not sys.platform.startswith("linux"):
        return False
    import fcntl  # noqa: PLC0415 -- not on Windows

    try:
        with source.open("rb") as original, target.open("xb") as new:
            fcntl.ioctl(new.fileno(), _FICLONE, original.fileno())
    except OSError:
        target.unlink(missing_ok=True)
        return False
    return True
