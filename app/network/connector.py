"""An aiohttp connector whose connections pass the door.

What for is said by an `OutboundRequest` around the request; without one it is the session's usual purpose.
A connection that is kept alive is one connection however many requests it serves. Engines on this computer pay for
none of this but one look at their address, when they are connected to.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

import aiohttp

from app.core.connections import Purpose
from app.network.egress import EgressCall, egress_gate, is_this_computer

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.tracing import Trace


class OutboundRequest:
    """One request that is made for a purpose: `with errand.under_way(): reply = await session.get(...)`."""

    def __init__(self, purpose: Purpose) -> None:
        self.purpose = purpose
        self.call: EgressCall | None = None
        """The last connection that was made for it, after redirects; without a new one, that of the answer."""

    @contextmanager
    def as_current(self) -> Iterator[None]:
        """Have requests of this task made for the purpose."""
        before = _CURRENT_REQUEST.set(self)
        try:
            yield
        finally:
            _CURRENT_REQUEST.reset(before)

    def note_reply(self, reply: aiohttp.ClientResponse) -> None:
        """Note over which connection the answer comes, where it was there before."""
        if self.call is None and reply.connection is not None and reply.connection.protocol is not None:
            self.call = _CALLS.get(reply.connection.protocol)

    def count_received(self, count: int) -> None:
        """Count bytes that came."""
        if self.call is not None:
            self.call.count_received(count)


_CURRENT_REQUEST: ContextVar[OutboundRequest | None] = ContextVar("errand", default=None)
_CALLS: "WeakKeyDictionary[ResponseHandler, EgressCall]" = WeakKeyDictionary()
"""Of every connection to another computer that is open."""


class EgressConnector(aiohttp.TCPConnector):
    """Raises Offline instead of connecting to another computer while the door is closed."""

    def __init__(self, usual: Purpose, **options: Any) -> None:  # noqa: ANN401 -- TCPConnector's own
        super().__init__(**options)
        self._usual = usual
        self._outside: WeakSet[ResponseHandler] = WeakSet()
        egress_gate.add_holder(self)

    def cut_connections(self) -> None:
        """End every connection to another computer, used or kept alive."""
        for connection in list(self._outside):
            if connection.transport is not None:
                connection.transport.abort()  # closing the protocol would leave who reads without an error of aiohttp's

    async def _create_connection(
        self,
        req: "ClientRequest",
        traces: "list[Trace]",
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 -- the signature is aiohttp's
    ) -> "ResponseHandler":
        """Every new connection is made here; those that are kept alive are given out without it."""
        host, request = req.url.raw_host or "", _CURRENT_REQUEST.get()
        if request is None and is_this_computer(host):
            return await super()._create_connection(req, traces, timeout)
        call = egress_gate.note_call(host, req.url.port or 0, request.purpose if request else self._usual)
        if request is not None:
            request.call = call
        try:
            connection = await super()._create_connection(req, traces, timeout)
        except (aiohttp.ClientError, OSError):
            call.note_failure()
            raise
        self._outside.add(connection)
        _CALLS[connection] = call
        return connection
