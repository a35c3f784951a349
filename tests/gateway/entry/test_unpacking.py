"""Bodies that are packed: each coding read, and each way of being wrong said in the dialect's shape."""

import asyncio
import gzip
import itertools
import json
import logging
import sys
import zlib
from typing import Any

import pytest
from aiohttp import web
from multidict import CIMultiDictProxy

from tests.gateway.played import Gateway

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ASKED = json.dumps(
    {"model": "guide", "prompt": "Hi", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5}
).encode()
GZIP = gzip.compress(ASKED)
BARE_DEFLATE = zlib.compressobj(wbits=-zlib.MAX_WBITS)
WIDE_WINDOW: dict[int, int] = {zstd.CompressionParameter.window_log: 24}
DIALECTS = ["/v1/chat/completions", "/v1/messages", "/api/chat", "/api/v1/chat", "/api/v0/chat/completions"]


@pytest.fixture(autouse=True)
def answers(gateway: Gateway) -> None:
    async def play(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"choices": []})

    gateway.upstream.play = play


async def post_encoded(
    gateway: Gateway, path: str, body: bytes, encoding: str
) -> tuple[int, dict[str, Any], CIMultiDictProxy[str]]:
    async with gateway.http.post(gateway.url + path, data=body, headers={"Content-Encoding": encoding}) as reply:
        return reply.status, await reply.json(), reply.headers


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", GZIP),
        ("GZIP", GZIP),
        ("x-gzip", GZIP),
        ("gzip", gzip.compress(ASKED[:30]) + gzip.compress(ASKED[30:])),
        ("deflate", zlib.compress(ASKED)),
        ("deflate", BARE_DEFLATE.compress(ASKED) + BARE_DEFLATE.flush()),
        ("zstd", zstd.compress(ASKED)),
        ("zstd", zstd.compress(ASKED[:30]) + zstd.compress(ASKED[30:])),
        ("identity", ASKED),
        ("", ASKED),
    ],
    ids=itertools.count(),
)
async def test_each_coding_is_read(gateway: Gateway, encoding: str, body: bytes) -> None:
    status, _, _ = await post_encoded(gateway, "/v1/chat/completions", body, encoding)
    assert status == 200
    (read,) = gateway.upstream.bodies
    assert json.loads(read)["messages"] == [{"role": "user", "content": "Hi"}]


def sentence(body: dict[str, Any]) -> str:
    """Return the text of an error in OpenAI's, Anthropic's, LM Studio's or Ollama's shape."""
    error = body["error"]
    text: str = error if isinstance(error, str) else error["message"]
    return text


@pytest.mark.parametrize("path", DIALECTS)
@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "compress"])
async def test_a_coding_that_is_not_read_is_named(gateway: Gateway, path: str, encoding: str) -> None:
    status, answer, headers = await post_encoded(gateway, path, GZIP, encoding)
    assert status == 415
    assert f"Content-Encoding '{encoding}'" in sentence(answer)
    assert headers["Accept-Encoding"] == "gzip, deflate, zstd"
    assert headers["x-request-id"].startswith("req_")
    assert gateway.upstream.bodies == []


@pytest.mark.slow(cases=13)
@pytest.mark.parametrize("path", DIALECTS)
@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", b"\x1f\x8b nonsense"),
        ("gzip", GZIP[:-9]),
        ("gzip", GZIP[:-1]),
        ("gzip", GZIP + b"more"),
        ("gzip", gzip.compress(b"") * 99),
        ("deflate", zlib.compress(ASKED)[:-1]),
        ("zstd", zstd.compress(ASKED)[:-1]),
        ("zstd", b"nonsense"),
        ("zstd", zstd.compress(b" " * (20 << 20), options=WIDE_WINDOW)),
    ],
    ids=itertools.count(),
)
async def test_what_is_not_a_whole_stream_is_refused(gateway: Gateway, path: str, encoding: str, body: bytes) -> None:
    status, answer, headers = await post_encoded(gateway, path, body, encoding)
    assert status == 400
    assert f"not a complete {encoding} stream" in sentence(answer)
    assert headers["x-request-id"].startswith("req_")
    assert gateway.upstream.bodies == []


async def test_the_connection_goes_on_after_a_body_that_could_not_be_unpacked(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for path in DIALECTS:
        await post_encoded(gateway, path, GZIP[:-9], "gzip")
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n"
    statuses = []
    for body in (GZIP[:-9], b"nonsense", GZIP):
        writer.write(head.format(len(body)).encode() + body)
        statuses.append((await reader.readline()).split()[1])
        length = 0
        while (line := (await reader.readline()).lower()) != b"\r\n":
            length = int(line.split()[1]) if line.startswith(b"content-length") else length
        await reader.readexactly(length)
    writer.close()
    assert statuses == [b"400", b"400", b"200"]
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []
