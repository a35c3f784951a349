"""Hours of profiles: which count, when the next switch is, and what clocks do in spring and autumn."""

import sys
import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from app.core.errors import BadRequest
from app.core.profiles import (
    DAYS,
    NextSwitch,
    Profile,
    ProfileHours,
    ProfileModel,
    Weekday,
    check_profile,
    hours_at,
    next_switch,
)

WEEKDAYS = list(DAYS[:5])
NIGHT = Profile(name="night", hours=[ProfileHours(days=WEEKDAYS, start="22:00", end="06:00")])
NOON = Profile(name="noon", hours=[ProfileHours(start="12:00", end="13:00")])
MONDAY = "2026-11-23"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no program can choose its time zone there")


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the clock on the wall be Berlin's, without a database of zones."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    renew_time_zone()
    yield
    monkeypatch.undo()
    renew_time_zone()


def renew_time_zone() -> None:
    if sys.platform != "win32":
        time.tzset()


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def profile_at(profiles: list[Profile], text: str) -> str:
    hours = hours_at(profiles, at(text))
    return "" if hours is None else hours.profile


@pytest.mark.parametrize(
    ("when", "profile"),
    [
        (f"{MONDAY} 21:59:59", ""),
        (f"{MONDAY} 22:00", "night"),
        ("2026-11-24 05:59:59", "night"),
        ("2026-11-24 06:00", ""),
        ("2026-11-28 05:00", "night"),  # Saturday's morning is of Friday's night
        ("2026-11-28 23:00", ""),
        ("2026-11-30 05:00", ""),  # Sunday's night is none
    ],
)
def test_a_night_belongs_to_the_day_it_begins_on(when: str, profile: str) -> None:
    assert profile_at([NIGHT], when) == profile


def test_of_several_the_last_begun_counts_and_of_equal_ones_the_first_by_name() -> None:
    day = Profile(name="day", hours=[ProfileHours(start="08:00", end="18:00")])
    other = Profile(name="other", hours=[ProfileHours(start="08:00", end="18:00")])
    assert profile_at([day, NOON], f"{MONDAY} 12:30") == "noon"
    assert profile_at([day, NOON], f"{MONDAY} 13:30") == "day"
    assert profile_at([other, day], f"{MONDAY} 13:30") == "day"


def test_the_next_switch_is_told_with_whose_it_is() -> None:
    assert next_switch([], at(f"{MONDAY} 10:00")) is None
    assert next_switch([NIGHT], at(f"{MONDAY} 10:00")) == NextSwitch(at=at(f"{MONDAY} 22:00"), profile="night")
    assert next_switch([NIGHT], at(f"{MONDAY} 23:00")) == NextSwitch(at=at("2026-11-24 06:00"), profile="")
    assert next_switch([NIGHT], at("2026-11-28 07:00")) == NextSwitch(at=at("2026-11-30 22:00"), profile="night")


def test_hours_that_change_nothing_are_no_switch() -> None:
    twice = Profile(
        name="p", hours=[ProfileHours(start="08:00", end="12:00"), ProfileHours(start="12:00", end="14:00")]
    )
    switch = next_switch([twice], at(f"{MONDAY} 09:00"))
    assert switch == NextSwitch(at=at(f"{MONDAY} 14:00"), profile="")


@pytest.mark.parametrize(
    ("start", "end", "hours_long"),
    [("22:00", "06:00", 7), ("02:30", "04:00", 0.5)],
)
def test_a_night_of_spring_is_an_hour_shorter(start: str, end: str, hours_long: float) -> None:
    """On 29 March 2026 the clock goes from 02:00 to 03:00: what begins at 02:30 begins at 03:30."""
    profile = Profile(name="p", hours=[ProfileHours(start=start, end=end)])
    open_hours = hours_at([profile], at("2026-03-29 03:45"))
    assert open_hours is not None
    assert open_hours.ends_at - open_hours.began_at == hours_long * 3600


@pytest.mark.parametrize(
    ("start", "end", "hours_long"),
    [("22:00", "06:00", 9), ("02:30", "03:30", 2)],
)
def test_a_night_of_autumn_is_an_hour_longer(start: str, end: str, hours_long: float) -> None:
    """On 25 October 2026 it is 02:30 twice: the first time counts, and hours do not begin again at the second."""
    profile = Profile(name="p", hours=[ProfileHours(start=start, end=end)])
    second = at("2026-10-25 03:00") - 600
    assert time.strftime("%H:%M", time.localtime(second)) == "02:50"
    open_hours = hours_at([profile], second)
    assert open_hours is not None
    assert open_hours.ends_at - open_hours.began_at == hours_long * 3600


@pytest.mark.parametrize(
    "profile",
    [
        Profile(name="p", models=[ProfileModel(model="a"), ProfileModel(model="a", context=512)]),
        Profile(name="p", aliases=["gpt-*"]),
        Profile(name="p", aliases=["=model"]),
        Profile(name="p", hours=[ProfileHours(days=[Weekday.MONDAY], start="08:00", end="08:00")]),
    ],
)
def test_what_makes_no_sense_is_refused(profile: Profile) -> None:
    with pytest.raises(BadRequest):
        check_profile(profile)
