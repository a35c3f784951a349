"""From an Ollama request to the model it names, what that model can do, and how it is to be loaded."""

from typing import TypeVar

import msgspec
from aiohttp import web

from app.core.errors import BadRequest, NotFound
from app.core.models import ModelInfo
from app.gateway.dialects.ollama.descriptions import named_capabilities
from app.gateway.entry.bodies import decode, read_body
from app.gateway.library.endpoint_routes import tried_capabilities
from app.gateway.loading.aliases import NONE_ABLE
from app.gateway.loading.capabilities import capabilities_of
from app.gateway.loading.launch import resolve
from app.gateway.loading.recent import Found
from app.gateway.services import Services
from engines.api import Route

T = TypeVar("T")


async def read_document(request: web.Request, kind: type[T]) -> T:
    """Return the body as `kind`, whatever its Content-Type says. Raises BadRequest, TooLarge or RequestTimeout."""
    body = await read_body(request)
    if not body:
        raise BadRequest("missing request body", code="invalid_json")
    return decode(body, kind)


def json_reply(value: object, status: int = 200) -> web.Response:
    """Return a whole answer."""
    return web.Response(
        body=msgspec.json.encode(value), status=status, content_type="application/json", charset="utf-8"
    )


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
        return named_capabilities(tried_capabilities(services, model))
    return named_capabilities(await capabilities_of(services, model))
