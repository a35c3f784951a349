"""Look whether an engine is stuck, when a request was cancelled that it had not answered to the end.

Many engines go on computing until they notice that nobody waits; some never answer again. The supervisor asks such an
engine what it asks one that is loading. Where nothing comes back, neither to that nor to another request, the
supervisor is told. Only a cancellation begins a check; a request that ends well pays nothing for it.
"""

import asyncio

from app.gateway.background import Background
from app.gateway.exchange.connections import EngineConnection, EngineConnections, address_of
from app.supervisor.lease import Lease
from app.supervisor.pool import Supervisor


class StuckChecks:
    """The checks that are under way, at most one for each engine process. Belongs to the event loop's thread."""

    def __init__(self) -> None:
        self.running: dict[str, ConnectionProgress] = {}
        """By base URL."""
        self._background = Background()
        self._is_closed = False

    def begin_check(self, supervisor: Supervisor, connections: EngineConnections, lease: Lease) -> None:
        """Look at the engine of a cancelled request, unless that is being done. Returns at once."""
        url = lease.base_url
        if self._is_closed or url in self.running or not address_of(url).is_ours:
            return
        progress = self.running[url] = ConnectionProgress(connections.open_to(address_of(url)))
        self._background.spawn(self._check_engine(supervisor, lease, progress))

    def note_progress(self, lease: Lease) -> None:
        """Note that an engine has begun an answer."""
        if (progress := self.running.get(lease.base_url)) is not None:
            progress.is_made = True

    async def close(self) -> None:
        """End every check, and begin none again."""
        self._is_closed = True
        await self._background.join(cancel=True)

    async def _check_engine(self, supervisor: Supervisor, lease: Lease, progress: "ConnectionProgress") -> None:
        try:
            is_answering = await supervisor.is_answering(lease)
        finally:
            progress.stop_watching()
            del self.running[lease.base_url]
        if is_answering is False and not progress.is_made:
            supervisor.report_stuck(lease)


class ConnectionProgress:
    """Whether an engine has sent anything since the check began: over a connection that was open, or a new answer."""

    def __init__(self, connections: list[EngineConnection]) -> None:
        self.is_made = False
        self._watches = [_ByteWatch(connection, self) for connection in connections]

    def stop_watching(self) -> None:
        """Look no longer."""
        for watch in self._watches:
            watch.stop_watching()


class _ByteWatch(asyncio.Protocol):
    """Takes a connection's place until the next bytes come, so that no piece costs more while nobody looks."""

    def __init__(self, connection: EngineConnection, progress: ConnectionProgress) -> None:
        self._connection, self._progress, self._is_over = connection, progress, False
        connection.set_protocol(self)

    def stop_watching(self) -> None:
        """Give the connection its place back."""
        if not self._is_over:
            self._is_over = True
            self._connection.set_protocol(self._connection)

    def data_received(self, data: bytes) -> None:
        """Note the progress, and pass the bytes on."""
        self._progress.is_made = True
        self.stop_watching()
        self._connection.data_received(data)

    def eof_received(self) -> None:
        """Pass it on."""
        self._connection.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass it on."""
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        """Pass it on."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._connection.resume_writing()
