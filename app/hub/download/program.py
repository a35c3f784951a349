"""One download as a process of its own: `python -m app.hub.download.program`, told by `job.Job` on standard input.

It can be killed at any moment; the next one goes on. It ends by itself when its standard input does, so that none is
left when the gateway dies. The token comes by that way too: neither argv nor environment shows it.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import msgspec

from app.core.errors import Bug, RoundhouseError
from app.hub.download.cache import RepositoryCache
from app.hub.download.chunk_map import written_bytes
from app.hub.download.job import Connected, Done, Failed, Job, Limit, Moved, Said, Started
from app.hub.download.transfer import Means
from app.hub.download.ways import Ways
from app.hub.download.wire import Throttle
from app.hub.repositories.repository import RepoFile
from app.network.door import door

EVERY_S = 0.25
EXIT_FAILED = 1
_LOST_PARENT = 81


def main() -> int:
    """Do what the first line says. Returns 0, or 1 with the reason as the last line."""
    told = os.fdopen(os.dup(0), "rb")  # our own: the interpreter wants to close its standard input when it ends
    job = msgspec.json.decode(told.readline(), type=Job)
    throttle = Throttle(job.bytes_per_s)
    threading.Thread(target=_listen, args=(told, throttle), name="lifeline", daemon=True).start()
    calls = _Calls()
    with door.kept(is_closed=lambda: False, news=calls.news.set):  # offline, the gateway does not let us run
        ended = _ended(job, throttle)
    calls.tell()
    _say(ended)
    return EXIT_FAILED if isinstance(ended, Failed) else 0


def _ended(job: Job, throttle: Throttle) -> Done | Failed:
    try:
        return download(job, throttle, _say)
    except RoundhouseError as error:
        return Failed(error=error.body)
    except Exception as error:  # noqa: BLE001 -- the last stop of the program: whoever started it is told
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return Failed(error=Bug("The download failed because of a bug in Roundhouse.").body)


def download(job: Job, throttle: Throttle, say: Callable[[Said], None]) -> Done:
    """Fetch what is missing, one file after the other, and return where it is. Raises an error of ours."""
    cache = RepositoryCache(Path(job.cache), job.repository)
    progress = Progress(sum(present_bytes(cache, job.commit, file) for file in job.files), say)
    total = sum(file.size for file in job.files)
    say(Started(total_bytes=total, present_bytes=progress.present))
    cache.check_room(total - progress.present, job.reserved_bytes)
    ways = Ways(job, Means(progress=progress.moved, throttle=throttle, streams=job.streams), say)
    for file in job.files:
        if cache.has(job.commit, file):
            continue
        progress.begin(file.path)
        ways.bring(cache, file)
        cache.link(job.commit, file)
    cache.remember(job.revision, job.commit)
    progress.tell()
    return Done(folder=str(cache.snapshot(job.commit, "")))


def present_bytes(cache: RepositoryCache, commit: str, file: RepoFile) -> int:
    """Return how much of a file need not be fetched any more."""
    if cache.has(commit, file) or cache.blob(file).exists():
        return file.size
    return written_bytes(cache.part(file))


class Progress:
    """How many bytes are there, told a few times a second. Thread-safe."""

    def __init__(self, present: int, say: Callable[[Said], None]) -> None:
        self.present = present
        self._say = say
        self._lock = threading.Lock()
        self._file = ""
        self._told_at = 0.0

    def begin(self, file: str) -> None:
        """Go on to the next file."""
        self._file = file

    def moved(self, count: int) -> None:
        """Note bytes that came, or (negative) that have to come again."""
        with self._lock:
            self.present += count
            now = time.monotonic()
            if now - self._told_at < EVERY_S:
                return
            self._told_at = now
        self.tell()

    def tell(self) -> None:
        """Say how much there is."""
        self._say(Moved(present_bytes=self.present, file=self._file))


class _Calls:
    """Says which connections are made: the first at once, so that a kill hides none, then a few times a second."""

    def __init__(self) -> None:
        self.news = threading.Event()
        self._telling = threading.Lock()
        threading.Thread(target=self._go_on, name="calls", daemon=True).start()

    def tell(self) -> None:
        """Say what was not said yet."""
        with self._telling:  # what was taken is said before anything that comes after it
            if connections := door.take():
                _say(Connected(connections=connections))

    def _go_on(self) -> None:
        while self.news.wait():
            self.news.clear()
            self.tell()
            time.sleep(EVERY_S)


_writing = threading.Lock()


def _say(said: Said) -> None:
    with _writing:
        sys.stdout.buffer.write(msgspec.json.encode(said) + b"\n")
        sys.stdout.buffer.flush()


def _listen(told: BinaryIO, throttle: Throttle) -> None:
    """Follow what is told later, and end with the end of it."""
    for line in told:
        throttle.bytes_per_s = msgspec.json.decode(line, type=Limit).bytes_per_s
    os._exit(_LOST_PARENT)


if __name__ == "__main__":
    os._exit(main())  # a thread still waits for what we are told: the interpreter would wait for it
