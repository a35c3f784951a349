"""The trash of this person, so that a mistake costs nothing: Linux's as freedesktop.org wrote it down, others by name.

Files move within their own disk: into the home trash, or into `.Trash-UID` at the top of another disk.
https://specifications.freedesktop.org/trash-spec/1.0/ . On macOS and Windows Send2Trash asks the system; what is there
is brought back, and deleted for good, with the system's own means.
"""

import contextlib
import errno
import os
import stat
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from app.core.errors import Conflict, StorageFault, write_fault

NOTE_HEAD, NOTE_PATH, NOTE_ENDING = "[Trash Info]", "Path=", ".trashinfo"
NOTE_OURS = "X-Roundhouse=model"
"""A line of our own in the note of what we put there: others pass over it, as the specification asks them to."""
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})
"""What file systems answer that have one name for each file, such as FAT and exFAT."""
_SYSTEMS = {
    "darwin": ("macOS", "Empty it in the Finder."),
    "win32": ("Windows", "Empty the Recycle Bin, or delete single files there."),
}


class FileStamp(NamedTuple):
    """What tells whether a file is still the one it was: names in the trash are given again.

    Inodes do not tell: on drives with FAT or exFAT they are others each time.
    """

    kind: int
    size: int
    changed_ns: int


def stamp_of(path: Path) -> FileStamp | None:
    """Return the stamp of what is there itself, not of what it leads to; None if nothing is."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return FileStamp(stat.S_IFMT(status.st_mode), status.st_size, status.st_mtime_ns)


class Trash:
    """Moves files there and back. `home_trash` is where those of the home folder's disk go."""

    def __init__(self, home_trash: Path, *, platform: str = sys.platform) -> None:
        self._home_trash, self._platform = home_trash, platform
        self.lock = threading.Lock()
        """Held while a model is brought back, and while something is deleted: never the one amid the other."""

    @property
    def can_restore(self) -> bool:
        """Whether what went there can be brought back by us."""
        return self._platform.startswith("linux")

    def put_file(self, file: Path) -> Path | None:
        """Move a file there; return where it is now, if that can be told. Raises StorageFault (no_trash)."""
        try:
            if self.can_restore:
                return self._move_in(file)
            from send2trash import send2trash  # noqa: PLC0415 -- not installed on Linux, where it is not needed

            send2trash(str(file))
        except OSError as error:
            raise StorageFault(
                f"{file.name} could not be moved to the trash: {error.strerror or error}.",
                hint="It can be deleted permanently instead.",
                code="no_trash",
            ) from error
        return None

    def restore_file(self, trash_path: Path, original: Path) -> None:
        """Move a file back to where it was. Raises StorageFault, also if something else is there by now."""
        try:
            original.parent.mkdir(parents=True, exist_ok=True)
            _move_back(trash_path, original)
        except OSError as error:
            raise write_fault(original.name, error, action="restored", hint=f"It is in {trash_path}.") from error
        _info_of(trash_path).unlink(missing_ok=True)

    def size_on(self, top: Path) -> int | None:
        """Return what the trash of the disk that begins there holds; None where that cannot be looked into."""
        if not self.can_restore:
            return None
        return sum(_size_of(place / "files") for place in self.places_on(top))

    def places_on(self, top: Path) -> list[Path]:
        """Return the folders that are the trash of the disk that begins there; none where the system keeps them."""
        if not self.can_restore:
            return []
        own = top / f".Trash-{_user_number()}"
        places = [] if own.is_symlink() else [own]  # a link on a disk that others write leads elsewhere
        with contextlib.suppress(OSError):
            if self._nearest_folder().stat().st_dev == top.stat().st_dev:
                places.append(self._home_trash)
        return places

    def check_ours(self) -> None:
        """Raise Conflict (trash_of_system) where what is in the trash is the system's to delete."""
        if not self.can_restore:
            system, hint = _SYSTEMS.get(self._platform, ("the system", "Empty it there."))
            raise Conflict(f"The trash is kept by {system}.", hint=hint, code="trash_of_system")

    def _nearest_folder(self) -> Path:
        """Return the home trash, or what is there of the way to it: it is made when it is needed."""
        return next(folder for folder in (self._home_trash, *self._home_trash.parents) if folder.exists())

    def _move_in(self, file: Path) -> Path:
        root, listed_as = self._trash_of(file)
        for folder in (root, root / "files", root / "info"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        target, info = _reserve_name(root, file.name)
        try:
            when = time.strftime("%Y-%m-%dT%H:%M:%S")
            path = quote(os.fsencode(listed_as))
            note = f"{NOTE_HEAD}\n{NOTE_PATH}{path}\nDeletionDate={when}\n{NOTE_OURS}\n"
            info.write_text(note, encoding="ascii")
            file.rename(target)
        except OSError:
            with contextlib.suppress(OSError):
                info.unlink()
            raise
        return target

    def _trash_of(self, file: Path) -> tuple[Path, str]:
        """Return the trash on a file's disk, and how its path is written down there."""
        disk = file.parent.stat().st_dev
        if self._nearest_folder().stat().st_dev == disk:
            return self._home_trash, str(file)
        top = file.parent.resolve()
        while top.parent != top and top.parent.stat().st_dev == disk:
            top = top.parent
        return top / f".Trash-{_user_number()}", str(file.parent.resolve().relative_to(top) / file.name)


def _user_number() -> int:
    if sys.platform == "win32":  # which has a bin of its own, and no such numbers
        return 0
    return os.getuid()


def _move_back(trash_path: Path, original: Path) -> None:
    """Move a file back, never over another. Raises OSError."""
    try:
        os.link(trash_path, original, follow_symlinks=False)  # a rename would overwrite what came in the meantime
    except OSError as error:
        if error.errno not in _NO_LINKS or os.path.lexists(original):
            raise
        trash_path.rename(original)
    else:
        trash_path.unlink()


def _reserve_name(root: Path, name: str) -> tuple[Path, Path]:
    """Return a free place and its note, which exists from now on: that is how the specification reserves a name."""
    for number in range(1, 10_000):
        free = name if number == 1 else f"{name}.{number}"
        target = root / "files" / free
        info = _info_of(target)
        with contextlib.suppress(FileExistsError):
            info.touch(mode=0o600, exist_ok=False)
            if not os.path.lexists(target):
                return target, info
            info.unlink()
    raise FileExistsError(17, "the trash is full of files of that name")


def _size_of(folder: Path) -> int:
    """Return what lies below a folder; what cannot be looked into counts nothing."""
    total, folders_to_visit = 0, [folder]
    while folders_to_visit:
        with contextlib.suppress(OSError), os.scandir(folders_to_visit.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders_to_visit.append(Path(entry.path))
                else:
                    total += entry.stat(follow_symlinks=False).st_size
    return total


def _info_of(trash_path: Path) -> Path:
    return trash_path.parent.parent / "info" / f"{trash_path.name}{NOTE_ENDING}"
