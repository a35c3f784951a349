"""Anthropic's Messages in front of engines that have no such route, or whose own passes over what is asked."""

from contextlib import aclosing
from dataclasses import dataclass

import msgspec
from aiohttp import web

from app.gateway.canonical.aggregate import fold
from app.gateway.canonical.events import Failed
from app.gateway.dialects.anthropic.canonical_request import Settings, generate, wants_format
from app.gateway.dialects.anthropic.encoding import Blocks, whole
from app.gateway.dialects.anthropic.record import ANTHROPIC_DIALECT
from app.gateway.dialects.anthropic.reply import Wishes
from app.gateway.dialects.anthropic.request import Asked
from app.gateway.dialects.responses.count import Counting, count_of
from app.gateway.entry.bodies import decode
from app.gateway.entry.middleware import REQUEST_ID
from app.gateway.exchange.capability_fallback import is_told_of_tools, started, with_plan
from app.gateway.exchange.engine.planning import reads_itself
from app.gateway.exchange.native import path_of
from app.gateway.exchange.proxy import Ask
from app.gateway.exchange.streaming import SSE_HEADERS, written
from app.gateway.exchange.translated import asked as asked_of
from app.gateway.exchange.translated import asked_whole
from app.gateway.loading.recent import Found
from app.gateway.services import Services
from app.gateway.watching.watch import Watch
from engines.api import Route


async def passes(services: Services, asked: Asked, found: Found, route: Route) -> bool:
    """Tell whether the engine's own route, for messages or their count, does what is asked."""
    descriptor = started(services, found.load)
    if route not in descriptor.routes:
        return False
    if route is Route.MESSAGES and (wants_format(asked) or not reads_itself(descriptor)):
        return False
    return not asked.tools or await is_told_of_tools(services, found.model)


async def ask_for(services: Services, body: bytes, asked: Asked, found: Found, name: str) -> Ask:
    """Return what asks the engine for a message, and answers with it. Raises BadRequest."""
    settings = decode(body, Settings)
    blank = Ask(
        load=found.load,
        path=path_of(services, found.load.engine, found.model, Route.CHAT),
        body=b"",
        model=found.model.name,
    )
    wishes = Wishes(max_tokens=asked.max_tokens, one_tool=asked.is_one_at_a_time)
    job = _Job(model=name, wishes=wishes)
    ask = await with_plan(services, blank, found, generate(asked, settings))
    return msgspec.structs.replace(ask, answer=job.stream if settings.stream else job.whole)


async def count_for(services: Services, body: bytes, asked: Asked, found: Found) -> Ask:
    """Return what has an engine without such a route write the prompt down, and answers with how long it is.

    Raises BadRequest if it cannot do that either.
    """
    engine, model = found.load.engine, found.model
    tokenize = path_of(services, engine, model, Route.TOKENIZE)
    prompt = path_of(services, engine, model, Route.APPLY_TEMPLATE)
    blank = Ask(load=found.load, path=prompt, body=b"", model=model.name)
    ask = await with_plan(services, blank, found, generate(asked, decode(body, Settings)))

    async def answer(request: web.Request, ask: Ask, watch: Watch) -> web.StreamResponse:
        written, _ = await asked_whole(request, ask, watch)
        tokens, _ = await asked_whole(request, Counting(ask, tokenize).of(written), watch)
        return _json({"input_tokens": count_of(tokens)})

    return msgspec.structs.replace(ask, answer=answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """How an answer is put."""

    model: str
    wishes: Wishes

    async def whole(self, request: web.Request, ask: Ask, watch: Watch) -> web.StreamResponse:
        """Answer at once."""
        async with aclosing(asked_of(request, ask, watch)) as batches:
            answer = fold([event async for batch in batches for event in batch])
        reply = whole(answer, self.model, self.wishes)
        if isinstance(reply, Failed):
            return _json(ANTHROPIC_DIALECT.document(reply, request[REQUEST_ID]), reply.status)
        return _json(reply)

    async def stream(self, request: web.Request, ask: Ask, watch: Watch) -> web.StreamResponse:
        """Answer piece by piece."""
        response = web.StreamResponse(headers=SSE_HEADERS)
        blocks = Blocks(self.model, self.wishes, request[REQUEST_ID])
        await written(request, response, asked_of(request, ask, watch), blocks, watch)
        await response.write_eof()
        return response


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")
