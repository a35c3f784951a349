"""Ollama's routes about models (which there are, which are loaded, what one is), and finding the one a request names.

Nothing is pushed from here, and that route says so. Pulling is in `pull`.
"""

from typing import TypeVar

from aiohttp import hdrs, web

from app.core.engines import EngineState
from app.core.errors import BadRequest, NotFound, Unauthorized, UserError
from app.core.models import ModelInfo
from app.gateway.dialects.form import utf8_json_reply
from app.gateway.dialects.ollama.descriptions import capability_words, longest_first, ps_entry, show_reply, tag_entry
from app.gateway.dialects.ollama.wire import OllamaModelList, OllamaModelRequest, OllamaVersion
from app.gateway.entry.bodies import call_off_loop, decode_body, read_body
from app.gateway.library.endpoint_routes import capabilities_to_try
from app.gateway.loading.capabilities import capabilities_of, with_capabilities
from app.gateway.loading.launch import read_models, resolve_model
from app.gateway.loading.requested_model import NONE_ABLE, ResolvedModel
from app.gateway.services import SERVICES, Services
from engines.api import Route

T = TypeVar("T")


class OllamaUnsupported(UserError):
    """Ollama has it, and this endpoint does not, or not yet."""

    default_code = "not_offered"
    status = 501


async def read_document(request: web.Request, kind: type[T]) -> T:
    """Return the body as `kind`, whatever its Content-Type says. Raises BadRequest, TooLarge or RequestTimeout."""
    body = await read_body(request)
    if not body:
        raise BadRequest("missing request body", code="invalid_json")
    return await call_off_loop(body, decode_body, body, kind)


async def find_target(services: Services, name: str, route: Route = Route.CHAT) -> ResolvedModel:
    """Return the model and what loads it; without a name the one in use for what `route` is for.

    Raises NotFound as Ollama words it, with the names there are.
    """
    try:
        return await resolve_model(services, name, route=route)
    except NotFound as error:
        raise (error if error.code == NONE_ABLE else not_found(name, error)) from None


def require_name(name: str) -> str:
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
        return capability_words(capabilities_to_try(services.library, model))
    return capability_words(await capabilities_of(services, model))


VERSION = "0.13.5"
"""The level of Ollama's API that is emulated, bare: Codex wants 0.13.4 or later, Open WebUI reads three numbers."""
_COPILOT = "GitHubCopilotChat/"
_NO_CLOUD = {"cloud": {"disabled": True, "source": "config"}}


def add_routes(router: web.UrlDispatcher) -> None:
    """Add the routes. `GET` answers `HEAD` too, by which clients probe."""
    router.add_get("/", show_root)
    router.add_get("/api/version", show_version)
    router.add_get("/api/status", show_status)
    router.add_get("/api/tags", list_tags)
    router.add_get("/api/ps", list_running)
    router.add_post("/api/show", show_model)
    router.add_post("/api/push", push_model)
    for path in ("/api/me", "/api/signout", "/api/web_search", "/api/web_fetch"):
        router.add_post(path, refuse_cloud)


async def show_root(_request: web.Request) -> web.Response:
    """GET /: what clients look for to tell whether Ollama is there."""
    return web.Response(text="Ollama is running")


async def show_version(_request: web.Request) -> web.Response:
    """GET /api/version."""
    return utf8_json_reply(OllamaVersion(VERSION))


async def show_status(_request: web.Request) -> web.Response:
    """GET /api/status."""
    return utf8_json_reply(_NO_CLOUD)


async def list_tags(request: web.Request) -> web.Response:
    """GET /api/tags: the models that can be used."""
    services = request.app[SERVICES]
    models = await with_capabilities(services, await read_models(services))
    return utf8_json_reply(OllamaModelList([tag_entry(model) for model in models if not model.problem]))


async def list_running(request: web.Request) -> web.Response:
    """GET /api/ps: the models that are loaded, and until when."""
    services = request.app[SERVICES]
    models = {model.name: model for model in await read_models(services)}
    ready = [
        engine_status
        for engine_status in services.supervisor.list_statuses()
        if engine_status.state is EngineState.READY and engine_status.model in models
    ]
    return utf8_json_reply(
        OllamaModelList(
            [ps_entry(models[engine_status.model], engine_status) for engine_status in sorted(ready, key=longest_first)]
        )
    )


async def show_model(request: web.Request) -> web.Response:
    """POST /api/show."""
    services = request.app[SERVICES]
    name = (await read_document(request, OllamaModelRequest)).model_name
    target = await find_target(services, name)
    model = target.model
    now = next(
        (
            engine_status.context
            for engine_status in services.supervisor.list_statuses()
            if engine_status.model == model.runs_as
        ),
        None,
    )
    reply = show_reply(
        model,
        await services.facts.of_model(model),
        capabilities=await abilities_of(services, model),
        context=now or target.load.options.context or 0,
        copilot_name=name if name and request.headers.get(hdrs.USER_AGENT, "").startswith(_COPILOT) else "",
    )
    return utf8_json_reply(reply)


async def push_model(request: web.Request) -> web.Response:
    """POST /api/push."""
    await find_target(
        request.app[SERVICES], require_name((await read_document(request, OllamaModelRequest)).model_name)
    )
    raise OllamaUnsupported("Models are not uploaded from here.")


async def refuse_cloud(_request: web.Request) -> web.Response:
    """Say of Ollama's cloud that nobody is signed in to it."""
    raise Unauthorized("This endpoint is not connected to Ollama's cloud.")
