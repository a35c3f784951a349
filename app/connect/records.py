"""What was changed, so that it can be taken back: per tool a record, and beside it the file's bytes before and after.

Kept in our own data folder, private to the person: a settings file can hold keys.
"""

import hashlib
import os
import tempfile
from pathlib import Path

import msgspec


class WiringRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a tool's file. `before` and `after` are names of kept copies; no `before`: there was no file."""

    file: str
    before: str
    after: str
    model: str
    made: list[str] = []
    """Folders that were made for it, the deepest last."""


class WiringRecords:
    """The records below one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read_record(self, tool: str) -> WiringRecord | None:
        """Return what was changed for a tool; None if nothing was, or the record cannot be read."""
        try:
            return msgspec.json.decode((self._folder / f"{tool}.json").read_bytes(), type=WiringRecord)
        except (OSError, msgspec.MsgspecError):
            return None

    def keep_copy(self, tool: str, data: bytes | None) -> str:
        """Keep a copy of a file's bytes and return its name; "" for no file."""
        if data is None:
            return ""
        name = f"{tool}-{hashlib.sha256(data).hexdigest()[:32]}.kept"
        if not (self._folder / name).exists():
            self._write(name, data)
        return name

    def read_copy(self, name: str) -> bytes | None:
        """Return a kept copy; None for no name. Raises FileNotFoundError when it was taken away."""
        return (self._folder / name).read_bytes() if name else None

    def write_record(self, tool: str, record: WiringRecord) -> None:
        """Write down what was changed."""
        self._write(f"{tool}.json", msgspec.json.encode(record))

    def forget(self, tool: str) -> None:
        """Forget a change that was taken back; the copies stay."""
        (self._folder / f"{tool}.json").unlink(missing_ok=True)

    def restore(self, tool: str, record: WiringRecord | None) -> None:
        """Take back a note: `record` is what stood there before."""
        if record is None:
            self.forget(tool)
        else:
            self.write_record(tool, record)

    def _write(self, name: str, data: bytes) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, fresh = tempfile.mkstemp(dir=self._folder)  # mkstemp makes it private
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(fresh).replace(self._folder / name)
