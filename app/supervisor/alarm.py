"""An alarm by `time.monotonic()`, the supervisor's clock: an event loop's own may only count milliseconds."""

import asyncio
import time
from collections.abc import Callable

SLEEP_S = 10.0
"""What is so late did not run in between: this computer slept, or somebody stopped the process. No loop is so busy."""


class Alarm:
    """Rings once when a time has come, and never before. Belongs to the event loop's thread."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None
        self.due: float | None = None
        """When it rings; None while it is not set."""

    def set_due(self, due: float | None) -> None:
        """Have it ring then instead, or not at all."""
        if due == self.due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self.due, self._timer = due, None
        if due is not None:
            self._arm_timer(due)

    def _arm_timer(self, due: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(max(0.0, due - time.monotonic()), self._check_due, due)

    def _check_due(self, due: float) -> None:
        if time.monotonic() < due:  # timers may be early by what their clock does not count
            self._arm_timer(due)
            return
        self.due = self._timer = None
        self._ring()
