"""Routes that an engine answers itself, for models that can do what the route is for; or somebody in its place."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from app.core.errors import BadRequest, RoundhouseError
from app.core.models import ModelInfo
from app.gateway.dialects.keep_alive import Staying
from app.gateway.entry.bodies import read_body
from app.gateway.entry.middleware import ARRIVED
from app.gateway.exchange import proxy
from app.gateway.exchange.patience import patiently
from app.gateway.loading.aliases import is_able
from app.gateway.loading.recent import Found
from app.gateway.services import SERVICES, Services
from app.gateway.watching.watch import Outcome, watched
from app.supervisor.policy import LoadRequest, Terms
from engines.api import Route

Understand = Callable[[web.Request, bytes, Route], Awaitable[proxy.Ask]]
"""Turns a request's body into what the engine is asked. Raises errors of ours for what cannot be asked."""

_UNKNOWN = ""
"""Stands for the model in the metrics of a request that named none we have: its name could be anything."""

_NO_TERMS, _BESIDE = Terms(), Terms(takes_slot=False)
BESIDE_SLOTS = frozenset({Route.TOKENIZE, Route.DETOKENIZE, Route.COUNT_TOKENS, Route.APPLY_TEMPLATE})
"""What an engine answers at once, however many it is writing for."""
_DOES = {
    Route.EMBEDDINGS: "make embeddings",
    Route.RERANK: "rank documents",
    Route.TOKENIZE: "count tokens",
    Route.APPLY_TEMPLATE: "show prompts",
}


def path_of(services: Services, engine: str, model: ModelInfo, route: Route) -> str:
    """Return the path of `route` at the engine. Raises BadRequest (model_cannot) if the model or engine lacks it."""
    descriptor = services.adapters[engine].descriptor
    can = is_able(model, route)
    if can and route in descriptor.routes:
        return descriptor.routes[route]
    culprit = f"The engine {descriptor.name}" if can else model.title
    raise BadRequest(
        f"{culprit} does not {_DOES.get(route, 'write text')}.", hint="Choose another model.", code="model_cannot"
    )


async def answered(request: web.Request, route: Route, understand: Understand) -> web.StreamResponse:
    """Return the engine's answer, counted and timed."""
    services = request.app[SERVICES]
    try:
        ask = await understand(request, await read_body(request), route)
    except RoundhouseError:
        services.metrics.requests.add(route, _UNKNOWN, Outcome.REFUSED)
        raise
    with watched(services.metrics, route=route, model=ask.load.source.name, started=request[ARRIVED]) as watch:
        return await (ask.answer or patiently)(request, ask, watch)


def terms_of(asked: Staying, route: Route) -> Terms:
    """Return what a request asks beside its work. Raises BadRequest."""
    takes_slot = route not in BESIDE_SLOTS
    if asked.says_nothing:
        return _NO_TERMS if takes_slot else _BESIDE
    return Terms(keep_s=asked.keep_s, context=asked.context, takes_slot=takes_slot)


async def load_of(services: Services, found: Found, context: int | None) -> LoadRequest:
    """Return what loads the model with at least so much context, if any was asked for, as far as it can be had."""
    if context is None:
        return found.load
    from app.gateway.loading.asked_context import with_context  # noqa: PLC0415 -- brings in the advisor, once it is needed

    return await with_context(services, found, context)
