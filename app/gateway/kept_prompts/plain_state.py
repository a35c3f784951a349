"""The file through which a state goes between an engine and its seal: unsealed, so it is there no longer than that.

It lies in memory where the launch has such a folder and there is room, else among the launch's files on the disk, to
which a link in that folder leads.
"""

import contextlib
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil

from app.gateway.kept_prompts.store import SPARE_BYTES
from app.supervisor.states import SlotStateLaunch

_MARGIN = 1.1
"""Of what a state is estimated at: tokens and lists of cells are beside it."""
_MEMORY_SHARE = 0.5
"""Of the memory that is free: other programs want some meanwhile."""


@contextlib.contextmanager
def plain_state(launch: SlotStateLaunch, state_bytes: int) -> Iterator[Path | None]:
    """Yield where the engine may write or find a state under the file's name; None where nothing has room for it."""
    clear_states(launch)
    try:
        yield _choose_file(launch, secrets.token_hex(16), round(state_bytes * _MARGIN))
    finally:
        clear_states(launch)


def clear_states(launch: SlotStateLaunch) -> None:
    """Remove every file, also one that an engine wrote after nobody waited for it any more."""
    for folder in (launch.folder, launch.larger_folder):
        with contextlib.suppress(OSError):
            for file in folder.iterdir():
                file.unlink(missing_ok=True)


def _choose_file(launch: SlotStateLaunch, name: str, size_bytes: int) -> Path | None:
    try:
        if _has_room(launch, size_bytes):
            return launch.folder / name
        if shutil.disk_usage(launch.larger_folder).free - size_bytes < SPARE_BYTES:
            return None
        (launch.folder / name).symlink_to(launch.larger_folder / name)
    except OSError:  # a system without links, or a folder that somebody removed
        return None
    return launch.larger_folder / name


def _has_room(launch: SlotStateLaunch, size_bytes: int) -> bool:
    free = shutil.disk_usage(launch.folder).free
    if not launch.is_in_memory:
        return free - size_bytes >= SPARE_BYTES
    return size_bytes <= min(free, round(psutil.virtual_memory().available * _MEMORY_SHARE))
