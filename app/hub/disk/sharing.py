"""Letting a copy share the space of its equal, and giving it space of its own again.

A copy is replaced in one step, and only if nobody wrote either file since they were read to be equal: by a clone where
the file system has such, else by a hard link. A clone parts by itself once either file is written; a hard link is taken
apart by copying, which needs the space again.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from app.core import words
from app.core.errors import StorageFault
from app.hub.disk.duplicates import FileCopy
from app.hub.disk.file_hashes import STRETCH_BYTES, ReadProgress

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


def share_space(kept: FileCopy, copy: FileCopy) -> SharedFile | None:
    """Let a copy share the space of the one kept; None if it cannot be done, and nothing is changed then."""
    if not (kept.is_as_it_was() and copy.is_as_it_was()):
        return None
    place = copy.path.resolve()  # a link of the hub's cache stays; its blob is what is replaced
    try:
        before = place.stat()
        with _temporary_name(place) as staged:
            is_clone = _clone_blocks(kept.path, staged)
            if is_clone:
                os.utime(staged, ns=(before.st_atime_ns, before.st_mtime_ns))
            else:
                os.link(kept.path.resolve(), staged)
            if not copy.is_as_it_was():
                return None
            staged.replace(place)
    except OSError:
        return None
    return SharedFile(place, kept.path.resolve(), copy.size, is_clone, before.st_atime_ns, before.st_mtime_ns)


def check_room(shared: list[SharedFile]) -> None:
    """Raise StorageFault (disk_full) if there is no room for files to have space of their own again."""
    for device, size in _bytes_by_device(shared).items():
        folder = next(file.place.parent for file in shared if file.place.parent.stat().st_dev == device)
        free = shutil.disk_usage(folder).free
        if free < size + _HEAD_ROOM_BYTES:
            raise StorageFault(
                f"Separate copies need {words.format_bytes(size)}, and {words.format_bytes(free)} are free.",
                hint="The files keep sharing disk space.",
                code="disk_full",
            )


def separate_copy(shared: SharedFile, report: ReadProgress) -> bool:
    """Give a file space of its own again, by copying; False if it is no longer what it was made.

    Raises StorageFault, and what `report` raises; nothing is changed then.
    """
    if not shared.is_as_it_was():
        return False
    try:
        with _temporary_name(shared.place) as staged:
            _copy_file(shared.kept, staged, shared.place, report)
            os.utime(staged, ns=(shared.accessed_ns, shared.changed_ns))
            shutil.copymode(shared.place, staged)
            staged.replace(shared.place)
    except OSError as error:
        raise StorageFault(f"{shared.place.name} could not be copied: {error.strerror or error}.") from error
    return True


def _bytes_by_device(shared: list[SharedFile]) -> dict[int, int]:
    """Return the bytes that copies need, by disk."""
    sizes: dict[int, int] = {}
    for file in shared:
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
    staged = folder / place.name
    try:
        yield staged
    finally:
        staged.unlink(missing_ok=True)
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
