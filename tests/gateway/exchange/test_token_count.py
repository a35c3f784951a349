"""Tokens counted by the engine, or estimated where it cannot: in both dialects that ask for a count."""

from dataclasses import replace
from typing import Any, cast

import msgspec
import pytest

from app.core.models import Preset, PresetMessage
from app.gateway.services import Services
from engines.api import Feature, Route
from tests.gateway.exchange.test_supplied import Engine, Facts, writes
from tests.gateway.played import Gateway

COUNTS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "four" * 10}]}),
    ("/v1/responses/input_tokens", {"input": "four" * 10}),
]
COUNTED = pytest.mark.parametrize(("path", "body"), COUNTS, ids=["anthropic", "responses"])


@pytest.fixture
def engine() -> Engine:
    return Engine(Feature.JSON_SCHEMA)


@pytest.fixture
def services(services: Services, engine: Engine) -> Services:
    return replace(services, adapters=cast("Any", {"llama.cpp": engine}), facts=Facts())


@COUNTED
@pytest.mark.parametrize("engine", [Engine(routes=(Route.CHAT,)), Engine(routes=(Route.CHAT, Route.TOKENIZE))])
async def test_what_no_engine_counts_is_estimated_and_marked(gateway: Gateway, path: str, body: dict[str, Any]) -> None:
    async with gateway.http.post(gateway.url + path, json={"model": "guide", **body}) as reply:
        assert (reply.status, (await reply.json())["input_tokens"]) == (200, 17)
        assert reply.headers["x-roundhouse-estimated"] == "true"
    assert gateway.supervisor.load_requests == [], "nothing is loaded for it"


@pytest.mark.slow(cases=1)
@COUNTED
@pytest.mark.parametrize("engine", [Engine(routes=(Route.CHAT, Route.TOKENIZE, Route.APPLY_TEMPLATE))])
async def test_what_the_engine_counts_is_not_marked(gateway: Gateway, path: str, body: dict[str, Any]) -> None:
    gateway.upstream.play = writes("")
    async with gateway.http.post(gateway.url + path, json={"model": "guide", **body}) as reply:
        assert (reply.status, (await reply.json())["input_tokens"]) == (200, 3)
        assert "x-roundhouse-estimated" not in reply.headers


@pytest.mark.slow(cases=1)
@COUNTED
async def test_what_a_made_model_begins_with_is_estimated_too(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any]
) -> None:
    turns = [PresetMessage(role="user", content="four" * 10), PresetMessage(role="system", content="four" * 99)]
    library = gateway.services.library
    made_model = msgspec.structs.replace(
        library.list_models()[0], name="made", preset=Preset(base="guide", system="four" * 10, messages=turns)
    )
    monkeypatch.setattr(library, "_models", [*library.list_models(), made_model])
    async with gateway.http.post(gateway.url + path, json={"model": "made", **body}) as reply:
        assert (reply.status, (await reply.json())["input_tokens"]) == (200, 17 + 2 * 14)


@pytest.mark.slow(cases=1)
@COUNTED
async def test_a_model_that_does_not_write_is_not_estimated(gateway: Gateway, path: str, body: dict[str, Any]) -> None:
    async with gateway.http.post(gateway.url + path, json={"model": "org/embed:q8", **body}) as reply:
        assert reply.status == 400
