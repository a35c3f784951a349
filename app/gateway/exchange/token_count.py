"""How many tokens a conversation is: the engine writes the prompt down and counts it, or it is estimated and marked so.

An estimate needs no engine, so nothing is loaded for it.
"""

from typing import NamedTuple

import msgspec
from aiohttp import web

from app.core.models import Preset
from app.gateway.canonical.request import ConversationMessage, ConversationRequest, MessageRole, Text
from app.gateway.canonical.token_estimate import estimate_tokens
from app.gateway.exchange.capability_fallback import with_plan, with_system
from app.gateway.exchange.engine.answers import TemplateReply, TokenizeReply, decode_reply
from app.gateway.exchange.handling import engine_path
from app.gateway.exchange.observer import ExchangeOutcome, Observation
from app.gateway.exchange.translating import fetch_body
from app.gateway.exchange.upstream import EngineAccess, UpstreamRequest
from app.gateway.library.endpoint_routes import routes_of, with_probes
from app.gateway.loading.requested_model import ResolvedModel
from app.gateway.services import Services
from app.supervisor.policy import LeaseOptions
from engines.api import Route

ESTIMATED = "x-roundhouse-estimated"
"""The header of an answer whose count is an estimate."""


class RequestTokenCount(NamedTuple):
    """A count, and whether it is an estimate."""

    tokens: int
    is_estimate: bool

    def mark_estimate(self, response: web.Response) -> web.Response:
        """Return the answer that says this count, marked if it is an estimate."""
        if self.is_estimate:
            response.headers[ESTIMATED] = "true"
        return response


class PromptTokenCounter(msgspec.Struct, frozen=True, kw_only=True):
    """A count to be made: `upstream` has the prompt written, `tokenize` is where its tokens are; or an estimate."""

    upstream: UpstreamRequest
    tokenize: str = ""
    estimate: int | None = None

    async def count(self, engines: EngineAccess, observed: Observation) -> RequestTokenCount:
        """Return the count. Raises as `fetch` does, and EngineFailed for answers that are not as expected."""
        if self.estimate is not None:
            observed.outcome = ExchangeOutcome.OK
            return RequestTokenCount(self.estimate, is_estimate=True)
        prompt = decode_reply(await fetch_body(engines, self.upstream, observed), TemplateReply).prompt
        asked = {"model": self.upstream.model, "content": prompt, "add_special": True, "parse_special": True}
        body = msgspec.json.encode(asked)
        upstream = msgspec.structs.replace(self.upstream, path=self.tokenize, body=body)
        tokens = decode_reply(await fetch_body(engines, upstream, observed), TokenizeReply).tokens
        return RequestTokenCount(len(tokens), is_estimate=False)


async def token_counter(
    services: Services, found: ResolvedModel, work: ConversationRequest, terms: LeaseOptions
) -> PromptTokenCounter:
    """Return how a conversation is counted. Raises BadRequest if the model does not write, or as `supplied` does."""
    found = await with_probes(services, found, Route.TOKENIZE, Route.APPLY_TEMPLATE)
    model, routes = found.model, routes_of(services.adapters, services.library, found.load.engine, found.model)
    path = engine_path(services, found.load.engine, model, Route.CHAT)
    blank = UpstreamRequest(load=found.load, path=path, body=b"", model=model.name, terms=terms)
    if not {Route.APPLY_TEMPLATE, Route.TOKENIZE} <= routes.keys():
        return PromptTokenCounter(upstream=blank, estimate=estimate_tokens(_with_preset(work, model.preset)))
    upstream = await with_plan(services, blank, found, work)
    upstream = msgspec.structs.replace(upstream, path=routes[Route.APPLY_TEMPLATE])
    return PromptTokenCounter(upstream=upstream, tokenize=routes[Route.TOKENIZE])


def _with_preset(work: ConversationRequest, preset: Preset | None) -> ConversationRequest:
    """Return the conversation with what a made model puts before it, in any order: only its length counts."""
    if preset is None:
        return work
    first = tuple(
        ConversationMessage(MessageRole.USER, (Text(turn.content),))
        for turn in preset.messages
        if turn.role != MessageRole.SYSTEM
    )
    work = with_system(work, preset)
    return msgspec.structs.replace(work, messages=(*first, *work.messages))
