"""Clients for measurements: several streams at once, with the time of each first token and the tokens of all."""

import asyncio
import re
import time
from typing import NamedTuple

import aiohttp

_COMPLETION = re.compile(rb'"completion_tokens"\s*:\s*(\d+)')


class Target(NamedTuple):
    """Where to send requests; `key` for an engine that wants one."""

    url: str
    key: str = "none"


class Streamed(NamedTuple):
    """One stream, as the client saw it. Times in seconds; `tokens` as the engine reported, else events."""

    ttft_s: float
    total_s: float
    tokens: int


def stream_all(target: Target, *, streams: int, request: dict[str, object]) -> tuple[list[Streamed], float]:
    """Run that many chat streams at once; return each, and how long all took together."""
    return asyncio.run(_stream_all(target, streams, request))


async def _stream_all(target: Target, streams: int, request: dict[str, object]) -> tuple[list[Streamed], float]:
    headers = {"Authorization": f"Bearer {target.key}"}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as http:
        began = time.perf_counter()
        done = await asyncio.gather(*(_stream(http, target, request) for _ in range(streams)))
        return list(done), time.perf_counter() - began


async def _stream(http: aiohttp.ClientSession, target: Target, request: dict[str, object]) -> Streamed:
    body = {"model": "guide", "messages": [{"role": "user", "content": "Hi"}], **request, "stream": True}
    began = time.perf_counter()
    first = 0.0
    events = 0
    tail = b""
    async with http.post(f"{target.url}/v1/chat/completions", json=body) as reply:
        reply.raise_for_status()
        async for chunk in reply.content.iter_any():
            first = first or time.perf_counter()
            events += chunk.count(b"\n\n")
            tail = tail[-2000:] + chunk
    reported = _COMPLETION.findall(tail)
    tokens = int(reported[-1]) if reported else events
    return Streamed(ttft_s=first - began, total_s=time.perf_counter() - began, tokens=tokens)
