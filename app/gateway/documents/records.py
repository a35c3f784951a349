"""What is kept of a collection beside its index: `collection.json` in its folder, and files that programs gave it.

A folder without that file is what a removal left behind, and is deleted at the next start.
"""

import logging
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

import msgspec

from app.config.private_files import save_private
from app.core.errors import StorageFault

log = logging.getLogger(__name__)

_FILE = "collection.json"
_ID_BYTES = 12


class CollectionRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person or a program set of a collection."""

    id: str
    name: str
    folders: list[str] = []
    created_at: float
    is_served: bool = False
    keys: list[str] = []
    metadata: dict[str, str] = {}
    """What a program at the endpoint notes."""
    attributes: dict[str, dict[str, str | float | bool]] = {}
    """What such a program notes of single files, by their ids."""


def new_collection_id() -> str:
    """Return an id that no other collection has, in the form that the endpoint's clients know."""
    return f"vs_{secrets.token_hex(_ID_BYTES)}"


class CollectionRecords:
    """The folder of all collections. Reads and writes files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def folder_of(self, collection: str) -> Path:
        """Return where a collection's index is."""
        return self._folder / collection

    def uploads_of(self, collection: str) -> Path:
        """Return where the files are that programs gave a collection."""
        return self.folder_of(collection) / "uploads"

    def read_all(self) -> list[CollectionRecord]:
        """Return all collections, oldest first. One whose file is damaged is left out, and left alone."""
        records = []
        with suppress(OSError):
            for folder in sorted(self._folder.iterdir()):
                if not (folder / _FILE).exists():
                    shutil.rmtree(folder, ignore_errors=True)
                    continue
                try:
                    record = msgspec.json.decode((folder / _FILE).read_bytes(), type=CollectionRecord)
                except (OSError, msgspec.MsgspecError) as error:
                    log.warning("A collection of documents cannot be read: %s: %s", folder, error)
                    continue
                records.append(msgspec.structs.replace(record, id=folder.name))
        return sorted(records, key=lambda record: record.created_at)

    def save(self, record: CollectionRecord) -> None:
        """Keep a collection. Raises StorageFault."""
        path = self.folder_of(record.id) / _FILE
        save_private(path, msgspec.json.format(msgspec.json.encode(record)), "the collection")

    def remove(self, collection: str) -> None:
        """Delete a collection with its index and what programs gave it. Raises StorageFault."""
        try:
            (self.folder_of(collection) / _FILE).unlink(missing_ok=True)
        except OSError as error:
            raise StorageFault("The collection could not be removed.", code="not_removed", detail=str(error)) from error
        shutil.rmtree(self.folder_of(collection), ignore_errors=True)
