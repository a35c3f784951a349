"""Files of conversations beside the database: one folder, each file named by its SHA-256, readable by its owner only.

What is made of a file (its text, a picture of the size models take) lies beside it and goes with it. The database says
which files are used; a file that was written before the row about it is swept away if that row never came.
"""

import hashlib
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from app.core.attachments import AttachmentPart
from app.core.errors import StorageFault, write_fault

_ENDINGS = {
    AttachmentPart.ORIGINAL: "",
    AttachmentPart.TEXT: ".text",
    AttachmentPart.PICTURE: ".picture",
    AttachmentPart.PAGES: ".pages",
    AttachmentPart.SOUND: ".sound",
    AttachmentPart.THUMBNAIL: ".thumbnail",
}
_NAME = re.compile(r"([0-9a-f]{64})(\.[a-z]+){0,2}")
"""Of a file of ours, also of one that was being written."""


def hash_of(content: bytes) -> str:
    """Return what a file with this content is called."""
    return hashlib.sha256(content).hexdigest()


class AttachmentFiles:
    """The folder. For the thread that owns the database."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, digest: str, parts: Mapping[AttachmentPart, bytes]) -> None:
        """Write what is kept of a file; what is there already stays. Raises StorageFault."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for part, content in parts.items():
                self._write_part(self._path(digest, part), content)
        except OSError as error:
            raise write_fault("the file", error, place=str(self.folder)) from error

    def read(self, digest: str, part: AttachmentPart) -> bytes:
        """Return a part of a file. Raises StorageFault."""
        try:
            return self._path(digest, part).read_bytes()
        except OSError as error:
            raise StorageFault(
                "An attached file is not there any more.",
                hint="Attach it again.",
                code="attachment_gone",
                detail=str(error),
            ) from error

    def remove(self, digest: str) -> None:
        """Delete a file with all that was made of it."""
        for part in AttachmentPart:
            with suppress(OSError):  # it is swept away later
                self._path(digest, part).unlink(missing_ok=True)

    def sweep(self, used_hashes: Collection[str]) -> None:
        """Delete what is not among the hashes `used`. What somebody else put there stays."""
        with suppress(OSError):
            for entry in list(self.folder.iterdir()):
                match = _NAME.fullmatch(entry.name)
                if match is not None and (match[1] not in used_hashes or entry.name.endswith(_DRAFT)):
                    with suppress(OSError):
                        entry.unlink()

    def _path(self, digest: str, part: AttachmentPart) -> Path:
        return self.folder / f"{digest}{_ENDINGS[part]}"

    def _write_part(self, path: Path, content: bytes) -> None:
        if path.exists():
            return
        draft = path.with_name(path.name + _DRAFT)
        draft.unlink(missing_ok=True)
        draft.touch(mode=0o600)
        try:
            draft.write_bytes(content)
            draft.rename(path)
        finally:
            draft.unlink(missing_ok=True)


_DRAFT = ".part"


def files_folder(database: Path) -> Path:
    """Return the folder that belongs to a database."""
    return database.with_name("attachments")
