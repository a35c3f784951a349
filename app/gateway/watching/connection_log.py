"""The list of connections to other computers: taken from the door, joined where they follow closely, and kept.

The gateway is the one keeper of it for all programs of ours. What is noted is written within a second, so that a crash
hides next to nothing, and asking for the list writes first.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from uuid import uuid4

from aiohttp import web
from msgspec.structs import replace

from app.config.store import SettingsStore
from app.core.connections import Connection, ConnectionList, merge_connections
from app.core.errors import StorageFault
from app.core.events import ConnectionChanged, ConnectionsForgotten
from app.gateway.events import EventHub
from app.gateway.services import SERVICES
from app.network.egress import egress_gate
from app.store.database import ChatStore

log = logging.getLogger(__name__)

GATHERED_S = 1.0
"""Connections are written together: a download makes several a second."""
APART_S = 15 * 60.0
"""After so long without another of its kind, the next is shown by itself."""


class ConnectionLog:
    """What was noted and is kept. Belongs to the event loop's thread."""

    def __init__(self, settings: SettingsStore, chats: ChatStore, events: EventHub) -> None:
        self._settings, self._chats, self._events = settings, chats, events
        self._news = asyncio.Event()
        self._recent: dict[object, tuple[float, Connection]] = {}
        """The row that the next of a kind still belongs to, and when it was last added to."""
        self._unsaved_entries: dict[str, Connection] = {}
        self._save_lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def keeps_log(self) -> AsyncIterator[None]:
        """Keep this process's door meanwhile."""
        loop = asyncio.get_running_loop()
        with egress_gate.apply_policy(is_closed=self.is_closed, news=lambda: self._on_connection(loop)):
            settings_task = asyncio.create_task(self._follow_settings())
            try:
                yield
            finally:
                settings_task.cancel()
                await asyncio.gather(settings_task, return_exceptions=True)
                with contextlib.suppress(StorageFault):
                    await self.save()

    def is_closed(self) -> bool:
        """Tell whether nothing may go out."""
        return self._settings.get_flag("network.offline")

    def _on_connection(self, loop: asyncio.AbstractEventLoop) -> None:
        """Learn, in any thread, that there is something to take."""
        with contextlib.suppress(RuntimeError):  # the loop has ended: what came after the last look is lost
            loop.call_soon_threadsafe(self._news.set)

    async def _follow_settings(self) -> None:
        while await self._news.wait():
            self._news.clear()
            await asyncio.sleep(GATHERED_S)
            try:
                await self.save()
            except StorageFault as error:  # kept in memory, and tried again with the next
                log.warning("%s", error)

    async def save(self) -> None:
        """Write down what was noted until now. Raises StorageFault."""
        for connection in egress_gate.take_connections():
            self._add_entry(connection)
        async with self._save_lock:
            unsaved_entries, self._unsaved_entries = self._unsaved_entries, {}
            try:
                if unsaved_entries:
                    await self._chats.save_connections(list(unsaved_entries.values()))
            except BaseException:
                self._unsaved_entries = {**unsaved_entries, **self._unsaved_entries}
                raise

    async def list_connections(self, limit: int) -> ConnectionList:
        """Return the last connections, newest first, and whether new ones are made. Raises StorageFault."""
        await self.save()
        return ConnectionList(offline=self.is_closed(), connections=await self._chats.list_connections(limit=limit))

    async def forget(self) -> None:
        """Forget every connection there was. Raises StorageFault."""
        await self.save()
        await self._chats.forget_connections()
        self._recent.clear()
        self._events.publish(ConnectionsForgotten())

    def _add_entry(self, connection: Connection) -> None:
        now = time.monotonic()
        self._recent = {
            key: recent_entry for key, recent_entry in self._recent.items() if now - recent_entry[0] < APART_S
        }
        _, known_entry = self._recent.get(connection.key, (now, None))
        row = (
            merge_connections(known_entry, connection)
            if known_entry
            else replace(connection, id=f"cn_{uuid4().hex[:12]}")
        )
        self._recent[row.key] = (now, row)
        self._unsaved_entries[row.id] = row
        self._events.publish(ConnectionChanged(connection=row))


CONNECTIONS = web.AppKey("connections", ConnectionLog)


def add_connections(app: web.Application) -> None:
    """Have the application keep this process's door, from before its other parts begin until after they have ended."""
    services = app[SERVICES]
    app[CONNECTIONS] = ConnectionLog(services.settings, services.chats, services.events)
    app.cleanup_ctx.append(_keeps_log)


async def _keeps_log(app: web.Application) -> AsyncIterator[None]:
    async with app[CONNECTIONS].keeps_log():
        yield
