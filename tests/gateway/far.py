"""An endpoint elsewhere as tests play it, and a gateway to which it is attached."""

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from app.core.models import AttachEndpoint
from app.gateway.library.attached_endpoints import attach
from app.gateway.services import Services
from app.hub.library.library import Library
from app.supervisor.pool import Supervisor, SupervisorFolders, SupervisorPolicy
from engines.registry import ADAPTERS
from tests.gateway.played import Gateway, Upstream, serve_gateway
from tests.gguf_files import TinyLlama

Play = Callable[[web.Request], Awaitable[web.StreamResponse]]
ASKED = [{"role": "user", "content": "Why?"}]
WAYS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": ASKED}),
    ("/v1/messages", {"messages": ASKED, "max_tokens": 9}),
    ("/v1/responses", {"input": "Why?"}),
    ("/api/chat", {"messages": ASKED}),
    ("/api/v1/chat", {"input": "Why?"}),
]
"""One question in every dialect."""
DIALECTS = pytest.mark.parametrize(("path", "more"), WAYS)


class Far:
    """The endpoint as a test plays it."""

    def __init__(self) -> None:
        self.posts: list[tuple[str, dict[str, Any]]] = []
        self.keys: list[str | None] = []
        self.disconnect, self.may_die = asyncio.Event(), asyncio.Event()
        self.looks = 0
        self.is_up = True
        self.trusts = True
        """Whether it lets anybody in."""
        self.listing: dict[str, Any] = {"data": [{"id": "big", "max_model_len": 4096}]}
        self.pages: dict[str, Any] = {}
        """What it answers to GET beside its list, by path; a list of models everywhere else."""
        self.play: Play = self.answer
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.keys.append(request.headers.get("Authorization"))
        if not self.trusts:
            return web.json_response({"error": {"message": "Not you.", "code": "machine_not_paired"}}, status=401)
        if request.method == "GET":
            self.looks += 1
            return web.json_response(self.pages.get(request.path, self.listing), status=200 if self.is_up else 500)
        is_form = request.content_type == "multipart/form-data"
        self.posts.append((request.path, await form_of(request) if is_form else await request.json()))
        try:
            return await self.play(request)
        except asyncio.CancelledError:
            self.disconnect.set()
            raise

    async def answer(self, _request: web.Request) -> web.StreamResponse:
        return web.Response(body=chunk("Because.", "stop") + b"data: [DONE]\n\n", content_type="text/event-stream")

    async def die_at_once(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def die_before_its_head(self, request: web.Request) -> web.StreamResponse:
        await self.may_die.wait()
        return await self.die_at_once(request)

    async def die_before_content(self, request: web.Request) -> web.StreamResponse:
        response = await begin_stream(request)
        await response.write(b": waiting\n\n" + ROLE)
        await self.may_die.wait()
        assert request.transport is not None
        request.transport.abort()
        return response

    async def die_in_the_middle(self, request: web.Request) -> web.StreamResponse:
        response = await begin_stream(request)
        await response.write(chunk("Bec"))
        await self.may_die.wait()
        assert request.transport is not None
        request.transport.abort()
        return response


async def form_of(request: web.Request) -> dict[str, Any]:
    """Return a form's fields, and of its file the name, the kind and the bytes."""
    fields = dict[str, Any](await request.post())
    for name, value in fields.items():
        if isinstance(value, web.FileField):
            with value.file as file:
                fields[name] = (value.filename, value.content_type, file.read())
    return fields


def chunk(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return f"data: {json.dumps({'object': 'chat.completion.chunk', 'choices': [choice]})}\n\n".encode()


ROLE = b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
"""What says that an answer begins, and nothing of it."""


async def begin_stream(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    return response


@asynccontextmanager
async def played_far() -> AsyncIterator[Far]:
    """Have an endpoint answer while the block runs."""
    endpoint, app = Far(), web.Application()
    app.router.add_route("*", "/{path:.*}", endpoint.handle)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    endpoint.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield endpoint
    await runner.cleanup()


@pytest.fixture
async def far() -> AsyncIterator[Far]:
    async with played_far() as endpoint:
        yield endpoint


@pytest.fixture
async def near(
    services: Services, upstream: Upstream, far: Far, tmp_path: Path, unused_port: int
) -> AsyncIterator[Gateway]:
    """A gateway with the real supervisor and library, to which the endpoint is attached as "distant"."""
    paths, guide = services.paths, TinyLlama().write(tmp_path / "guide.gguf")
    folders = SupervisorFolders(records=tmp_path / "records", logs=tmp_path / "logs", scratch=tmp_path / "scratch")
    supervisor = Supervisor(ADAPTERS, folders, SupervisorPolicy(), services.events.publish)
    library = Library(lambda: [paths.models], paths.data / "models.json", guide)
    services = dataclasses.replace(services, supervisor=supervisor, library=library)
    async with serve_gateway(services, upstream, unused_port) as gateway:
        await attach(services, AttachEndpoint(url=far.url, name="distant", key="sk-far"))
        yield gateway


async def ask_near(near: Gateway, path: str, more: dict[str, Any], *, stream: bool) -> tuple[int, str]:
    body = json.dumps({"model": "distant", "stream": stream, **more}).encode()
    async with near.http.post(near.url + path, data=body) as reply:
        return reply.status, await reply.text()
