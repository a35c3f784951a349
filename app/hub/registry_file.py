"""The list of registered model files, kept as JSON: written whole or not at all.

A list that cannot be read is put aside under another name and a new one begun: it names files, it is not the files.
"""

import contextlib
import os
import tempfile
from pathlib import Path

import msgspec

from app.core.errors import StorageFault

VERSION = 1


class _Content(msgspec.Struct):
    version: int
    files: list[str]


class RegistryFile:
    """Absolute paths in the order they were registered."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def files(self) -> list[Path]:
        """Return the registered paths; none when nothing was registered yet."""
        try:
            content = msgspec.json.decode(self._file.read_bytes(), type=_Content)
        except FileNotFoundError:
            return []
        except (msgspec.DecodeError, OSError):
            with contextlib.suppress(OSError):
                self._file.replace(self._file.with_suffix(".unreadable"))
            return []
        return [Path(file) for file in content.files]

    def add(self, path: Path) -> None:
        """Remember a path; once is enough. Raises StorageFault."""
        files = self.files()
        if path not in files:
            self._write([*files, path])

    def remove(self, path: Path) -> bool:
        """Forget a path; False if it was not there. Raises StorageFault."""
        files = self.files()
        if path not in files:
            return False
        self._write([file for file in files if file != path])
        return True

    def _write(self, files: list[Path]) -> None:
        content = msgspec.json.encode(_Content(version=VERSION, files=[str(file) for file in files]))
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, staged = tempfile.mkstemp(dir=self._file.parent, prefix=self._file.name)
            with os.fdopen(handle, "wb") as out:
                out.write(msgspec.json.format(content))
            Path(staged).replace(self._file)
        except OSError as error:
            raise StorageFault(f"The list of registered models could not be saved: {error}") from error
