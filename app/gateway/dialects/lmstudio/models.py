"""Models as LM Studio lists them, in both versions of its API, and loading and unloading them.

What is said of one comes from the library, its files and the engines. Readers are strict: Zed's fails on a null
publisher, on a format or a state it does not know, and on a missing context.
"""

import asyncio
import time
from typing import NamedTuple

import msgspec
from aiohttp import web

from app.core.capabilities import Capability
from app.core.engines import EngineState, EngineStatus
from app.core.errors import Conflict, NotFound
from app.core.model_facts import ModelFacts
from app.core.models import LoadOptions, ModelInfo
from app.gateway.dialects.lmstudio import requests
from app.gateway.dialects.replies import json_reply
from app.gateway.entry.access import check_may_change
from app.gateway.entry.bodies import read_json
from app.gateway.loading.capabilities import with_capabilities
from app.gateway.loading.launch import UNCHOSEN, find_model, resolve
from app.gateway.services import SERVICES, Services
from app.supervisor.policy import LoadRequest

_GGUF, _MLX = "gguf", "mlx"
_EMBEDDING = "embedding"
_LOADING = frozenset({EngineState.STARTING, EngineState.LOADING})
_OURS, _NOBODYS = "roundhouse", "local"
_BILLION, _MILLION = 10**9, 10**6
_LEVELS = {"gpt-oss": ("low", "medium", "high")}
"""Architectures whose thinking has degrees and cannot be turned off."""
_ON_OFF = ("off", "on")


class Known(NamedTuple):
    """All there is to say of one model, whose capabilities are those it has here."""

    model: ModelInfo
    facts: ModelFacts | None
    status: EngineStatus | None
    usual_context: int
    """In tokens; stands for the trained context where nobody knows that."""

    @property
    def is_loaded(self) -> bool:
        """Whether it answers at once."""
        return self.status is not None and self.status.state is EngineState.READY

    @property
    def architecture(self) -> str:
        """What it is built like, in llama.cpp's word."""
        return self.model.architecture or (self.facts.architecture if self.facts else "")

    @property
    def quantization(self) -> str:
        """How its weights are stored."""
        return self.model.quantization or (self.facts.quantization if self.facts else "")

    @property
    def context(self) -> int:
        """The most tokens it can keep."""
        return self.model.trained_context or (self.facts.trained_context if self.facts else None) or self.usual_context

    @property
    def loaded_context(self) -> int | None:
        """How many tokens it keeps now; None if it is not loaded."""
        return self.status.context if self.status is not None and self.is_loaded else None

    @property
    def publisher(self) -> str:
        """Who made it, as far as its name says so."""
        maker, slash, _ = self.model.name.partition("/")
        return maker if slash else _OURS if self.model.is_builtin else _NOBODYS


class CardV0(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One model of `/api/v0/models`. Contexts in tokens."""

    id: str
    object: str
    type: str
    publisher: str
    arch: str
    compatibility_type: str
    quantization: str
    state: str
    max_context_length: int
    loaded_context_length: int | None = None
    capabilities: list[str] | None = None


class ListV0(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `/api/v0/models`."""

    data: list[CardV0]
    object: str = "list"


def card_v0(known: Known) -> CardV0:
    """Return a model for `/api/v0`."""
    return CardV0(
        id=known.model.name,
        object="model",
        type=_type_v0(known),
        publisher=known.publisher,
        arch=known.architecture,
        compatibility_type=format_v0(known.model),
        quantization=known.quantization,
        state=_state(known.status),
        max_context_length=known.context,
        loaded_context_length=known.loaded_context,
        capabilities=_capabilities_v0(known),
    )


def format_v0(model: ModelInfo) -> str:
    """Return one of the two formats that exist there: what is not MLX is called GGUF."""
    return _MLX if model.format == _MLX else _GGUF


def _type_v0(known: Known) -> str:
    if type_v1(known.model) == _EMBEDDING:
        return "embeddings"
    return "vlm" if Capability.VISION in known.model.capabilities else "llm"


def _state(status: EngineStatus | None) -> str:
    if status is None:
        return "not-loaded"
    if status.state is EngineState.READY:
        return "loaded"
    return "loading" if status.state in _LOADING else "not-loaded"


def _capabilities_v0(known: Known) -> list[str] | None:
    names = {Capability.TOOLS: "tool_use", Capability.VISION: "vision"}
    return [name for capability, name in names.items() if capability in known.model.capabilities] or None


class Quantization(msgspec.Struct, frozen=True, kw_only=True):
    """How weights are stored."""

    name: str | None
    bits_per_weight: float | None


class Config(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model was loaded with; what nobody here decided is left out."""

    context_length: int | None = None
    eval_batch_size: int | None = None
    flash_attention: bool | None = None
    parallel: int | None = None
    num_experts: int | None = None


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """A model that is loaded. It has its model's name, since it is loaded once."""

    id: str
    config: Config


class Reasoning(msgspec.Struct, frozen=True, kw_only=True):
    """How a model's thinking can be set."""

    allowed_options: tuple[str, ...]
    default: str


class Capabilities(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model can do."""

    vision: bool
    trained_for_tool_use: bool
    reasoning: Reasoning | None = None


class CardV1(msgspec.Struct, frozen=True, kw_only=True):
    """One model of `/api/v1/models`. Size in bytes, context in tokens."""

    type: str
    publisher: str
    key: str
    display_name: str
    quantization: Quantization | None
    size_bytes: int
    params_string: str | None
    loaded_instances: list[Instance]
    max_context_length: int
    format: str | None
    architecture: str | msgspec.UnsetType | None = msgspec.UNSET
    capabilities: Capabilities | msgspec.UnsetType = msgspec.UNSET
    description: str | msgspec.UnsetType | None = msgspec.UNSET


class ListV1(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `/api/v1/models`."""

    models: list[CardV1]


def card_v1(known: Known) -> CardV1:
    """Return a model for `/api/v1`."""
    model, unset = known.model, msgspec.UNSET
    is_llm = type_v1(model) == "llm"
    return CardV1(
        type=type_v1(model),
        publisher=known.publisher,
        key=model.name,
        display_name=model.title,
        quantization=_quantization(known),
        size_bytes=model.size_bytes,
        params_string=_parameters(model.parameters or (known.facts.parameters if known.facts else None)),
        loaded_instances=[Instance(id=model.name, config=config_of(known))] if known.is_loaded else [],
        max_context_length=known.context,
        format=model.format if model.format in {_GGUF, _MLX} else None,
        architecture=(known.architecture or None) if is_llm else unset,
        capabilities=_capabilities_v1(known) if is_llm else unset,
        description=None if is_llm else unset,
    )


def type_v1(model: ModelInfo) -> str:
    """Return which of the two kinds a model is: rerankers, which have none of their own there, write no text either."""
    return "llm" if Capability.COMPLETION in model.capabilities else _EMBEDDING


def config_of(known: Known) -> Config:
    """Return what a loaded model was loaded with."""
    used = max((layer.experts_used for layer in known.facts.layers), default=0) if known.facts else None
    slots = known.status.slots if known.status else None
    return Config(context_length=known.loaded_context, parallel=slots, num_experts=used)


def reasoning_of(known: Known) -> Reasoning | None:
    """Return how the model's thinking can be set; None if it does not think."""
    if Capability.THINKING not in known.model.capabilities:
        return None
    levels = _LEVELS.get(known.architecture, _ON_OFF)
    return Reasoning(allowed_options=levels, default="on" if "on" in levels else "medium")


def _capabilities_v1(known: Known) -> Capabilities:
    return Capabilities(
        vision=Capability.VISION in known.model.capabilities,
        trained_for_tool_use=Capability.TOOLS in known.model.capabilities,
        reasoning=reasoning_of(known),
    )


def _quantization(known: Known) -> Quantization | None:
    if not known.quantization:
        return None
    facts = known.facts
    bits = round(facts.file_bytes * 8 / facts.parameters, 2) if facts and facts.parameters else None
    return Quantization(name=known.quantization, bits_per_weight=bits)


def _parameters(count: int | None) -> str | None:
    """Return a count as people say it: "8B", "1.7B", "270M"."""
    if not count:
        return None
    unit, letter = (_BILLION, "B") if count >= _BILLION else (_MILLION, "M")
    return f"{round(count / unit, 1):g}{letter}"


class Loaded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer of /api/v1/models/load. `load_config` is there if it was asked for."""

    type: str
    instance_id: str
    load_time_seconds: float
    status: str
    load_config: Config | None = None


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
    return json_reply(ListV0(data=[card_v0(known) for known in found]))


async def show_v0(request: web.Request) -> web.Response:
    """GET /api/v0/models/{id}; ids may contain slashes and colons."""
    services = request.app[SERVICES]
    model = await find_model(services, request.match_info["id"])
    return json_reply(card_v0(await known_of(services, model)))


async def list_v1(request: web.Request) -> web.Response:
    """GET /api/v1/models."""
    found = await _all_known(request.app[SERVICES])
    return json_reply(ListV1(models=[card_v1(known) for known in found]))


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
    config = _with_asked(config_of(known), asked) if asked.echo_load_config else None
    return json_reply(
        Loaded(
            type=type_v1(known.model),
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
        raise NotFound(
            f"{asked!r} is not loaded.", hint="/api/v1/models lists the loaded ones.", code="model_not_found"
        )
    if running[name].is_pinned:
        raise Conflict(
            f"{name!r} is pinned, and stays loaded.",
            hint=f"`roundhouse unload {name}` unloads it anyway; `roundhouse unpin {name}` removes the pin.",
            code="model_pinned",
        )
    await services.supervisor.unload(name)
    return json_reply(Unloaded(instance_id=name))


def status_of(services: Services, model: ModelInfo) -> EngineStatus | None:
    """Return how a model runs; None if it does not."""
    return next((status for status in services.supervisor.statuses() if status.model == model.runs_as), None)


async def known_of(services: Services, model: ModelInfo) -> Known:
    """Return all there is to say of a model."""
    (able,) = await with_capabilities(services, [model])
    return await _known_of(services, able)


async def _known_of(services: Services, model: ModelInfo) -> Known:
    return Known(
        model=model,
        facts=await services.facts.of_model(model),
        status=status_of(services, model),
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


def _with_asked(config: Config, asked: requests.LoadRequest) -> Config:
    """Return what it was loaded with, and what was asked for and nobody tells of a running engine."""
    return msgspec.structs.replace(config, eval_batch_size=asked.eval_batch_size, flash_attention=asked.flash_attention)


def _only_named(asked: requests.LoadRequest) -> requests.LoadRequest:
    return requests.LoadRequest(model=asked.model, echo_load_config=asked.echo_load_config)
