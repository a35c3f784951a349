"""Measures for how long the event loop is held, in processor time, so that a busy machine fails no test.

A timer of the loop fires every few milliseconds and compares the processor time of the whole process with what it was
the time before. The loop's own thread would tell too little: a decoder that runs in another thread and never lets go of
the interpreter holds the loop just as long.
"""

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

_EVERY_S = 0.002


class Watchdog:
    """`longest_s` is the longest time since `reset`. Belongs to the loop that makes it."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._last_s = time.process_time()
        self._timer = self._loop.call_later(_EVERY_S, self._look)

    def reset(self) -> None:
        """Forget what was; to be called on the loop."""
        self.longest_s, self._last_s = 0.0, time.process_time()

    async def settle(self) -> None:
        """Wait until what went before has been measured."""
        await asyncio.sleep(2 * _EVERY_S)

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        now_s = time.process_time()
        self.longest_s = max(self.longest_s, now_s - self._last_s)
        self._last_s = now_s
        self._timer = self._loop.call_later(_EVERY_S, self._look)


@contextmanager
def watched_loop() -> Iterator[Watchdog]:
    """Watch the running loop. What the test brought in is kept out of collections of garbage, as the gateway does."""
    gc.collect()
    gc.freeze()
    watchdog = Watchdog()
    try:
        yield watchdog
    finally:
        watchdog.stop()
        gc.unfreeze()
