"""Bytes by position, from a file or from a network: what a header is read through."""

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from app.core.errors import BadRequest, NotFound


class ByteSource(Protocol):
    """Something of known size that gives any stretch of its bytes."""

    @property
    def size(self) -> int:
        """Bytes in all."""

    @property
    def first_bytes(self) -> int:
        """How many to ask for at first, before it is known how many are needed."""

    def read_at(self, offset: int, count: int) -> bytes:
        """Return up to `count` bytes from there; fewer only at the end."""


class FileSource:
    """A file that is open."""

    first_bytes = 64 << 10  # a header without a large vocabulary, of which a library may have thousands

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self.size = size

    def read_at(self, offset: int, count: int) -> bytes:
        """Return up to `count` bytes from there."""
        self._file.seek(offset)
        return self._file.read(count)


@contextmanager
def open_file(path: Path) -> Iterator[FileSource]:
    """Open a plain file. Raises NotFound (model_not_found) or BadRequest (model_unreadable), while it is read too."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # opening a named pipe would wait for ever
            raise BadRequest(f"{path.name} is not a file.", code="model_unreadable")
        with path.open("rb") as file:
            yield FileSource(file, status.st_size)
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}.", code="model_not_found") from None
    except OSError as error:
        raise BadRequest(f"{path.name} cannot be read: {error.strerror or error}.", code="model_unreadable") from error
