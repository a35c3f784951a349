"""LM Studio's routes about models: what is here, in both versions of its API, and loading and unloading."""

import asyncio
import time

import msgspec
from aiohttp import web

from app.core.errors import Conflict, NotFound
from app.core.models import LoadOptions, ModelInfo
from app.gateway.dialects.lmstudio import cards, requests
from app.gateway.dialects.lmstudio.cards import Known
from app.gateway.entry.access import check_may_change
from app.gateway.entry.bodies import read_json
from app.gateway.loading.capabilities import with_capabilities
from app.gateway.loading.launch import UNCHOSEN, find_model, resolve
from app.gateway.services import SERVICES, Services
from app.supervisor.policy import LoadRequest


class Loaded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer of /api/v1/models/load. `load_config` is there if it was asked for."""

    type: str
    instance_id: str
    load_time_seconds: float
    status: str
    load_config: cards.Config | None = None


class Unloaded(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of /api/v1/models/unload."""

    instance_id: str


def add_routes(app: web.Application) -> None:
    """Add them."""
    app.router.add_get("/api/v0/models", list_v0)
    app.router.add_get("/api/v0/models/{id:.+}", show_v0)
    app.router.add_get("/api/v1/models", list_v1)
    app.router.add_post("/api/v1/models/load", load)
    app.router.add_post("/api/v1/models/unload", unload)


async def list_v0(request: web.Request) -> web.Response:
    """GET /api/v0/models."""
    found = await _all_known(request.app[SERVICES])
    return _json(cards.ListV0(data=[cards.card_v0(known) for known in found]))


async def show_v0(request: web.Request) -> web.Response:
    """GET /api/v0/models/{id}; ids may contain slashes and colons."""
    services = request.app[SERVICES]
    model = await find_model(services, request.match_info["id"])
    return _json(cards.card_v0(await known_of(services, model)))


async def list_v1(request: web.Request) -> web.Response:
    """GET /api/v1/models."""
    found = await _all_known(request.app[SERVICES])
    return _json(cards.ListV1(models=[cards.card_v1(known) for known in found]))


async def load(request: web.Request) -> web.Response:
    """POST /api/v1/models/load. A model that runs is left as it is unless it should run differently."""
    check_may_change(request)
    services, began = request.app[SERVICES], time.perf_counter()
    asked = await read_json(request, requests.LoadRequest)
    if asked.num_experts is not None or asked.offload_kv_cache_to_gpu is not None:
        raise requests.not_here(
            "Roundhouse does not set the number of experts, nor where the KV cache lies.",
            "Leave out `num_experts` and `offload_kv_cache_to_gpu`.",
        )
    options = UNCHOSEN if asked.context_length is None else LoadOptions(context=asked.context_length)
    model, wanted = await resolve(services, requests.required(asked.model, "model"), options)
    wanted, is_any = _with_choices(wanted, asked), asked == _only_named(asked)
    await services.supervisor.ensure_ready(wanted, any_options=is_any)
    known = await known_of(services, model)
    config = _with_asked(cards.config_of(known), asked) if asked.echo_load_config else None
    return _json(
        Loaded(
            type=cards.type_v1(known.model),
            instance_id=model.name,
            load_time_seconds=round(time.perf_counter() - began, 3),
            status="loaded",
            load_config=config,
        )
    )


async def unload(request: web.Request) -> web.Response:
    """POST /api/v1/models/unload; requests in flight finish first. A pinned model stays."""
    check_may_change(request)
    services = request.app[SERVICES]
    asked = requests.required((await read_json(request, requests.UnloadRequest)).instance_id, "instance_id")
    running = {status.model: status for status in services.supervisor.statuses()}
    name = asked if asked in running else (await find_model(services, asked)).runs_as
    if name not in running:
        raise NotFound(f"{asked!r} is not loaded.", hint="/api/v1/models lists what is.", code="model_not_found")
    if running[name].is_pinned:
        raise Conflict(
            f"{name!r} is pinned, and stays loaded.",
            hint=f"`roundhouse unload {name}` unloads it all the same; `roundhouse unpin {name}` takes the pin away.",
            code="model_pinned",
        )
    await services.supervisor.unload(name)
    return _json(Unloaded(instance_id=name))


async def known_of(services: Services, model: ModelInfo) -> Known:
    """Return all there is to say of a model."""
    (able,) = await with_capabilities(services, [model])
    return await _known_of(services, able)


async def _known_of(services: Services, model: ModelInfo) -> Known:
    status = next((one for one in services.supervisor.statuses() if one.model == model.runs_as), None)
    return Known(
        model=model,
        facts=await services.facts.of_model(model),
        status=status,
        usual_context=services.settings.integer("models.context"),
    )


async def _all_known(services: Services) -> list[Known]:
    models = await with_capabilities(services, await asyncio.to_thread(services.library.models))
    return [await _known_of(services, model) for model in models if not model.problem]


def _with_choices(load: LoadRequest, asked: requests.LoadRequest) -> LoadRequest:
    options = load.options
    if asked.flash_attention is not None:
        options = msgspec.structs.replace(options, flash_attention=asked.flash_attention)
    if asked.eval_batch_size is not None:
        options = msgspec.structs.replace(options, max_batch_tokens=asked.eval_batch_size)
    return msgspec.structs.replace(load, options=options)


def _with_asked(config: cards.Config, asked: requests.LoadRequest) -> cards.Config:
    """Return what it was loaded with, and what was asked for and nobody tells of a running engine."""
    return msgspec.structs.replace(config, eval_batch_size=asked.eval_batch_size, flash_attention=asked.flash_attention)


def _only_named(asked: requests.LoadRequest) -> requests.LoadRequest:
    return requests.LoadRequest(model=asked.model, echo_load_config=asked.echo_load_config)


def _json(value: msgspec.Struct) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")
