"""Whether an engine goes on: its connections watched until something comes over one of them."""

import asyncio

from app.gateway.exchange.connections import EngineConnection


class ConnectionProgress:
    """Whether an engine has sent anything since the check began: over a connection that was open, or a new answer."""

    def __init__(self, connections: list[EngineConnection]) -> None:
        self.made = asyncio.Event()
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
        self._progress.made.set()
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
