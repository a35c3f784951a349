"""The session for what is looked at beside clients' requests: it calls no address that is never called."""

import socket

import aiohttp
from aiohttp import hdrs
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import DefaultResolver

from app.core.connections import ConnectionReason, Purpose, is_forbidden
from app.network.connector import EgressConnector

_KEPT_S = 2.0
"""An engine may close an idle connection whenever it likes (llama-server: after 5 s)."""


class Resolver(AbstractResolver):
    """The system's answers without those addresses. Addresses in figures do not come by here: they were looked at."""

    def __init__(self) -> None:
        self._system = DefaultResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return where a name leads. Raises OSError if that is nowhere, or nowhere that may be called."""
        addresses = await self._system.resolve(host, port, family)
        if any(is_forbidden(address["host"]) for address in addresses):
            raise OSError(f"{host} leads to an address that is never contacted")
        return addresses

    async def close(self) -> None:
        """Let go of what the system's resolver holds."""
        await self._system.close()


def make_session(connect_s: float) -> aiohttp.ClientSession:
    """Return a session without a time limit but for connecting."""
    return aiohttp.ClientSession(
        connector=EgressConnector(
            Purpose(why=ConnectionReason.ATTACHED), limit=0, keepalive_timeout=_KEPT_S, resolver=Resolver()
        ),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_s),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        headers={hdrs.ACCEPT_ENCODING: "identity"},
    )
