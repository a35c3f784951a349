"""Attacks by size and by words: compressed bombs, names without end, and texts that end up where they do harm."""

import json
import logging
import sys
import zlib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiohttp import web

from app.gateway.watching.journal import LONGEST_TEXT, WITHOUT_WORDS, JsonLines, PlainText, open_journal
from tests.gateway.played import Gateway

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MIB = 1 << 20
PROMPT = "the treasure lies below the third oak"


@pytest.fixture(autouse=True)
def answers(gateway: Gateway) -> None:
    async def play(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"choices": []})

    gateway.upstream.play = play


PACKERS: dict[str, Callable[[], Any]] = {
    "gzip": partial(zlib.compressobj, wbits=31),
    "deflate": zlib.compressobj,
    "zstd": zstd.ZstdCompressor,
}


@cache
def pack_bomb(encoding: str) -> bytes:
    """Return 64 MiB of blanks, packed piece by piece: whole they would fill the memory of this process too."""
    packer = PACKERS[encoding]()
    return b"".join([*(packer.compress(b" " * MIB) for _ in range(64)), packer.flush()])


@pytest.mark.slow(cases=3)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/chat", "/v1/messages", "/api/v1/chat"])
@pytest.mark.parametrize("encoding", PACKERS)
async def test_a_compressed_bomb(gateway: Gateway, path: str, encoding: str) -> None:
    """64 MiB of blanks are 64 KiB on the wire; the limit is 1 MiB. CVE-2024-12886 filled Ollama's memory so."""
    process = psutil.Process()
    packed_bomb = pack_bomb(encoding)
    before = process.memory_info().rss
    headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
    async with gateway.http.post(gateway.url + path, data=packed_bomb, headers=headers) as reply:
        assert reply.status == 413
    assert process.memory_info().rss - before < 24 * MIB
    assert gateway.upstream.bodies == []


def schema(**limits: float) -> dict[str, object]:
    return {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}, **limits}}}


TOO_LONG = schema(maxItems=9_007_199_254_740_991)
ASKED = {"model": "guide", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 5}


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/completions", {"prompt": PROMPT, "json_schema": TOO_LONG}),
        ("/v1/completions", {"prompt": PROMPT, "json_schema": schema(minItems=1e9)}),
        ("/v1/completions", {"prompt": PROMPT, "json_schema": {"anyOf": [schema(minItems=999_999)] * 2}}),
        ("/v1/chat/completions", {"response_format": {"type": "json_schema", "json_schema": {"schema": TOO_LONG}}}),
        ("/v1/chat/completions", {"tools": [{"type": "function", "function": {"name": "f", "parameters": TOO_LONG}}]}),
        ("/v1/messages", {"tools": [{"name": "f", "input_schema": TOO_LONG}]}),
        (
            "/v1/responses",
            {"input": PROMPT, "text": {"format": {"type": "json_schema", "name": "a", "schema": TOO_LONG}}},
        ),
        ("/api/chat", {"format": TOO_LONG}),
    ],
)
async def test_lists_without_end_in_a_schema(gateway: Gateway, path: str, fields: dict[str, object]) -> None:
    """llama.cpp writes the repetitions out: one request took 12 GB within 40 seconds."""
    body = json.dumps({**ASKED, **fields}).encode()
    for document in (body, body.replace(b"Items", rb"It\u0065ms")):
        async with gateway.http.post(gateway.url + path, data=document) as reply:
            assert reply.status == 400
            assert "1,000,000 items" in await reply.text()
    assert gateway.upstream.bodies == []


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/infill"])
@pytest.mark.parametrize(
    ("field", "value"), [("grammar_triggers", [{"type": 9, "value": "x"}]), ("chat_parser", "pwned")]
)
async def test_what_llama_cpp_s_parts_tell_one_another(gateway: Gateway, path: str, field: str, value: object) -> None:
    """llama.cpp ends itself over an unknown trigger, and took a client's parser for its own (CVE-2026-107183)."""
    fields = {"input_prefix": "", "input_suffix": "", "prompt": PROMPT, "grammar_lazy": True}
    body = json.dumps({**ASKED, **fields, field: value}).encode()
    for document in (body, body.replace(field.encode(), field.replace("r", r"\u0072").encode())):
        async with gateway.http.post(gateway.url + path, data=document) as reply:
            assert reply.status == 400
            assert field in await reply.text()
    assert gateway.upstream.bodies == []


@pytest.mark.parametrize("bounds", [{}, {"maxItems": 1000}, {"minItems": 1, "maxItems": 100_000}])
async def test_lists_with_an_end_in_a_schema(gateway: Gateway, bounds: dict[str, float]) -> None:
    words = 'say "maxItems": 99999999 and "grammar_triggers"'
    document = {**ASKED, "prompt": words, "json_schema": schema(**bounds)}
    async with gateway.http.post(f"{gateway.url}/v1/completions", json=document) as reply:
        assert reply.status == 200


def record(message: str, *args: object, **extra: object) -> logging.LogRecord:
    return logging.makeLogRecord({"name": "app.x", "levelname": "WARNING", "msg": message, "args": args, **extra})


@pytest.mark.parametrize(
    "evil", ["a\nERROR: forged", 'a\r\n{"level":"error"}', "\x1b]0;owned\x07\x1b[2J", "a\u2028b", "\x9b31m"]
)
def test_log_injection(evil: str) -> None:
    """A name with an end of line forges an entry; one with escape codes moves the cursor of whoever reads along."""
    line = JsonLines().format(record("No effect: %s", evil, model=evil))
    assert "\n" not in line
    assert "\r" not in line
    assert json.loads(line)["model"] == evil
    text = PlainText().format(record("No effect: %s", evil))
    assert text.isprintable()
    assert text.startswith("WARNING: No effect: ")


def test_a_log_filled_by_one_name() -> None:
    assert len(JsonLines().format(record("No effect: %s", "x" * 4 * MIB))) < 2 * LONGEST_TEXT
    assert len(JsonLines().format(record("Loaded", model="x" * 4 * MIB))) < 100_000
    assert len(PlainText().format(record("No effect: %s", "x" * 4 * MIB))) < 2 * LONGEST_TEXT


def test_a_traceback_is_shown_as_it_is() -> None:
    text = PlainText().format(record("It failed", exc_info=(ValueError, ValueError("why"), None)))
    assert text == "WARNING: It failed\nValueError: why"


@pytest.mark.slow(cases=11)
@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/chat/completions", {}),
        ("/api/chat", {}),
        ("/api/chat", {"stream": False}),
        ("/api/v1/chat", {"input": PROMPT, "messages": None}),
        ("/v1/messages", {"max_tokens": 5}),
    ],
)
@pytest.mark.parametrize("status", [200, 400, 500, 503])
async def test_prompts_in_logs_by_way_of_an_engines_error(
    gateway: Gateway,
    caplog: pytest.LogCaptureFixture,
    path: str,
    fields: dict[str, object],
    status: int,
) -> None:
    """llama-server's errors quote what it could not read: whoever asked may see it, the log may not."""

    async def refuse(_request: web.Request) -> web.StreamResponse:
        error = {
            "error": {"message": f"Failed to parse input at pos 3: {PROMPT}", "code": status if status > 200 else 500}
        }
        if status > 200:
            return web.json_response(error, status=status)
        return web.Response(body=b"data: " + json.dumps(error).encode() + b"\n\n", content_type="text/event-stream")

    gateway.upstream.play = refuse
    caplog.set_level(logging.DEBUG, "app")
    body = {"model": "guide", "messages": [{"role": "user", "content": PROMPT}], "stream": True, **fields}
    document = {name: value for name, value in body.items() if value is not None}
    async with gateway.http.post(gateway.url + path, json=document) as reply:
        assert PROMPT.encode() in await reply.read()
    for log_record in caplog.records:
        written_lines = JsonLines().format(log_record) + PlainText().format(log_record)
        assert "treasure" not in written_lines, written_lines
    caplog.clear()


def test_a_withheld_sentence_says_where_its_words_are(tmp_path: Path) -> None:
    root = logging.getLogger()
    before, root.handlers = list(root.handlers), []
    try:
        journal = open_journal(tmp_path / "gateway.jsonl")
        logging.getLogger("app.x").error(PROMPT, extra={"code": "engine_error"})
        journal.close()
    finally:
        root.handlers = before
    (line,) = (tmp_path / "gateway.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["message"] == WITHOUT_WORDS
