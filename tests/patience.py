"""How long tests wait for what must come: long enough for a computer that is busy with eight other things."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

PATIENCE_S = 90.0
"""Less than the 120 s after which a test is stopped, so that the wait itself says what did not come."""


def wait_until(condition: Callable[[], object], *, within_s: float = PATIENCE_S) -> None:
    """Wait for a condition that nobody announces; the pauses only spare the processor, more the longer it takes."""
    deadline = time.monotonic() + within_s
    pauses = _pauses_s()
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(next(pauses))


async def until(condition: Callable[[], object], *, within_s: float = PATIENCE_S) -> None:
    """Wait as `wait_until` does, while the event loop goes on. The condition may be a coroutine function."""
    async with asyncio.timeout(within_s):
        for pause_s in _pauses_s():
            holds = condition()
            if await holds if isinstance(holds, Awaitable) else holds:
                return
            await asyncio.sleep(pause_s)


def _pauses_s() -> Iterator[float]:
    """Yield longer and longer pauses: what takes seconds is asked for ten times in each."""
    pause_s = 0.005
    while True:
        yield pause_s
        pause_s = min(1.3 * pause_s, 0.1)
