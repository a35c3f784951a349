"""Files that programs upload at the endpoint, to give them to vector stores: each in a folder of its own.

Whoever uploaded one, by the name of its key, is the only one that sees it.
"""

import re
import secrets
import shutil
import time
from pathlib import Path

import msgspec

from app.config.private_files import save_private
from app.core.errors import Conflict, NotFound, write_fault
from app.gateway.attachments.uploading import tidy_name

MOST_FILES = 10_000
_ID = re.compile(r"file-[0-9a-f]{24}")
_ID_BYTES = 12
_FACTS, _CONTENT = "facts.json", "content"


class EndpointFile(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a file. `owner` is the name of the key that uploaded it; empty without one."""

    id: str
    name: str
    purpose: str
    size_bytes: int
    created_at: int
    owner: str = ""


class EndpointFiles:
    """The folder of all files. Reads and writes files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, name: str, content: bytes, *, purpose: str, owner: str) -> EndpointFile:
        """Keep a file. Raises Conflict or StorageFault."""
        if self._folder.is_dir() and sum(1 for _ in self._folder.iterdir()) >= MOST_FILES:
            raise Conflict(f"There are {MOST_FILES} files already.", hint="Delete some first.", code="too_many")
        file = EndpointFile(
            id=f"file-{secrets.token_hex(_ID_BYTES)}",
            name=tidy_name(name),
            purpose=purpose,
            size_bytes=len(content),
            created_at=int(time.time()),
            owner=owner,
        )
        save_private(self._folder / file.id / _CONTENT, content, "the file")
        save_private(self._folder / file.id / _FACTS, msgspec.json.encode(file), "the file")
        return file

    def list_files(self, owner: str) -> list[EndpointFile]:
        """Return the files of one owner, newest first."""
        if not self._folder.is_dir():
            return []
        files = [file for folder in self._folder.iterdir() if (file := self._read_facts(folder.name)) is not None]
        mine = [file for file in files if file.owner == owner]
        return sorted(mine, key=lambda file: (-file.created_at, file.id))

    def find(self, file: str, owner: str) -> EndpointFile:
        """Return a file of an owner. Raises NotFound."""
        facts = self._read_facts(file)
        if facts is None or facts.owner != owner:
            raise NotFound("There is no such file.", code="file_not_found")
        return facts

    def read(self, file: EndpointFile) -> bytes:
        """Return what is in a file. Raises NotFound."""
        try:
            return (self._folder / file.id / _CONTENT).read_bytes()
        except OSError as error:
            raise NotFound("There is no such file.", code="file_not_found", detail=str(error)) from error

    def remove(self, file: EndpointFile) -> None:
        """Delete a file; vector stores that were given it keep their copy."""
        shutil.rmtree(self._folder / file.id, ignore_errors=True)

    def copy_to(self, file: EndpointFile, folder: Path) -> None:
        """Put a file into a folder, below a folder named by its id. Raises NotFound or StorageFault."""
        content = self.read(file)
        draft = folder.with_name(f"{folder.name}.new") / file.id
        try:
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(mode=0o700, parents=True)
            (draft / file.name).write_bytes(content)
            folder.mkdir(mode=0o700, exist_ok=True)
            shutil.rmtree(folder / file.id, ignore_errors=True)
            draft.rename(folder / file.id)
        except OSError as error:
            raise write_fault("the file", error, place=str(folder)) from error

    def _read_facts(self, file: str) -> EndpointFile | None:
        if _ID.fullmatch(file) is None:  # nothing else is looked for on the disk
            return None
        try:
            return msgspec.json.decode((self._folder / file / _FACTS).read_bytes(), type=EndpointFile)
        except (OSError, msgspec.MsgspecError):
            return None
