"""An alarm by `time.monotonic()`, the supervisor's clock: an event loop's own may only count milliseconds."""

import asyncio
import math
import time
from collections.abc import Callable

SLEEP_S = 10.0
"""What is so late did not run in between: this computer slept, or somebody stopped the process. No loop is so busy."""


class Alarm:
    """Rings once when a time has come, and never before. Belongs to the event loop's thread."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at = math.inf
        self.due: float | None = None
        """When it rings; None while it is not set."""

    def set_due(self, due: float | None) -> None:
        """Have it ring then instead, or not at all.

        A timer that runs out sooner stays, and looks again: requests put off the end of an unused engine all the time.
        """
        self.due = due
        if due is not None and due < self._looks_at:
            if self._timer is not None:
                self._timer.cancel()
            self._arm_timer(due)

    def close(self) -> None:
        """Ring no more."""
        self.due = None
        if self._timer is not None:
            self._timer.cancel()

    def _arm_timer(self, due: float) -> None:
        self._looks_at = due
        self._timer = asyncio.get_running_loop().call_later(max(0.0, due - time.monotonic()), self._check_due)

    def _check_due(self) -> None:
        self._timer, self._looks_at = None, math.inf
        if self.due is None:
            return
        if time.monotonic() < self.due:  # put off, or the timer was early by what its clock does not count
            self._arm_timer(self.due)
            return
        self.due = None
        self._ring()
