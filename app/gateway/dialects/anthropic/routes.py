"""Anthropic's routes. llama.cpp speaks them itself; what it gets wrong is mended on the way in and on the way out.

Where an engine has no such route, or its own passes over what is asked, the request is translated.
"""

from dataclasses import dataclass
from functools import partial

from aiohttp import web

from app.gateway.canonical.events import Failed, fold
from app.gateway.dialects.anthropic.answers import Count, Messages, Wishes
from app.gateway.dialects.anthropic.record import ANTHROPIC_DIALECT
from app.gateway.dialects.anthropic.requests import (
    Asked,
    Settings,
    check,
    for_engine,
    generate,
    prefilled_by,
    wants_format,
)
from app.gateway.dialects.anthropic.stream import Blocks, whole
from app.gateway.dialects.replies import json_reply
from app.gateway.entry.bodies import decode, read_body
from app.gateway.entry.middleware import REQUEST_ID
from app.gateway.exchange.capability_fallback import is_told_of_tools, started, with_plan
from app.gateway.exchange.client_stream import KeepAlive
from app.gateway.exchange.engine.planning import reads_itself
from app.gateway.exchange.handling import Job, handle, load_of, passed_headers, path_of, terms_of
from app.gateway.exchange.observer import Observation
from app.gateway.exchange.presets import applied
from app.gateway.exchange.token_count import counting_of
from app.gateway.exchange.translating import Course, Part, stream, translate_whole
from app.gateway.exchange.upstream import EngineAccess, UpstreamRequest
from app.gateway.library.endpoint_routes import routes_of, with_probes
from app.gateway.loading.launch import resolve
from app.gateway.loading.requested_model import Found, name_in_answer
from app.gateway.services import SERVICES, Services
from engines.api import Route


def add_routes(app: web.Application) -> None:
    """Add Anthropic's routes; its list of models is OpenAI's route too."""
    app.router.add_post("/v1/messages", messages)
    app.router.add_post("/v1/messages/count_tokens", count_tokens)


async def messages(request: web.Request) -> web.StreamResponse:
    """POST /v1/messages."""
    return await handle(request, Route.MESSAGES, partial(_understand, route=Route.MESSAGES))


async def count_tokens(request: web.Request) -> web.StreamResponse:
    """POST /v1/messages/count_tokens."""
    return await handle(request, Route.COUNT_TOKENS, partial(_understand, route=Route.COUNT_TOKENS))


async def _understand(request: web.Request, route: Route) -> Job:
    services, body = request.app[SERVICES], await read_body(request)
    asked = decode(body, Asked)
    check(asked, counts_only=route is Route.COUNT_TOKENS)
    found = await resolve(services, asked.model)
    if route is Route.COUNT_TOKENS:
        found = await with_probes(services, found, route)
    found = found._replace(load=await load_of(services, found, asked.context))
    if not await _passes(services, asked, found, route):
        return await (_count_job if route is Route.COUNT_TOKENS else _messages_job)(services, body, asked, found)
    wishes = Wishes(max_tokens=asked.max_tokens, one_tool=asked.is_one_at_a_time, prefilled=prefilled_by(asked))
    form = Count if route is Route.COUNT_TOKENS else Messages
    upstream = UpstreamRequest(
        load=found.load,
        path=path_of(services, found.load.engine, found.model, route),
        body=applied(for_engine(body, asked), found.model, route),
        model=asked.model or "",
        terms=terms_of(asked, route),
        form=form(request_id=request[REQUEST_ID], wishes=wishes),
        streams=bool(asked.stream),
        headers=passed_headers(request),
    )
    return Job(upstream)


async def _passes(services: Services, asked: Asked, found: Found, route: Route) -> bool:
    """Tell whether the engine's own route, for messages or their count, does what is asked."""
    descriptor = started(services, found.load)
    if route not in routes_of(services.adapters, services.library, found.load.engine, found.model):
        return False
    if route is Route.MESSAGES and (wants_format(asked) or not reads_itself(descriptor)):
        return False
    return not asked.tools or await is_told_of_tools(services, found.model)


async def _messages_job(services: Services, body: bytes, asked: Asked, found: Found) -> Job:
    """Return what asks the engine for a message, and answers with it. Raises BadRequest."""
    blank = UpstreamRequest(
        load=found.load,
        path=path_of(services, found.load.engine, found.model, Route.CHAT),
        body=b"",
        model=found.model.name,
        terms=terms_of(asked, Route.MESSAGES),
    )
    upstream = await with_plan(services, blank, found, generate(asked, decode(body, Settings)))
    wishes = Wishes(max_tokens=asked.max_tokens, one_tool=asked.is_one_at_a_time)
    message = _Message(upstream=upstream, model=name_in_answer(asked.model, found.model), wishes=wishes)
    return Job(upstream, message.stream if asked.stream else message.whole)


async def _count_job(services: Services, body: bytes, asked: Asked, found: Found) -> Job:
    """Return what counts or estimates tokens for an engine without such a route. Raises BadRequest."""
    terms = terms_of(asked, Route.COUNT_TOKENS)
    counting = await counting_of(services, found, generate(asked, decode(body, Settings)), terms)

    async def answer(_request: web.Request, engines: EngineAccess, observed: Observation) -> web.StreamResponse:
        count = await counting.count(engines, observed)
        return count.marked(json_reply({"input_tokens": count.tokens}))

    return Job(counting.upstream, answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Message:
    """How an answer is put."""

    upstream: UpstreamRequest
    model: str
    wishes: Wishes

    async def whole(self, request: web.Request, engines: EngineAccess, observed: Observation) -> web.StreamResponse:
        """Answer at once."""
        reply = whole(fold(await translate_whole(engines, self.upstream, observed)), self.model, self.wishes)
        if isinstance(reply, Failed):
            return json_reply(ANTHROPIC_DIALECT.document(reply, request[REQUEST_ID]), reply.status)
        return json_reply(reply)

    async def stream(self, request: web.Request, engines: EngineAccess, observed: Observation) -> web.StreamResponse:
        """Answer piece by piece."""
        blocks = Blocks(self.model, self.wishes, request[REQUEST_ID])
        course = Course(keep_alive=KeepAlive(first=blocks.begin))
        return await stream(request, engines, [Part(self.upstream, blocks)], observed, course)
