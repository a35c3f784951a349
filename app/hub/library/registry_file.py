"""Lists kept as JSON, written whole or not at all: the registered files, and the names made of other models.

A list that cannot be read is put aside under another name and a new one begun: it names files, it is not the files.
"""

import contextlib
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from app.config.private_files import save_private

VERSION = 1

C = TypeVar("C", bound=msgspec.Struct)


class JsonFile(Generic[C]):
    """One value of the type `kind` in a file that only its owner can read. `what` names it in errors."""

    def __init__(self, file: Path, kind: type[C], what: str) -> None:
        self._file, self._kind, self._what = file, kind, what

    def read_value(self) -> C | None:
        """Return what was kept; None when nothing was, or it cannot be read."""
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=self._kind)
        except FileNotFoundError:
            return None
        except (msgspec.DecodeError, UnicodeDecodeError, OSError):
            with contextlib.suppress(OSError):
                self._file.replace(self._file.with_suffix(".unreadable"))
            return None

    def write_value(self, content: C) -> None:
        """Keep this from now on. Raises StorageFault."""
        save_private(self._file, msgspec.json.format(msgspec.json.encode(content)), self._what)


class _RegistryContent(msgspec.Struct):
    version: int
    files: list[str]


class RegistryFile:
    """Absolute paths in the order they were registered."""

    def __init__(self, file: Path) -> None:
        self._json_file = JsonFile(file, _RegistryContent, "the list of registered models")

    def list_paths(self) -> list[Path]:
        """Return the registered paths; none when nothing was registered yet."""
        content = self._json_file.read_value()
        return [Path(file) for file in content.files] if content else []

    def add_path(self, path: Path) -> None:
        """Remember a path; once is enough. Raises StorageFault."""
        files = self.list_paths()
        if path not in files:
            self._write_paths([*files, path])

    def remove_path(self, path: Path) -> bool:
        """Forget a path; False if it was not there. Raises StorageFault."""
        files = self.list_paths()
        if path not in files:
            return False
        self._write_paths([file for file in files if file != path])
        return True

    def _write_paths(self, files: list[Path]) -> None:
        self._json_file.write_value(_RegistryContent(version=VERSION, files=[str(file) for file in files]))
