"""The list of connections at the gateway: joined, kept, told live, cleared; and what going offline does at once."""

import time
from collections.abc import Iterator
from typing import Any

import aiohttp
import msgspec
import pytest

from app.core.connections import ConnectionList, ConnectionReason, Purpose
from app.core.events import ConnectionChanged, ConnectionsForgotten
from app.gateway.watching import connection_log
from app.network.egress import egress_gate
from app.store.database import ChatStore
from tests.fake_hub.hub import FakeHub
from tests.fake_hub.server import serve_hub
from tests.gateway.hub.test_downloads import call_admin
from tests.gateway.played import Gateway
from tests.patience import until

LOOK = Purpose(why=ConnectionReason.MODEL, about="org/model")
PATIENCE = aiohttp.ClientTimeout(total=60)


@pytest.fixture(autouse=True)
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    egress_gate.take_connections()  # what earlier tests of this process left there
    with serve_hub(FakeHub()) as served_hub:
        monkeypatch.setenv("HF_ENDPOINT", served_hub.url)
        yield served_hub


async def list_connections(gateway: Gateway, query: str = "") -> ConnectionList:
    status, listing = await call_admin(gateway, "GET", f"/connections{query}")
    assert status == 200, listing
    return msgspec.convert(listing, ConnectionList)


async def test_a_search_is_listed_with_host_and_reason_and_without_its_words(gateway: Gateway, hub: FakeHub) -> None:
    await call_admin(gateway, "GET", "/hub/search?text=private+thoughts")
    (connection,) = (await list_connections(gateway)).connections
    assert (connection.host, connection.port, connection.why) == (
        "127.0.0.1",
        int(hub.url.rpartition(":")[2]),
        ConnectionReason.SEARCH,
    )
    assert (connection.count, connection.failed, connection.refused) == (1, 0, False)
    assert connection.received_bytes > 0
    assert "private" not in repr(connection)


async def test_a_thousand_of_a_kind_are_one_row(gateway: Gateway) -> None:
    for _ in range(1000):
        egress_gate.note_call("cdn.example", 443, LOOK)
    first = (await list_connections(gateway)).connections
    egress_gate.note_call("cdn.example", 443, LOOK).count_received(10)
    (connection,) = (await list_connections(gateway)).connections
    assert [entry.id for entry in first] == [connection.id]
    assert (connection.count, connection.received_bytes) == (1001, 10)


async def test_what_comes_much_later_is_a_row_of_its_own(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_log, "APART_S", 0.0)
    for _ in range(2):
        egress_gate.note_call("cdn.example", 443, LOOK)
        await list_connections(gateway)
    assert [connection.count for connection in (await list_connections(gateway)).connections] == [1, 1]


async def test_it_is_kept_without_being_asked_for(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_log, "GATHERED_S", 0.0)
    egress_gate.note_call("cdn.example", 443, LOOK)
    chats = gateway.services.chats

    async def is_kept() -> bool:
        return bool(await chats.list_connections(limit=1))

    await until(is_kept)


async def test_it_is_there_after_a_restart(gateway: Gateway) -> None:
    egress_gate.note_call("cdn.example", 443, LOOK)
    before = await list_connections(gateway)
    store = await ChatStore.open(gateway.services.paths.database)
    assert await store.list_connections(limit=10) == before.connections
    await store.close()


async def test_the_newest_come_first_and_only_so_many(gateway: Gateway) -> None:
    for host in ("a.example", "b.example", "c.example"):
        egress_gate.note_call(host, 443, LOOK)
    times = {"a.example": 1.0, "b.example": 3.0, "c.example": 2.0}
    store = gateway.services.chats
    rows = (await list_connections(gateway)).connections
    now = time.time()
    await store.save_connections(
        [msgspec.structs.replace(connection, last_at=now + times[connection.host]) for connection in rows]
    )
    assert [connection.host for connection in (await list_connections(gateway, "?limit=2")).connections] == [
        "b.example",
        "c.example",
    ]


@pytest.mark.parametrize("query", ["?limit=0", "?limit=10001", "?limit=x"])
async def test_a_limit_that_is_none_is_refused(gateway: Gateway, query: str) -> None:
    status, refusal = await call_admin(gateway, "GET", f"/connections{query}")
    assert (status, refusal["code"]) == (400, "invalid_value")


async def test_clearing_forgets_all_and_says_so(gateway: Gateway) -> None:
    egress_gate.note_call("cdn.example", 443, LOOK)
    await list_connections(gateway)
    with gateway.services.events.subscribe() as events:
        assert (await call_admin(gateway, "DELETE", "/connections"))[0] == 204
        assert ConnectionsForgotten() in [event async for event in _close_events(events)]
    assert (await list_connections(gateway)).connections == []
    egress_gate.note_call("cdn.example", 443, LOOK)
    assert [connection.count for connection in (await list_connections(gateway)).connections] == [1]


async def test_who_listens_hears_of_it(gateway: Gateway) -> None:
    with gateway.services.events.subscribe() as events:
        egress_gate.note_call("cdn.example", 443, LOOK)
        await list_connections(gateway)
        changes = [event async for event in _close_events(events) if isinstance(event, ConnectionChanged)]
    assert [(change.connection.host, change.connection.count) for change in changes] == [("cdn.example", 1)]


async def _close_events(events: Any) -> Any:  # noqa: ANN401 -- a subscription, read as far as it goes
    events.close()
    async for event in events:
        yield event


async def test_offline_is_said_and_what_was_kept_back_is_listed(gateway: Gateway, hub: FakeHub) -> None:
    await call_admin(gateway, "PATCH", "/settings", {"network.offline": True})
    status, refusal = await call_admin(gateway, "GET", "/hub/search?text=x")
    assert (status, refusal["code"]) == (409, "offline")
    assert refusal["sentence"] == "Roundhouse is set to stay offline, so it does not connect to 127.0.0.1."
    listing = await list_connections(gateway)
    assert listing.offline
    assert [(connection.why, connection.refused, connection.count) for connection in listing.connections] == [
        (ConnectionReason.SEARCH, True, 1)
    ]
    assert hub.requests == []


async def test_an_endpoint_elsewhere_is_not_attached_offline_and_one_here_is(gateway: Gateway) -> None:
    await call_admin(gateway, "PATCH", "/settings", {"network.offline": True})
    status, refusal = await call_admin(gateway, "POST", "/attached", {"url": "http://192.0.2.1:8000/v1"})
    assert (status, refusal["code"]) == (409, "offline")
    assert "192.0.2.1" in refusal["sentence"]
    status, refusal = await call_admin(gateway, "POST", "/attached", {"url": "http://127.0.0.1:1/v1"})
    assert (status, refusal["code"]) == (503, "unreachable"), "asked, and nobody there"


async def test_going_offline_closes_what_is_open(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    cut: list[bool] = []
    monkeypatch.setattr(egress_gate, "cut_connections", lambda: cut.append(egress_gate.is_closed))
    await call_admin(gateway, "PATCH", "/settings", {"network.offline": True})
    await call_admin(gateway, "PATCH", "/settings", {"network.offline": False})
    assert cut == [True], "after the door was closed, and only then"
