"""Names that clients hard-code: aliases, and the model that answers every other name."""

import pytest
from aiohttp import web

from tests.gateway.played import Gateway

ASKED = [{"role": "user", "content": "Why?"}]


@pytest.fixture(autouse=True)
def answers(gateway: Gateway) -> None:
    async def play(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"choices": [{"message": {"role": "assistant", "content": "ok"}}]})

    gateway.upstream.play = play


async def ask_model(gateway: Gateway, model: str) -> int:
    status, _ = await gateway.chat(model=model, messages=ASKED)
    return status


async def test_without_one_a_name_that_is_not_here_is_refused(gateway: Gateway) -> None:
    assert await ask_model(gateway, "gpt-9") == 404


async def test_one_model_answers_every_name_that_is_not_here(gateway: Gateway) -> None:
    gateway.services.settings.change_values({"models.fallback": "guide"})
    assert await ask_model(gateway, "gpt-9") == 200
    assert gateway.supervisor.load_requests[-1].source.name == "guide"
    async with gateway.http.post(f"{gateway.url}/api/show", json={"model": "qwen3"}) as reply:
        assert reply.status == 200


async def test_the_model_in_use_can_be_the_one(gateway: Gateway) -> None:
    gateway.services.settings.change_values({"models.fallback": "auto"})
    assert await ask_model(gateway, "gpt-9") == 200


async def test_a_models_own_name_and_an_alias_go_first(gateway: Gateway) -> None:
    gateway.services.settings.change_values({"models.fallback": "org/embed:q8", "models.aliases": ["gpt-*=guide"]})
    assert await ask_model(gateway, "guide") == 200
    assert await ask_model(gateway, "gpt-9") == 200
    assert await ask_model(gateway, "other") == 400, "it makes embeddings, and says so"


async def test_one_that_is_not_here_itself_is_no_endless_search(gateway: Gateway) -> None:
    gateway.services.settings.change_values({"models.fallback": "gone"})
    assert await ask_model(gateway, "gpt-9") == 404
    assert await ask_model(gateway, "gone") == 404


@pytest.mark.parametrize("name", ["claude-opus-4-8:latest", "gpt-4o:latest", "auto:latest", "Auto"])
async def test_a_tag_that_ollamas_clients_add_hides_no_alias(gateway: Gateway, name: str) -> None:
    gateway.services.settings.change_values({"models.aliases": ["claude-*=auto", "gpt-4o=guide"]})
    assert await ask_model(gateway, name) == 200
    assert gateway.supervisor.load_requests[-1].source.name == "guide"


async def test_a_model_really_named_so_goes_before_the_alias(gateway: Gateway) -> None:
    gateway.services.settings.change_values({"models.aliases": ["guide=org/embed:q8", "guide:*=org/embed:q8"]})
    assert await ask_model(gateway, "guide:latest") == 200
    assert gateway.supervisor.load_requests[-1].source.name == "guide"
