"""What is remembered of updates: the newest version ever described, that description, and what a person skipped.

The highest version seen is what keeps an old description from counting as news, also when its signature holds.
"""

import datetime as dt
from pathlib import Path

import msgspec

from app.core.errors import ErrorBody
from app.hub.library.registry_file import KeptFile
from app.updates.manifest import Signed


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The newest description of the highest version that a channel ever had."""

    version: str
    issued: dt.datetime


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The file. `signed` is the description found last."""

    seen: dict[str, Seen] = {}
    """By channel."""
    signed: Signed | None = None
    checked_at: float | None = None
    skipped: str = ""
    failure: ErrorBody | None = None


class UpdateMemory:
    """Owned by whoever looks for updates; blocks."""

    def __init__(self, file: Path) -> None:
        self._file = KeptFile(file, Kept, "What is known of updates")
        self._kept: Kept | None = None

    def kept(self) -> Kept:
        """Return what is remembered; what cannot be read was put aside."""
        if self._kept is None:
            self._kept = self._file.read() or Kept()
        return self._kept

    def change(self, **changes: object) -> Kept:
        """Remember something else. Raises StorageFault."""
        changed = msgspec.structs.replace(self.kept(), **changes)
        self._file.write(changed)
        self._kept = changed
        return changed
