"""How long a model stays and with how much context, asked for in dialects that have no words for it."""

import math

import pytest

from app.gateway.loading import memory_fit
from app.supervisor.policy import LeaseOptions
from tests.gateway.exchange.test_streaming import DONE, event, streams
from tests.gateway.loading.test_asked_context import Room
from tests.gateway.played import Gateway

CHAT: dict[str, object] = {"model": "guide", "messages": [{"role": "user", "content": "Hi"}]}
MESSAGES: dict[str, object] = {**CHAT, "max_tokens": 5}
TURN: dict[str, object] = {"model": "guide", "input": "Hi"}
PROMPT: dict[str, object] = {"model": "guide", "prompt": "Hi"}
EVERYWHERE = [
    ("/v1/chat/completions", CHAT),
    ("/v1/messages", MESSAGES),
    ("/v1/responses", TURN),
    ("/api/chat", CHAT),
    ("/api/generate", PROMPT),
    ("/api/v0/chat/completions", CHAT),
    ("/api/v0/completions", PROMPT),
    ("/api/v1/chat", TURN),
]


async def lease_options_of(gateway: Gateway, path: str, body: dict[str, object]) -> LeaseOptions:
    gateway.upstream.play = streams(event("Hi") + DONE)
    async with gateway.http.post(gateway.url + path, json=body) as reply:
        await reply.read()
        assert reply.status == 200
    return gateway.supervisor.terms[-1]


@pytest.mark.slow(cases=13)
@pytest.mark.parametrize(("path", "body"), EVERYWHERE)
@pytest.mark.parametrize(
    ("fields", "expected_options"),
    [
        ({}, LeaseOptions()),
        ({"ttl": 90}, LeaseOptions(keep_s=90.0)),
        ({"keep_alive": "5m"}, LeaseOptions(keep_s=300.0)),
        ({"keep_alive": -1}, LeaseOptions(keep_s=math.inf)),
        ({"keep_alive": 0}, LeaseOptions(keep_s=0.0)),
        ({"options": {}}, LeaseOptions()),
    ],
)
async def test_what_is_said_of_its_staying_reaches_the_scheduler(
    gateway: Gateway, path: str, body: dict[str, object], fields: dict[str, object], expected_options: LeaseOptions
) -> None:
    assert await lease_options_of(gateway, path, {**body, **fields}) == expected_options


@pytest.mark.parametrize(("path", "body"), EVERYWHERE)
async def test_a_context_is_asked_for_as_in_ollamas_dialect(
    gateway: Gateway, path: str, body: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_fit, "fit_load", Room(100_000))
    assert await lease_options_of(gateway, path, {**body, "options": {"num_ctx": 1500}}) == LeaseOptions(context=1500)
    assert gateway.supervisor.load_requests[-1].options.context == 2048, "rounded up, and as much as it was trained for"


@pytest.mark.parametrize("fields", [{"ttl": 0}, {"ttl": "soon"}, {"keep_alive": "soon"}, {"options": {"num_ctx": 0}}])
async def test_nonsense_is_refused(gateway: Gateway, fields: dict[str, object]) -> None:
    async with gateway.http.post(f"{gateway.url}/v1/chat/completions", json={**CHAT, **fields}) as reply:
        assert reply.status == 400


async def test_counting_tokens_takes_no_slot(gateway: Gateway) -> None:
    assert not (await lease_options_of(gateway, "/v1/messages/count_tokens", CHAT)).takes_slot
    assert not (await lease_options_of(gateway, "/tokenize", {"model": "guide", "content": "Hi"})).takes_slot
