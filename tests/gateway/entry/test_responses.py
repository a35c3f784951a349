"""Responses whose bytes the gateway writes itself: framed for every version of HTTP, and one after another."""

import asyncio
import json
import re

import pytest
from aiohttp import HttpVersion10, HttpVersion11, web
from aiohttp.test_utils import make_mocked_request

from app.gateway.entry.responses import response_head
from tests.gateway.exchange.test_streaming import DONE, event, streams
from tests.gateway.played import Gateway
from tests.patience import PATIENCE_S

BODY = {"model": "guide", "messages": [{"role": "user", "content": "Hi"}]}


COMPLETION = {"id": "1", "object": "chat.completion", "choices": [{"index": 0, "message": {"content": "Good"}}]}


@pytest.fixture(autouse=True)
def engine(gateway: Gateway) -> None:
    """Have the engine answer as it is asked: streamed or whole."""

    async def play(request: web.Request) -> web.StreamResponse:
        if (await request.json()).get("stream"):
            return await streams(event("Good morning."), DONE)(request)
        return web.json_response(COMPLETION)

    gateway.upstream.play = play


def post(path: str = "/v1/chat/completions", *lines: str, version: str = "1.1", stream: bool = False) -> bytes:
    body = json.dumps({**BODY, "stream": stream})
    head = [f"POST {path} HTTP/{version}", "Host: localhost", f"Content-Length: {len(body)}", *lines]
    return "\r\n".join([*head, "", body]).encode()


async def exchange(gateway: Gateway, request: bytes, *, until: bytes = b"") -> bytes:
    """Send bytes on a connection; return what comes until then, or until the gateway closes it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(request)
    async with asyncio.timeout(PATIENCE_S):
        came = await (reader.readuntil(until) if until else reader.read())
    writer.close()
    return came


@pytest.mark.parametrize("stream", [False, True])
async def test_an_old_client_is_answered_to_the_end_of_its_connection(gateway: Gateway, *, stream: bool) -> None:
    head, _, body = (await exchange(gateway, post(version="1.0", stream=stream))).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200 OK\r\n")
    assert b"transfer-encoding" not in head.lower()
    assert b"keep-alive" not in head.lower()
    assert body == event("Good morning.") + DONE if stream else json.loads(body)["choices"]


async def test_an_old_client_that_asks_for_it_keeps_its_connection(gateway: Gateway) -> None:
    kept_reply = post("/v1/chat/completions", "Connection: keep-alive", version="1.0")
    answers = await exchange(gateway, kept_reply + post(version="1.0"))
    assert answers.count(b"HTTP/1.0 200 OK\r\n") == 2
    assert answers.count(b"Connection: keep-alive\r\n") == 1


async def test_a_client_that_wants_the_connection_closed_has_it_closed(gateway: Gateway) -> None:
    answer = await exchange(gateway, post("/v1/chat/completions", "Connection: close", stream=True))
    assert b"\r\nConnection: close\r\n" in answer
    assert answer.endswith(b"0\r\n\r\n")


async def test_requests_sent_together_are_answered_in_their_order(gateway: Gateway) -> None:
    last = post("/v1/nothing", "Connection: close")
    answers = await exchange(gateway, post(stream=True) + post("/v1/embeddings") + post(stream=True) + last)
    assert re.findall(rb"HTTP/1\.1 (\d+)", answers) == [b"200", b"400", b"200", b"404"]


@pytest.mark.parametrize(
    "path", ["/v1/chat/%63ompletions", "/v1/chat/completions?", "http://localhost/v1/chat/completions"]
)
async def test_an_address_written_otherwise_is_the_same(gateway: Gateway, path: str) -> None:
    answer = await exchange(gateway, post(path, "Connection: close"))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    foreign = await exchange(
        gateway, post(path, "Connection: close").replace(b"Host: localhost", b"Host: evil.example")
    )
    assert b" 403 " in foreign.partition(b"\r\n")[0] or path.startswith("http:")


async def test_every_answer_names_its_request(gateway: Gateway) -> None:
    for request in (post(stream=True), post("/v1/embeddings"), post("/v1/nothing")):
        head = (await exchange(gateway, request, until=b"\r\n\r\n")).decode()
        headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
        assert headers["x-request-id"] == headers["request-id"]
        assert headers["x-request-id"].startswith("req_")
        assert headers["openai-processing-ms"].isdecimal()
        assert headers["Date"].endswith(" GMT")


@pytest.mark.parametrize("value", ["a\r\nSet-Cookie: b", "a\nb", "a\rb", "a\0b"])
def test_no_value_of_a_header_ends_its_line(value: str) -> None:
    request = make_mocked_request("POST", "/", version=HttpVersion11)
    with pytest.raises(ValueError, match="control character"):
        response_head(request, 200, [("Content-Type", value)], keep_alive=True)


def test_a_status_without_a_phrase_has_a_status_line_all_the_same() -> None:
    request = make_mocked_request("POST", "/", version=HttpVersion10)
    assert response_head(request, 499, [("A", "b")], keep_alive=False).startswith(b"HTTP/1.0 499 \r\nA: b\r\nDate: ")
