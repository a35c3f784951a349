"""Limits of keys: what goes over is refused before an engine is asked, in the words that each client knows."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import anthropic
import msgspec
import ollama
import openai
import pytest
from aiohttp import ClientSession

from app.config.paths import Paths
from app.core.documents import NewCollection
from app.core.errors import BadRequest, Conflict, NotFound
from app.core.keys import NO_LIMITS, KeyInfo, KeyLimits, KeyTokens, KeyUsage, LimitName, NewKey, Scope
from app.core.requests import KeyDay
from app.gateway.dialects.openai.record import rate_headers
from app.gateway.dialects.record import RateState, RateUnit
from app.gateway.entry.key_limits import KeyUse, RateLimitExceeded, SlidingWindow, estimate_tokens
from app.gateway.entry.keys import KeyStore
from app.gateway.services import Limits, Services
from tests.gateway.exchange.test_streaming import DONE, event, streams
from tests.gateway.played import Gateway, played_services, serve_gateway
from tests.patience import PATIENCE_S, until

T = TypeVar("T")
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":12}}\n\n'
HI: Any = [{"role": "user", "content": "Hi"}]


class Clock:
    now = 1_790_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def environ() -> dict[str, str]:
    return {"ROUNDHOUSE_GATEWAY_REQUIRE_KEY": "true"}


def make_key(services: Services, limits: KeyLimits) -> str:
    return services.keys.make_key(NewKey(name="ci", limits=limits)).key


async def chat(gateway: Gateway, key: str, model: str = "guide", path: str = "/v1/chat/completions") -> tuple[int, Any]:
    body = {"model": model, "messages": HI, "stream": True}
    async with gateway.http.post(gateway.url + path, json=body, headers={"x-api-key": key}) as reply:
        return reply.status, await reply.text()


def test_a_window_forgets_what_is_older_than_it_and_says_when() -> None:
    window = SlidingWindow(60)
    for second in range(10):
        window.add(10, float(second))
    assert window.total(9) == 100
    assert window.wait_s(100, 9) == 51
    assert window.wait_s(50, 9) == 56
    assert window.wait_s(101, 9) == 0
    assert (window.total(60), window.reset_s(60)) == (90, 9)
    assert (window.total(70), window.reset_s(70), window.wait_s(1, 70)) == (0, 0, 0)


def test_never_is_more_let_through_in_any_minute_than_the_limit() -> None:
    clock = Clock()
    use, admitted_at, waits = KeyUse(KeyLimits(requests_per_minute=5), clock), [], []
    for _ in range(400):
        clock.now += 0.7
        try:
            with use:
                admitted_at.append(clock.now)
        except RateLimitExceeded as error:
            waits.append(int(error.retry_after))
    assert len(admitted_at) > 15
    assert min(waits) > 0
    assert max(waits) <= 60  # SDKs wait no longer
    assert all(last - first > 59.7 for first, last in zip(admitted_at, admitted_at[5:], strict=False))


def test_waiting_as_long_as_said_is_enough() -> None:
    clock = Clock()
    use = KeyUse(KeyLimits(tokens_per_minute=10, tokens_per_day=100), clock)
    use.note_tokens(99)
    with pytest.raises(RateLimitExceeded) as first, use:
        pass
    assert first.value.is_soon
    clock.now += float(first.value.retry_after)
    with use:
        use.note_tokens(1)
    clock.now += 61
    with pytest.raises(RateLimitExceeded, match=r"100 tokens per day, .* again in 24 hours") as day:
        use.__enter__()
    assert not day.value.is_soon
    clock.now += float(day.value.retry_after)
    with use:
        assert use.usage().requests_in_flight == 1
    assert use.usage().requests_in_flight == 0


def test_pictures_in_a_prompt_that_broke_off_are_no_tokens() -> None:
    text = "Wie geht es dir? " * 400
    picture = "iVBORw0KGgo" * 9000
    body = json.dumps({"messages": [{"content": text}, {"url": f"data:image/png;base64,{picture}"}]}).encode()
    assert len(text) / 4 <= estimate_tokens(body) < len(text) / 3.5
    assert estimate_tokens(b"--boundary\r\n" + body) == 0


@pytest.mark.parametrize(("reset_s", "text"), [(0, "0s"), (1.25, "1.25s"), (360, "6m0s"), (86_399.5, "23h59m59.5s")])
def test_openai_writes_durations_as_go_does(reset_s: float, text: str) -> None:
    state = RateState(unit=RateUnit.TOKENS, limit=9, remaining=1, reset_at=0, reset_s=reset_s)
    assert ("x-ratelimit-reset-tokens", text) in rate_headers(state)


def test_limits_are_kept_changed_and_lifted(tmp_path: Path) -> None:
    file, clock = tmp_path / "keys.json", Clock()
    keys = KeyStore(file, clock)
    new_key = keys.make_key(NewKey(name="ci", limits=KeyLimits(tokens_per_day=5, models=["guide"])))
    use = keys.use_of(new_key.id)
    assert use is not None
    with use:
        pass
    assert keys.limit_key("ci", KeyLimits(requests_per_minute=1)).limits == KeyLimits(requests_per_minute=1)
    (listed_key,) = KeyStore(file, clock).list_keys()
    assert listed_key.limits == KeyLimits(requests_per_minute=1)
    with pytest.raises(RateLimitExceeded), use:  # the earlier request counts
        pass
    keys.limit_key("ci", NO_LIMITS)
    key = keys.find_key(new_key.key)
    assert key is not None
    assert key.limits is None
    with pytest.raises(NotFound):
        keys.limit_key("other", NO_LIMITS)
    keys.make_key(NewKey(name="admin", scopes=[Scope.MANAGE]))
    with pytest.raises(BadRequest, match="can change the limits"):
        keys.limit_key("admin", KeyLimits(tokens_per_day=5))


def test_a_file_from_before_limits_is_read(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    old = {"name": "old", "sha256": "0" * 64, "scopes": ["inference"], "created_at": 1.0}
    file.write_text(json.dumps({"version": 1, "keys": [old]}))
    keys = KeyStore(file)
    assert [(key.limits, key.id) for key in keys.list_keys()] == [(None, "old")]
    keys.rename_key("old", "new")
    assert [(key.name, key.id) for key in KeyStore(file).list_keys()] == [("new", "old")]
    assert keys.make_key(NewKey(name="old")).id != "old"


def test_a_key_that_is_held_back_says_why_and_for_how_long() -> None:
    clock = Clock()
    use = KeyUse(KeyLimits(requests_per_minute=1, tokens_per_day=10, concurrent_requests=1), clock)
    assert use.usage() == KeyUsage(
        requests_last_minute=0, tokens_last_minute=0, tokens_last_day=0, requests_in_flight=0
    )
    with use:
        usage = use.usage()
        assert (usage.limit_reached, usage.wait_s) == (LimitName.CONCURRENT_REQUESTS, None)
        with pytest.raises(RateLimitExceeded), use:
            pass
    usage = use.usage()
    assert (usage.limit_reached, usage.refused_last_hour) == (LimitName.REQUESTS_PER_MINUTE, 1)
    assert usage.wait_s is not None
    clock.now += usage.wait_s
    assert use.usage().limit_reached is None
    use.note_tokens(10)
    usage = use.usage()
    assert usage.limit_reached is LimitName.TOKENS_PER_DAY
    assert usage.wait_s == pytest.approx(86_400, abs=360)
    clock.now += 3600 + 15
    assert use.usage().refused_last_hour == 0


def test_a_day_goes_on_after_a_restart(tmp_path: Path) -> None:
    clock = Clock()
    keys = KeyStore(tmp_path / "keys.json", clock)
    new_key = keys.make_key(NewKey(name="ci", limits=KeyLimits(tokens_per_day=100)))
    again = KeyStore(tmp_path / "keys.json", clock)
    hours = [(new_key.id, 20, 60), ("of a key that was revoked", 10, 1000), (new_key.id, 2, 30), (new_key.id, -1, 10)]
    again.resume_uses(KeyTokens(key_id=key, at=clock.now - 3600 * ago, tokens=count) for key, ago, count in hours)
    use = again.use_of(new_key.id)
    assert use is not None
    with pytest.raises(RateLimitExceeded, match="100 were used"), use:  # a clock that was set back loses nothing
        pass
    assert (use.usage().tokens_last_day, use.usage().tokens_last_minute) == (100, 10)
    clock.now += 4 * 3600
    assert use.usage().tokens_last_day == 40
    clock.now += 20 * 3600 + 360
    assert use.usage().tokens_last_day == 0


def test_a_renamed_key_stays_what_it_is(tmp_path: Path) -> None:
    file, clock = tmp_path / "keys.json", Clock()
    keys = KeyStore(file, clock)
    new_key = keys.make_key(NewKey(name="ci", limits=KeyLimits(tokens_per_day=5)))
    keys.make_key(NewKey(name="other"))
    use = keys.use_of(new_key.id)
    assert use is not None
    use.note_tokens(5)
    with pytest.raises(Conflict):
        keys.rename_key("ci", "other")
    assert keys.rename_key("ci", "ci").name == "ci"
    renamed_key = keys.rename_key("ci", "build")
    assert (renamed_key.name, renamed_key.id, renamed_key.limits) == ("build", new_key.id, KeyLimits(tokens_per_day=5))
    assert renamed_key.usage is not None
    assert renamed_key.usage.limit_reached is LimitName.TOKENS_PER_DAY
    assert keys.seconds_left(new_key.id) > 0
    for name in ("ci", "nothing"):
        with pytest.raises(NotFound):
            keys.rename_key(name, "new")
    shown_key = KeyStore(file, clock).find_key(new_key.key)
    assert shown_key is not None
    assert (shown_key.name, shown_key.id) == ("build", new_key.id)
    assert keys.make_key(NewKey(name="ci")).id != new_key.id


def test_a_new_key_takes_over_nothing_of_a_revoked_one(tmp_path: Path) -> None:
    keys = KeyStore(tmp_path / "keys.json", Clock())
    first = keys.make_key(NewKey(name="ci", limits=KeyLimits(tokens_per_day=5)))
    use = keys.use_of(first.id)
    assert use is not None
    use.note_tokens(5)
    keys.revoke_key("ci")
    restored_key = keys.restore_key("ci")
    assert (restored_key.id, restored_key.limits, restored_key.usage) == (
        first.id,
        KeyLimits(tokens_per_day=5),
        use.usage(),
    )
    keys.revoke_key("ci")
    second = keys.make_key(NewKey(name="ci", limits=KeyLimits(tokens_per_day=5)))
    assert second.id != first.id
    (listed_key,) = keys.list_keys()
    assert listed_key.usage is not None
    assert (listed_key.usage.tokens_last_day, listed_key.usage.limit_reached) == (0, None)


@pytest.mark.parametrize("limits", [{"requests_per_minute": 0}, {"tokens_per_day": -1}, {"models": [""]}, {"rpm": 3}])
def test_limits_that_mean_nothing_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"name": "ci", "limits": limits}, NewKey)


async def test_each_client_is_refused_in_its_words_before_an_engine_is_asked(gateway: Gateway) -> None:
    gateway.upstream.play = streams(event("a"), USAGE, DONE)
    key = make_key(gateway.services, KeyLimits(requests_per_minute=1, tokens_per_minute=1000))
    assert (await chat(gateway, key))[0] == 200
    leases = len(gateway.supervisor.load_requests)
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=0, timeout=PATIENCE_S) as api:
        with pytest.raises(openai.RateLimitError, match="limit of this key is 1 requests per minute") as of_openai:
            await api.chat.completions.create(model="guide", messages=HI)
    head = of_openai.value.response.headers
    assert (of_openai.value.code, head["x-ratelimit-limit-requests"]) == ("rate_limit_exceeded", "1")
    assert (head["x-ratelimit-remaining-requests"], head["x-ratelimit-remaining-tokens"]) == ("0", "958")
    assert 0 < int(head["retry-after"]) <= 60
    async with anthropic.AsyncAnthropic(base_url=gateway.url, api_key=key, max_retries=0, timeout=PATIENCE_S) as api:
        with pytest.raises(anthropic.RateLimitError) as of_anthropic:
            await api.messages.create(model="guide", max_tokens=8, messages=HI)
    assert "rate_limit_error" in str(of_anthropic.value.body)
    head = of_anthropic.value.response.headers
    assert (head["anthropic-ratelimit-requests-remaining"], head["anthropic-ratelimit-tokens-limit"]) == ("0", "1000")
    assert head["anthropic-ratelimit-requests-reset"].endswith("Z")
    async with ollama.AsyncClient(gateway.url, headers={"authorization": f"Bearer {key}"}) as client:
        with pytest.raises(ollama.ResponseError, match="Try again in") as of_ollama:
            await client.chat("guide", HI)
    assert of_ollama.value.status_code == 429
    status, text = await chat(gateway, key, path="/v1beta/models/guide:generateContent")
    assert (status, json.loads(text)["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")
    assert len(gateway.supervisor.load_requests) == leases


async def test_tokens_count_when_an_answer_ends_and_when_it_breaks_off(gateway: Gateway) -> None:
    gateway.upstream.play = streams(event("a"), USAGE, DONE)
    key = make_key(gateway.services, KeyLimits(tokens_per_day=43))
    assert [(await chat(gateway, key))[0] for _ in range(3)] == [200, 200, 429]
    (info,) = gateway.services.keys.list_keys()
    assert info.usage is not None
    assert info.usage.tokens_last_day == 84
    gateway.services.keys.limit_key("ci", KeyLimits(tokens_per_day=85))
    gateway.upstream.play = streams(*(event("word ") for _ in range(20)), then=lambda _: None)
    body = {"model": "guide", "messages": [{"role": "user", "content": "Tell me more. " * 20}], "stream": True}
    async with (
        ClientSession() as http,
        http.post(f"{gateway.url}/v1/chat/completions", json=body, headers={"x-api-key": key}) as reply,
    ):
        await reply.content.readuntil(b"\n\n")

    async def is_refused() -> bool:
        return (await chat(gateway, key))[0] == 429

    gateway.upstream.play = streams(event("a"), DONE)
    await until(is_refused)
    (info,) = gateway.services.keys.list_keys()
    assert info.usage is not None
    assert info.usage.tokens_last_day > 84 + 70


async def test_so_many_at_once_and_no_more(gateway: Gateway) -> None:
    gateway.upstream.play = streams(event("a"), then=lambda _: None)
    key = make_key(gateway.services, KeyLimits(concurrent_requests=1))
    first = asyncio.create_task(chat(gateway, key))
    async with asyncio.timeout(PATIENCE_S):
        await gateway.upstream.arrival.wait()
    status, text = await chat(gateway, key)
    assert (status, "1 requests answered at once" in text) == (429, True)
    first.cancel()
    gateway.upstream.play = streams(event("a"), DONE)

    async def is_answered() -> bool:
        return (await chat(gateway, key))[0] == 200

    await until(is_answered)


async def test_a_key_sees_and_asks_only_its_models(gateway: Gateway) -> None:
    gateway.upstream.play = streams(event("a"), DONE)
    key = make_key(gateway.services, KeyLimits(models=["gui*"]))

    async def read(path: str) -> tuple[int, str]:
        async with gateway.http.get(gateway.url + path, headers={"x-api-key": key}) as reply:
            return reply.status, await reply.text()

    for path in ("/v1/models", "/v1beta/models", "/api/tags", "/api/v1/models"):
        status, text = await read(path)
        assert (status, "guide" in text, "embed" in text) == (200, True, False), path
    assert (await read("/v1/models/org/embed:q8"))[0] == 404
    assert (await chat(gateway, key))[0] == 200
    assert (await chat(gateway, key, "auto"))[0] == 200
    other = gateway.services.keys.make_key(NewKey(name="free")).key
    assert (await chat(gateway, other, "org/embed:q8"))[0] == 400
    leases = len(gateway.supervisor.load_requests)
    for name in ("org/embed:q8", "nothing"):
        status, text = await chat(gateway, key, name)
        assert (status, json.loads(text)["error"]["code"]) == (404, "model_not_found")
        assert "It may use gui*." in text
    status, text = await chat(gateway, key, "org/embed:q8", "/api/chat")
    assert (status, "error" in json.loads(text)) == (404, True)
    assert len(gateway.supervisor.load_requests) == leases


async def test_a_key_without_limits_after_one_with_them_has_none(gateway: Gateway) -> None:
    gateway.upstream.play = streams(event("a"), DONE)
    limited_key = make_key(gateway.services, KeyLimits(models=["other"], requests_per_minute=1))
    free = gateway.services.keys.make_key(NewKey(name="free")).key
    assert [(await chat(gateway, key))[0] for key in (limited_key, free, limited_key, free)] == [404, 200, 429, 200]


async def test_usage_of_keys_by_day_and_over_a_restart(
    gateway: Gateway, paths: Paths, environ: dict[str, str], limits: Limits, unused_tcp_port_factory: Callable[[], int]
) -> None:
    gateway.upstream.play = streams(event("a"), USAGE, DONE)
    key = make_key(gateway.services, KeyLimits(tokens_per_day=80))
    admin = gateway.services.keys.make_key(NewKey(name="admin", scopes=[Scope.MANAGE])).key
    assert [(await chat(gateway, key))[0] for _ in range(3)] == [200, 200, 429]
    assert (await chat(gateway, admin))[0] == 200

    async def read(path: str, kind: type[T], method: str = "GET", body: object = None) -> T:
        head = {"x-api-key": admin}
        async with gateway.http.request(method, f"{gateway.url}/roundhouse/v1{path}", json=body, headers=head) as reply:
            assert reply.status == 200, await reply.text()
            return msgspec.json.decode(await reply.read(), type=kind)

    limited_day, other = sorted(await read("/usage/keys", list[KeyDay]), key=lambda row: -row.requests)
    assert (limited_day.key, limited_day.requests, limited_day.failed, limited_day.held_back) == ("ci", 3, 0, 1)
    assert (limited_day.prompt_tokens, limited_day.completion_tokens, limited_day.is_revoked) == (60, 24, False)
    assert (other.key, other.requests, other.day) == ("admin", 1, limited_day.day)
    await read("/keys/ci/rename", KeyInfo, "POST", {"name": "build"})
    assert {row.key for row in await read("/usage/keys?days=1", list[KeyDay])} == {"build", "admin"}

    later = await played_services(paths, environ, limits, gateway.upstream)  # once the first has stored everything
    async with serve_gateway(later, gateway.upstream, unused_tcp_port_factory()) as again:
        (info, _) = later.keys.list_keys()
        assert info.usage is not None
        assert (info.name, info.usage.tokens_last_day) == ("build", 84)
        assert (await chat(again, key))[0] == 429
        later.keys.revoke_key("build")
        rows = await again.http.get(f"{again.url}/roundhouse/v1/usage/keys", headers={"x-api-key": admin})
        by_name = {row.key: row for row in msgspec.json.decode(await rows.read(), type=list[KeyDay])}
        assert by_name["build"].is_revoked
        assert not by_name["admin"].is_revoked


@pytest.mark.parametrize("days", ["0", "367", "-1", "x", "1.5", ""])
async def test_a_number_of_days_that_means_nothing_is_refused(gateway: Gateway, days: str) -> None:
    admin = gateway.services.keys.make_key(NewKey(name="admin", scopes=[Scope.MANAGE])).key
    url = f"{gateway.url}/roundhouse/v1/usage/keys?days={days}"
    async with gateway.http.get(url, headers={"x-api-key": admin}) as reply:
        assert (reply.status, "days" in await reply.text()) == (400, True)


@pytest.mark.parametrize("body", [{"name": "a/b"}, {"name": ""}, {"name": "x" * 65}, {"name": 1}, {}, {"to": "b"}])
async def test_names_that_are_none_are_refused(gateway: Gateway, body: dict[str, Any]) -> None:
    admin = gateway.services.keys.make_key(NewKey(name="admin", scopes=[Scope.MANAGE])).key
    url = f"{gateway.url}/roundhouse/v1/keys/admin/rename"
    async with gateway.http.post(url, json=body, headers={"x-api-key": admin}) as reply:
        assert reply.status == 400
    assert [key.name for key in gateway.services.keys.list_keys()] == ["admin"]


async def test_what_belongs_to_a_key_is_its_under_another_name(
    gateway: Gateway, tmp_path_factory: pytest.TempPathFactory
) -> None:
    gateway.upstream.play = streams(event("a"), USAGE, DONE)
    make = gateway.services.keys.make_key
    key, person = make(NewKey(name="ci")).key, "token"
    own = f"{gateway.url}/roundhouse/v1"

    async def send(method: str, url: str, key: str, body: object = None) -> tuple[int, Any]:
        async with gateway.http.request(method, url, json=body, headers={"x-api-key": key}) as reply:
            return reply.status, await reply.json()

    new = {"model": "guide", "input": "Hi"}
    _, response = await send("POST", f"{gateway.url}/v1/responses", key, new)
    collection = NewCollection(name="Notes", folders=[str(tmp_path_factory.mktemp("notes"))], keys=["ci", "other"])
    assert (await send("POST", f"{own}/collections", person, msgspec.to_builtins(collection)))[0] == 200
    assert (await send("POST", f"{own}/keys/ci/rename", person, {"name": "build"}))[0] == 200
    _, collections = await send("GET", f"{own}/collections", person)
    assert [collection["keys"] for collection in collections] == [["build", "other"]]
    stores = await send("GET", f"{gateway.url}/v1/vector_stores", key)
    assert [store["name"] for store in stores[1]["data"]] == ["Notes"]
    assert (await send("GET", f"{gateway.url}/v1/responses/{response['id']}", key))[0] == 200
    other = make(NewKey(name="ci")).key
    assert (await send("GET", f"{gateway.url}/v1/responses/{response['id']}", other))[0] == 404
    assert (await send("GET", f"{gateway.url}/v1/vector_stores", other))[1]["data"] == []
