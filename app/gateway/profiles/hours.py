"""Hours of profiles: when they begin their profile becomes the active one, when they end the one before is again.

The clock on the wall counts, and is looked at every half minute: a computer that slept through the beginning of hours
switches once it is awake if they still last, and one that slept through all of them does nothing. A profile that a
person chooses meanwhile stays until other hours begin.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from app.core.errors import RoundhouseError
from app.core.events import Notice
from app.core.profiles import OpenHours, ProfileCause, hours_at
from app.gateway.profiles.switching import ProfileSwitcher
from app.gateway.services import Services

log = logging.getLogger(__name__)

LOOK_S = 30.0
"""Timers stand still while a computer sleeps: this is how late a switch may be after it wakes."""


class HoursWatch:
    """The task. `clock` returns Unix seconds."""

    def __init__(self, services: Services, switcher: ProfileSwitcher, clock: Callable[[], float] = time.time) -> None:
        self._services, self._switcher, self._clock = services, switcher, clock

    async def run_forever(self) -> None:
        """Watch until cancelled."""
        while True:
            try:
                await self.check_once()
            except RoundhouseError as error:
                log.info("The hours of a profile could not be kept: %s", error)
            except Exception:  # one failure must not end the watching
                log.exception("The hours of profiles could not be watched")
            await asyncio.sleep(LOOK_S)

    async def check_once(self) -> None:
        """Switch if other hours count than when it was looked last."""
        profiles = self._services.profiles
        present, state = hours_at(profiles.list_profiles(), self._clock()), profiles.state
        if self._services.supervisor.is_paused or _is_same(present, state.hours):
            return
        if present is None:
            await self._end_hours()
            return
        if state.active != present.profile:
            is_first = state.cause is ProfileCause.PERSON
            await self._switch(present.profile, f"The hours of {present.profile} have begun.")
            self._switcher.note_hours(present, before=state.active if is_first else None)
        else:
            self._switcher.note_hours(present)

    async def _end_hours(self) -> None:
        state = self._services.profiles.state
        before = state.before if state.before in {p.name for p in self._services.profiles.list_profiles()} else ""
        if state.cause is ProfileCause.HOURS:
            ended_profile = state.hours.profile if state.hours is not None else state.active
            await self._switch(before, f"The hours of {ended_profile} are over.", cause=ProfileCause.PERSON)
        self._switcher.note_hours(None, before="")

    async def _switch(self, name: str, sentence: str, *, cause: ProfileCause = ProfileCause.HOURS) -> None:
        await self._switcher.switch_to(name, cause)
        now = f"{name} is active now." if name else "No profile is active now."
        self._services.events.publish(Notice(level="info", code="profile_switched", sentence=f"{sentence} {now}"))


def _is_same(present: OpenHours | None, seen_hours: OpenHours | None) -> bool:
    if present is None or seen_hours is None:
        return present is seen_hours
    return (present.profile, present.began_at) == (seen_hours.profile, seen_hours.began_at)
