"""Ollama's routes about models (which there are, which are loaded, what one is), and finding the one a request names.

Nothing is pushed from here, and that route says so. Pulling is in `pull`.
"""

import asyncio
from typing import TypeVar

from aiohttp import hdrs, web

from app.core.engines import EngineState
from app.core.errors import BadRequest, NotFound, Unauthorized, UserError
from app.core.models import ModelInfo
from app.gateway.dialects.ollama.descriptions import listed, loaded, longest_first, named_capabilities, shown
from app.gateway.dialects.ollama.wire import Models, NamedRequest, Version
from app.gateway.dialects.replies import utf8_json_reply
from app.gateway.entry.bodies import decode, read_body
from app.gateway.library.endpoint_routes import tried_capabilities
from app.gateway.loading.capabilities import capabilities_of, with_capabilities
from app.gateway.loading.launch import resolve
from app.gateway.loading.requested_model import NONE_ABLE, Found
from app.gateway.services import SERVICES, Services
from engines.api import Route

T = TypeVar("T")


class NotOffered(UserError):
    """Ollama has it, and this endpoint does not, or not yet."""

    default_code = "not_offered"
    status = 501


async def read_document(request: web.Request, kind: type[T]) -> T:
    """Return the body as `kind`, whatever its Content-Type says. Raises BadRequest, TooLarge or RequestTimeout."""
    body = await read_body(request)
    if not body:
        raise BadRequest("missing request body", code="invalid_json")
    return decode(body, kind)


async def find(services: Services, name: str, route: Route = Route.CHAT) -> Found:
    """Return the model and what loads it; without a name the one in use for what `route` is for.

    Raises NotFound as Ollama words it, with the names there are.
    """
    try:
        return await resolve(services, name, route=route)
    except NotFound as error:
        raise (error if error.code == NONE_ABLE else not_found(name, error)) from None


def required(name: str) -> str:
    """Return the name of a model that must be said. Raises BadRequest as Ollama words it."""
    if not name:
        raise BadRequest("model is required", code="model_required")
    return name


def not_found(name: str, error: NotFound) -> NotFound:
    """Return the refusal that clients recognise. The hint still names the models that exist."""
    return NotFound(f"model '{name}' not found", hint=error.hint, code=error.code)


async def abilities_of(services: Services, model: ModelInfo, *, is_tried: bool = False) -> list[str]:
    """Return what a model can do here, in Ollama's words; with `is_tried` also what nobody knows of an endpoint's."""
    if is_tried and model.attached:
        return named_capabilities(tried_capabilities(services.library, model))
    return named_capabilities(await capabilities_of(services, model))


VERSION = "0.13.5"
"""The level of Ollama's API that is emulated, bare: Codex wants 0.13.4 or later, Open WebUI reads three numbers."""
_COPILOT = "GitHubCopilotChat/"
_NO_CLOUD = {"cloud": {"disabled": True, "source": "config"}}


def add_routes(app: web.Application) -> None:
    """Add the routes. `GET` answers `HEAD` too, by which clients probe."""
    router = app.router
    router.add_get("/", root)
    router.add_get("/api/version", version)
    router.add_get("/api/status", status)
    router.add_get("/api/tags", tags)
    router.add_get("/api/ps", running)
    router.add_post("/api/show", show)
    router.add_post("/api/push", push)
    for path in ("/api/me", "/api/signout", "/api/web_search", "/api/web_fetch"):
        router.add_post(path, cloud)


async def root(_request: web.Request) -> web.Response:
    """GET /: what clients look for to tell whether Ollama is there."""
    return web.Response(text="Ollama is running")


async def version(_request: web.Request) -> web.Response:
    """GET /api/version."""
    return utf8_json_reply(Version(VERSION))


async def status(_request: web.Request) -> web.Response:
    """GET /api/status."""
    return utf8_json_reply(_NO_CLOUD)


async def tags(request: web.Request) -> web.Response:
    """GET /api/tags: the models that can be used."""
    services = request.app[SERVICES]
    models = await with_capabilities(services, await asyncio.to_thread(services.library.models))
    return utf8_json_reply(Models([listed(model) for model in models if not model.problem]))


async def running(request: web.Request) -> web.Response:
    """GET /api/ps: the models that are loaded, and until when."""
    services = request.app[SERVICES]
    models = {model.name: model for model in await asyncio.to_thread(services.library.models)}
    ready = [one for one in services.supervisor.statuses() if one.state is EngineState.READY and one.model in models]
    return utf8_json_reply(Models([loaded(models[one.model], one) for one in sorted(ready, key=longest_first)]))


async def show(request: web.Request) -> web.Response:
    """POST /api/show."""
    services = request.app[SERVICES]
    named = (await read_document(request, NamedRequest)).named
    found = await find(services, named)
    model = found.model
    now = next((one.context for one in services.supervisor.statuses() if one.model == model.runs_as), None)
    reply = shown(
        model,
        await services.facts.of_model(model),
        capabilities=await abilities_of(services, model),
        context=now or found.load.options.context or 0,
        basename=named if named and request.headers.get(hdrs.USER_AGENT, "").startswith(_COPILOT) else model.title,
    )
    return utf8_json_reply(reply)


async def push(request: web.Request) -> web.Response:
    """POST /api/push."""
    await find(request.app[SERVICES], required((await read_document(request, NamedRequest)).named))
    raise NotOffered("Models are not uploaded from here.")


async def cloud(_request: web.Request) -> web.Response:
    """Say of Ollama's cloud that nobody is signed in to it."""
    raise Unauthorized("This endpoint is not connected to Ollama's cloud.")
