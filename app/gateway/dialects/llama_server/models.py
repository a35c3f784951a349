"""llama-server's router: loading and unloading models, following that, and the properties of one. Its list is OpenAI's.

Pi's provider for llama.cpp, llama.vscode and llama-server's own page ask these.
"""

import asyncio
from collections.abc import AsyncGenerator

import msgspec
from aiohttp import web

from app import __version__
from app.core.capabilities import Capability
from app.core.engines import EngineState, EngineStatus
from app.core.errors import BadRequest
from app.core.events import EngineChanged
from app.gateway.background import BACKGROUND
from app.gateway.dialects.form import json_reply
from app.gateway.dialects.openai.models import router_status
from app.gateway.dialects.raw_fields import decode_query
from app.gateway.entry.access import check_may_change
from app.gateway.entry.bodies import read_json
from app.gateway.entry.event_stream import send_events
from app.gateway.events import EventHub
from app.gateway.loading.capabilities import capabilities_of
from app.gateway.loading.launch import context_of, find_model, resolve_model, status_of
from app.gateway.services import SERVICES

_DONE = {"success": True}


class RouterModelRequest(msgspec.Struct, frozen=True):
    """The model that is meant."""

    model: str = ""


class RouterProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far loading is: `value` is 0..1, None where nobody knows; `current` says in words what it does."""

    stages: list[str]
    current: str
    value: float | None


class RouterModelState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a model."""

    status: str
    progress: RouterProgress | None = None


class RouterEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of `GET /models/sse`."""

    model: str
    data: RouterModelState
    event: str = "status_change"


class GenerationDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """Of what a request does not say, what is known here: the context in tokens."""

    n_ctx: int


class RouterProps(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /props` without a model: the router's own."""

    default_generation_settings: GenerationDefaults
    total_slots: int
    build_info: str
    role: str = "router"
    models_autoload: bool = True


class PropsModalities(msgspec.Struct, frozen=True, kw_only=True):
    """What a model takes beside text."""

    vision: bool
    audio: bool


class ModelProps(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /props?model=NAME`. Where a file lies is nobody's business, so `model_path` is the name, too."""

    default_generation_settings: GenerationDefaults
    total_slots: int
    model_alias: str
    model_path: str
    modalities: PropsModalities
    chat_template: str
    build_info: str
    is_sleeping: bool = False


def add_routes(router: web.UrlDispatcher) -> None:
    """Add them."""
    router.add_get("/props", show_props)
    router.add_get("/models/sse", follow_models)
    router.add_post("/models/load", load_model)
    router.add_post("/models/unload", unload_model)


async def show_props(request: web.Request) -> web.Response:
    """GET /props. Nothing is loaded for it."""
    services, name = request.app[SERVICES], decode_query(request.query, RouterModelRequest).model
    if not name:
        defaults = GenerationDefaults(n_ctx=services.settings.get_int("models.context"))
        slots = services.settings.get_int("models.slots")
        return json_reply(
            RouterProps(default_generation_settings=defaults, total_slots=slots, build_info=_build_info())
        )
    model = await find_model(services, name)
    status = status_of(services.supervisor, model)
    capabilities, facts = await capabilities_of(services, model), await services.facts.of_model(model)
    context = context_of(services.settings, services.model_settings, model, status)
    return json_reply(
        ModelProps(
            default_generation_settings=GenerationDefaults(n_ctx=context or 0),
            total_slots=(status.slots if status is not None else None) or services.settings.get_int("models.slots"),
            model_alias=model.name,
            model_path=model.name,
            modalities=PropsModalities(
                vision=Capability.VISION in capabilities, audio=Capability.AUDIO in capabilities
            ),
            chat_template=facts.chat_template if facts is not None else "",
            build_info=_build_info(),
        )
    )


async def load_model(request: web.Request) -> web.Response:
    """POST /models/load: begin to load; the list and the events say when it is done."""
    check_may_change(request)
    services = request.app[SERVICES]
    _, load = await resolve_model(services, _require_name(await read_json(request, RouterModelRequest)))
    request.app[BACKGROUND].spawn(services.supervisor.ensure_ready(load, any_options=True))
    await asyncio.sleep(0)  # so that a list asked for at once says that it is loading
    return json_reply(_DONE)


async def unload_model(request: web.Request) -> web.Response:
    """POST /models/unload: begin to unload; requests in flight finish first. A pinned model stays."""
    check_may_change(request)
    services = request.app[SERVICES]
    model = await find_model(services, _require_name(await read_json(request, RouterModelRequest)))
    if status_of(services.supervisor, model) is None:
        raise BadRequest(f"{model.title} is not loaded.", code="model_not_loaded")
    await services.supervisor.let_go(model.runs_as)
    return json_reply(_DONE)


async def follow_models(request: web.Request) -> web.StreamResponse:
    """GET /models/sse: what becomes of the models, as it happens."""
    return await send_events(request, _router_events(request.app[SERVICES].events), encode_event)


def encode_event(event: RouterEvent) -> bytes:
    """Return one event as it goes over the wire."""
    return b"data: " + msgspec.json.encode(event) + b"\n\n"


async def _router_events(events: EventHub) -> AsyncGenerator[RouterEvent, None]:
    last: dict[str, RouterModelState] = {}
    with events.subscribe() as subscription:
        async for event in subscription:
            if not isinstance(event, EngineChanged):
                continue
            state = _state_of(event.status)
            if last.get(event.status.model) != state:
                last[event.status.model] = state
                yield RouterEvent(model=event.status.model, data=state)


def _state_of(status: EngineStatus) -> RouterModelState:
    value = router_status(status).value
    progress = RouterProgress(stages=["text_model"], current="text_model", value=status.progress)
    return RouterModelState(status=value, progress=progress if status.state is EngineState.LOADING else None)


def _require_name(request: RouterModelRequest) -> str:
    if not request.model:
        raise BadRequest("`model` names the model.", code="model_required")
    return request.model


def _build_info() -> str:
    return f"roundhouse-{__version__}"
