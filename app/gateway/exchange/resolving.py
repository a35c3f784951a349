"""Look names up for requests to engines and attached endpoints, and give out no address that is never called."""

import socket

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import DefaultResolver

from app.core.addresses import is_forbidden


class Resolver(AbstractResolver):
    """The system's answers without those addresses. Addresses in figures do not come by here: they were looked at."""

    def __init__(self) -> None:
        self._system = DefaultResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return where a name leads. Raises OSError if that is nowhere, or nowhere that may be called."""
        found = await self._system.resolve(host, port, family)
        if any(is_forbidden(one["host"]) for one in found):
            raise OSError(f"{host} leads to an address that is never called")
        return found

    async def close(self) -> None:
        """Let go of what the system's resolver holds."""
        await self._system.close()
