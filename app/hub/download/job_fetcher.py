"""By which way the files of one job come: from Xet where the hub keeps them there and that works, else over plain HTTP.

Both write the same part file and the same map of its chunks, so that one goes on where the other gave up.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from app.core.connections import ConnectionReason, Program, Purpose
from app.core.errors import RoundhouseError, StorageFault
from app.hub.download import xet
from app.hub.download.cache import RepositoryCache
from app.hub.download.cas import XetFile, grant_address, xet_hash
from app.hub.download.job import DownloadJob, DownloadNote
from app.hub.download.transfer import TransferDeps, fetch_blob
from app.hub.download.wire import HttpSource, StreamSource, unlimited_remote
from app.hub.repositories.repository import RepoFile, resolve_address


class JobFetcher:
    """Brings files of a job, one after the other."""

    def __init__(self, job: DownloadJob, deps: TransferDeps, say: Callable[[DownloadNote], None]) -> None:
        self._job, self._deps, self._say = job, deps, say
        purpose = Purpose(why=ConnectionReason.DOWNLOAD, about=job.repository, by=Program.DOWNLOADER)
        self._remote = unlimited_remote(job.endpoint, purpose, token=job.token)
        self._may_be_xet = job.xet
        self._library: xet.XetLibrary | None = None

    def fetch_file(self, cache: RepositoryCache, file: RepoFile) -> None:
        """Bring a file's content into the cache's blobs. Raises Stopped, or what no way can mend."""
        url = resolve_address(self._job.endpoint, self._job.repository, self._job.commit, file.path)
        source = self._xet_source(file, url)
        if source is None or not self._fetch_from_xet(cache, file, source):
            fetch_blob(cache, file, HttpSource(self._remote, url, size=file.size), self._deps)

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
