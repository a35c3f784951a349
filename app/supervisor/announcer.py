"""Say that something changed: at once when it matters, and otherwise at most ten times a second, the last time too."""

import asyncio
import time
from collections.abc import Callable

INTERVAL_S = 0.1


class Announcer:
    """Bounds how often `say` is called. Belongs to the event loop it is made in."""

    def __init__(self, say: Callable[[], None]) -> None:
        self._say = say
        self._loop = asyncio.get_running_loop()
        self._due: asyncio.TimerHandle | None = None
        self._said_at = -INTERVAL_S

    def announce(self, *, at_once: bool) -> None:
        """Call `say` now, or soon. What is said is what is true when it is said."""
        wait_s = self._said_at + INTERVAL_S - time.monotonic()
        if at_once or wait_s <= 0:
            self._say_now()
        elif self._due is None:
            self._due = self._loop.call_later(wait_s, self._say_now)

    def close(self) -> None:
        """Say nothing more."""
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _say_now(self) -> None:
        self.close()
        self._said_at = time.monotonic()
        self._say()
