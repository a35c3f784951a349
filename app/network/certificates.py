"""The authorities whose certificates are trusted are read when the first connection over TLS is about to be made.

aiohttp makes its two contexts when it is imported, and to read the system's hundred authorities into one of them takes
a tenth of the gateway's start; a gateway that serves models of this computer may never need them.
"""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_unread: list[tuple[ssl.SSLContext, ssl.Purpose]] = []
_reading = threading.Lock()


@contextmanager
def read_later() -> Iterator[None]:
    """Have contexts that are made within wait for `ensure_read`. For imports: nothing else may make one meanwhile."""
    read = ssl.SSLContext.load_default_certs

    def note(context: ssl.SSLContext, purpose: ssl.Purpose = ssl.Purpose.SERVER_AUTH) -> None:
        _unread.append((context, purpose))

    ssl.SSLContext.load_default_certs = note  # type: ignore[method-assign, assignment]  # aiohttp can be told nothing
    try:
        yield
    finally:
        ssl.SSLContext.load_default_certs = read  # type: ignore[method-assign]  # as above


async def ensure_read() -> None:
    """Return once every context that waits has its authorities."""
    if _unread:
        await asyncio.to_thread(_read)


def _read() -> None:
    with _reading:  # whoever comes second waits for the first
        for context, purpose in _unread:
            context.load_default_certs(purpose)
        _unread.clear()
