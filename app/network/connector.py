"""An aiohttp connector whose connections pass the door.

What for is said by an `Errand` around the request; without one it is the session's usual purpose.
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
from app.network.door import Call, door, is_here

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.tracing import Trace


class Errand:
    """One request that is made for a purpose: `with errand.under_way(): reply = await session.get(...)`."""

    def __init__(self, purpose: Purpose) -> None:
        self.purpose = purpose
        self.call: Call | None = None
        """The last connection that was made for it, after redirects; without a new one, that of the answer."""

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Have requests of this task made for the purpose."""
        before = _ERRAND.set(self)
        try:
            yield
        finally:
            _ERRAND.reset(before)

    def answered(self, reply: aiohttp.ClientResponse) -> None:
        """Note over which connection the answer comes, where it was there before."""
        if self.call is None and reply.connection is not None and reply.connection.protocol is not None:
            self.call = _CALLS.get(reply.connection.protocol)

    def received(self, count: int) -> None:
        """Count bytes that came."""
        if self.call is not None:
            self.call.received(count)


_ERRAND: ContextVar[Errand | None] = ContextVar("errand", default=None)
_CALLS: "WeakKeyDictionary[ResponseHandler, Call]" = WeakKeyDictionary()
"""Of every connection to another computer that is open."""


class Connector(aiohttp.TCPConnector):
    """Raises Offline instead of connecting to another computer while the door is closed."""

    def __init__(self, usual: Purpose, **options: Any) -> None:  # noqa: ANN401 -- TCPConnector's own
        super().__init__(**options)
        self._usual = usual
        self._outside: WeakSet[ResponseHandler] = WeakSet()
        door.holds(self)

    def cut(self) -> None:
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
        host, errand = req.url.raw_host or "", _ERRAND.get()
        if errand is None and is_here(host):
            return await super()._create_connection(req, traces, timeout)
        call = door.call(host, req.url.port or 0, errand.purpose if errand else self._usual)
        if errand is not None:
            errand.call = call
        try:
            made = await super()._create_connection(req, traces, timeout)
        except (aiohttp.ClientError, OSError):
            call.failed()
            raise
        self._outside.add(made)
        _CALLS[made] = call
        return made
