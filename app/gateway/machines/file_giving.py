"""Files of the hub's cache that paired machines are given: by repository and hash, while that is switched on.

No path comes from the network: a repository's name and a hash are checked to be nothing else, and name one content in
the cache. Nothing is listed, so a machine can be given only what it knows the hash of, which the hub tells whoever may
read the repository there. Each machine is sent at most `AT_ONCE` files at a time, all together within one limit.
"""

import asyncio
import os
import stat
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from aiohttp import hdrs, web

from app.core.errors import BadRequest, Forbidden, NotFound, TooManyRequests
from app.gateway.services import Services
from app.hub.download.cache import RepositoryCache
from app.hub.download.machine_files import check_file_name
from app.hub.download.wire import Throttle
from app.hub.repositories.repository import RepoFile

SHARES = "machines.share_files"
AT_ONCE = 4
PIECE_BYTES = 1 << 20
PIECE_S = 60.0
"""A machine that takes no piece for so long is no longer waited for."""
_MB = 1_000_000
_CUT_LOOK_S = 1.0


class FileGiver:
    """Sends files. Belongs to the event loop's thread. `is_paired` tells of a fingerprint whether it still counts."""

    def __init__(self, services: Services, is_paired: Callable[[str], bool]) -> None:
        self._settings, self._cache = services.settings, services.paths.hub_cache
        self._is_paired = is_paired
        self._throttle = Throttle()
        self._transfers: Counter[str] = Counter()

    @property
    def is_on(self) -> bool:
        """Whether files are given out."""
        return self._settings.get_flag(SHARES)

    async def send_file(self, request: web.Request, fingerprint: str) -> web.StreamResponse:
        """Answer with a file or a range of it. Raises Forbidden, NotFound, BadRequest, TooManyRequests."""
        if not self.is_on:
            raise Forbidden("This computer gives no files to others.", code="files_not_shared")
        repository, digest = request.query.get("repository", ""), request.match_info["digest"]
        check_file_name(repository, digest)
        if self._transfers[fingerprint] >= AT_ONCE:
            raise TooManyRequests(f"At most {AT_ONCE} files are sent to one computer at once.")
        self._transfers[fingerprint] += 1
        try:
            blob = RepositoryCache(self._cache, repository).blob_path(RepoFile(path="", size=0, sha256=digest))
            with await asyncio.to_thread(_open_regular, blob) as file:
                return await self._send_range(request, fingerprint, file)
        finally:
            self._transfers[fingerprint] -= 1

    async def _send_range(self, request: web.Request, fingerprint: str, file: BinaryIO) -> web.StreamResponse:
        size = os.fstat(file.fileno()).st_size
        part = _read_range(request, size)
        is_part = hdrs.RANGE in request.headers
        answer = web.StreamResponse(status=206 if is_part else 200)
        answer.content_type = "application/octet-stream"
        answer.content_length = len(part)
        answer.headers[hdrs.ETAG] = f'"{request.match_info["digest"]}"'
        if is_part:
            answer.headers[hdrs.CONTENT_RANGE] = f"bytes {part.start}-{part.stop - 1}/{size}"
        await answer.prepare(request)
        file.seek(part.start)
        for start in range(part.start, part.stop, PIECE_BYTES):
            if not await self._send_piece(answer, fingerprint, file, min(PIECE_BYTES, part.stop - start)):
                if request.transport is not None:
                    request.transport.abort()
                return answer
        await answer.write_eof()
        return answer

    async def _send_piece(self, answer: web.StreamResponse, fingerprint: str, file: BinaryIO, count: int) -> bool:
        """Send the next bytes within the limit; False when the file, the leave or the patience has ended."""
        self._throttle.bytes_per_s = self._settings.get_int("machines.share_limit_mb_s") * _MB
        pause_s = self._throttle.take_share(count)
        while pause_s > 0 and self._may_go_on(fingerprint):
            await asyncio.sleep(min(pause_s, _CUT_LOOK_S))
            pause_s -= _CUT_LOOK_S
        piece = await asyncio.to_thread(file.read, count)
        if len(piece) < count or not self._may_go_on(fingerprint):
            return False
        try:
            async with asyncio.timeout(PIECE_S):
                await answer.write(piece)
        except TimeoutError:
            return False
        return True

    def _may_go_on(self, fingerprint: str) -> bool:
        return self.is_on and self._is_paired(fingerprint)


def _open_regular(path: Path) -> BinaryIO:
    """Open a file that is no link, so that nothing beside the cache is reached. Raises NotFound."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    except OSError:
        raise _not_here() from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_here()
    return os.fdopen(descriptor, "rb", buffering=0)


def _not_here() -> NotFound:
    return NotFound("This computer has no such file.", code="file_not_found")


def _read_range(request: web.Request, size: int) -> range:
    """Return the positions that are asked for. Raises BadRequest for none."""
    try:
        part = request.http_range
    except ValueError:
        raise BadRequest("The range makes no sense.") from None
    start, stop, _ = part.indices(size)
    if start >= stop and size:
        raise BadRequest("The range is beyond the end of the file.")
    return range(start, stop)
