"""Fetch a file or a small answer from a release server: over TLS, within limits, checked while it comes."""

import asyncio
import hashlib
import ipaddress
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp
import msgspec

from app.core.connections import ConnectionReason, Purpose
from app.core.errors import EnvironmentFault, Offline
from app.network.connector import OutboundRequest
from app.network.egress import egress_gate
from app.network.reach import CONNECT_S, unreachable_sentence

if TYPE_CHECKING:
    from typing import BinaryIO

MOST_TEXT = 8 << 20
"""A page of releases with all assets is about a megabyte."""
MOST_BYTES = 4_000_000_000
_CHUNK = 1 << 18
_REDIRECTS = 5
_PATIENCE = aiohttp.ClientTimeout(total=None, connect=CONNECT_S, sock_read=60)
NOT_FOUND = "not_found"
"""Code of the error for an address at which there is nothing."""
_ENGINES = Purpose(why=ConnectionReason.ENGINE)
_HEADERS = {"Accept": "application/vnd.github+json", "User-Agent": "roundhouse-ai"}
_OK, _NOT_FOUND, _LIMITED = 200, 404, frozenset({403, 429})


class ReleaseFetcher:
    """Asks a release server, for a purpose. Belongs to the event loop."""

    def __init__(self, http: aiohttp.ClientSession, purpose: Purpose = _ENGINES) -> None:
        self._http, self._purpose = http, purpose

    def with_purpose(self, about: str) -> "ReleaseFetcher":
        """Return one whose connections are noted as made for this."""
        return ReleaseFetcher(self._http, msgspec.structs.replace(self._purpose, about=about))

    async def fetch_text(self, url: str) -> bytes:
        """Return what a URL answers. Raises EnvironmentFault with what to do when it does not."""
        async with self._open_reply(url) as reply:
            return await _read_limited(reply, MOST_TEXT, url)

    async def fetch_file(
        self, url: str, path: Path, *, sha256: str, size: int, report_bytes: Callable[[int], None]
    ) -> None:
        """Write what a URL holds to `path`. Raises EnvironmentFault when it is not what was announced.

        `report_bytes` hears how many bytes are there. `size` 0 is unknown. A file without a SHA-256 is not taken.
        """
        if not sha256:
            raise EnvironmentFault(
                f"{path.name} has no checksum, so it was not downloaded.",
                hint="Install a version whose release has one.",
                code="no_checksum",
            )
        digest, count = hashlib.sha256(), 0
        async with self._open_reply(url) as reply:
            with path.open("wb") as file:
                async for chunk in reply.content.iter_chunked(_CHUNK):
                    count += len(chunk)
                    if count > (size or MOST_BYTES):
                        raise _mismatch_fault(path.name, "it is longer")
                    digest.update(chunk)
                    await _write_chunk(file, chunk)
                    report_bytes(count)
        if digest.hexdigest() != sha256.lower():
            raise _mismatch_fault(path.name, "its SHA-256 differs")

    def _open_reply(self, url: str) -> "_FetchReply":
        return _FetchReply(self._http, url, OutboundRequest(self._purpose))


class _FetchReply:
    """A GET that answers 200 over a safe connection, or raises a sentence."""

    def __init__(self, http: aiohttp.ClientSession, url: str, request: OutboundRequest) -> None:
        self._http, self._url, self._request = http, url, request
        self._reply: aiohttp.ClientResponse | None = None

    async def __aenter__(self) -> aiohttp.ClientResponse:
        where = urlsplit(self._url).hostname or self._url
        _check_safe(self._url)
        try:
            with self._request.as_current():
                self._reply = await self._http.get(
                    self._url, headers=_HEADERS, timeout=_PATIENCE, max_redirects=_REDIRECTS, allow_redirects=True
                )
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise _unreachable_fault(where, str(error)) from error
        self._request.note_reply(self._reply)
        for step in (*self._reply.history, self._reply):
            _check_safe(str(step.url))
        if self._reply.status != _OK:
            self._reply.close()
            raise _refusal_fault(self._url, self._reply.status)
        return self._reply

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _at: object) -> None:
        if self._reply is not None:
            self._request.count_received(self._reply.content.total_bytes)
            self._reply.close()
        if isinstance(error, aiohttp.ClientError | TimeoutError):
            if egress_gate.is_closed:
                raise Offline.from_calling(urlsplit(self._url).hostname or "") from error
            raise _unreachable_fault(urlsplit(self._url).hostname or "", str(error)) from error


async def _read_limited(reply: aiohttp.ClientResponse, most: int, url: str) -> bytes:
    data = bytearray()
    async for chunk in reply.content.iter_chunked(_CHUNK):
        data += chunk
        if len(data) > most:
            raise _mismatch_fault(url, "it is longer")
    return bytes(data)


async def _write_chunk(file: "BinaryIO", chunk: bytes) -> None:

    await asyncio.to_thread(file.write, chunk)


def _check_safe(url: str) -> None:
    """Raise EnvironmentFault for a connection that anybody on the way could change."""
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname or "")):
        return
    raise EnvironmentFault(f"{url} is not fetched: it is not an https address.", code="unsafe_address")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _unreachable_fault(where: str, why: str) -> EnvironmentFault:
    return EnvironmentFault(
        unreachable_sentence(where),
        hint="Check the network connection, or install from a bundle: `roundhouse engines install --from FILE`.",
        detail=why,
        code="unreachable",
    )


def _refusal_fault(url: str, status: int) -> EnvironmentFault:
    if status in _LIMITED:
        sentence, hint = (
            "The release server accepts no more requests from this address for now.",
            "Try again in an hour.",
        )
    elif status == _NOT_FOUND:
        return EnvironmentFault(
            f"There is nothing at {url}.", hint="The version may have been withdrawn: install another.", code=NOT_FOUND
        )
    else:
        sentence, hint = f"{url} answered {status}.", "Try again later."
    return EnvironmentFault(sentence, hint=hint, code="refused")


def _mismatch_fault(name: str, why: str) -> EnvironmentFault:
    return EnvironmentFault(
        f"{name} is not the announced file: {why}.",
        hint="It was deleted. Try again; if it happens again, somebody changed the file.",
        code="checksum",
    )
