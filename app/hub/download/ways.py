"""By which way the files of one job come: from Xet where the hub keeps them there and that works, else over plain HTTP.

Both write the same part file and the same map of its chunks, so that one goes on where the other gave up.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from app.core.connections import Program, Purpose, Why
from app.core.errors import RoundhouseError, StorageFault
from app.hub.download import xet
from app.hub.download.cache import RepositoryCache
from app.hub.download.cas import Kept, grant_address, xet_hash
from app.hub.download.job import Job, Noted
from app.hub.download.transfer import Means, fetch
from app.hub.download.wire import Source, Wire, untiring
from app.hub.repositories.repository import RepoFile, resolve_address


class Ways:
    """Brings files of a job, one after the other."""

    def __init__(self, job: Job, means: Means, say: Callable[[Noted], None]) -> None:
        self._job, self._means, self._say = job, means, say
        purpose = Purpose(why=Why.DOWNLOAD, about=job.repository, by=Program.DOWNLOADER)
        self._remote = untiring(job.endpoint, purpose, token=job.token)
        self._may_be_xet = job.xet
        self._library: xet.Library | None = None

    def bring(self, cache: RepositoryCache, file: RepoFile) -> None:
        """Bring a file's content into the cache's blobs. Raises Stopped, or what no way can mend."""
        url = resolve_address(self._job.endpoint, self._job.repository, self._job.commit, file.path)
        source = self._in_xet(file, url)
        if source is None or not self._came(cache, file, source):
            fetch(cache, file, Wire(self._remote, url, size=file.size), self._means)

    def _in_xet(self, file: RepoFile, url: str) -> Source | None:
        """Return where a file is in Xet; None where it is not, or is better not fetched from there."""
        is_sensible = (
            bool(file.sha256) and not self._is_limited()
        )  # small files are in git; a limit would come in gusts
        name = xet_hash(self._remote, url) if self._may_be_xet and is_sensible else ""
        library = self._loaded() if name else None
        if library is None:
            return None
        address = grant_address(self._job.endpoint, self._job.repository, self._job.commit)
        kept = Kept(name, file.size, address)
        return xet.XetSource(library, self._remote, kept, is_wanted=lambda: not self._is_limited())

    def _came(self, cache: RepositoryCache, file: RepoFile, source: Source) -> bool:
        """Fetch a file from Xet and tell whether that worked; where not, say so, and let Xet be for the other files."""
        try:
            fetch(cache, file, source, replace(self._means, streams=1, tries=xet.TRIES, attempts=1))
        except StorageFault:
            raise
        except RoundhouseError as error:
            self._may_be_xet = False
            self._say(Noted(sentence=f"{file.path} is downloaded over plain HTTP: {error}"))
            return False
        return True

    def _loaded(self) -> xet.Library | None:
        self._library = self._library or xet.load(Path(self._job.cache).parent / "xet")
        self._may_be_xet = self._library is not None
        return self._library

    def _is_limited(self) -> bool:
        return self._means.throttle.bytes_per_s > 0
