import asyncio

import pytest
from aiohttp import web

from app.core.keys import NewKey
from app.gateway.entry.guard import Guard
from tests.gateway.played import Gateway

GUARD = Guard("127.0.0.1", ["https://chat.example.org/"])


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:11434", "LOCALHOST", "127.0.0.1:1", "127.8.8.8", "[::1]:11434", "a.localhost:80"],
)
def test_names_of_this_computer_are_ours(host: str) -> None:
    assert GUARD.is_our_name(host)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:11434",
        "localhost.evil.example",
        "192.168.1.5",
        "127.0.0.1.evil.example",
        "[fe80::1]",
        "",
        ":11434",
        "[::1].evil.example",
        "[::1]evil.example",
        "localhost:1@evil.example",
        "localhost:1/x",
        "localhost:1?x",
        "localhost?x",
        "localhost#x",
        "localhost:x",
        "localhost\\.evil.example",
        "localhost evil.example",
        "127.0.0.1:1:2",
        "localhost" * 900,
        "[" + ":" * 7_900,
    ],
)
def test_other_names_are_not_ours(host: str) -> None:
    assert not GUARD.is_our_name(host)


@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost",
        "https://localhost:3000",
        "http://127.0.0.1:8080",
        "http://[::1]:5173",
        "app://obsidian.md",
        "file://",
        "tauri://localhost",
        "vscode-webview://0a1b",
        "vscode-file://vscode-app",
        "chrome-extension://abc",
        "moz-extension://abc",
        "safari-web-extension://abc",
        "https://chat.example.org",
        "HTTPS://Chat.Example.org",
    ],
)
def test_pages_from_here_editors_and_chosen_sites_may_call(origin: str) -> None:
    assert GUARD.is_allowed(origin)


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "https://evil.example",
        "http://localhost.evil.example",
        "http://localhost:80@evil.example",
        "http://localhost:evil.example",
        "http://[::1].evil.example",
        "https://example.org",
        "http://chat.example.org",
        "data://x",
        "ws://localhost",
        "app://" + "a" * 7_900,
    ],
)
def test_other_pages_may_not(origin: str) -> None:
    assert not GUARD.is_allowed(origin)


@pytest.fixture(autouse=True)
def answers(gateway: Gateway) -> None:
    async def play(_request: web.Request) -> web.StreamResponse:
        response = web.json_response({})
        response.headers["Access-Control-Allow-Origin"] = "*"
        return response

    gateway.upstream.play = play


async def test_dns_rebinding_gets_nowhere(gateway: Gateway) -> None:
    for path in ("/v1/models", "/health", "/roundhouse/v1/status"):
        async with gateway.http.get(f"{gateway.url}{path}", headers={"Host": "evil.example:11434"}) as reply:
            assert reply.status == 403
            assert "x-request-id" in reply.headers
            assert "host_not_allowed" in await reply.text()


@pytest.mark.parametrize("name", ["host.docker.internal", "Host.Containers.Internal:11434"])
async def test_a_container_gets_in_with_a_key(gateway: Gateway, name: str) -> None:
    url, key = f"{gateway.url}/v1/models", gateway.services.keys.make_key(NewKey(name="open-webui")).key
    for credentials, status in (("", 401), ("Bearer roundhouse", 401), (f"Bearer {key}", 200)):
        async with gateway.http.get(url, headers={"Host": name, "Authorization": credentials}) as reply:
            assert reply.status == status


async def test_a_foreign_page_gets_nowhere_even_with_a_simple_request(gateway: Gateway) -> None:
    for origin in ("https://evil.example", "null"):
        headers = {"Origin": origin, "Content-Type": "text/plain"}
        url = f"{gateway.url}/v1/chat/completions"
        async with gateway.http.post(url, data=b'{"model":"guide"}', headers=headers) as reply:
            assert reply.status == 403
            assert "Access-Control-Allow-Origin" not in reply.headers
            assert (await reply.json())["error"]["type"] == "permission_error"
    assert gateway.upstream.bodies == []


async def test_an_allowed_page_can_read_answers_and_errors_and_is_named_exactly(gateway: Gateway) -> None:
    origin = "http://localhost:3000"
    for model, status in (("guide", 200), ("nobody", 404)):
        async with gateway.http.post(
            f"{gateway.url}/v1/chat/completions", json={"model": model}, headers={"Origin": origin}
        ) as reply:
            assert reply.status == status
            assert reply.headers.getall("Access-Control-Allow-Origin") == [origin]
            assert reply.headers["Vary"] == "Origin"


async def test_a_preflight_allows_what_openais_sdk_sends(gateway: Gateway) -> None:
    header_names = "authorization,content-type,x-stainless-os,x-stainless-retry-count,x-other"
    headers = {
        "Origin": "app://obsidian.md",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": header_names,
        "Access-Control-Request-Private-Network": "true",
    }
    async with gateway.http.options(f"{gateway.url}/v1/chat/completions", headers=headers) as reply:
        assert reply.status == 204
        assert reply.headers["Access-Control-Allow-Origin"] == "app://obsidian.md"
        assert reply.headers["Access-Control-Allow-Private-Network"] == "true"
        allowed_headers = {name.strip().lower() for name in reply.headers["Access-Control-Allow-Headers"].split(",")}
    assert {"authorization", "content-type", "x-stainless-os", "x-stainless-retry-count"} <= allowed_headers
    assert not {"x-other", "*"} & allowed_headers


async def test_a_foreign_preflight_is_refused(gateway: Gateway) -> None:
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    async with gateway.http.options(f"{gateway.url}/v1/chat/completions", headers=headers) as reply:
        assert reply.status == 403
        assert "Access-Control-Allow-Origin" not in reply.headers


async def test_a_client_without_host_or_origin_passes(gateway: Gateway) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(b"GET /health HTTP/1.0\r\n\r\n")
    assert b"200 OK" in await reader.readline()
    writer.close()
