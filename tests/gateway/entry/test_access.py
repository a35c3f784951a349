"""Which requests need a key: nobody's on this computer, everybody's once others can reach the endpoint."""

import asyncio
import contextlib
import dataclasses
import re
import time
from collections.abc import AsyncIterator
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web

from app.core.api import PREFIX
from app.core.events import ModelsChanged
from app.core.keys import NewKey, Scope
from app.gateway.dialects.openai.record import UNVERSIONED
from app.gateway.entry.access import ALLOWED
from app.gateway.instance import bind, reachable_at
from app.gateway.main import open_runner
from app.gateway.services import Identity, Services
from tests.gateway.played import Gateway, Upstream
from tests.patience import PATIENCE_S

ANYWHERE = "0.0.0.0"  # noqa: S104 -- what is tested
PUBLIC = [*sorted(UNVERSIONED), "/v1/models", "/metrics", "/v1/nothing", "/nothing"]


@pytest.fixture
def environ() -> dict[str, str]:
    return {"ROUNDHOUSE_GATEWAY_MAX_BODY_MIB": "1", "ROUNDHOUSE_GATEWAY_HOST": ANYWHERE}


@pytest.fixture
async def gateway(services: Services, upstream: Upstream, unused_port: int) -> AsyncIterator[Gateway]:
    """A gateway that others can reach."""
    host = services.settings.get_text("gateway.host")
    endpoint = bind(ANYWHERE, unused_port)
    identity = Identity(url=endpoint.url, token="token", started_at=0.0, host=host)
    services = dataclasses.replace(services, identity=identity)
    runner = await open_runner(services, endpoint)
    async with aiohttp.ClientSession() as http:
        supervisor = cast("Any", services.supervisor)
        yield Gateway(
            url=endpoint.url,
            port=unused_port,
            http=http,
            services=services,
            supervisor=supervisor,
            upstream=upstream,
        )
    await runner.cleanup()


@pytest.fixture
def from_outside(gateway: Gateway) -> str:
    """The endpoint's URL for other computers; a connection to it does not come from loopback either."""
    urls = reachable_at(ANYWHERE, gateway.port)
    if not urls:
        pytest.skip("this machine is in no network")
    return urls[0]


@pytest.fixture
def key(services: Services) -> str:
    return services.keys.make_key(NewKey(name="editor")).key


@pytest.fixture
def manage(services: Services) -> str:
    return services.keys.make_key(NewKey(name="admin", scopes=[Scope.MANAGE])).key


async def status(gateway: Gateway, url: str, **headers: str) -> int:
    async with gateway.http.get(url, headers=headers) as reply:
        return reply.status


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def test_without_a_key_nothing_but_health_answers_wherever_one_is(gateway: Gateway, from_outside: str) -> None:
    for base in (gateway.url, from_outside):
        for path in (*PUBLIC, f"{PREFIX}/status", f"{PREFIX}/nothing"):
            assert await status(gateway, base + path) == 401, (base, path)
        assert await status(gateway, f"{base}/health") == 200


async def test_a_key_is_taken_in_each_dialects_header(gateway: Gateway, from_outside: str, key: str) -> None:
    url = f"{from_outside}/v1/models"
    for headers in (
        bearer(key),
        {"authorization": f"bearer {key}"},
        {"x-api-key": key},
        {"api-key": key},
        {"x-api-key": key, "Authorization": "Bearer unused"},
    ):
        assert await status(gateway, url, **headers) == 200, headers
    for headers in ({"Authorization": key}, {"Authorization": f"Basic {key}"}, {"Cookie": f"key={key}"}):
        assert await status(gateway, url, **headers) == 401, headers
    assert await status(gateway, f"{url}?api_key={key}&key={key}") == 401


async def test_a_key_asks_models_and_only_a_managing_one_does_the_rest(
    gateway: Gateway, from_outside: str, key: str, manage: str
) -> None:
    for path in ("/metrics", f"{PREFIX}/status", f"{PREFIX}/keys", f"{PREFIX}/openapi.json"):
        assert await status(gateway, from_outside + path, **bearer(key)) == 403, path
        assert await status(gateway, from_outside + path, **bearer(manage)) == 200, path
    assert await status(gateway, f"{from_outside}/v1/models", **bearer(manage)) == 200


async def test_the_gateways_token_counts_on_this_computer_only(gateway: Gateway, from_outside: str) -> None:
    token = bearer("token")
    for path in (f"{PREFIX}/status", "/metrics", "/v1/models"):
        assert await status(gateway, gateway.url + path, **token) == 200
        assert await status(gateway, from_outside + path, **token) == 401
        assert await status(gateway, gateway.url + path, **token, **{"X-Forwarded-For": "127.0.0.1"}) == 401


@pytest.mark.parametrize(
    "header", ["X-Forwarded-Proto", "True-Client-IP", "Cf-Ray", "CF-Connecting-IP", "X-Real-IP", "via", "Fly-Client-IP"]
)
async def test_what_came_through_a_proxy_needs_a_key(gateway: Gateway, key: str, header: str) -> None:
    url = f"{gateway.url}/v1/models"
    assert await status(gateway, url, **{header: "127.0.0.1"}) == 401
    assert await status(gateway, url, **bearer(key), **{header: "127.0.0.1"}) == 200


async def test_a_key_is_gone_the_moment_it_is_revoked(gateway: Gateway, services: Services, key: str) -> None:
    assert await status(gateway, f"{gateway.url}/v1/models", **bearer(key)) == 200
    services.keys.revoke_key("editor")
    assert await status(gateway, f"{gateway.url}/v1/models", **bearer(key)) == 401


async def endless(request: web.Request) -> web.StreamResponse:
    reply = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await reply.prepare(request)
    await reply.write(b'data: {"choices":[{"index":0,"delta":{"content":"Once"}}]}\n\n')
    await asyncio.Event().wait()
    return reply


async def open_stream(gateway: Gateway, key: str) -> aiohttp.ClientResponse:
    gateway.upstream.play = endless
    body = {"model": "guide", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
    reply = await gateway.http.post(f"{gateway.url}/v1/chat/completions", json=body, headers=bearer(key))
    assert b"Once" in await reply.content.readline()
    return reply


async def rest_of(reply: aiohttp.ClientResponse) -> bytes:
    """What still comes; a connection that is broken off is an end too."""
    text = b""
    with contextlib.suppress(aiohttp.ClientError):
        async with asyncio.timeout(PATIENCE_S):
            while piece := await reply.content.readany():
                text += piece
    reply.close()
    return text


async def test_an_answer_ends_with_its_key_and_says_so(gateway: Gateway, services: Services, key: str) -> None:
    reply = await open_stream(gateway, key)
    services.keys.revoke_key("editor")
    assert b"error" in await rest_of(reply)


async def test_an_answer_ends_when_its_key_expires(gateway: Gateway, services: Services) -> None:
    lasting_key = services.keys.make_key(NewKey(name="short", expires_at=time.time() + 2.0)).key
    reply = await open_stream(gateway, lasting_key)
    assert b"error" in await rest_of(reply)


async def test_the_stream_of_events_ends_with_its_key(gateway: Gateway, services: Services, manage: str) -> None:
    reply = await gateway.http.get(f"{gateway.url}{PREFIX}/events", headers=bearer(manage))
    assert reply.status == 200
    services.keys.revoke_key("admin")
    await rest_of(reply)


async def test_other_keys_answers_go_on(gateway: Gateway, services: Services, key: str, manage: str) -> None:
    other = await gateway.http.get(f"{gateway.url}{PREFIX}/events", headers=bearer(manage))
    reply = await open_stream(gateway, key)
    services.keys.revoke_key("editor")
    await rest_of(reply)
    services.events.publish(ModelsChanged())
    async with asyncio.timeout(5):
        while b"models" not in await other.content.readline():
            pass
    other.close()


async def test_a_refusal_says_how_to_ask_in_the_shape_of_its_dialect(gateway: Gateway) -> None:
    async with gateway.http.get(f"{gateway.url}/v1/models") as reply:
        assert reply.headers["WWW-Authenticate"] == 'Bearer realm="Roundhouse"'
        assert (await reply.json())["error"]["type"] == "authentication_error"
    async with gateway.http.get(f"{gateway.url}/api/nothing") as reply:
        assert reply.status == 401
        assert isinstance((await reply.json())["error"], str)
    async with gateway.http.post(f"{gateway.url}/v1/messages", json={}) as reply:
        body = await reply.json()
        assert (reply.status, body["type"], body["error"]["type"]) == (401, "error", "authentication_error")
    async with gateway.http.get(f"{gateway.url}{PREFIX}/status") as reply:
        assert (await reply.json())["code"] == "unauthorized"


async def test_wrong_keys_are_slowed_down_and_a_right_one_is_not(gateway: Gateway, key: str) -> None:
    url = f"{gateway.url}/v1/models"
    assert [await status(gateway, url, **bearer("rh-wrong")) for _ in range(ALLOWED)] == [401] * ALLOWED
    async with gateway.http.get(url, headers=bearer("rh-wrong")) as reply:
        assert reply.status == 429
        assert 0 < int(reply.headers["Retry-After"]) <= 60
        assert (await reply.json())["error"]["type"] == "rate_limit_error"
    assert await status(gateway, url, **bearer(key)) == 200
    assert await status(gateway, url) == 401  # no key is not a wrong one


async def test_hosts_are_addresses_own_names_and_no_others(gateway: Gateway, key: str) -> None:
    url = f"{gateway.url}/v1/models"
    for host, expected_status in (
        ("192.168.7.7:11434", 200),
        ("[fe80::1]", 200),
        ("evil.example", 403),
        ("1.2.3.4.x", 403),
    ):
        assert await status(gateway, url, Host=host, **bearer(key)) == expected_status, host


async def test_a_page_may_ask_before_it_shows_its_key(gateway: Gateway) -> None:
    headers = {"Origin": "vscode-webview://0a1b", "Access-Control-Request-Method": "POST"}
    async with gateway.http.options(f"{gateway.url}/v1/chat/completions", headers=headers) as reply:
        assert reply.status == 204


async def test_the_engine_never_sees_a_key(gateway: Gateway, key: str) -> None:
    async def play(_request: web.Request) -> web.StreamResponse:
        return web.json_response({})

    gateway.upstream.play = play
    url, headers = f"{gateway.url}/v1/chat/completions", {**bearer(key), "x-api-key": key, "api-key": key}
    async with gateway.http.post(url, json={"model": "guide"}, headers=headers) as reply:
        assert reply.status == 200
    assert key not in str(gateway.upstream.headers)


async def test_status_says_who_can_reach_it_and_what_it_asks(gateway: Gateway) -> None:
    async with gateway.http.get(f"{gateway.url}{PREFIX}/status", headers=bearer("token")) as reply:
        body = await reply.json()
    assert (body["url"], body["asks_for_keys"]) == (f"http://127.0.0.1:{gateway.port}", True)
    assert body["reachable_at"] == reachable_at(ANYWHERE, gateway.port)


@pytest.mark.parametrize(
    ("host", "port", "expected_urls"),
    [
        ("127.0.0.1", 1, []),
        ("localhost", 1, []),
        ("::1", 1, []),
        ("192.168.1.4", 80, ["http://192.168.1.4:80"]),
        ("fd00::4", 80, ["http://[fd00::4]:80"]),
    ],
)
def test_where_others_reach_it(host: str, port: int, expected_urls: list[str]) -> None:
    assert reachable_at(host, port) == expected_urls


def test_every_network_is_told_of() -> None:
    assert all(re.fullmatch(r"http://[0-9.]+:80", url) for url in reachable_at(ANYWHERE, 80))


def test_one_address_of_a_card_comes_with_this_computers_own(unused_port: int) -> None:
    urls = reachable_at(ANYWHERE, unused_port)
    if not urls:
        pytest.skip("this machine is in no network")
    address = urls[0].removeprefix("http://").partition(":")[0]
    endpoint = bind(address, unused_port)
    try:
        assert endpoint.url == f"http://127.0.0.1:{unused_port}"
        assert [bound_socket.getsockname()[0] for bound_socket in endpoint.sockets] == [address, "127.0.0.1"]
    finally:
        for bound_socket in endpoint.sockets:
            bound_socket.close()


class TestOnThisComputer:
    """As everybody begins: nobody else can reach it."""

    @pytest.fixture
    def environ(self) -> dict[str, str]:
        return {"ROUNDHOUSE_GATEWAY_ALLOWED_HOSTS": "models.example.org"}

    async def test_no_key_is_needed_and_any_is_ignored(self, gateway: Gateway, key: str) -> None:
        for headers in ({}, bearer("unused"), bearer(key), {"x-api-key": "wrong"}):
            assert await status(gateway, f"{gateway.url}/v1/models", **headers) == 200
            assert await status(gateway, f"{gateway.url}/metrics", **headers) == 200

    async def test_own_routes_take_the_token_or_a_managing_key(self, gateway: Gateway, key: str, manage: str) -> None:
        for given_key, expected_status in (("token", 200), (manage, 200), (key, 403), ("wrong", 401), ("", 401)):
            assert await status(gateway, f"{gateway.url}{PREFIX}/status", **bearer(given_key)) == expected_status

    async def test_a_request_through_a_proxy_or_tunnel_needs_a_key(self, gateway: Gateway, key: str) -> None:
        url = f"{gateway.url}/v1/models"
        for headers in ({"X-Forwarded-For": "203.0.113.9"}, {"Via": "1.1 tunnel"}, {"Host": "models.example.org"}):
            assert await status(gateway, url, **headers) == 401, headers
            assert await status(gateway, url, **headers, **bearer(key)) == 200, headers

    async def test_a_setting_asks_for_keys_here_too(self, gateway: Gateway, key: str) -> None:
        gateway.services.settings.change_values({"gateway.require_key": True})
        url = f"{gateway.url}/v1/models"
        assert [await status(gateway, url), await status(gateway, url, **bearer(key))] == [401, 200]
        gateway.services.settings.change_values({"gateway.require_key": None})
        assert await status(gateway, url) == 200

    async def test_it_is_not_opened_to_others_before_there_is_a_key(self, gateway: Gateway, services: Services) -> None:
        async def change() -> tuple[int, str]:
            url, body = f"{gateway.url}{PREFIX}/settings", {"gateway.host": ANYWHERE}
            async with gateway.http.patch(url, json=body, headers=bearer("token")) as reply:
                document = await reply.json()
                return reply.status, document["code"] if reply.status == 409 else ""

        assert await change() == (409, "key_required")
        assert services.settings.get_text("gateway.host") == "127.0.0.1"
        services.keys.make_key(NewKey(name="one"))
        assert await change() == (200, "")
