"""A kept response belongs to the key that made it: under another key there is nothing by its id (CVE-2026-45349)."""

from typing import Any

import pytest

from app.core.keys import NewKey
from app.gateway.dialects.responses.ownership import is_owned, new_response_id
from app.gateway.services import Services
from tests.gateway.dialects.test_ollama_generation import END, says, streams
from tests.gateway.played import Gateway


@pytest.fixture
def environ() -> dict[str, str]:
    return {"ROUNDHOUSE_GATEWAY_REQUIRE_KEY": "true"}


@pytest.fixture
def keys(services: Services) -> tuple[str, str]:
    """The keys of two programs."""
    return services.keys.make_key(NewKey(name="mine")).key, services.keys.make_key(NewKey(name="theirs")).key


async def call(gateway: Gateway, key: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
    url, headers = f"{gateway.url}/v1/responses{path}", {"Authorization": f"Bearer {key}"}
    async with gateway.http.request(method, url, json=body, headers=headers) as reply:
        return reply.status, await reply.json(content_type=None)


async def test_another_key_finds_nothing(gateway: Gateway, keys: tuple[str, str]) -> None:
    mine, theirs = keys
    gateway.upstream.play = streams(says("secret"), END)
    status, response = await call(gateway, mine, "POST", "", {"model": "guide", "input": "Hi"})
    assert status == 200
    path, item = f"/{response['id']}", response["output"][0]["id"]
    for method, place in (("GET", path), ("GET", f"{path}/input_items"), ("DELETE", path), ("POST", f"{path}/cancel")):
        assert (await call(gateway, theirs, method, place))[0] == 404
    follow = {"model": "guide", "input": "And?", "previous_response_id": response["id"]}
    status, refusal = await call(gateway, theirs, "POST", "", follow)
    assert (status, refusal["error"]["code"]) == (400, "previous_response_not_found")
    status, refusal = await call(
        gateway, theirs, "POST", "", {"model": "guide", "input": [{"type": "item_reference", "id": item}]}
    )
    assert status == 400
    assert "secret" not in str(gateway.upstream.bodies)
    assert (await call(gateway, mine, "GET", path))[0] == 200
    assert (await call(gateway, mine, "POST", "", follow))[0] == 200


def test_an_id_tells_its_owner_and_no_other() -> None:
    mine = new_response_id("mine")
    assert is_owned(mine, "mine")
    assert not any(is_owned(mine, other) for other in ("", "theirs", "mine "))
    assert is_owned(new_response_id(""), "")
    assert not is_owned("resp_", "")
    assert not is_owned("nonsense", "mine")
