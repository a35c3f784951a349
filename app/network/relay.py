"""A proxy on this computer for programs that are not ours, as uv and pip: whom they call is noted, or refused.

`relay_environment` gives the environment under which such a program comes out through us, while it runs. Only who knows
the word in that environment may use it. Where a person has a proxy of their own, that one is used as it is, and noted
as the one that is called: what lies behind it is its business.
"""

import asyncio
import base64
import contextlib
import secrets
import urllib.request
from collections.abc import AsyncIterator, Callable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from app.core.connections import Purpose
from app.core.errors import Offline
from app.network.egress import EgressCall, egress_gate
from app.network.reach import connect_soon

_MOST_HEAD = 64 << 10
_PIECE = 256 << 10
_HERE = "127.0.0.1"
_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_PORTS = {"http": 80, "https": 443}
_HOP = (b"proxy-authorization:", b"proxy-connection:", b"connection:", b"keep-alive:")
"""Headers that are between a client and its proxy."""


class _ProxyRequest(NamedTuple):
    """What a client wants: a tunnel, or one plain request that is passed on as `head`."""

    host: str
    port: int
    head: bytes


def _go_on(_host: str) -> None:
    pass


@contextlib.asynccontextmanager
async def relay_environment(
    purpose: Purpose, give_up: Callable[[str], None] = _go_on
) -> AsyncIterator[Mapping[str, str]]:
    """Yield the variables that make a program come out by the door; while it is closed, uv does not even try.

    `give_up` hears of a host that cannot be reached, if nobody could be before: uv would go on trying.
    """
    theirs = urllib.request.getproxies()
    if egress_gate.is_closed:
        yield {"UV_OFFLINE": "1"}
    elif proxy := theirs.get("https") or theirs.get("http") or theirs.get("all"):
        where = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        egress_gate.note_call(where.hostname or "", where.port or 0, purpose)
        yield {}
    else:
        relay = _Relay(purpose, give_up)
        server = await asyncio.start_server(relay.serve_client, _HERE, 0, limit=_MOST_HEAD)
        try:
            port = server.sockets[0].getsockname()[1]
            url = f"http://{relay.user}:{relay.word}@{_HERE}:{port}"
            yield {name: url for both in _NAMES for name in (both, both.lower())} | {"NO_PROXY": "localhost,127.0.0.1"}
        finally:
            server.close()
            await relay.close()


class _Relay:
    """Serves one program and what it starts."""

    def __init__(self, purpose: Purpose, give_up: Callable[[str], None]) -> None:
        self._give_up, self._has_connected = give_up, False
        self.user, self.word = "roundhouse", secrets.token_urlsafe(18)
        self._purpose = purpose
        self._tasks: set[asyncio.Task[None]] = set()
        credentials = base64.b64encode(f"{self.user}:{self.word}".encode())
        self._expected_header = b"proxy-authorization: basic " + credentials
        egress_gate.add_holder(self)

    def cut_connections(self) -> None:
        """End every connection."""
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """End every connection and wait for that."""
        self.cut_connections()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one client."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 -- for the type checker
        self._tasks.add(task)
        try:
            await self._handle_client(reader, writer)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass  # one of the two has gone, or neither is wanted any more
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _handle_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if not self._is_authorized(head):
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n")
            return
        request = _parse_proxy_request(head)
        try:
            call = egress_gate.note_call(request.host, request.port, self._purpose)
        except Offline:
            writer.write(b"HTTP/1.1 403 Offline\r\n\r\n")
            return
        try:
            there = await _open_soon(request)
        except OSError:
            call.note_failure()
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
            if not self._has_connected:
                self._give_up(request.host)
            return
        self._has_connected = True
        await _pipe_both_ways((reader, writer), there, request.head, call)

    def _is_authorized(self, head: bytes) -> bool:
        name, _, word = self._expected_header.rpartition(b" ")
        lines = [line.strip() for line in head.split(b"\r\n")]
        passwords = [line[len(name) :].strip() for line in lines if line.lower().startswith(name)]
        return any(secrets.compare_digest(password, word) for password in passwords)


async def _open_soon(request: _ProxyRequest) -> "_Ends":
    """Connect to a host. Raises OSError within `reach.CONNECT_S`."""
    connection = await asyncio.to_thread(connect_soon, (request.host, request.port))
    connection.settimeout(0)
    return await asyncio.open_connection(sock=connection)


_Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _pipe_both_ways(client: _Ends, there: _Ends, head: bytes, call: EgressCall) -> None:
    """Pass everything on, both ways, until both have said all."""
    try:
        if head:
            there[1].write(head)
        else:
            client[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        async with asyncio.TaskGroup() as both:
            both.create_task(_pump_bytes(client[0], there[1], None))
            both.create_task(_pump_bytes(there[0], client[1], call))
    except* (OSError, EOFError):
        pass  # as much as there was has been passed on
    finally:
        there[1].close()


async def _pump_bytes(source: asyncio.StreamReader, sink: asyncio.StreamWriter, call: EgressCall | None) -> None:
    while piece := await source.read(_PIECE):
        if call is not None:
            call.count_received(len(piece))
        sink.write(piece)
        await sink.drain()
    if sink.can_write_eof():
        sink.write_eof()


def _parse_proxy_request(head: bytes) -> _ProxyRequest:
    """Return what the head of a request asks for. Raises ValueError for what is no request to a proxy."""
    first, *rest = head.split(b"\r\n")
    method, target, version = first.decode("latin-1").split(" ")
    if method == "CONNECT":
        where = urlsplit(f"//{target}")
        return _ProxyRequest(where.hostname or "", where.port or _PORTS["https"], b"")
    url = urlsplit(target)
    if url.scheme != "http" or not url.hostname:
        raise ValueError("not a request to a proxy")
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    kept_lines = [line for line in rest if line and not line.lower().startswith(_HOP)]
    plain = [f"{method} {path} {version}".encode("latin-1"), *kept_lines, b"Connection: close", b"", b""]
    return _ProxyRequest(url.hostname, url.port or _PORTS["http"], b"\r\n".join(plain))
