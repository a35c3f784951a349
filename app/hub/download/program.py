"""One download as a process of its own: `python -m app.hub.download.program`.

A `job.DownloadJob` on standard input tells it what to do. It can be killed at any moment; the
next one goes on. It ends by itself when its standard input does, so that none is left when the gateway dies. The token
comes by that way too: neither argv nor environment shows it.

By which way the files of one job come: from a paired machine that has them; from Xet where the hub keeps them there and
that works; else over plain HTTP.

All write the same part file and the same map of its chunks, so that one goes on where the other gave up.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from app.core.connections import ConnectionReason, Program, Purpose
from app.core.errors import Bug, NotFound, RoundhouseError, StorageFault
from app.hub.download import xet
from app.hub.download.cache import RepositoryCache
from app.hub.download.chunk_map import bytes_written
from app.hub.download.job import (
    ConnectionsMade,
    DownloadDone,
    DownloadFailed,
    DownloadJob,
    DownloadMessage,
    DownloadNote,
    DownloadProgress,
    DownloadStarted,
    SpeedLimit,
)
from app.hub.download.transfer import TransferDeps, fetch_blob
from app.hub.download.wire import HttpSource, StreamSource, Throttle, remote_without_limit
from app.hub.download.xet import XetFile, grant_address, xet_hash
from app.hub.repositories.repository import RepoFile, resolve_address
from app.network.egress import egress_gate

if TYPE_CHECKING:
    from app.hub.download.machine_files import MachineHost


class JobFetcher:
    """Brings files of a job, one after the other."""

    def __init__(
        self,
        job: DownloadJob,
        deps: TransferDeps,
        say: Callable[[DownloadNote], None],
        begin_source: Callable[[str], None],
    ) -> None:
        self._job, self._deps, self._say, self._begin_source = job, deps, say, begin_source
        self._machines = self._find_machines()
        purpose = Purpose(why=ConnectionReason.DOWNLOAD, about=job.repository, by=Program.DOWNLOADER)
        self._remote = remote_without_limit(job.endpoint, purpose, token=job.token)
        self._may_be_xet = job.xet
        self._library: xet.XetLibrary | None = None

    def fetch_file(self, cache: RepositoryCache, file: RepoFile) -> None:
        """Bring a file's content into the cache's blobs. Raises DownloadStopped, or what no way can mend."""
        if any(self._fetch_from_machine(cache, file, machine) for machine in list(self._machines)):
            return
        self._begin_source("")
        url = resolve_address(self._job.endpoint, self._job.repository, self._job.commit, file.path)
        source = self._xet_source(file, url)
        if source is None or not self._fetch_from_xet(cache, file, source):
            fetch_blob(cache, file, HttpSource(self._remote, url, size=file.size), self._deps)

    def _find_machines(self) -> "list[MachineHost]":
        sources = self._job.sources
        if sources is None:
            return []
        from app.hub.download.machine_files import MachineHost  # noqa: PLC0415 -- TLS that most downloads do without

        try:
            return [MachineHost(sources, machine, self._job.repository) for machine in sources.machines]
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            self._say(DownloadNote(sentence=f"Your other computers cannot be asked for files: {error}"))
            return []

    def _fetch_from_machine(self, cache: RepositoryCache, file: RepoFile, machine: "MachineHost") -> bool:
        """Fetch a file from a paired machine and tell whether that worked; one that fails is asked for no other."""
        from app.hub.download.machine_files import MOST_BREAKS, TRIES  # noqa: PLC0415 -- it is there, since there is a machine

        self._begin_source(machine.name)
        means = replace(self._deps, streams=1, tries=TRIES, most_breaks=MOST_BREAKS, attempts=1, keeps_earlier=True)
        try:
            fetch_blob(cache, file, machine.find_source(file), means)
        except StorageFault:
            raise
        except NotFound:
            return False
        except RoundhouseError as error:
            self._machines.remove(machine)
            self._say(DownloadNote(sentence=f"The download goes on without {machine.name}: {error}"))
            return False
        return True

    def _xet_source(self, file: RepoFile, url: str) -> StreamSource | None:
        """Return where a file is in Xet; None where it is not, or is better not fetched from there."""
        is_sensible = (
            bool(file.sha256) and not self._is_limited()
        )  # small files are in git; a limit would come in gusts
        name = xet_hash(self._remote, url) if self._may_be_xet and is_sensible else ""
        library = self._load_library() if name else None
        if library is None:
            return None
        address = grant_address(self._job.endpoint, self._job.repository, self._job.commit)
        xet_file = XetFile(name, file.size, address)
        return xet.XetSource(library, self._remote, xet_file, is_wanted=lambda: not self._is_limited())

    def _fetch_from_xet(self, cache: RepositoryCache, file: RepoFile, source: StreamSource) -> bool:
        """Fetch a file from Xet and tell whether that worked; where not, say so, and let Xet be for the other files."""
        try:
            fetch_blob(cache, file, source, replace(self._deps, streams=1, tries=xet.TRIES, attempts=1))
        except StorageFault:
            raise
        except RoundhouseError as error:
            self._may_be_xet = False
            self._say(DownloadNote(sentence=f"{file.path} is downloaded over plain HTTP: {error}"))
            return False
        return True

    def _load_library(self) -> xet.XetLibrary | None:
        self._library = self._library or xet.load_library(Path(self._job.cache).parent / "xet")
        self._may_be_xet = self._library is not None
        return self._library

    def _is_limited(self) -> bool:
        return self._deps.throttle.bytes_per_s > 0


EVERY_S = 0.25
EXIT_FAILED = 1
_LOST_PARENT = 81


def main() -> int:
    """Do what the first line says. Returns 0, or 1 with the reason as the last line."""
    control = os.fdopen(os.dup(0), "rb")  # our own: the interpreter wants to close its standard input when it ends
    job = msgspec.json.decode(control.readline(), type=DownloadJob)
    throttle = Throttle(job.bytes_per_s)
    threading.Thread(target=_follow_limits, args=(control, throttle), name="lifeline", daemon=True).start()
    calls = _CallReporter()
    with egress_gate.apply_policy(
        is_closed=lambda: False, news=calls.news.set
    ):  # offline, the gateway does not let us run
        result = _run_download(job, throttle)
    calls.report_calls()
    _write_message(result)
    return EXIT_FAILED if isinstance(result, DownloadFailed) else 0


def _run_download(job: DownloadJob, throttle: Throttle) -> DownloadDone | DownloadFailed:
    try:
        return download_files(job, throttle, _write_message)
    except RoundhouseError as error:
        return DownloadFailed(error=error.body)
    except Exception as error:  # noqa: BLE001 -- the last stop of the program: whoever started it is told
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return DownloadFailed(error=Bug("The download failed because of a bug in Roundhouse.").body)


def download_files(job: DownloadJob, throttle: Throttle, say: Callable[[DownloadMessage], None]) -> DownloadDone:
    """Fetch what is missing, one file after the other, and return where it is. Raises an error of ours."""
    cache = RepositoryCache(Path(job.cache), job.repository)
    progress = ProgressReporter(sum(present_bytes(cache, job.commit, file) for file in job.files), say)
    total = sum(file.size for file in job.files)
    say(DownloadStarted(total_bytes=total, present_bytes=progress.present))
    cache.check_room(total - progress.present, job.reserved_bytes)
    deps = TransferDeps(progress=progress.add_bytes, throttle=throttle, streams=job.streams)
    ways = JobFetcher(job, deps, say, progress.begin_source)
    for file in job.files:
        if cache.has_file(job.commit, file):
            continue
        progress.begin_file(file.path)
        ways.fetch_file(cache, file)
        cache.link_file(job.commit, file)
    cache.remember_revision(job.revision, job.commit)
    progress.report_progress()
    return DownloadDone(folder=str(cache.snapshot_path(job.commit, "")))


def present_bytes(cache: RepositoryCache, commit: str, file: RepoFile) -> int:
    """Return how much of a file need not be fetched any more."""
    if cache.has_file(commit, file) or cache.blob_path(file).exists():
        return file.size
    return bytes_written(cache.part_path(file))


class ProgressReporter:
    """How many bytes are there, told a few times a second. Thread-safe."""

    def __init__(self, present: int, say: Callable[[DownloadMessage], None]) -> None:
        self.present = present
        self._say = say
        self._lock = threading.Lock()
        self._file = self._machine = ""
        self._told_at = 0.0

    def begin_file(self, file: str) -> None:
        """Go on to the next file."""
        self._file = file

    def begin_source(self, machine: str) -> None:
        """Go on from a paired machine, or without one from the hub."""
        self._machine = machine

    def add_bytes(self, count: int) -> None:
        """Note bytes that came, or (negative) that have to come again."""
        with self._lock:
            self.present += count
            now = time.monotonic()
            if now - self._told_at < EVERY_S:
                return
            self._told_at = now
        self.report_progress()

    def report_progress(self) -> None:
        """Say how much there is."""
        self._say(DownloadProgress(present_bytes=self.present, file=self._file, machine=self._machine))


class _CallReporter:
    """Says which connections are made: the first at once, so that a kill hides none, then a few times a second."""

    def __init__(self) -> None:
        self.news = threading.Event()
        self._tell_lock = threading.Lock()
        threading.Thread(target=self._go_on, name="calls", daemon=True).start()

    def report_calls(self) -> None:
        """Say what was not said yet."""
        with self._tell_lock:  # what was taken is said before anything that comes after it
            if connections := egress_gate.take_connections():
                _write_message(ConnectionsMade(connections=connections))

    def _go_on(self) -> None:
        while self.news.wait():
            self.news.clear()
            self.report_calls()
            time.sleep(EVERY_S)


_writing = threading.Lock()


def _write_message(message: DownloadMessage) -> None:
    with _writing:
        sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
        sys.stdout.buffer.flush()


def _follow_limits(control: BinaryIO, throttle: Throttle) -> None:
    """Follow what is told later, and end with the end of it."""
    for line in control:
        throttle.bytes_per_s = msgspec.json.decode(line, type=SpeedLimit).bytes_per_s
    os._exit(_LOST_PARENT)


if __name__ == "__main__":
    os._exit(main())  # a thread still waits for what we are told: the interpreter would wait for it
