"""How long tests wait for what must come: long enough for a computer that is busy with eight other things."""

import asyncio
import time
from collections.abc import Awaitable, Callable

PATIENCE_S = 90.0
"""Less than the 120 s after which a test is stopped, so that the wait itself says what did not come."""


def wait_until(condition: Callable[[], object], *, within_s: float = PATIENCE_S) -> None:
    """Wait for a condition that nobody announces; the pause only spares the processor."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.02)


async def until(condition: Callable[[], object], *, within_s: float = PATIENCE_S) -> None:
    """Wait as `wait_until` does, while the event loop goes on. The condition may be a coroutine function."""
    async with asyncio.timeout(within_s):
        while True:
            holds = condition()
            if await holds if isinstance(holds, Awaitable) else holds:
                return
            await asyncio.sleep(0.01)
