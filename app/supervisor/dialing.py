"""Connect to where an engine or an attached endpoint is: over TLS where its address says so, verified as browsers do.

A name is looked up here and what it stands for is looked at, so that no name leads to an address that is never called.
"""

import asyncio
import socket
import ssl
from functools import cache
from urllib.parse import SplitResult

from app.core.addresses import is_forbidden
from app.core.connections import Purpose, Why
from app.network.door import door

_PORTS = {"http": 80, "https": 443}


class ForbiddenAddress(OSError):
    """The address is one that is never called (`core.addresses`)."""


async def connected(where: SplitResult) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection to the host of a URL. Raises OSError, ssl.SSLError among them, or Offline."""
    host, port = where.hostname or "", where.port or _PORTS.get(where.scheme, 80)
    call = door.call(host, port, Purpose(why=Why.ATTACHED))
    try:
        address = await _allowed(host, port)
        if where.scheme != "https":
            return await asyncio.open_connection(address, port)
        trusted = await asyncio.to_thread(_trusted)
        return await asyncio.open_connection(address, port, ssl=trusted, server_hostname=host)
    except OSError:
        call.failed()
        raise


async def _allowed(host: str, port: int) -> str:
    """Return an address of the host. Raises ForbiddenAddress if any of them is never called."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(one[4][0]) for one in found]
    if any(map(is_forbidden, addresses)):
        raise ForbiddenAddress(f"{host} is an address that is never called")
    return addresses[0]


@cache
def _trusted() -> ssl.SSLContext:
    """Return the certificates this computer trusts. Reads files."""
    return ssl.create_default_context()
