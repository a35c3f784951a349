"""What is remembered of updates: the newest version ever described, that description, and what a person skipped.

The highest version seen is what keeps an old description from counting as news, also when its signature holds.
"""

import datetime as dt
from pathlib import Path

import msgspec

from app.core.errors import ErrorBody
from app.hub.library.registry_file import JsonFile
from app.updates.manifest import SignedManifest


class NewestRelease(msgspec.Struct, frozen=True, kw_only=True):
    """The newest description of the highest version that a channel ever had."""

    version: str
    issued: dt.datetime


class UpdateRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The file. `signed` is the description found last."""

    seen: dict[str, NewestRelease] = {}
    """By channel."""
    signed: SignedManifest | None = None
    checked_at: float | None = None
    skipped: str = ""
    failure: ErrorBody | None = None


class UpdateMemory:
    """Owned by whoever looks for updates; blocks."""

    def __init__(self, file: Path) -> None:
        self._file = JsonFile(file, UpdateRecord, "What is known of updates")
        self._record: UpdateRecord | None = None

    def read_record(self) -> UpdateRecord:
        """Return what is remembered; what cannot be read was put aside."""
        if self._record is None:
            self._record = self._file.read_value() or UpdateRecord()
        return self._record

    def change_record(self, **changes: object) -> UpdateRecord:
        """Remember something else. Raises StorageFault."""
        changed = msgspec.structs.replace(self.read_record(), **changes)
        self._file.write_value(changed)
        self._record = changed
        return changed
