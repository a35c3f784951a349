"""Measures for how long the event loop is held, in processor time, so that a busy machine fails no test.

A timer of the loop fires every few milliseconds and compares the processor time of the whole process with what it was
the time before. The loop's own thread would tell too little: a decoder that runs in another thread and never lets go of
the interpreter holds the loop just as long. The thread of the test's own client is left out: on a busy machine it may
work for long between two looks although the loop waits for nothing but a processor.
"""

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_EVERY_S = 0.002


class ClientClock:
    """The processor time of threads while they sent requests; none where a thread's clock cannot be read."""

    def __init__(self) -> None:
        self._clock: tuple[float, tuple[int, float] | None] = (0.0, None)
        """Seconds of the time that is over, and the clock of a thread that sends now with what it showed before."""

    @contextmanager
    def left_out(self) -> Iterator[None]:
        """Count the calling thread in for a while."""
        if sys.platform == "win32" or not hasattr(time, "pthread_getcpuclockid"):
            yield
            return
        clock, begun_s = time.pthread_getcpuclockid(threading.get_ident()), time.thread_time()
        over_s, _ = self._clock
        self._clock = over_s, (clock, begun_s)
        try:
            yield
        finally:
            self._clock = over_s + time.thread_time() - begun_s, None

    def used_s(self) -> float:
        """Return the seconds so far."""
        over_s, running_s = self._clock
        if sys.platform == "win32" or running_s is None:
            return over_s
        clock, begun_s = running_s
        return over_s + time.clock_gettime(clock) - begun_s


class Watchdog:
    """`longest_s` is the longest time since `reset`. Belongs to the loop that makes it."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._client = ClientClock()
        self._loop = asyncio.get_running_loop()
        self._last_s = self._used_s()
        self._timer = self._loop.call_later(_EVERY_S, self._look)

    def reset(self) -> None:
        """Forget what was; to be called on the loop."""
        self.longest_s, self._last_s = 0.0, self._used_s()

    async def settle(self) -> None:
        """Wait until what went before has been measured."""
        await asyncio.sleep(2 * _EVERY_S)

    def run_client(self, send: Callable[[], None]) -> None:
        """Send requests from the calling thread, whose own time does not count."""
        with self._client.left_out():
            send()

    def stop(self) -> None:
        self._timer.cancel()

    def _used_s(self) -> float:
        return time.process_time() - self._client.used_s()

    def _look(self) -> None:
        now_s = self._used_s()
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
