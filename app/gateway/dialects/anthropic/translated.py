"""Anthropic's Messages in front of engines that have no such route, or whose own passes over what is asked."""

from dataclasses import dataclass

import msgspec
from aiohttp import web

from app.gateway.canonical.events import Failed, fold
from app.gateway.dialects.anthropic.canonical_request import Settings, generate, wants_format
from app.gateway.dialects.anthropic.record import ANTHROPIC_DIALECT
from app.gateway.dialects.anthropic.reply import Wishes
from app.gateway.dialects.anthropic.requests import Asked
from app.gateway.dialects.anthropic.stream import Blocks, whole
from app.gateway.entry.bodies import decode
from app.gateway.entry.middleware import REQUEST_ID
from app.gateway.exchange.capability_fallback import is_told_of_tools, started, with_plan
from app.gateway.exchange.client_stream import KeepAlive
from app.gateway.exchange.engine.planning import reads_itself
from app.gateway.exchange.handling import Job, path_of, terms_of
from app.gateway.exchange.observer import Observation
from app.gateway.exchange.token_count import counting_of
from app.gateway.exchange.translating import Course, Part, stream, translate_whole
from app.gateway.exchange.upstream import EngineAccess, UpstreamRequest
from app.gateway.library.endpoint_routes import routes_of
from app.gateway.loading.aliases import name_in_answer
from app.gateway.loading.recent import Found
from app.gateway.services import Services
from engines.api import Route


async def passes(services: Services, asked: Asked, found: Found, route: Route) -> bool:
    """Tell whether the engine's own route, for messages or their count, does what is asked."""
    descriptor = started(services, found.load)
    if route not in routes_of(services, found.load.engine, found.model):
        return False
    if route is Route.MESSAGES and (wants_format(asked) or not reads_itself(descriptor)):
        return False
    return not asked.tools or await is_told_of_tools(services, found.model)


async def messages_job(services: Services, body: bytes, asked: Asked, found: Found) -> Job:
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


async def count_job(services: Services, body: bytes, asked: Asked, found: Found) -> Job:
    """Return what counts or estimates tokens for an engine without such a route. Raises BadRequest."""
    terms = terms_of(asked, Route.COUNT_TOKENS)
    counting = await counting_of(services, found, generate(asked, decode(body, Settings)), terms)

    async def answer(_request: web.Request, engines: EngineAccess, observed: Observation) -> web.StreamResponse:
        count = await counting.count(engines, observed)
        return count.marked(_json({"input_tokens": count.tokens}))

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
            return _json(ANTHROPIC_DIALECT.document(reply, request[REQUEST_ID]), reply.status)
        return _json(reply)

    async def stream(self, request: web.Request, engines: EngineAccess, observed: Observation) -> web.StreamResponse:
        """Answer piece by piece."""
        blocks = Blocks(self.model, self.wishes, request[REQUEST_ID])
        course = Course(keep_alive=KeepAlive(first=blocks.begin))
        return await stream(request, engines, [Part(self.upstream, blocks)], observed, course)


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")
