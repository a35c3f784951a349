"""One test for each class of attack published against programs of this kind, and named after it.

Sources: the advisories and issues about Ollama (DNS rebinding, exposure without authentication, traversal in names),
llama.cpp's server (cross-origin reflection, image downloads), LM Studio and Open WebUI (requests of foreign pages).
"""

import asyncio
import io
import json
import re
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from app.core.api import PREFIX
from app.core.errors import BadRequest
from app.gateway.exchange.constraints import refuse_remote_media
from tests.gateway.played import Gateway
from tests.patience import PATIENCE_S, until


@pytest.fixture(autouse=True)
def answers(gateway: Gateway) -> None:
    async def play(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"choices": []})

    gateway.upstream.play = play


async def sent_raw(gateway: Gateway, *parts: bytes) -> bytes:
    """Send bytes as they are and return all that comes until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    try:
        for part in parts:
            writer.write(part)
        await writer.drain()
        async with asyncio.timeout(PATIENCE_S):
            return await reader.read()
    finally:
        writer.close()


async def test_dns_rebinding(gateway: Gateway) -> None:
    for host in ("evil.example:11434", "127.0.0.1.evil.example", "localhost.evil.example", "192.168.1.7:11434"):
        async with gateway.http.post(
            f"{gateway.url}/v1/chat/completions", json={"model": "guide"}, headers={"Host": host}
        ) as reply:
            assert reply.status == 403
    assert gateway.upstream.bodies == []


async def test_dns_rebinding_with_a_second_host_header(gateway: Gateway) -> None:
    answer = await sent_raw(
        gateway, b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    )
    assert answer.split()[1] in {b"400", b"403"}


@pytest.mark.parametrize("host", ["", "[::1].evil.example", "localhost:1@evil.example", "localhost:1/x", "localhost#x"])
async def test_dns_rebinding_with_what_is_no_name(gateway: Gateway, host: str) -> None:
    head = f"GET /v1/models HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    assert (await sent_raw(gateway, head.encode())).split()[1] == b"403"


@pytest.mark.parametrize("header", ["Host: evil.example", "Host: localhost\r\nOrigin: https://evil.example"])
@pytest.mark.parametrize(
    ("request_line", "status"),
    [("POST /v1/chat/completions", b"200"), ("POST /nowhere", b"404"), ("PUT /v1/chat/completions", b"405")],
)
async def test_leave_to_go_on_is_not_given_before_the_head_was_looked_at(
    gateway: Gateway, header: str, request_line: str, status: bytes
) -> None:
    tail = "Expect: 100-continue\r\nConnection: close\r\nContent-Length: 2\r\n\r\n"
    head = f"{request_line} HTTP/1.1\r\n{header}\r\n{tail}"
    assert (await sent_raw(gateway, head.encode(), b"{}")).startswith(b"HTTP/1.1 403")
    ours = head.replace(header, "Host: localhost")
    leave = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 "
    assert (await sent_raw(gateway, ours.encode(), b"{}")).startswith(leave + status)


async def test_a_head_that_cannot_be_written_as_text_is_refused_in_a_sentence(gateway: Gateway) -> None:
    """A byte that is no UTF-8 is a lone surrogate here, which no JSON holds."""
    head = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: \xcc\r\nConnection: close\r\n\r\n"
    answer = await sent_raw(gateway, head)
    assert answer.split()[1] == b"403"
    assert b"origin_not_allowed" in answer


@pytest.mark.parametrize(
    "target", ["http://evil.example/v1/models", "HTTP://evil.example", "http://localhost@evil.example/"]
)
async def test_dns_rebinding_with_the_name_in_the_address(gateway: Gateway, target: str) -> None:
    answer = await sent_raw(gateway, f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert answer.split()[1] == b"403"
    ours = b"GET http://localhost:1/v1/models?a=://b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert (await sent_raw(gateway, ours)).split()[1] == b"200"


async def test_request_forgery_by_a_simple_request(gateway: Gateway) -> None:
    """A form or a fetch in no-cors mode needs no preflight when its body is called text."""
    body = json.dumps({"model": "guide"})
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        for path in ("/v1/chat/completions", "/v1/responses", "/api/chat", "/v1/messages", f"{PREFIX}/shutdown"):
            headers = {"Origin": "https://evil.example", "Content-Type": kind}
            async with gateway.http.post(gateway.url + path, data=body, headers=headers) as reply:
                assert reply.status == 403, path
                assert "Access-Control-Allow-Origin" not in reply.headers
    assert gateway.upstream.bodies == []


async def test_drive_by_load_of_an_address_as_an_image_or_script(gateway: Gateway) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    async with gateway.http.get(f"{gateway.url}/v1/models", headers=headers) as reply:
        assert reply.status == 403
    form = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    async with gateway.http.post(f"{gateway.url}/v1/chat/completions", json={"model": "guide"}, headers=form) as reply:
        assert reply.status == 403
    assert gateway.upstream.bodies == []
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}  # somebody followed a link
    async with gateway.http.get(f"{gateway.url}/v1/models", headers=link) as reply:
        assert reply.status == 200


async def test_cross_origin_reflection(gateway: Gateway) -> None:
    for origin in ("https://evil.example", "null", "http://localhost.evil.example", "https://evil.example:11434"):
        headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        for method in ("OPTIONS", "GET"):
            async with gateway.http.request(method, f"{gateway.url}/v1/models", headers=headers) as reply:
                assert reply.status == 403
                assert not [name for name in reply.headers if name.lower().startswith("access-control-")]


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 17\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 17\r\nContent-Length: 4\r\n",
        b"Content-Length: +17\r\n",
        b"Content-Length : 17\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"X-Folded: a\r\n b\r\nContent-Length: x\r\n",
        b"X-Nul: a\x00b\r\nContent-Length: 17\r\n",
    ],
)
async def test_request_smuggling(gateway: Gateway, headers: bytes) -> None:
    body = b'{"model":"guide"}'
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n"
    answer = await sent_raw(gateway, head + body + b"GET /roundhouse/v1/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert answer.startswith((b"HTTP/1.0 400", b"HTTP/1.1 400"))
    assert len(re.findall(rb"HTTP/1\.[01] \d", answer)) == 1
    assert gateway.upstream.bodies == []


async def test_header_injection_into_the_engines_request(gateway: Gateway) -> None:
    headers = {"Authorization": "Bearer mine", "Cookie": "a=b", "X-Api-Key": "k", "Origin": "http://localhost:3000"}
    async with gateway.http.post(
        f"{gateway.url}/v1/chat/completions", json={"model": "guide"}, headers=headers
    ) as reply:
        assert reply.status == 200
    seen_headers = gateway.upstream.headers[-1]
    assert seen_headers["Authorization"] == f"Bearer {gateway.upstream.key}"
    assert not {"cookie", "x-api-key", "origin"} & {name.lower() for name in seen_headers}


async def test_huge_headers_and_too_many(gateway: Gateway) -> None:
    start = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n"
    for headers in (b"X-Long: " + b"a" * 70_000, b"\r\n".join(b"X-%d: a" % n for n in range(5000))):
        answer = await sent_raw(gateway, start + headers + b"\r\n\r\n")
        assert answer.startswith((b"HTTP/1.0 4", b"HTTP/1.1 4"))


async def test_huge_body(gateway: Gateway) -> None:
    for data in (io.BytesIO(b" " * (2 << 20)), None):

        async def send_pieces() -> Any:  # noqa: ANN401 -- aiohttp takes any async generator of bytes
            for _ in range(64):
                yield b" " * (1 << 16)

        data_sent = data if data is not None else send_pieces()
        async with gateway.http.post(f"{gateway.url}/v1/chat/completions", data=data_sent) as reply:
            assert reply.status == 413


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"a":' * 100_000, b'{"model":"guide","messages":' + b"[" * 100_000])
async def test_deeply_nested_json(gateway: Gateway, body: bytes) -> None:
    for path in ("/v1/chat/completions", "/v1/messages", "/api/chat", f"{PREFIX}/load"):
        headers = {"Authorization": "Bearer token"}
        async with gateway.http.post(gateway.url + path, data=body, headers=headers) as reply:
            assert reply.status in {400, 413}, path  # too deep, or too many to look at
    assert gateway.upstream.bodies == []


async def test_path_traversal_in_model_names(gateway: Gateway) -> None:
    for name in ("../../../../etc/passwd", "/etc/passwd", "..\\..\\windows", "guide/../../x", "file:///etc/passwd"):
        status, _ = await gateway.chat(model=name)
        assert status == 404, name
    for path in ("/v1/models/../../etc/passwd", "/v1/models/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/v1/models//etc/passwd"):
        answer = await sent_raw(
            gateway, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        )
        assert answer.split()[1] == b"404", path
        assert b"root:" not in answer


async def test_path_confusion_around_the_check_of_who_manages(gateway: Gateway) -> None:
    """However the address is written, what answers is what was checked."""
    for path in (
        "/roundhouse/v1/status",
        "/%72oundhouse/v1/status",
        "//roundhouse/v1/status",
        "/health/../roundhouse/v1/status",
        "/roundhouse/v1/./status",
        "/v1/../roundhouse/v1/status",
        "/roundhouse%2fv1%2fstatus",
        "http://localhost/roundhouse/v1/status",
        "/roundhouse/v1/status/",
        "/roundhouse/v1/status;/health",
    ):
        answer = await sent_raw(
            gateway, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        )
        assert answer.split()[1] in {b"401", b"404"}, path
        assert b"resident_bytes" not in answer


IMAGE: dict[str, Any] = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


async def test_server_side_request_forgery_by_image_addresses(gateway: Gateway) -> None:
    """llama.cpp would fetch them: nothing may reach it."""
    call_event = asyncio.Event()

    async def listen(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        call_event.set()
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as bait:
        port = bait.sockets[0].getsockname()[1]
        for part in (
            {"type": "image_url", "image_url": {"url": f"http://127.0.0.1:{port}/a.png"}},
            {"type": "image_url", "image_url": f"HTTPS://127.0.0.1:{port}/a.png"},
            {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}},
            {"type": "tool_result", "content": [{"type": "image", "source": {"type": "url", "url": "http://a"}}]},
            {"type": "video_url", "video_url": {"url": " ftp://a"}},
        ):
            status, answer = await gateway.chat(messages=[{"role": "user", "content": [IMAGE, part]}])
            assert (status, answer["error"]["code"]) == (400, "remote_media"), part
        assert not call_event.is_set()
    assert gateway.upstream.bodies == []
    assert (await gateway.chat(messages=[{"role": "user", "content": [IMAGE]}]))[0] == 200


def test_an_address_cannot_be_hidden_behind_escapes() -> None:
    body = rb'{"messages":[{"content":[{"image_ur\u006c":{"ur\u006c":"\u0068ttp://a"}}]}]}'
    with pytest.raises(BadRequest):
        refuse_remote_media(body)


@pytest.mark.parametrize("odd", [b"1e999", b'"\\ud800"', b"[" * 5000, b"/* */ 1"])
def test_an_address_cannot_be_hidden_behind_what_only_the_engine_might_read(odd: bytes) -> None:
    part = b'[{"content":[{"type":"image_url","image_url":{"url":"http://a"}}]}]'
    with pytest.raises(BadRequest):
        refuse_remote_media(b'{"messages":' + part + b',"x":' + odd + b"}")


@given(text=st.text(), where=st.sampled_from(["url", "see http://a", "image_url"]))
def test_words_about_addresses_are_no_addresses(text: str, where: str) -> None:
    tool = {"type": "function", "function": {"parameters": {"properties": {"url": {"default": "http://a"}}}}}
    message = {"role": "user", "content": [{"type": "text", "text": f"{where} {text}"}]}
    call = {"role": "assistant", "tool_calls": [{"function": {"arguments": '{"url": "http://a"}'}}]}
    refuse_remote_media(json.dumps({"model": "m", "tools": [tool], "messages": [message, call]}).encode())


@pytest.mark.parametrize("prompt", ["Hello", "Grüße aus Köln", "你好"])
def test_a_request_without_media_is_searched_but_not_decoded(prompt: str) -> None:
    """Long prompts are many and decoding them costs: one that is no JSON passes, so nobody looked."""
    refuse_remote_media(json.dumps({"messages": prompt}).encode()[:-1])


async def test_slow_headers_hold_nobody_else_up(gateway: Gateway) -> None:
    """Slowloris: connections that never finish their head."""
    held_connections = [await asyncio.open_connection("127.0.0.1", gateway.port) for _ in range(200)]
    for _, writer in held_connections:
        writer.write(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX: ")

    async def answers_all_the_same() -> bool:
        async with gateway.http.get(f"{gateway.url}/health") as reply:
            return reply.status == 200

    await until(answers_all_the_same, within_s=PATIENCE_S)
    for _, writer in held_connections:
        writer.close()


async def test_path_traversal_in_a_blobs_digest(gateway: Gateway) -> None:
    """Ollama before 0.1.34 wrote wherever a digest pointed (CVE-2024-37032)."""
    before = sorted(gateway.services.paths.data.rglob("*"))
    for digest in (
        "sha256:..%2f..%2f..%2fetc%2fld.so.preload",
        "..%2fx",
        "sha256-" + "0" * 63 + "%2f",
        "md5:" + "0" * 64,
    ):
        for method in ("HEAD", "POST"):
            async with gateway.http.request(method, f"{gateway.url}/api/blobs/{digest}", data=b"x") as reply:
                assert reply.status in {400, 404}
    assert sorted(gateway.services.paths.data.rglob("*")) == before


async def test_path_traversal_in_the_names_of_models_and_files(gateway: Gateway) -> None:
    before = sorted(gateway.services.paths.data.rglob("*"))
    digest = "sha256:" + "0" * 64
    for document in (
        {"model": "../../evil", "from": "guide"},
        {"model": "/etc/evil", "from": "guide"},
        {"model": "evil\u0000", "from": "guide"},
        {"model": "evil", "files": {"../../evil.gguf": digest}},
        {"model": "evil", "files": {"evil.gguf": "sha256:../../../etc/passwd"}},
    ):
        async with gateway.http.post(f"{gateway.url}/api/create", json=document) as reply:
            assert reply.status in {400, 404}
            assert list(await reply.json()) == ["error"]
    assert sorted(gateway.services.paths.data.rglob("*")) == before


async def test_server_side_request_forgery_by_attaching(gateway: Gateway) -> None:
    headers = {"Authorization": "Bearer token"}
    for url in ("http://169.254.169.254/latest", "http://[::ffff:169.254.169.254]", "http://0.0.0.0:80", "file:///etc"):
        async with gateway.http.post(f"{gateway.url}{PREFIX}/attached", json={"url": url}, headers=headers) as reply:
            assert reply.status == 400
