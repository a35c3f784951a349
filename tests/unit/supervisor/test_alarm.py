"""An alarm rings once, at the time it was set to last."""

import asyncio
import time

from app.supervisor.alarm import Alarm


class Bell:
    """Notes when it is rung."""

    def __init__(self) -> None:
        self.rings_s: list[float] = []
        self.rang = asyncio.Event()

    def ring(self) -> None:
        self.rings_s.append(time.monotonic())
        self.rang.set()


async def test_an_alarm_that_is_put_off_rings_once_and_not_before() -> None:
    bell = Bell()
    alarm = Alarm(bell.ring)
    due = time.monotonic() + 0.05
    for early_s in (0.04, 0.03, 0.0):
        alarm.set_due(due - early_s)
    await bell.rang.wait()
    assert len(bell.rings_s) == 1
    assert bell.rings_s[0] >= due
    assert alarm.due is None


async def test_an_alarm_that_is_brought_forward_rings_then() -> None:
    bell = Bell()
    alarm = Alarm(bell.ring)
    alarm.set_due(time.monotonic() + 3600)
    alarm.set_due(time.monotonic())
    await bell.rang.wait()
    assert len(bell.rings_s) == 1


async def test_an_alarm_that_is_taken_back_is_silent_and_can_be_set_again() -> None:
    bell, other = Bell(), Bell()
    alarm, later = Alarm(bell.ring), Alarm(other.ring)
    alarm.set_due(time.monotonic() + 0.01)
    alarm.set_due(None)
    later.set_due(time.monotonic() + 0.05)
    await other.rang.wait()
    assert not bell.rings_s
    alarm.set_due(time.monotonic())
    await bell.rang.wait()
    alarm.set_due(time.monotonic())
    alarm.close()
    other.rang.clear()
    later.set_due(time.monotonic() + 0.02)
    await other.rang.wait()
    assert len(bell.rings_s) == 1
