"""This computer is announced on its network by mDNS, and others are listened for, for as long as somebody wants that.

What is announced is its name, its port and the hash of its certificate. Nothing goes out while connections are refused.
The `zeroconf` package is imported when the first announcement is made.
"""

import asyncio
import importlib
import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from app.core.connections import ConnectionReason, Purpose
from app.gateway.background import Background
from app.machines.nearby import NearbyMachines
from app.network.egress import egress_gate

if TYPE_CHECKING:
    from zeroconf import ServiceStateChange, Zeroconf
    from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf

log = logging.getLogger(__name__)

SERVICE = "_roundhouse._tcp.local."
_GROUP, _PORT = "224.0.0.251", 5353
_ASK_MS = 3000
_MOST_AT_ONCE = 8
"""Services that are asked for their addresses at the same time; further ones are heard again later."""


class Announcement(NamedTuple):
    """What this computer says of itself; `addresses` are those it can be reached at."""

    name: str
    fingerprint: str
    port: int
    addresses: tuple[str, ...]


class MachineDiscovery:
    """Announces and listens. Belongs to the event loop's thread. `note_change`: something else is near."""

    def __init__(self, note_change: Callable[[], object]) -> None:
        self._note_change = note_change
        self.nearby = NearbyMachines()
        self._background = Background()
        self._announcement: Announcement | None = None
        self._zeroconf: AsyncZeroconf | None = None
        self._browser: AsyncServiceBrowser | None = None
        self._info: AsyncServiceInfo | None = None
        self._asked_names: set[str] = set()
        egress_gate.add_holder(self)

    async def announce(self, own: Announcement) -> None:
        """Have `own` be what is announced. What the system refuses is logged, and tried again when `own` changes."""
        if egress_gate.is_closed or not own.addresses:
            await self.close()
            return
        if own == self._announcement:
            return
        await self.close()
        self._announcement = own
        egress_gate.note_call(_GROUP, _PORT, Purpose(why=ConnectionReason.MACHINES, about="mDNS"))
        try:
            await self._start(own)
        except (OSError, TimeoutError) as error:
            log.info("Other computers cannot be looked for on this network: %s", error)
            await self._stop()

    async def _start(self, own: Announcement) -> None:
        await asyncio.to_thread(importlib.import_module, "zeroconf.asyncio")
        from zeroconf import IPVersion  # noqa: PLC0415 -- brought in by the line before, in a thread
        from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf  # noqa: PLC0415 -- as above

        self._zeroconf = AsyncZeroconf(interfaces=list(own.addresses), ip_version=IPVersion.V4Only)
        self._info = AsyncServiceInfo(
            SERVICE,
            f"{own.fingerprint[:16]}.{SERVICE}",
            addresses=[socket.inet_aton(address) for address in own.addresses],
            port=own.port,
            properties={"name": own.name, "fingerprint": own.fingerprint},
            server=f"roundhouse-{own.fingerprint[:16]}.local.",
        )
        # Its name is its certificate's: a record of it that somebody else has is an old one of ours.
        await (await self._zeroconf.async_register_service(self._info, cooperating_responders=True))
        self._browser = AsyncServiceBrowser(self._zeroconf.zeroconf, SERVICE, handlers=[self._take_change])

    def _take_change(
        self,
        zeroconf: "Zeroconf",
        service_type: str,
        name: str,
        state_change: "ServiceStateChange",
    ) -> None:
        del service_type
        if state_change.name == "Removed":
            self.nearby.remove_service(name)
            self._note_change()
        elif self.nearby.has_room(name) and name not in self._asked_names and len(self._asked_names) < _MOST_AT_ONCE:
            self._asked_names.add(name)
            self._background.spawn(self._ask_service(zeroconf, name))

    async def _ask_service(self, zeroconf: "Zeroconf", name: str) -> None:
        from zeroconf.asyncio import AsyncServiceInfo  # noqa: PLC0415 -- imported when something was heard

        try:
            info = AsyncServiceInfo(SERVICE, name)
            is_known = await info.async_request(zeroconf, _ASK_MS)
            if is_known and self._announcement is not None:  # it may have been switched off meanwhile
                self.nearby.put_service(name, info.parsed_addresses(), info.port, info.properties)
                self._note_change()
        except Exception:
            log.info("An announcement on the network could not be read", exc_info=True)
        finally:
            self._asked_names.discard(name)

    def cut_connections(self) -> None:
        """Say nothing more: nothing is to go out."""
        self._background.spawn(self.close())

    async def close(self) -> None:
        """Announce nothing, and forget who was near."""
        self._announcement = None
        self.nearby.clear()
        await self._stop()

    async def _stop(self) -> None:
        browser, zeroconf, info = self._browser, self._zeroconf, self._info
        self._browser = self._zeroconf = self._info = None
        if browser is not None:
            await browser.async_cancel()
        if zeroconf is not None:
            if info is not None and egress_gate.is_closed:  # it says no goodbye either
                zeroconf.zeroconf.registry.async_remove(info)
            await zeroconf.async_close()
