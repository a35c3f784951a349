"""One name, two contents: a new folder or file takes the place of the old in one step, and the old stays beside it.

    roundhouse              what is used
    .roundhouse.next        what is being made ready
    .roundhouse.previous    what was used before

Linux exchanges two names at once (renameat2), so that no moment, and no power cut, leaves a computer without either.
Where that is not to be had, two renames follow each other.
"""

import ctypes
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from app.config.programs import previous_path
from app.core.errors import Conflict, StorageFault

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
"""From linux/fs.h."""


def next_of(place: Path) -> Path:
    """Return where what will take a place is made ready: on the same disk."""
    return place.with_name(f".{place.name}.next")


def check_replaceable(place: Path) -> None:
    """Raise StorageFault (update_not_allowed) unless this person may put something else in a place."""
    if not os.access(place.parent, os.W_OK | os.X_OK) or not os.access(place, os.W_OK):
        raise StorageFault(
            f"{place} cannot be replaced: you may not write to {place.parent}.",
            hint="Update it the way it was installed, or as the user who installed it.",
            code="update_not_allowed",
        )


def put_in_place(place: Path) -> None:
    """Use what was made ready from now on, and keep what was used. Raises StorageFault, with everything as it was."""
    ready, previous = next_of(place), previous_path(place)
    try:
        remove_path(previous)
        swap_paths(place, ready)
    except OSError as error:
        raise _replacement_fault(place, error) from error
    with suppress(OSError):  # it is replaced; there is only no way back by name
        ready.rename(previous)


def go_back(place: Path) -> None:
    """Use what was used before; what is used now is kept instead. Raises Conflict, StorageFault."""
    previous = previous_path(place)
    if not previous.exists():
        raise Conflict("There is no previous version to go back to.", code="no_previous")
    try:
        swap_paths(place, previous)
    except OSError as error:
        raise _replacement_fault(place, error) from error


def swap_paths(first: Path, second: Path) -> None:
    """Exchange what two names stand for. Raises OSError, with both as they were."""
    if _exchange_atomically(first, second):
        return
    aside = first.with_name(f".{first.name}.aside")
    first.rename(aside)
    try:
        second.rename(first)
    except OSError:
        aside.rename(first)
        raise
    aside.rename(second)


def remove_path(path: Path) -> None:
    """Remove a folder or file, if there is one. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _exchange_atomically(first: Path, second: Path) -> bool:
    """Exchange two names in one step; False where the system or the disk cannot."""
    if sys.platform != "linux":
        return False
    with suppress(OSError, AttributeError):  # a C library that does not have it
        exchange = ctypes.CDLL(None, use_errno=True).renameat2
        return not exchange(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE)
    return False


def _replacement_fault(place: Path, error: OSError) -> StorageFault:
    return StorageFault(
        f"{place} could not be replaced: {error.strerror or error}.",
        hint="The current version stays in use.",
        code="update_not_allowed" if isinstance(error, PermissionError) else "",
    )
