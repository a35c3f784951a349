"""Where an engine writes the states of its slots, so that they can be kept for another run of it.

An engine writes them as they are, unsealed, so where there is a file system in memory (Linux) the folder is there and
its content ends with the computer's power; elsewhere it is among the launch's private files. Either way only this
account may read it, a file in it lasts as long as it takes to seal or to read it, and the folder goes with the run;
what a gateway that was killed left is removed by the next one.
"""

import shutil
import sys
from pathlib import Path

import msgspec

from engines.api import EngineInstallation, LaunchOptions, ModelSource, SlotStates

_MEMORY = Path("/dev/shm")  # noqa: S108 -- a file system in memory; a folder of its own in it, 0700
_PREFIX = "roundhouse-states-"


class SlotStateLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """A run whose slots' states can be kept: where it writes them, and what they depend on.

    `larger_folder` is for what does not fit in `folder`; the engine gets there by a link.
    """

    folder: Path
    larger_folder: Path
    routes: SlotStates
    slots_path: str
    engine: str
    source: ModelSource
    options: LaunchOptions
    installation: EngineInstallation

    @property
    def is_in_memory(self) -> bool:
        """Whether `folder` lies in memory."""
        return self.folder.parent == _MEMORY


class StateFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the states of a run's slots are kept; `reason` says why the engine, as it was started, cannot."""

    is_kept: bool
    reason: str = ""


KEEP_S = 10.0
"""How long an engine's end waits for its states to be written: 3 GB at the slowest pace of a disk worth the name."""


def state_folder(token: str, scratch: Path) -> Path:
    """Return where a launch's engine writes states; `scratch` is its own folder."""
    memory = _memory_folder(token)
    return scratch / "states" if memory is None else memory


def make_state_folders(launch: SlotStateLaunch) -> None:
    """Make a launch's folders, for this account only. Raises OSError."""
    for folder in (launch.folder, launch.larger_folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def remove_state_folder(token: str) -> None:
    """Remove what a launch has in memory, if there is anything."""
    if (folder := _memory_folder(token)) is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _memory_folder(token: str) -> Path | None:
    if sys.platform != "linux" or not _MEMORY.is_mount():
        return None
    return _MEMORY / f"{_PREFIX}{token}"
