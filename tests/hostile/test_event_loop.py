"""No request holds the event loop: the corpus is sent to every address, and the longest stall is measured.

The gateway, an engine that the test plays and the watchdog share a process and a loop; the client has a thread.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, cast

import pytest
from aiohttp import web

from app.core.api import PREFIX
from app.gateway.admin.routes import ENDPOINTS
from app.gateway.app import build_app
from app.hub.library.library import Library
from tests.depth import IS_DEEP
from tests.gateway.played import Gateway
from tests.gguf_files import TinyLlama
from tests.hostile.corpus import (
    SIZE,
    WORST,
    Case,
    cases_of,
    header_cases,
    hostile_names,
    large_cases,
    small_cases,
)
from tests.hostile.raw_client import exchange, request_bytes
from tests.hostile.watchdog import Watchdog, watched_loop

MOST_S = 0.05
"""For so long no request may hold the loop."""
MOST_LARGE_S = 0.15
"""Megabytes of text are copied a few times, here by the engine and the client too: that alone may take so long."""
AT_ONCE = 50
"""Requests between two looks at the watchdog; only those of a batch that was too slow are tried one by one."""
TRIES = 7
"""A machine that does something else at the same time makes single ones look slower."""
TOKEN = (("Authorization", b"Bearer token"),)
ENDLESS = frozenset({f"{PREFIX}/events", "/models/sse"})
"""Streams that end when their client leaves."""
ACTS = frozenset({"/plan", "/estimate", "/calibrate", "/hub/token"})
"""What asks the hardware or the system's store of secrets: not with the token."""
ON_FILES = frozenset({"/api/create", "/api/copy", "/api/show", "/api/pull"})
"""What needs a real library."""


SHORTER = frozenset({"/chat/completions", "/completions", "/embeddings", "/rerank", "/reranking", "/v2/rerank"})
"""Further addresses of what is tried under another."""


class Sent(NamedTuple):
    """A request to be tried."""

    method: str
    path: str
    case: Case
    is_endless: bool = False


@pytest.fixture
def environ() -> dict[str, str]:
    return {"ROUNDHOUSE_GATEWAY_MAX_BODY_MIB": "32"}


@pytest.fixture
def library(gateway: Gateway) -> Library:
    """The real one, with one model: names are looked for as they are elsewhere."""
    folder = gateway.services.paths.models
    TinyLlama().write(folder / "base.gguf")
    guide = TinyLlama().write(folder.parent / "guide.gguf")
    library = Library(lambda: [folder], gateway.services.paths.data / "models.json", guide)
    object.__setattr__(gateway.services, "library", cast("Any", library))
    return library


async def play(request: web.Request) -> web.StreamResponse:
    """Answer as an engine would, with a stream where one is wanted."""
    if b'"stream":true' in (await request.read())[-4096:]:
        end = b'{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}'
        return web.Response(body=b"data: " + end + b"\n\ndata: [DONE]\n\n", content_type="text/event-stream")
    whole = {"role": "assistant", "content": "x"}
    choice = {"index": 0, "message": whole, "delta": whole, "text": "x", "finish_reason": "stop"}
    reply = {"choices": [choice], "data": [], "results": [], "tokens": [1], "content": "x", "prompt": "x"}
    return web.json_response(reply)


@pytest.fixture
def routes(gateway: Gateway) -> list[tuple[str, str]]:
    """Every address, by the methods it has; what HEAD does GET does as well."""
    router = build_app(gateway.services).router
    pairs = ((route.method, route.resource.canonical) for route in router.routes() if route.resource is not None)
    return sorted({(method, path) for method, path in pairs if method != "HEAD"})


def fill_path(path: str, name: str = "x") -> str:
    return "/".join(name if part.startswith("{") else part for part in path.split("/"))


def send_all(port: int, batch: Sequence[Sent]) -> None:
    for request in batch:
        data = request_bytes(request.method, request.path, request.case.headers, request.case.body)
        exchange(port, data, only_head=request.is_endless)


async def longest_s(gateway: Gateway, watchdog: Watchdog, batch: Sequence[Sent]) -> float:
    """Return for how long some requests, sent one after another, held the loop at the longest."""
    watchdog.reset()
    await asyncio.to_thread(watchdog.run_client, partial(send_all, gateway.port, batch))
    await watchdog.settle()
    gateway.upstream.bodies.clear()
    gateway.upstream.headers.clear()
    return watchdog.longest_s


async def least_s(gateway: Gateway, watchdog: Watchdog, request: Sent, most_s: float) -> float:
    """Return for how long a request held the loop in the best of some tries: what it takes, it takes each time."""
    least_s = float("inf")
    for _ in range(TRIES):
        least_s = min(least_s, await longest_s(gateway, watchdog, [request]))
        if least_s <= most_s:
            break
    return least_s


async def stalls(
    gateway: Gateway, requests: Iterable[Sent], *, at_once: int = AT_ONCE, most_s: float = MOST_S
) -> list[str]:
    """Send requests, and return those that held the loop for too long, each time they were tried."""
    gateway.upstream.play = play
    held_requests: list[str] = []
    request_iterator = iter(requests)
    with watched_loop() as watchdog:
        await longest_s(gateway, watchdog, [Sent("POST", "/v1/chat/completions", small_cases()[0])])  # warms up
        while batch := list(islice(request_iterator, at_once)):
            if await longest_s(gateway, watchdog, batch) <= most_s:
                continue
            for request in batch:
                taken_s = await least_s(gateway, watchdog, request, most_s)
                if taken_s > most_s:
                    held_requests.append(f"{taken_s:.3f} s: {request.method} {request.path[:80]}, {request.case.name}")
    return held_requests


def for_route(case: Case, path: str) -> Case:
    """Return the case for a model that can do what the address is for."""
    is_embedding = "embed" in path or "rerank" in path
    return case._replace(body=case.body.replace(b'"guide"', b'"org/embed:q8"')) if is_embedding else case


def asks_a_model(method: str, path: str) -> bool:
    return method == "POST" and not path.startswith(PREFIX)


def test_the_corpus_is_large() -> None:
    assert len({case.name for case in (*small_cases(), *header_cases())}) >= 300


@pytest.mark.slow
async def test_no_head_holds_the_loop(gateway: Gateway, routes: list[tuple[str, str]]) -> None:
    cases, step = header_cases(), 3 if IS_DEEP else 12  # what looks at a head is the same everywhere
    heads = (
        Sent(method, fill_path(path), case, path in ENDLESS)
        for at, (method, path) in enumerate(routes)
        for case in cases[at % step :: step]
    )
    assert await stalls(gateway, heads) == []


@pytest.mark.slow
async def test_no_name_in_an_address_holds_the_loop(gateway: Gateway, routes: list[tuple[str, str]]) -> None:
    case = Case("name", b"{}", TOKEN)
    named_routes = [(method, path) for method, path in routes if "{" in path]
    assert len(named_routes) > 30
    names = [Sent(method, fill_path(path, name), case) for method, path in named_routes for name in hostile_names()]
    odd = [Sent("GET", f"/{name}", case) for name in hostile_names()]
    pages = [Sent("GET", f"{PREFIX}/requests?before={name}", case) for name in hostile_names()]
    assert await stalls(gateway, [*names, *odd, *pages]) == []


@pytest.mark.slow
async def test_no_small_body_holds_the_loop(gateway: Gateway, routes: list[tuple[str, str]]) -> None:
    cases = small_cases()
    paths = [
        fill_path(path) for method, path in routes if asks_a_model(method, path) and path not in ON_FILES | SHORTER
    ]
    assert len(paths) > 25
    step = 1 if IS_DEEP else 12  # the addresses of a dialect have their way in common
    bodies = (
        Sent("POST", path, for_route(case, path)) for at, path in enumerate(paths) for case in cases[at % step :: step]
    )
    assert await stalls(gateway, bodies) == []


@pytest.mark.slow
async def test_no_body_about_a_model_holds_the_loop(gateway: Gateway, library: Library) -> None:
    bodies = (Sent("POST", path, case) for path in sorted(ON_FILES) for case in small_cases())
    assert await stalls(gateway, bodies) == []


@pytest.mark.slow
async def test_no_body_of_our_own_api_holds_the_loop(gateway: Gateway, library: Library) -> None:
    endpoints = [row for row in ENDPOINTS if row.body is not None and row.path not in ACTS]
    assert len(endpoints) > 20
    bodies = (
        Sent(row.method, fill_path(PREFIX + row.path), case._replace(headers=TOKEN))
        for row in endpoints
        for case in cases_of(row.body)
    )
    assert await stalls(gateway, bodies) == []


LARGE_PATHS = ("/v1/chat/completions", "/api/chat", "/v1/embeddings")
"""Passed on, translated, and no chat."""


@pytest.mark.slow
@pytest.mark.parametrize("path", LARGE_PATHS)
async def test_no_large_body_holds_the_loop(gateway: Gateway, path: str) -> None:
    large = (Sent("POST", path, for_route(case, path)) for case in large_cases())
    assert await stalls(gateway, large, at_once=1, most_s=MOST_LARGE_S) == []


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("name", WORST)
async def test_what_once_held_the_loop_does_so_no_more(gateway: Gateway, library: Library, name: str) -> None:
    worst = WORST[name]
    case = worst.case()
    twelve = [Sent("POST" if case.body else "GET", worst.path, case)] * (1 if len(case.body) > SIZE * 10 else 12)
    assert await stalls(gateway, twelve) == []


async def test_whoever_holds_the_loop_is_seen_in_whatever_thread_and_the_client_is_not() -> None:
    def work() -> None:
        ends_s = time.thread_time() + 2 * MOST_S
        while time.thread_time() < ends_s:
            pass

    with watched_loop() as watchdog:
        await asyncio.to_thread(watchdog.run_client, work)
        await watchdog.settle()
        of_client_s = watchdog.longest_s
        watchdog.reset()
        work()
        await watchdog.settle()
    assert watchdog.longest_s > MOST_S
    assert not hasattr(time, "pthread_getcpuclockid") or of_client_s < MOST_S
