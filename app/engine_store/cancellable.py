"""Ask programs what they are, from the event loop: whoever is cancelled meanwhile leaves none of them behind."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from engines.program_probe import open_probe_session

T = TypeVar("T")


async def run_cancellable(look: Callable[[], T]) -> T:
    """Return what `look` returns, run in a thread; when its caller is cancelled, the programs it asks are ended."""
    with open_probe_session() as going_on:
        try:
            return await asyncio.to_thread(look)
        except asyncio.CancelledError:
            going_on.call_off()
            raise
