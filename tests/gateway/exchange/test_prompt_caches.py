"""A run of an engine that two keys use goes without its prompt cache, which would tell one what the other asked."""

import asyncio
import json
from typing import Any

import pytest

from app.core.keys import NewKey
from app.gateway.exchange import client_stream
from app.gateway.services import Services
from tests.gateway.exchange.test_streaming import DONE, event, streams
from tests.gateway.played import Gateway
from tests.patience import until

HI = [{"role": "user", "content": "Hi"}]
PATHS = ("/v1/chat/completions", "/v1/messages", "/api/chat", "/v1/responses")


@pytest.fixture
def keys(services: Services) -> tuple[str, str]:
    """The keys of two programs."""
    return services.keys.make_key(NewKey(name="mine")).key, services.keys.make_key(NewKey(name="theirs")).key


@pytest.fixture
def environ() -> dict[str, str]:
    return {"ROUNDHOUSE_GATEWAY_REQUIRE_KEY": "true"}


async def sent_with(gateway: Gateway, key: str, path: str = PATHS[0]) -> dict[str, Any]:
    """Ask with a key; return what the engine was sent."""
    gateway.upstream.play = streams(event("Good morning."), DONE)
    body = {"model": "guide", "messages": HI, "input": "Hi", "stream": True, "max_tokens": 9}
    async with gateway.http.post(f"{gateway.url}{path}", json=body, headers={"x-api-key": key}) as reply:
        await reply.read()
        assert reply.status == 200
    document: dict[str, Any] = json.loads(gateway.upstream.bodies[-1])
    return document


async def test_one_key_has_the_cache(gateway: Gateway, keys: tuple[str, str]) -> None:
    for path in PATHS:
        assert "cache_prompt" not in await sent_with(gateway, keys[0], path)


@pytest.mark.parametrize("path", PATHS)
async def test_from_the_second_key_on_nobody_has_it(gateway: Gateway, keys: tuple[str, str], path: str) -> None:
    await sent_with(gateway, keys[0], path)
    for key in (keys[1], keys[0], keys[1]):
        body = await sent_with(gateway, key, path)
        assert body["cache_prompt"] is False
        assert body["stream"] is True


async def test_a_person_can_have_it_shared(gateway: Gateway, keys: tuple[str, str]) -> None:
    gateway.services.settings.change_values({"engine.share_cache": True})
    for key in keys:
        assert "cache_prompt" not in await sent_with(gateway, key)
    gateway.services.settings.change_values({"engine.share_cache": False})
    assert (await sent_with(gateway, keys[0]))["cache_prompt"] is False


async def test_a_client_cannot_turn_it_on_again(gateway: Gateway, keys: tuple[str, str]) -> None:
    for key in keys:
        await sent_with(gateway, key)
    gateway.upstream.play = streams(event("Good morning."), DONE)
    body = {"model": "guide", "messages": HI, "stream": True, "cache_prompt": True}
    headers = {"Authorization": f"Bearer {keys[1]}"}
    async with gateway.http.post(f"{gateway.url}/v1/chat/completions", json=body, headers=headers) as reply:
        await reply.read()
    assert json.loads(gateway.upstream.bodies[-1])["cache_prompt"] is False


@pytest.mark.parametrize("quiet_s", [client_stream.QUIET_S, 0.0], ids=["before the head", "after the head"])
@pytest.mark.parametrize("streams_answer", [True, False])
async def test_a_message_in_line_goes_without_it_once_another_key_was_served_first(
    gateway: Gateway, keys: tuple[str, str], monkeypatch: pytest.MonkeyPatch, quiet_s: float, *, streams_answer: bool
) -> None:
    await sent_with(gateway, keys[0])
    gateway.supervisor.may_load.clear()
    others = asyncio.create_task(sent_with(gateway, keys[1]))
    await until(lambda: gateway.supervisor.waiter_count == 1)
    monkeypatch.setattr(client_stream, "QUIET_S", quiet_s)
    body = {"model": "guide", "messages": HI, "stream": streams_answer, "max_tokens": 9}
    pieces: list[bytes] = []
    message = asyncio.create_task(post_message(gateway, keys[0], body, pieces))
    await until(lambda: gateway.supervisor.waiter_count == 2)
    is_begun = streams_answer and not quiet_s
    if is_begun:
        await until(lambda: pieces)
    gateway.supervisor.may_load.set()

    await message
    await others
    text = b"".join(pieces).decode()
    document = json.loads(gateway.upstream.bodies[-1])
    assert document["cache_prompt"] is False
    if streams_answer:
        kinds = [line.removeprefix("event: ") for line in text.splitlines() if line.startswith("event: ")]
        pings = kinds.count("ping")
        assert kinds[: kinds.index("message_start")] == ["ping"] * pings, kinds
        assert kinds.count("message_start") == kinds.count("message_stop") == 1
        assert bool(pings) == is_begun
        assert "Good morning." in text
    else:
        assert json.loads(text)["content"] == [{"type": "text", "text": "Good morning."}]


async def post_message(gateway: Gateway, key: str, body: dict[str, Any], pieces: list[bytes]) -> None:
    async with gateway.http.post(f"{gateway.url}/v1/messages", json=body, headers={"x-api-key": key}) as reply:
        assert reply.status == 200
        async for piece in reply.content.iter_any():
            pieces.append(piece)  # noqa: PERF401 -- the test looks at them meanwhile
