"""Models as LM Studio lists them, in both versions of its API, and loading and unloading them.

What is said of one comes from the library, its files and the engines. Readers are strict: Zed's fails on a null
publisher, on a format or a state it does not know, and on a missing context.
"""

import time
from typing import NamedTuple

import msgspec
from aiohttp import web

from app.config.store import SettingsStore
from app.core.capabilities import Capability
from app.core.engines import EngineState, EngineStatus
from app.core.errors import Conflict, NotFound, quote_value
from app.core.model_facts import ModelFacts
from app.core.models import LoadOptions, ModelInfo
from app.gateway.advising.model_facts import FactsReader
from app.gateway.dialects.form import json_reply
from app.gateway.dialects.lmstudio import requests
from app.gateway.entry.access import check_may_change
from app.gateway.entry.bodies import read_json
from app.gateway.loading.capabilities import with_capabilities
from app.gateway.loading.launch import UNCHOSEN, find_model, read_models, resolve_model, status_of
from app.gateway.services import SERVICES, Services
from app.supervisor.policy import LoadRequest
from app.supervisor.pool import Supervisor

_GGUF, _MLX = "gguf", "mlx"
_EMBEDDING = "embedding"
_LOADING = frozenset({EngineState.STARTING, EngineState.LOADING})
_OWN_PUBLISHER, _UNKNOWN_PUBLISHER = "roundhouse", "local"
_BILLION, _MILLION = 10**9, 10**6
_LEVELS = {"gpt-oss": ("low", "medium", "high")}
"""Architectures whose thinking has degrees and cannot be turned off."""
_ON_OFF = ("off", "on")


class LmStudioModel(NamedTuple):
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
    def current_context(self) -> int | None:
        """How many tokens it keeps now; None if it is not loaded."""
        return self.status.context if self.status is not None and self.is_loaded else None

    @property
    def publisher(self) -> str:
        """Who made it, as far as its name says so."""
        maker, slash, _ = self.model.name.partition("/")
        return maker if slash else _OWN_PUBLISHER if self.model.is_builtin else _UNKNOWN_PUBLISHER


class LmStudioCardV0(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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


class LmStudioListV0(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `/api/v0/models`."""

    data: list[LmStudioCardV0]
    object: str = "list"


def card_v0(details: LmStudioModel) -> LmStudioCardV0:
    """Return a model for `/api/v0`."""
    return LmStudioCardV0(
        id=details.model.name,
        object="model",
        type=_type_v0(details),
        publisher=details.publisher,
        arch=details.architecture,
        compatibility_type=format_v0(details.model),
        quantization=details.quantization,
        state=_state_name(details.status),
        max_context_length=details.context,
        loaded_context_length=details.current_context,
        capabilities=_capabilities_v0(details),
    )


def format_v0(model: ModelInfo) -> str:
    """Return one of the two formats that exist there: what is not MLX is called GGUF."""
    return _MLX if model.format == _MLX else _GGUF


def _type_v0(details: LmStudioModel) -> str:
    if type_v1(details.model) == _EMBEDDING:
        return "embeddings"
    return "vlm" if Capability.VISION in details.model.capabilities else "llm"


def _state_name(status: EngineStatus | None) -> str:
    if status is None:
        return "not-loaded"
    if status.state is EngineState.READY:
        return "loaded"
    return "loading" if status.state in _LOADING else "not-loaded"


def _capabilities_v0(details: LmStudioModel) -> list[str] | None:
    names = {Capability.TOOLS: "tool_use", Capability.VISION: "vision"}
    return [name for capability, name in names.items() if capability in details.model.capabilities] or None


class LmStudioQuantization(msgspec.Struct, frozen=True, kw_only=True):
    """How weights are stored."""

    name: str | None
    bits_per_weight: float | None


class LmStudioLoadConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model was loaded with; what nobody here decided is left out."""

    context_length: int | None = None
    eval_batch_size: int | None = None
    flash_attention: bool | None = None
    parallel: int | None = None
    num_experts: int | None = None


class LmStudioInstance(msgspec.Struct, frozen=True, kw_only=True):
    """A model that is loaded. It has its model's name, since it is loaded once."""

    id: str
    config: LmStudioLoadConfig


class LmStudioReasoning(msgspec.Struct, frozen=True, kw_only=True):
    """How a model's thinking can be set."""

    allowed_options: tuple[str, ...]
    default: str


class LmStudioCapabilities(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model can do."""

    vision: bool
    trained_for_tool_use: bool
    reasoning: LmStudioReasoning | None = None


class LmStudioCardV1(msgspec.Struct, frozen=True, kw_only=True):
    """One model of `/api/v1/models`. Size in bytes, context in tokens."""

    type: str
    publisher: str
    key: str
    display_name: str
    quantization: LmStudioQuantization | None
    size_bytes: int
    params_string: str | None
    loaded_instances: list[LmStudioInstance]
    max_context_length: int
    format: str | None
    architecture: str | msgspec.UnsetType | None = msgspec.UNSET
    capabilities: LmStudioCapabilities | msgspec.UnsetType = msgspec.UNSET
    description: str | msgspec.UnsetType | None = msgspec.UNSET


class LmStudioListV1(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `/api/v1/models`."""

    models: list[LmStudioCardV1]


def card_v1(details: LmStudioModel) -> LmStudioCardV1:
    """Return a model for `/api/v1`."""
    model, unset = details.model, msgspec.UNSET
    is_llm = type_v1(model) == "llm"
    return LmStudioCardV1(
        type=type_v1(model),
        publisher=details.publisher,
        key=model.name,
        display_name=model.title,
        quantization=_card_quantization(details),
        size_bytes=model.size_bytes,
        params_string=_format_parameters(model.parameters or (details.facts.parameters if details.facts else None)),
        loaded_instances=[LmStudioInstance(id=model.name, config=config_of(details))] if details.is_loaded else [],
        max_context_length=details.context,
        format=model.format if model.format in {_GGUF, _MLX} else None,
        architecture=(details.architecture or None) if is_llm else unset,
        capabilities=_capabilities_v1(details) if is_llm else unset,
        description=None if is_llm else unset,
    )


def type_v1(model: ModelInfo) -> str:
    """Return which of the two kinds a model is: rerankers, which have none of their own there, write no text either."""
    return "llm" if Capability.COMPLETION in model.capabilities else _EMBEDDING


def config_of(details: LmStudioModel) -> LmStudioLoadConfig:
    """Return what a loaded model was loaded with."""
    experts = max((layer.experts_used for layer in details.facts.layers), default=0) if details.facts else None
    slots = details.status.slots if details.status else None
    return LmStudioLoadConfig(context_length=details.current_context, parallel=slots, num_experts=experts)


def reasoning_of(details: LmStudioModel) -> LmStudioReasoning | None:
    """Return how the model's thinking can be set; None if it does not think."""
    if Capability.THINKING not in details.model.capabilities:
        return None
    levels = _LEVELS.get(details.architecture, _ON_OFF)
    return LmStudioReasoning(allowed_options=levels, default="on" if "on" in levels else "medium")


def _capabilities_v1(details: LmStudioModel) -> LmStudioCapabilities:
    return LmStudioCapabilities(
        vision=Capability.VISION in details.model.capabilities,
        trained_for_tool_use=Capability.TOOLS in details.model.capabilities,
        reasoning=reasoning_of(details),
    )


def _card_quantization(details: LmStudioModel) -> LmStudioQuantization | None:
    if not details.quantization:
        return None
    facts = details.facts
    bits = round(facts.file_bytes * 8 / facts.parameters, 2) if facts and facts.parameters else None
    return LmStudioQuantization(name=details.quantization, bits_per_weight=bits)


def _format_parameters(count: int | None) -> str | None:
    """Return a count as people say it: "8B", "1.7B", "270M"."""
    if not count:
        return None
    unit, letter = (_BILLION, "B") if count >= _BILLION else (_MILLION, "M")
    return f"{round(count / unit, 1):g}{letter}"


class LmStudioLoadReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer of /api/v1/models/load. `load_config` is there if it was asked for."""

    type: str
    instance_id: str
    load_time_seconds: float
    status: str
    load_config: LmStudioLoadConfig | None = None


class LmStudioUnloadReply(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of /api/v1/models/unload."""

    instance_id: str


def add_routes(router: web.UrlDispatcher) -> None:
    """Add them."""
    router.add_get("/api/v0/models", list_v0)
    router.add_get("/api/v0/models/{id:.+}", show_v0)
    router.add_get("/api/v1/models", list_v1)
    router.add_post("/api/v1/models/load", load_model)
    router.add_post("/api/v1/models/unload", unload_model)


async def list_v0(request: web.Request) -> web.Response:
    """GET /api/v0/models."""
    models = await _read_all_models(request.app[SERVICES])
    return json_reply(LmStudioListV0(data=[card_v0(details) for details in models]))


async def show_v0(request: web.Request) -> web.Response:
    """GET /api/v0/models/{id}; ids may contain slashes and colons."""
    services = request.app[SERVICES]
    model = await find_model(services, request.match_info["id"])
    return json_reply(card_v0(await read_model(services, model)))


async def list_v1(request: web.Request) -> web.Response:
    """GET /api/v1/models."""
    models = await _read_all_models(request.app[SERVICES])
    return json_reply(LmStudioListV1(models=[card_v1(details) for details in models]))


async def load_model(request: web.Request) -> web.Response:
    """POST /api/v1/models/load. A model that runs is left as it is unless it should run differently."""
    check_may_change(request)
    services, start_s = request.app[SERVICES], time.perf_counter()
    load_request = await read_json(request, requests.LmStudioLoadRequest)
    if load_request.num_experts is not None or load_request.offload_kv_cache_to_gpu is not None:
        raise requests.not_here(
            "Roundhouse does not set the number of experts, nor where the KV cache lies.",
            "Leave out `num_experts` and `offload_kv_cache_to_gpu`.",
        )
    options = UNCHOSEN if load_request.context_length is None else LoadOptions(context=load_request.context_length)
    model, engine_load = await resolve_model(services, requests.require_field(load_request.model, "model"), options)
    engine_load, is_any = _with_choices(engine_load, load_request), load_request == _without_options(load_request)
    await services.supervisor.ensure_ready(engine_load, any_options=is_any)
    details = await read_model(services, model)
    config = _with_request(config_of(details), load_request) if load_request.echo_load_config else None
    return json_reply(
        LmStudioLoadReply(
            type=type_v1(details.model),
            instance_id=model.name,
            load_time_seconds=round(time.perf_counter() - start_s, 3),
            status="loaded",
            load_config=config,
        )
    )


async def unload_model(request: web.Request) -> web.Response:
    """POST /api/v1/models/unload; requests in flight finish first. A pinned model stays."""
    check_may_change(request)
    services = request.app[SERVICES]
    instance_id = requests.require_field(
        (await read_json(request, requests.LmStudioUnloadRequest)).instance_id, "instance_id"
    )
    statuses = {status.model: status for status in services.supervisor.list_statuses()}
    name = instance_id if instance_id in statuses else (await find_model(services, instance_id)).runs_as
    if name not in statuses:
        raise NotFound(
            f"{quote_value(instance_id)} is not loaded.",
            hint="/api/v1/models lists the loaded ones.",
            code="model_not_found",
        )
    if statuses[name].is_pinned:
        raise Conflict(
            f"{quote_value(name)} is pinned, and stays loaded.",
            hint=f"`roundhouse unload {name}` unloads it anyway; `roundhouse unpin {name}` removes the pin.",
            code="model_pinned",
        )
    await services.supervisor.unload_model(name)
    return json_reply(LmStudioUnloadReply(instance_id=name))


async def read_model(services: Services, model: ModelInfo) -> LmStudioModel:
    """Return all there is to say of a model."""
    (able,) = await with_capabilities(services, [model])
    return await _read_capable_model(services.facts, services.supervisor, services.settings, able)


async def _read_capable_model(
    facts: FactsReader, supervisor: Supervisor, settings: SettingsStore, model: ModelInfo
) -> LmStudioModel:
    return LmStudioModel(
        model=model,
        facts=await facts.of_model(model),
        status=status_of(supervisor, model),
        usual_context=settings.get_int("models.context"),
    )


async def _read_all_models(services: Services) -> list[LmStudioModel]:
    models = await with_capabilities(services, await read_models(services))
    return [
        await _read_capable_model(services.facts, services.supervisor, services.settings, model)
        for model in models
        if not model.problem
    ]


def _with_choices(load: LoadRequest, request: requests.LmStudioLoadRequest) -> LoadRequest:
    options = load.options
    if request.flash_attention is not None:
        options = msgspec.structs.replace(options, flash_attention=request.flash_attention)
    if request.eval_batch_size is not None:
        options = msgspec.structs.replace(options, max_batch_tokens=request.eval_batch_size)
    return msgspec.structs.replace(load, options=options)


def _with_request(config: LmStudioLoadConfig, request: requests.LmStudioLoadRequest) -> LmStudioLoadConfig:
    """Return what it was loaded with, and what was asked for and nobody tells of a running engine."""
    return msgspec.structs.replace(
        config, eval_batch_size=request.eval_batch_size, flash_attention=request.flash_attention
    )


def _without_options(request: requests.LmStudioLoadRequest) -> requests.LmStudioLoadRequest:
    return requests.LmStudioLoadRequest(model=request.model, echo_load_config=request.echo_load_config)
