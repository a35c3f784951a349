"""Vector stores at the endpoint: who sees which, and filters."""

import json
from collections.abc import Mapping

import msgspec
import pytest

from app.core.documents import Collection, NewCollection
from app.core.errors import BadRequest
from app.core.keys import NewKey, Scope
from app.gateway.dialects.openai.store_search import AttributeFilter, check_filter, holds
from tests.gateway.admin.conftest import Api
from tests.gateway.played import Gateway


@pytest.fixture
def environ() -> dict[str, str]:
    return {"ROUNDHOUSE_GATEWAY_MAX_BODY_MIB": "1", "ROUNDHOUSE_GATEWAY_REQUIRE_KEY": "1"}


async def call(
    gateway: Gateway, method: str, path: str, key: str, body: object = None
) -> tuple[int, dict[str, object]]:
    headers = {"Authorization": f"Bearer {key}"}
    async with gateway.http.request(method, f"{gateway.url}/v1{path}", json=body, headers=headers) as reply:
        return reply.status, json.loads(await reply.read())


def make_key(gateway: Gateway, name: str) -> str:
    return gateway.services.keys.make_key(NewKey(name=name, scopes=[Scope.INFERENCE])).key


async def list_ids(gateway: Gateway, key: str) -> list[str]:
    _, reply = await call(gateway, "GET", "/vector_stores", key)
    stores = reply["data"]
    assert isinstance(stores, list)
    return [store["id"] for store in stores]


async def test_a_key_sees_its_own_stores_and_those_it_was_given(
    gateway: Gateway, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("elsewhere")
    key, other = make_key(gateway, "one"), make_key(gateway, "other")
    _, new_store = await call(gateway, "POST", "/vector_stores", key, {"name": "Of one"})
    mine = NewCollection(name="Mine", folders=[str(folder)], keys=["other"], is_served=True)
    given_collection = await Api(gateway).call("POST", "/collections", Collection, mine)

    assert await list_ids(gateway, key) == [new_store["id"]]
    assert await list_ids(gateway, other) == [given_collection.id]
    store = f"/vector_stores/{new_store['id']}"
    for method, path, body in (
        ("GET", store, None),
        ("DELETE", store, None),
        ("POST", f"{store}/search", {"query": "a"}),
        ("GET", f"{store}/files", None),
        ("POST", store, {"name": "Taken"}),
    ):
        status, error = await call(gateway, method, path, other, body)
        assert (status, set(error)) == (404, {"error"})
    status, _ = await call(gateway, "DELETE", f"/vector_stores/{given_collection.id}", other)
    assert status == 403
    status, _ = await call(gateway, "POST", f"/vector_stores/{given_collection.id}/search", other, {"query": "a"})
    assert status == 200
    assert (await call(gateway, "GET", "/vector_stores", "wrong"))[0] == 401


@pytest.mark.parametrize(
    ("filters", "is_let_through"),
    [
        ({"type": "eq", "key": "year", "value": 2026}, True),
        ({"type": "ne", "key": "year", "value": 2026}, False),
        ({"type": "gt", "key": "year", "value": 2025}, True),
        ({"type": "lte", "key": "year", "value": 2025}, False),
        ({"type": "in", "key": "of", "value": ["a", "b"]}, True),
        ({"type": "nin", "key": "of", "value": ["a", "b"]}, False),
        ({"type": "lt", "key": "year", "value": "text"}, False),
        ({"type": "eq", "key": "none", "value": 1}, False),
        ({"type": "ne", "key": "none", "value": 1}, True),
        ({"type": "and", "filters": [{"type": "eq", "key": "of", "value": "a"}, {"type": "eq", "key": "x"}]}, False),
        ({"type": "or", "filters": [{"type": "eq", "key": "of", "value": "a"}, {"type": "eq", "key": "x"}]}, True),
    ],
)
def test_filters_compare_attributes(filters: Mapping[str, object], *, is_let_through: bool) -> None:
    attributes: dict[str, object] = {"year": 2026, "of": "a"}
    assert holds(msgspec.convert(filters, AttributeFilter), attributes) is is_let_through


def test_a_filter_of_another_kind_is_refused_wherever_it_stands() -> None:
    for filters in (AttributeFilter(type="like"), AttributeFilter(type="and", filters=[AttributeFilter(type="x")])):
        with pytest.raises(BadRequest):
            check_filter(filters)
