"""What headers said, kept over restarts: reading thousands of them takes seconds, and they hardly ever change.

An entry counts as long as its file has the size and the time of change it was read at. It is a memory, not a record:
what cannot be read is begun anew, what cannot be written is done without.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from app import __version__
from app.config.private_files import save_private
from app.core.errors import StorageFault
from app.core.models import ModelInfo
from app.hub.gguf.listing import GgufFacts

Stamp = tuple[int, int]
"""Size and time of change of a file: when both are as before, so is the header."""
FolderStamp = tuple[tuple[str, int, int], ...]
"""Name, size and time of change of every file of a folder."""


class FileRecord(msgspec.Struct, frozen=True):
    """One file as it was read."""

    stamp: Stamp
    facts: GgufFacts


class FolderRecord(msgspec.Struct, frozen=True):
    """One folder as it was read; without a model when it holds none of ours."""

    stamp: FolderStamp
    model: ModelInfo | None


class HeaderRecords(msgspec.Struct, frozen=True):
    """All that was read, by path. `reader` is the Roundhouse that read it: another may see more in the same bytes."""

    reader: str = __version__
    files: dict[str, FileRecord] = {}
    folders: dict[str, FolderRecord] = {}


class HeaderIndex:
    """Keeps headers in one file; without one, nothing is kept."""

    def __init__(self, file: Path | None) -> None:
        self._file = file

    def read_index(self) -> HeaderRecords:
        """Return what was kept; nothing when there is nothing that counts."""
        if self._file is not None:
            with contextlib.suppress(OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                records = msgspec.msgpack.decode(self._file.read_bytes(), type=HeaderRecords)
                if records.reader == __version__:
                    return records
        return HeaderRecords()

    def write_index(self, files: Mapping[str, FileRecord], folders: Mapping[str, FolderRecord]) -> None:
        """Keep this from now on."""
        if self._file is not None:
            with contextlib.suppress(StorageFault):
                headers = HeaderRecords(files=dict(files), folders=dict(folders))
                save_private(self._file, msgspec.msgpack.encode(headers), "what headers said")
