"""Other programs' files, read and written with care: whole or not at all, where a link leads, with the rights they had.

Anything that is not a plain file of this person is left alone with a sentence.
"""

import os
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.connect.document_paths import UnreadableSettings
from app.core.errors import Conflict, EnvironmentFault, is_disk_full, write_fault

_LARGEST = 4 * 1024 * 1024
"""Bytes; settings files have kilobytes."""
_NEW_FILE, _NEW_FOLDER = 0o600, 0o700


@dataclass(frozen=True, slots=True)
class FileState:
    """A file as it is now: where it really lies, and its bytes; None if there is none."""

    path: Path
    data: bytes | None
    mode: int = _NEW_FILE

    @property
    def text(self) -> str:
        """What it says; "" if there is none. Raises UnreadableSettings for what is not UTF-8."""
        try:
            return "" if self.data is None else self.data.decode()
        except UnicodeDecodeError:
            raise UnreadableSettings("it is not UTF-8 text.") from None


def read_file_state(path: Path) -> FileState:
    """Return what is at `path`. Raises UnreadableSettings for anything but a plain file of one's own, or nothing."""
    try:
        real = path.resolve()
        if path.is_symlink() and not real.exists():
            raise UnreadableSettings(f"{path} is a broken link.")
        about = real.stat()
        _check_plain_file(real, about)
        return FileState(real, real.read_bytes(), stat.S_IMODE(about.st_mode))
    except FileNotFoundError:
        return FileState(real, None)
    except (OSError, RuntimeError) as error:  # before Python 3.13, links in a circle are a RuntimeError
        raise UnreadableSettings(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None


def _check_plain_file(real: Path, about: os.stat_result) -> None:
    if not stat.S_ISREG(about.st_mode):
        raise UnreadableSettings(f"{real} is not a regular file.")
    if about.st_size > _LARGEST:
        raise UnreadableSettings(f"{real} is too large for a settings file.")
    if hasattr(os, "geteuid") and about.st_uid != os.geteuid():
        raise UnreadableSettings(f"{real} belongs to somebody else.")


def make_folders(folder: Path) -> list[Path]:
    """Make `folder` and those above it, private; return the ones made, the deepest last."""
    made_folders: list[Path] = []
    missing_folders = [missing_folder for missing_folder in (folder, *folder.parents) if not missing_folder.exists()]
    try:
        for missing_folder in reversed(missing_folders):
            missing_folder.mkdir(mode=_NEW_FOLDER)
            made_folders.append(missing_folder)
    except OSError as error:
        remove_folders(made_folders)
        raise _write_fault(folder, error) from None
    return made_folders


def remove_folders(made_folders: list[Path]) -> None:
    """Remove folders that were made, as long as they are empty."""
    for folder in reversed(made_folders):
        with suppress(OSError):
            folder.rmdir()


def write_file(before: FileState, data: bytes) -> None:
    """Replace a file by `data`, whole or not at all. Raises Conflict if it is not as `before` any more."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{before.path.name}.", dir=before.path.parent)
    except OSError as error:
        raise _write_fault(before.path, error) from None
    fresh = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.chmod(before.mode)
        if _read_bytes(before.path) != before.data:
            raise change_conflict(before.path)
        fresh.replace(before.path)
    except OSError as error:
        raise _write_fault(before.path, error) from None
    finally:
        fresh.unlink(missing_ok=True)


def remove_file(before: FileState) -> None:
    """Remove a file that is as `before`. Raises Conflict if it is not any more."""
    if _read_bytes(before.path) != before.data:
        raise change_conflict(before.path)
    try:
        before.path.unlink()
    except OSError as error:
        raise _write_fault(before.path, error) from None


def change_conflict(path: Path) -> Conflict:
    """Return the error of a file that something else wrote to in between."""
    return Conflict(
        f"{path} was changed in the meantime, so it was left unchanged.", hint="Try again.", code="tool_file_changed"
    )


def _read_bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _write_fault(path: Path, error: OSError) -> EnvironmentFault:
    if is_disk_full(error):
        return write_fault(str(path), error, action="written")
    return EnvironmentFault(
        f"{path} could not be written: {error.strerror or error}.",
        hint="Nothing was changed. Check that the folder belongs to you.",
        code="tool_file_unwritable",
    )
