"""One gateway per user: a lock the operating system frees even when we are killed, and a file that says where we are.

The lock decides; the port file only informs. Whoever holds the lock owns the port file, so what a killed gateway left
behind is simply overwritten.
"""

import os
import secrets
import sys
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import msgspec

from app.config.paths import Paths
from app.core.api import PortFile
from app.core.errors import Conflict

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class AlreadyRunning(Conflict):
    """Another gateway of this user is running."""

    default_code = "already_running"


class Instance:
    """The right to be the gateway, from `with Instance(paths) as instance` on. Raises AlreadyRunning on entry."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._lock: IO[bytes] | None = None
        self.token = secrets.token_urlsafe(32)

    def __enter__(self) -> Self:
        self._paths.lock_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = self._paths.lock_file.open("ab")
        try:
            _lock(lock)
        except OSError:
            lock.close()
            raise AlreadyRunning(_who_runs(self._paths.port_file), hint="Use that one, or stop it first.") from None
        self._lock = lock
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._paths.port_file.unlink(missing_ok=True)
        if self._lock is not None:
            self._lock.close()

    def announce(self, *, url: str, created_at: float, version: str) -> None:
        """Tell clients where we are, once we listen. `created_at` is the creation time of this process."""
        said = PortFile(pid=os.getpid(), created_at=created_at, url=url, token=self.token, version=version)
        write_private(self._paths.port_file, msgspec.json.encode(said))


def write_private(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, readable by its owner only from its first byte on."""
    staged = path.with_name(f"{path.name}.{os.getpid()}.new")
    staged.unlink(missing_ok=True)
    with os.fdopen(os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    staged.replace(path)


def _lock(file: IO[bytes]) -> None:
    if sys.platform == "win32":
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _who_runs(port_file: Path) -> str:
    try:
        url = msgspec.json.decode(port_file.read_bytes(), type=PortFile).url
    except (OSError, msgspec.MsgspecError):
        return "Another Roundhouse gateway is just starting."
    return f"Roundhouse is already running at {url}."
