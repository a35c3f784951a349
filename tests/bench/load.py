"""Clients for measurements: several streams at once, with the time of each first token and the tokens of all."""

import asyncio
import re
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import NamedTuple

import aiohttp

_COMPLETION = re.compile(rb'"completion_tokens"\s*:\s*(\d+)')


class BenchTarget(NamedTuple):
    """Where to send requests; `key` for an engine that wants one."""

    url: str
    key: str = "none"


class BenchRoute(NamedTuple):
    """A dialect's streaming route: its path, and what is asked there beside the model.

    `token` is once in every event that has one, and in no other; `end` ends each event.
    """

    path: str
    body: dict[str, object]
    token: bytes
    end: bytes = b"\n\n"


def chat_route(prompt: str = "Hi") -> BenchRoute:
    """Return the route that engines have themselves, whose bytes pass untouched."""
    return BenchRoute("/v1/chat/completions", {"messages": _messages(prompt)}, b'"content":')


def dialect_routes(prompt: str = "Hi") -> Mapping[str, BenchRoute]:
    """Return the routes whose answers are translated or mended, by dialect.

    llama.cpp speaks Anthropic's dialect itself, and what it says is mended on its way, except where a form is asked
    for, which it passes over.
    """
    anthropic = BenchRoute(
        "/v1/messages", {"messages": _messages(prompt), "max_tokens": 1000}, b"event: content_block_delta"
    )
    form = {"format": {"type": "json_schema", "schema": {"type": "object"}}}
    return {
        "Anthropic": anthropic._replace(body={**anthropic.body, "output_config": form}),
        "Ollama": BenchRoute("/api/chat", {"messages": _messages(prompt)}, b'"done":false', b"\n"),
        "Responses": BenchRoute(
            "/v1/responses", {"input": prompt, "store": False}, b"event: response.output_text.delta"
        ),
        "LM Studio": BenchRoute("/api/v1/chat", {"input": prompt, "store": False}, b"event: message.delta"),
        "Anthropic, mended": anthropic,
    }


def _messages(prompt: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": prompt}]


CHAT = chat_route()


class StreamResult(NamedTuple):
    """One stream, as the client saw it. Times in seconds; `tokens` as the engine reported, else events."""

    ttft_s: float
    total_s: float
    tokens: int


def stream_all(
    target: BenchTarget, *, streams: int, request: dict[str, object], route: BenchRoute = CHAT
) -> tuple[list[StreamResult], float]:
    """Run that many streams at once; return each, and how long all took together."""
    streaming_route = route._replace(body={"model": "guide", **route.body, **request, "stream": True})
    return asyncio.run(_stream_all(target, streams, streaming_route))


def is_served(target: BenchTarget, route: BenchRoute) -> bool:
    """Tell whether there is anything at a route's path."""

    async def post_status() -> int:
        async with aiohttp.ClientSession() as http, http.post(target.url + route.path, data=b"{") as reply:
            return reply.status

    return asyncio.run(post_status()) != HTTPStatus.NOT_FOUND


async def _stream_all(target: BenchTarget, streams: int, route: BenchRoute) -> tuple[list[StreamResult], float]:
    headers = {"Authorization": f"Bearer {target.key}"}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as http:
        began = time.perf_counter()
        streams_read = await asyncio.gather(*(read_stream(http, target, route) for _ in range(streams)))
        return list(streams_read), time.perf_counter() - began


async def read_stream(http: aiohttp.ClientSession, target: BenchTarget, route: BenchRoute) -> StreamResult:
    """Read one stream to its end. Raises aiohttp.ClientError unless it is answered with 200 and whole."""
    began = time.perf_counter()
    first = 0.0
    events = 0
    tail = b""
    async with http.post(target.url + route.path, json=route.body) as reply:
        reply.raise_for_status()
        async for chunk in reply.content.iter_any():
            if not first and route.token in chunk:
                first = time.perf_counter()
            events += chunk.count(route.end)
            tail = tail[-2000:] + chunk
    reported_counts = _COMPLETION.findall(tail)
    tokens = int(reported_counts[-1]) if reported_counts else events
    return StreamResult(ttft_s=first - began, total_s=time.perf_counter() - began, tokens=tokens)
