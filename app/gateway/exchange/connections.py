"""Connections to engines, with no task between an engine's socket and whoever takes its answer.

An HTTP client made for tasks wakes one for every piece of a stream, which costs more than the piece. Here a piece is
handed on (`EngineConnection.deliver_to`) in the turn of the event loop in which it came, and the task that asked waits
for the end. A connection is lent to one request at a time, and kept a moment for the next.

An engine may close an idle connection whenever it likes (llama-server: after 5 s), which a request on its way cannot
tell from a crash: so they are let go well before, and what still meets one being closed is sent again (`upstream`).
"""

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Callable
from enum import IntEnum
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from app.core.errors import EngineFailed
from app.gateway.exchange.framing import AnswerHead, Body, body_of, read_head
from app.network.egress import egress_gate
from app.supervisor.dialing import DialTarget, dial_host, dial_loopback, send_at_once

if TYPE_CHECKING:
    import socket

    from app.supervisor.pool import Supervisor

_KEPT_S = 2.0
_LINGER_S = 1.0
"""An engine that has said its last word has this long to end its answer as HTTP wants; then it can be asked again."""
SENT_AT_ONCE = 64 * 1024
"""Bytes of a body that a socket takes together with its head, whatever the system's settings."""
_WRITTEN_AT_ONCE = 256 * 1024
"""Bytes: a larger body is written piece by piece, so that its copies hold nobody up."""
_MOST_WAITING = 256 * 1024
"""Bytes of an answer that wait until somebody takes them; then no more is read."""


class Address(NamedTuple):
    """Where an engine is. `prefix` comes before the paths of its routes, `netloc` is its name in requests."""

    host: DialTarget
    prefix: bytes
    netloc: bytes
    is_ours: bool
    """Whether a program listens there that Roundhouse may have started: at 127.0.0.1, without TLS."""


@lru_cache(maxsize=256)
def address_of(base_url: str) -> Address:
    """Return where a URL leads."""
    url = urlsplit(base_url)
    host = DialTarget.from_url(url)
    is_ours = host.is_here and host.name == "127.0.0.1" and not host.is_tls
    return Address(host, url.path.rstrip("/").encode(), url.netloc.rpartition("@")[2].encode(), is_ours)


class ReadFlow(IntEnum):
    """What whoever takes an answer wants next."""

    MORE = 0
    PAUSE = 1
    """Its own reader is slow: read no more until `resume_reading`."""
    END = 2
    """The answer is over as far as it goes."""


Take = Callable[[bytes], ReadFlow]
"""Takes a piece of an answer's payload. What it raises ends the answer."""
Relay = Callable[[bytes], bool]
"""Passes on what has come where it is one whole chunk, frame and all; False for what has to be taken apart. Raises
nothing."""


class EngineDisconnected(ConnectionError):
    """The connection ended before the answer did."""


class EngineConnection(asyncio.Protocol):
    """One connection to an engine. Belongs to the event loop's thread."""

    __slots__ = (
        *("address", "idle_since", "is_over", "is_paused", "_body", "_error", "_head", "_is_whole"),
        *("_loop", "_may_write", "_open", "_partial_head", "_queue", "_relay", "_release", "_take"),
        *("_transport", "_waiter", "_waiting_bytes"),
    )

    def __init__(
        self,
        address: Address,
        release: "Callable[[EngineConnection], None]",
        open_connections: "set[EngineConnection]",
        *,
        is_asked: bool = False,
    ) -> None:
        """`is_asked`: a request went out before, and the answer to that will come."""
        self.address = address
        self.idle_since = 0.0
        self._release = release
        self._open = open_connections
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._may_write: asyncio.Future[None] | None = None
        self._head: asyncio.Future[AnswerHead] | None
        self.prepare_reuse()
        if is_asked:
            self._head = self._loop.create_future()

    def prepare_reuse(self) -> None:
        """Be ready for a request."""
        self.is_over = False
        """Whether nothing more of the answer will come, whole or not."""
        self.is_paused = False
        self._head = None
        self._partial_head = b""
        self._body: Body | None = None
        self._is_whole = False
        self._error: Exception | None = None
        self._take: Take | None = None
        self._relay: Relay | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._queue: list[bytes] = []
        self._waiting_bytes = 0

    @property
    def is_open(self) -> bool:
        """Whether something can be sent over it."""
        return self._transport is not None and not self._transport.is_closing()

    async def send_request(self, head: bytes, body: bytes) -> AnswerHead:
        """Send a request, unless it went out with the connection, and return the head of its answer.

        Raises EngineDisconnected, or EngineFailed for nonsense.
        """
        if self._head is not None:
            return await self._head
        self._head = self._loop.create_future()
        if self._transport is None or self._transport.is_closing():
            raise EngineDisconnected("closed")
        if len(body) <= _WRITTEN_AT_ONCE:
            self._transport.write(head + body)
        else:
            self._write_piece(head)
            for at in range(0, len(body), _WRITTEN_AT_ONCE):
                if self._may_write is not None:
                    await self._may_write
                self._write_piece(body[at : at + _WRITTEN_AT_ONCE])
        return await self._head

    def deliver_to(self, take: Take, relay: Relay | None = None) -> None:
        """Have `take` called with what has come of the payload and with what comes, as it comes.

        A `relay` is asked first, wherever a chunk begins.
        """
        self._take, self._relay = take, relay
        waiting_bytes, self._queue, self._waiting_bytes = self._queue, [], 0
        if self.is_paused:
            self.resume_reading()
        if waiting_bytes:
            self._pass_payload(b"".join(waiting_bytes), take)
        if self._is_whole:
            self.is_over = True

    def take_whole(self) -> bytes | None:
        """Return the payload if all of it has come already, and nobody has taken any."""
        if not self._is_whole or self.is_paused or self._take is not None or self._error is not None:
            return None
        self._take, self.is_over = _discard_payload, True
        waiting_bytes, self._queue, self._waiting_bytes = self._queue, [], 0
        return waiting_bytes[0] if len(waiting_bytes) == 1 else b"".join(waiting_bytes)

    async def wait_for_change(self) -> None:
        """Wait until the answer is over, or paused."""
        if not self.is_over and not self.is_paused:
            self._waiter = self._loop.create_future()
            await self._waiter

    def resume_reading(self) -> None:
        """Read on after a pause."""
        self.is_paused = False
        if self._transport is not None:
            self._transport.resume_reading()

    def raise_error(self) -> None:
        """Raise what ended the answer before its time: EngineDisconnected, EngineFailed, or what `take` raised."""
        if self._error is not None:
            raise self._error

    def break_off(self, error: EngineFailed | None = None) -> None:
        """End the connection as if the engine had, for whoever waits for its answer; `error` says why."""
        self._note_failure(error or EngineDisconnected("broken off"))

    def close(self) -> None:
        """Give the connection back: for the next request if this one's answer is whole, else to be closed."""
        self._take, self._relay = _discard_payload, None
        if self._is_whole and self.is_open:
            if self.is_paused:
                self.resume_reading()
            self._release(self)
        elif self.is_over and self._error is None and self.is_open and self._body is not None:
            # The engine has said its last word, and only HTTP's own end is missing.
            self.is_over = False
            if self.is_paused:
                self.resume_reading()
            self._loop.call_later(_LINGER_S, self._end_lingering, self._body)
        else:
            self.abort()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Have another be called in its place when something comes; with itself, as before."""
        if self._transport is not None:
            self._transport.set_protocol(protocol)

    def abort(self) -> None:
        """End the connection, which is how an engine learns to stop its work."""
        if self._transport is not None:
            self._transport.abort()

    def _end_lingering(self, body: Body) -> None:
        if self._body is body and not self._is_whole:
            self.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = transport  # type: ignore[assignment] # a stream's
        self._open.add(self)

    def data_received(self, data: bytes) -> None:
        """Take what has come, and hand its payload on."""
        try:
            body = self._body
            if self._relay is not None and body is not None and body.is_between_chunks and self._relay(data):
                return
            if body is None:
                data = self._take_head(data)
                body = self._body
                if body is None:
                    return
            payload = body.feed(data)
        except ValueError as error:
            self._note_failure(_not_http_error(str(error)))
            return
        if payload:
            if self._take is None:
                self._buffer_payload(payload)
            else:
                self._pass_payload(payload, self._take)
        if body.is_over:
            self._note_end()

    def eof_received(self) -> None:
        """Let the connection end."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that nothing more comes."""
        self._transport = None
        self._open.discard(self)
        if self._may_write is not None and not self._may_write.done():
            self._may_write.set_exception(EngineDisconnected("closed"))
        if self._body is not None and exc is None and self._body.ends_with_connection():
            self._note_end()
        elif not self._is_whole:
            self._note_failure(EngineDisconnected(str(exc or "closed")))

    def pause_writing(self) -> None:
        """Write no more: the engine reads more slowly."""
        self._may_write = self._loop.create_future()

    def resume_writing(self) -> None:
        """Write on."""
        if self._may_write is not None and not self._may_write.done():
            self._may_write.set_result(None)
        self._may_write = None

    def _write_piece(self, data: bytes) -> None:
        if not self.is_open or self._transport is None:
            raise EngineDisconnected("closed")
        self._transport.write(data)

    def _take_head(self, data: bytes) -> bytes:
        """Return what of the body has come with the head, once that is whole."""
        if self._head is None or self._head.done():  # nobody has asked for anything
            self.abort()
            return b""
        data = self._partial_head + data if self._partial_head else data
        read = read_head(data)
        if read is None:
            self._partial_head = data
            return b""
        head, rest = read
        self._body = body_of(head)
        if not head.may_stay_open:
            self._release = EngineConnection.abort
        self._head.set_result(head)
        return rest

    def _buffer_payload(self, payload: bytes) -> None:
        self._queue.append(payload)
        self._waiting_bytes += len(payload)
        if self._waiting_bytes > _MOST_WAITING and not self.is_paused and self._transport is not None:
            self.is_paused = True
            self._transport.pause_reading()

    def _pass_payload(self, payload: bytes, take: Take) -> None:
        try:
            flow = take(payload)
        except Exception as error:  # noqa: BLE001 -- raised again where the answer is waited for
            self._take = _discard_payload
            self._note_failure(error)
            return
        if flow is ReadFlow.MORE:
            return
        if flow is ReadFlow.END:
            self._take, self.is_over = _discard_payload, True
        elif not self.is_paused and self._transport is not None:
            self.is_paused = True
            self._transport.pause_reading()
        self._wake_waiter()

    def _note_end(self) -> None:
        """Note that the answer is whole. It is over once it has been taken."""
        is_lingering, self._is_whole = self._take is _discard_payload and not self.is_over, True
        if self._body is not None and self._body.surplus:
            self._release = EngineConnection.abort
        if self._take is not None:
            self.is_over = True
        if is_lingering and self.is_open:
            self._release(self)
        if self._waiter is not None:
            self._wake_waiter()

    def _note_failure(self, error: Exception) -> None:
        if self._error is None and not self.is_over:
            self._error = error
        self.is_over, self._relay = True, None
        if self._head is not None and not self._head.done():
            self._head.set_exception(self._error or error)
        self.abort()
        self._wake_waiter()

    def _wake_waiter(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _discard_payload(_payload: bytes) -> ReadFlow:
    return ReadFlow.MORE


def _not_http_error(detail: str) -> EngineFailed:
    return EngineFailed(
        "The engine's answer is not HTTP.", hint="Check what is running there.", code="engine_nonsense", detail=detail
    )


class EngineConnections:
    """Makes connections and keeps those that can be used again. Make it inside the event loop that will use it."""

    def __init__(self, connect_s: float) -> None:
        self._connect_s = connect_s
        self._idle: defaultdict[Address, list[EngineConnection]] = defaultdict(list)
        self._open: set[EngineConnection] = set()
        self._sockets: dict[Address, socket.socket] = {}
        """Connected ahead of requests that are being read; at most one for each engine."""
        self._sweep: asyncio.TimerHandle | None = None
        egress_gate.add_holder(self)

    async def get_connection(self, address: Address) -> EngineConnection:
        """Return a connection, an idle one before a new one. Raises as `connect` does."""
        return self.take_idle(address) or await self.connect(address)

    def take_idle(self, address: Address) -> EngineConnection | None:
        """Return a connection that was kept from an earlier request, if there is one."""
        idle = self._idle.get(address)
        now = time.monotonic()
        while idle:
            connection = idle.pop()
            if connection.is_open and now - connection.idle_since < _KEPT_S:
                return connection
            connection.abort()
        return None

    def dial_ahead(self, supervisor: "Supervisor", model: str) -> None:
        """Begin to connect to the engine that a stream is about to be asked of, if it is free and on this computer.

        Most engines close a connection after a stream: while one lets us in, the rest of the request is read.
        """
        engine = supervisor.free_endpoint(model)
        if engine is None:
            return
        address = address_of(engine.base_url)
        if address.is_ours and not self._idle.get(address) and address not in self._sockets:
            with contextlib.suppress(OSError):  # whoever asks hears of it
                open_socket = dial_loopback(address.host)
                if open_socket is not None:
                    self._sockets[address] = open_socket
                    self._sweep = self._sweep or asyncio.get_running_loop().call_later(_KEPT_S, self._close_idle)

    def cut_connections(self) -> None:
        """End every connection to another computer."""
        for connection in list(self._open):
            if not connection.address.host.is_here:
                connection.break_off()

    def open_to(self, address: Address) -> list[EngineConnection]:
        """Return the connections to an address, idle or not."""
        return [connection for connection in self._open if connection.address == address and connection.is_open]

    def close(self) -> None:
        """End every connection: an engine that still writes would find nobody to take it."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for connection in list(self._open):
            connection.abort()
        self._close_dialed()
        self._idle.clear()

    async def connect(self, address: Address, request: bytes = b"") -> EngineConnection:
        """Return a new connection, to our own programs one over which the request that is given goes out already.

        Raises OSError (TimeoutError too) if there is none, Offline if not allowed.
        """
        protocol = partial(EngineConnection, address, self._keep_idle, self._open)
        if address.is_ours:  # connected to or refused at once, and nobody's business
            loop = asyncio.get_running_loop()
            open_socket = (self._sockets.pop(address, None) or dial_loopback(address.host)) if request else None
            if open_socket is not None and send_at_once(open_socket, request):
                return (await loop.create_connection(partial(protocol, is_asked=True), sock=open_socket))[1]
            return (await loop.create_connection(protocol, address.host.name, address.host.port))[1]
        async with asyncio.timeout(self._connect_s):
            return (await dial_host(address.host, protocol))[1]

    def _keep_idle(self, connection: EngineConnection) -> None:
        connection.idle_since = time.monotonic()
        connection.prepare_reuse()
        self._idle[connection.address].append(connection)
        self._sweep = self._sweep or asyncio.get_running_loop().call_later(_KEPT_S, self._close_idle)

    def _close_idle(self) -> None:
        self._sweep, oldest = None, time.monotonic() - _KEPT_S
        for address, idle in list(self._idle.items()):
            open_connections = [
                connection for connection in idle if connection.is_open and connection.idle_since > oldest
            ]
            for connection in idle:
                if connection not in open_connections:
                    connection.abort()
            if open_connections:
                self._idle[address] = open_connections
            else:
                del self._idle[address]
        self._close_dialed()
        if self._idle:
            self._sweep = asyncio.get_running_loop().call_later(_KEPT_S, self._close_idle)

    def _close_dialed(self) -> None:
        for dialed_socket in self._sockets.values():
            dialed_socket.close()
        self._sockets.clear()
