"""The profile that a request names in its head: its aliases, its model for `auto`, its context; and hours."""

from datetime import datetime
from typing import Any

import pytest
from aiohttp import web

from app.config.profiles import ProfileState
from app.core.profiles import PROFILE_HEADER, Profile, ProfileCause, ProfileHours, ProfileModel, SaveProfile
from app.gateway.profiles import hours
from app.gateway.profiles.hours import HoursWatch
from app.gateway.profiles.switching import ProfileSwitcher
from tests.gateway.played import Gateway

MESSAGES = [{"role": "user", "content": "Why?"}]
CODING = Profile(name="coding", models=[ProfileModel(model="guide", context=1024)], aliases=["code-*=guide"])


@pytest.fixture
def no_real_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the gateway's own watch, which reads the real clock, from looking twice."""
    monkeypatch.setattr(hours, "LOOK_S", 1e6)


@pytest.fixture(autouse=True)
def answers(no_real_hours: None, gateway: Gateway) -> None:
    async def play(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"choices": [{"message": {"role": "assistant", "content": "ok"}}]})

    gateway.upstream.play = play
    gateway.services.profiles.save_profile(SaveProfile(profile=CODING))


async def ask(gateway: Gateway, model: str, profile: str | None = "coding") -> tuple[int, Any]:
    headers = {} if profile is None else {PROFILE_HEADER: profile}
    body = {"model": model, "messages": MESSAGES}
    async with gateway.http.post(f"{gateway.url}/v1/chat/completions", json=body, headers=headers) as reply:
        return reply.status, await reply.json()


async def test_an_alias_counts_for_the_request_that_names_its_profile(gateway: Gateway) -> None:
    assert (await ask(gateway, "code-9"))[0] == 200
    assert (await ask(gateway, "code-9", None))[0] == 404, "a connection's next request has no profile"
    gateway.services.profiles.set_state(ProfileState(active="coding"))
    assert (await ask(gateway, "code-9", None))[0] == 200
    assert (await ask(gateway, "code-9", ""))[0] == 404, "an empty name is no profile"


async def test_its_context_is_asked_for_and_reaches_a_running_engine(gateway: Gateway) -> None:
    await ask(gateway, "guide")
    load = gateway.supervisor.load_requests[-1]
    assert (load.options.context, load.least_context) == (1024, 1024)
    await ask(gateway, "guide", None)
    load = gateway.supervisor.load_requests[-1]
    assert load.options.context != 1024
    assert load.least_context is None


async def test_a_profile_that_is_not_there_is_refused_in_the_dialect(gateway: Gateway) -> None:
    status, body = await ask(gateway, "guide", "gone")
    assert (status, body["error"]["code"]) == (400, "profile_not_found")
    headers = {PROFILE_HEADER: "gone"}
    async with gateway.http.post(
        f"{gateway.url}/v1/messages", json={"model": "guide", "messages": MESSAGES, "max_tokens": 5}, headers=headers
    ) as reply:
        assert (reply.status, (await reply.json())["error"]["type"]) == (400, "invalid_request_error")


async def test_auto_is_the_profiles_model(gateway: Gateway) -> None:
    embedder = Profile(name="docs", models=[ProfileModel(model="org/embed:q8")])
    gateway.services.profiles.save_profile(SaveProfile(profile=embedder))
    body = {"model": "auto", "input": "text"}
    headers = {PROFILE_HEADER: "docs"}
    async with gateway.http.post(f"{gateway.url}/v1/embeddings", json=body, headers=headers) as reply:
        await reply.read()
    assert gateway.supervisor.load_requests[-1].source.name == "org/embed:q8"
    assert (await ask(gateway, "auto", "docs"))[0] == 200, "what none of its models can do another does"
    assert gateway.supervisor.load_requests[-1].source.name == "guide"


class Clock:
    """A clock on the wall that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def set(self, text: str) -> None:
        self.now = datetime.fromisoformat(text).timestamp()

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watch(gateway: Gateway) -> HoursWatch:
    gateway.supervisor.is_loaded = False
    for name, start, end in (("night", "22:00", "06:00"), ("noon", "12:00", "13:00")):
        profile = Profile(name=name, hours=[ProfileHours(start=start, end=end)])
        gateway.services.profiles.save_profile(SaveProfile(profile=profile))
    return HoursWatch(gateway.services, ProfileSwitcher(gateway.services), Clock())


async def look(gateway: Gateway, watch: HoursWatch, text: str) -> tuple[str, ProfileCause]:
    clock: Any = watch._clock
    clock.set(text)
    await watch.check_once()
    return gateway.services.profiles.state.active, gateway.services.profiles.state.cause


async def test_hours_switch_there_and_back(gateway: Gateway, watch: HoursWatch) -> None:
    gateway.services.profiles.set_state(ProfileState(active="coding"))
    assert await look(gateway, watch, "2026-11-23 21:59") == ("coding", ProfileCause.PERSON)
    assert await look(gateway, watch, "2026-11-23 22:00") == ("night", ProfileCause.HOURS)
    assert await look(gateway, watch, "2026-11-24 05:59") == ("night", ProfileCause.HOURS)
    assert await look(gateway, watch, "2026-11-24 06:00") == ("coding", ProfileCause.PERSON)


async def test_a_computer_that_slept_switches_late_or_not_at_all(gateway: Gateway, watch: HoursWatch) -> None:
    assert await look(gateway, watch, "2026-11-23 11:00") == ("", ProfileCause.PERSON)
    assert await look(gateway, watch, "2026-11-23 15:00") == ("", ProfileCause.PERSON), "noon is over"
    assert await look(gateway, watch, "2026-11-24 03:00") == ("night", ProfileCause.HOURS)
    assert await look(gateway, watch, "2026-11-25 15:00") == ("", ProfileCause.PERSON), "the end was slept through"


async def test_what_a_person_chooses_stays_until_other_hours_begin(gateway: Gateway, watch: HoursWatch) -> None:
    assert (await look(gateway, watch, "2026-11-23 22:30"))[0] == "night"
    switcher = watch._switcher
    await switcher.switch_to("coding")
    assert await look(gateway, watch, "2026-11-23 23:00") == ("coding", ProfileCause.PERSON)
    assert await look(gateway, watch, "2026-11-24 07:00") == ("coding", ProfileCause.PERSON), "nothing to go back from"
    assert await look(gateway, watch, "2026-11-24 12:10") == ("noon", ProfileCause.HOURS)
    assert await look(gateway, watch, "2026-11-24 13:10") == ("coding", ProfileCause.PERSON)
    await switcher.close()


async def test_a_paused_gateway_switches_once_it_goes_on(gateway: Gateway, watch: HoursWatch) -> None:
    gateway.supervisor.is_paused = True
    assert (await look(gateway, watch, "2026-11-23 22:00"))[0] == ""
    gateway.supervisor.is_paused = False
    assert (await look(gateway, watch, "2026-11-23 22:10"))[0] == "night"


async def test_a_profile_removed_within_its_hours_ends_them(gateway: Gateway, watch: HoursWatch) -> None:
    gateway.services.profiles.set_state(ProfileState(active="coding"))
    assert (await look(gateway, watch, "2026-11-23 22:30"))[0] == "night"
    gateway.services.profiles.remove_profile("night")
    assert (await look(gateway, watch, "2026-11-23 22:31"))[0] == "coding"
