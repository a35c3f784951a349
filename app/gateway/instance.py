"""One gateway per user: a lock the operating system frees even when we are killed, and a file that says where we are.

The lock decides; the port file only informs, and is there exactly while we take requests. A lock without a port file
belongs to a gateway that is just starting or just ending, so the next one waits to see which.
"""

import os
import secrets
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import msgspec

from app.config.paths import Paths
from app.core.api import PortFile
from app.core.errors import Conflict, EnvironmentFault
from app.supervisor.private import write_private

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


PATIENCE_S = 15.0
"""How long a gateway that ends may take: answers in progress, then engines that have to be killed."""
_POLL_S = 0.02


class AlreadyRunning(Conflict):
    """Another gateway of this user is running."""

    default_code = "already_running"


class Instance:
    """The right to be the gateway, from `with Instance(paths) as instance` on.

    Raises AlreadyRunning on entry, after `patience_s` if the other one neither answers nor ends; EnvironmentFault when
    the folders cannot be written.
    """

    def __init__(self, paths: Paths, *, patience_s: float = PATIENCE_S) -> None:
        self._paths = paths
        self._patience_s = patience_s
        self._lock: IO[bytes] | None = None
        self.token = secrets.token_urlsafe(32)

    def __enter__(self) -> Self:
        with ExitStack() as unless_ours:
            lock = unless_ours.enter_context(_opened(self._paths.lock_file))
            self._wait_for(lock)
            unless_ours.pop_all()
        self._lock = lock
        self.withdraw()  # one that was killed left its port file behind
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.withdraw()
        if self._lock is not None:
            self._lock.close()

    def announce(self, *, url: str, created_at: float, version: str) -> None:
        """Tell clients where we are, once we listen. `created_at` is the creation time of this process."""
        said = PortFile(pid=os.getpid(), created_at=created_at, url=url, token=self.token, version=version)
        try:
            write_private(self._paths.port_file, msgspec.json.encode(said))
        except OSError as error:
            raise _unwritable(self._paths.port_file, error) from error

    def withdraw(self) -> None:
        """Take the port file away: from now on nobody should look for us here."""
        with suppress(OSError):  # on Windows somebody may be reading it: then it goes at the end, or at the next start
            self._paths.port_file.unlink(missing_ok=True)

    def _wait_for(self, lock: IO[bytes]) -> None:
        deadline = time.monotonic() + self._patience_s
        while not _locked(lock):
            if self._paths.port_file.exists() or time.monotonic() > deadline:
                raise AlreadyRunning(_who_runs(self._paths.port_file), hint="Use that one, or stop it first.")
            time.sleep(_POLL_S)


def _opened(lock_file: Path) -> IO[bytes]:
    try:
        lock_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return lock_file.open("ab")
    except OSError as error:
        raise _unwritable(lock_file, error) from error


def _locked(file: IO[bytes]) -> bool:
    try:
        if sys.platform == "win32":
            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _who_runs(port_file: Path) -> str:
    try:
        url = msgspec.json.decode(port_file.read_bytes(), type=PortFile).url
    except (OSError, msgspec.MsgspecError):
        return "Another Roundhouse gateway is just starting or ending."
    return f"Roundhouse is already running at {url}."


def _unwritable(path: Path, error: OSError) -> EnvironmentFault:
    return EnvironmentFault(
        f"The file {path} cannot be written: {error.strerror or error}.",
        hint="Check who owns its folder, and whether the disk is full or read-only.",
        code="home_unwritable",
    )
