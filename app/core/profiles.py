"""Profiles: models, pins, contexts and aliases under one name ("coding", "night batch"), and times at which they begin.

A profile stands over the settings and changes none of them: while it is active, what it says of a model goes before
what was set for that model, and its aliases before all others. Without a profile everything is as it was.

When a profile's times begin and end, computed from clocks on the wall: pure. A time that the clock skips in spring
comes as much later as the clock was put on; one that comes twice in autumn counts the first time.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, timedelta
from datetime import time as clock_time
from enum import StrEnum
from typing import Annotated, NamedTuple

import msgspec

from app.core.errors import BadRequest, quote_value

LONGEST_NAME = 60
MOST_PROFILES = 100
PROFILE_HEADER = "X-Roundhouse-Profile"
"""Of a request at the endpoint: the profile that counts for it alone."""

ProfileName = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=LONGEST_NAME,
        pattern=r"^[^\s/\x00-\x1f\x7f](?:[^/\x00-\x1f\x7f]*[^\s/\x00-\x1f\x7f])?$",
    ),
]
"""No slash, no control character, and no blank at either end: it stands in addresses, headers and tables."""
_Model = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
_ClockTime = Annotated[str, msgspec.Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]


class Weekday(StrEnum):
    """A day of the week, in the order of `datetime.weekday`."""

    MONDAY = "mon"
    TUESDAY = "tue"
    WEDNESDAY = "wed"
    THURSDAY = "thu"
    FRIDAY = "fri"
    SATURDAY = "sat"
    SUNDAY = "sun"


DAYS = tuple(Weekday)
_DAILY = "daily"


class ProfileModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a profile says of one model."""

    model: _Model
    is_loaded: bool = True
    """Switching to the profile loads it. Otherwise it is loaded when somebody asks for it."""
    is_pinned: bool = False
    """It stays loaded while the profile is active."""
    context: Annotated[int, msgspec.Meta(ge=256, le=4_194_304)] | None = None
    """Tokens of each conversation; None: as it is set for the model."""


class ProfileHours(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hours of the local clock in which a profile is active. An `end` that is not after `start` is the next day's."""

    days: Annotated[list[Weekday], msgspec.Meta(min_length=1, max_length=7)] = msgspec.field(
        default_factory=lambda: list(DAYS)
    )
    """Those on which it begins."""
    start: _ClockTime
    end: _ClockTime


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A set of models, and how they are used. What it says nothing of stays as the settings have it."""

    name: ProfileName
    models: Annotated[list[ProfileModel], msgspec.Meta(max_length=64)] = []
    """Without any, switching leaves what is loaded as it is."""
    default: Annotated[str, msgspec.Meta(max_length=512)] = ""
    """The model that `auto`, and a request without a model, means; empty: one of `models`."""
    aliases: Annotated[list[Annotated[str, msgspec.Meta(max_length=1024)]], msgspec.Meta(max_length=100)] = []
    """`name=model`, as in the setting `models.aliases`, which these go before."""
    hours: Annotated[list[ProfileHours], msgspec.Meta(max_length=20)] = []

    def find_model(self, name: str) -> ProfileModel | None:
        """Return what it says of the model that runs under a name."""
        return next((entry for entry in self.models if entry.model == name), None)


NO_PROFILE = Profile(name="")
"""What counts while no profile is active: nothing of it differs from the settings."""


class SaveProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for a profile to be kept, in place of the one that has its name or is `replaced`."""

    profile: Profile
    replaced: Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)] = ""
    """The name that it had: it is renamed."""


class UseProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for a profile to be the active one; an empty name: for none."""

    name: Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)] = ""


class ProfileCause(StrEnum):
    """Who made a profile the active one."""

    PERSON = "person"
    HOURS = "hours"


class NextSwitch(msgspec.Struct, frozen=True, kw_only=True):
    """The next time at which hours begin or end."""

    at: float
    """Unix seconds."""
    profile: str
    """The profile that is active from then on; empty: whatever was active before the hours."""


class ProfileList(msgspec.Struct, frozen=True, kw_only=True):
    """The profiles by name, and which of them counts."""

    profiles: list[Profile] = []
    active: str = ""
    """Empty while none is."""
    cause: ProfileCause = ProfileCause.PERSON
    next_switch: NextSwitch | None = None
    can_undo: bool = False
    """Whether there is a switch since the gateway started that can be taken back."""
    loading: list[str] = []
    """Models that the last switch still loads, or waits to load."""
    problems: list[str] = []
    """What the last switch could not load, and why."""


class ProfileAction(StrEnum):
    """What a switch does with one model."""

    LOAD = "load"
    RELOAD = "reload"
    """It runs with another context: it is loaded again, after the answers it writes."""
    KEEP = "keep"
    UNLOAD = "unload"
    """After the answers it writes."""
    STAY = "stay"
    """It is not of the profile, and pinned by its own settings, so it stays."""
    LEAVE_OUT = "leave_out"
    """There is no room for it beside the others, or it cannot be loaded; `reason` says why."""


class ProfileStep(msgspec.Struct, frozen=True, kw_only=True):
    """One model of a switch."""

    model: str
    action: ProfileAction
    memory_bytes: int | None = None
    """What it takes or gives back, over all memories; None where nobody can say."""
    context: int | None = None
    is_busy: bool = False
    """Whether it writes answers now, which are waited for."""
    reason: str = ""


class ProfilePool(msgspec.Struct, frozen=True, kw_only=True):
    """One memory before and after a switch."""

    name: str
    limit: int
    before_bytes: int
    after_bytes: int


class ProfilePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a switch does: to a profile, or with an empty name to none."""

    profile: str
    steps: list[ProfileStep] = []
    pools: list[ProfilePool] = []


def check_profile(profile: Profile) -> None:
    """Return if a profile makes sense by itself. Raises BadRequest."""
    names = [entry.model for entry in profile.models]
    if len(set(names)) < len(names):
        raise BadRequest("A profile names each model once.", code="invalid_value")
    for alias in profile.aliases:
        name, _, model = alias.rpartition("=")
        if not name.strip() or not model.strip():
            raise BadRequest(f"An alias is written name=model, not {quote_value(alias)}.", code="invalid_value")
    for hours in profile.hours:
        if hours.start == hours.end:
            raise BadRequest("Hours end at another time than they begin.", code="invalid_value")


def format_hours(hours: Sequence[ProfileHours]) -> str:
    """Return hours as people write them: "mon-fri 22:00-06:00; sat,sun 10:00-12:00"."""
    return "; ".join(f"{_format_days(entry.days)} {entry.start}-{entry.end}" for entry in hours)


def parse_hours(text: str) -> list[ProfileHours]:
    """Return hours from what `format_hours` writes; "daily" is every day. Raises BadRequest."""
    parts = text.casefold().replace(";", " ").split()
    if len(parts) % 2:
        raise BadRequest("Hours are days, a start and an end: mon-fri 22:00-06:00.", code="invalid_value")
    return [_parse_hours_pair(days, clock) for days, clock in zip(parts[::2], parts[1::2], strict=True)]


def _parse_hours_pair(days: str, clock: str) -> ProfileHours:
    start, _, end = clock.partition("-")
    try:
        return msgspec.convert({"days": _parse_days(days), "start": start, "end": end}, ProfileHours)
    except msgspec.ValidationError:
        raise BadRequest(f"Hours are written 22:00-06:00, not {quote_value(clock)}.", code="invalid_value") from None


def _parse_days(text: str) -> list[Weekday]:
    days: list[Weekday] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if part == _DAILY:
            days += DAYS
        elif first in DAYS and (not dash or last in DAYS):
            start, end = DAYS.index(Weekday(first)), DAYS.index(Weekday(last or first))
            days += [DAYS[at % len(DAYS)] for at in range(start, end + 1 + (len(DAYS) if end < start else 0))]
        else:
            raise BadRequest(
                f"Days are written mon-fri or sat,sun or daily, not {quote_value(text)}.", code="invalid_value"
            )
    return list(dict.fromkeys(days))


def _format_days(days: Sequence[Weekday]) -> str:
    places = sorted({DAYS.index(day) for day in days})
    if len(places) == len(DAYS):
        return _DAILY
    if len(places) > 1 and places == list(range(places[0], places[-1] + 1)):
        return f"{DAYS[places[0]]}-{DAYS[places[-1]]}"
    return ",".join(DAYS[place] for place in places)


class OpenHours(NamedTuple):
    """Hours of a profile, from when to when, in Unix seconds."""

    profile: str
    began_at: float
    ends_at: float


_HORIZON_DAYS = 8
"""Hours come again every week; the longest begun ones began the day before yesterday, by the clock."""


def hours_at(profiles: Iterable[Profile], now: float) -> OpenHours | None:
    """Return the hours that count at a time: of several those that began last, then those of the first by name."""
    return _latest_open(_list_hours(profiles, now), now)


def next_switch(profiles: Sequence[Profile], now: float) -> NextSwitch | None:
    """Return when other hours count than now, and whose."""
    all_hours = list(_list_hours(profiles, now))
    present = _latest_open(all_hours, now)
    for at in sorted({at for hours in all_hours for at in hours[1:] if at > now}):
        there = _latest_open(all_hours, at)
        if (there and there.profile) != (present and present.profile):
            return NextSwitch(at=at, profile=there.profile if there else "")
    return None


def _latest_open(all_hours: Iterable[OpenHours], now: float) -> OpenHours | None:
    open_hours = [hours for hours in all_hours if hours.began_at <= now < hours.ends_at]
    return min(open_hours, key=lambda hours: (-hours.began_at, hours.profile), default=None)


def _list_hours(profiles: Iterable[Profile], now: float) -> Iterator[OpenHours]:
    today = datetime.fromtimestamp(now).date()  # noqa: DTZ006 -- hours are those of the clock on this wall
    days = [today + timedelta(days=offset) for offset in range(-2, _HORIZON_DAYS + 1)]
    for profile in profiles:
        for hours in profile.hours:
            for day in days:
                if DAYS[day.weekday()] in hours.days:
                    last = day if hours.end > hours.start else day + timedelta(days=1)
                    yield OpenHours(profile.name, _instant_of(day, hours.start), _instant_of(last, hours.end))


def _instant_of(day: date, clock: str) -> float:
    """Return when a local clock shows a time on a day, in Unix seconds."""
    return datetime.combine(day, clock_time.fromisoformat(clock)).timestamp()
