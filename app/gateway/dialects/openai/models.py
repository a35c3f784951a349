"""Models as OpenAI lists them, with what its other servers add for clients that want to know more.

The address has other audiences: what Anthropic's and Google's clients and Codex ask there is answered in their form.
"""

import msgspec
from aiohttp import web

from app.config.model_settings import ModelSettingsFile
from app.config.store import SettingsStore
from app.core.capabilities import Capability
from app.core.engines import EngineState, EngineStatus
from app.core.models import ModelInfo
from app.gateway.dialects.anthropic import models as anthropic_models
from app.gateway.dialects.anthropic.record import ANTHROPIC_DIALECT
from app.gateway.dialects.form import json_reply
from app.gateway.dialects.google import models as google_models
from app.gateway.dialects.google.record import GOOGLE_DIALECT
from app.gateway.dialects.openai.codex_models import CLIENT_VERSION, codex_list
from app.gateway.dialects.raw_fields import decode_query
from app.gateway.dialects.registry import dialect_of
from app.gateway.loading.capabilities import with_capabilities
from app.gateway.loading.launch import context_of, find_model, read_models
from app.gateway.services import SERVICES

_LOADING = frozenset({EngineState.STARTING, EngineState.LOADING, EngineState.BACKING_OFF})


class RouterStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether a model is loaded, in the words of llama-server's router: "loaded", "loading" or "unloaded"."""

    value: str
    failed: bool = False
    """Whether it could not be loaded when that was last tried."""


class RouterMeta(msgspec.Struct, frozen=True, kw_only=True):
    """llama-server's facts of a model: context in tokens as it is or would be loaded, and as trained; size in bytes."""

    n_ctx: int | None
    n_ctx_train: int | None
    n_params: int | None
    size: int


class RouterArchitecture(msgspec.Struct, frozen=True, kw_only=True):
    """What a model takes and gives, in the words that llama-server and OpenRouter have for it."""

    input_modalities: list[str]
    output_modalities: list[str]


class OpenAIModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """A model as OpenAI lists it, with other servers' names for what OpenAI does not say. Contexts in tokens.

    `context_length` (OpenRouter's name) and `max_model_len` (vLLM's) are what it keeps as it is or would be loaded,
    `max_context_length` (LM Studio's) what it was trained for. `capabilities` are a list, as llama-server and others
    have it, of the words of `core.capabilities`. Clients of llama-server's router read the last four.
    """

    id: str
    created: int
    object: str = "model"
    owned_by: str = "roundhouse"
    state: str = "not-loaded"
    loaded: bool = False
    context_length: int | None = None
    max_model_len: int | None = None
    max_context_length: int | None = None
    loaded_context_length: int | None = None
    capabilities: list[Capability] = []
    status: RouterStatus
    meta: RouterMeta
    architecture: RouterArchitecture
    source: str = "preset"
    """The router's word for what the first request loads."""


class OpenAIModelList(msgspec.Struct, frozen=True, kw_only=True):
    """The list of models."""

    data: list[OpenAIModelCard]
    object: str = "list"


async def list_models(request: web.Request) -> web.Response:
    """GET /v1/models, to whichever of its audiences asks."""
    services, dialect = request.app[SERVICES], dialect_of(request.path, request.headers)
    if dialect is GOOGLE_DIALECT:
        return await google_models.list_models(request)
    usable = [model for model in await read_models(services) if not model.problem]
    if dialect is ANTHROPIC_DIALECT:
        query = decode_query(request.query, anthropic_models.AnthropicPageQuery)
        listed_models = anthropic_models.with_picker_names(usable, request.headers.get("User-Agent", ""))
        return json_reply(anthropic_models.model_page(listed_models, query))
    statuses = {status.model: status for status in services.supervisor.list_statuses()}
    able = await with_capabilities(services, usable)
    if CLIENT_VERSION in request.query:
        contexts = (
            context_of(services.settings, services.model_settings, each, statuses.get(each.runs_as)) for each in able
        )
        return json_reply(codex_list(zip(able, contexts, strict=True)))
    cards = [
        _model_card(services.settings, services.model_settings, model, statuses.get(model.runs_as)) for model in able
    ]
    return json_reply(OpenAIModelList(data=cards))


async def show_model(request: web.Request) -> web.Response:
    """GET /v1/models/{id}; ids may contain slashes and colons."""
    services, dialect = request.app[SERVICES], dialect_of(request.path, request.headers)
    if dialect is GOOGLE_DIALECT:
        return await google_models.show_model(request)
    model = await find_model(services, request.match_info["id"])
    if dialect is ANTHROPIC_DIALECT:
        return json_reply(anthropic_models.model_card(model))
    statuses = {status.model: status for status in services.supervisor.list_statuses()}
    (able,) = await with_capabilities(services, [model])
    return json_reply(_model_card(services.settings, services.model_settings, able, statuses.get(model.runs_as)))


def router_status(status: EngineStatus | None) -> RouterStatus:
    """Return the state of a model's engine in the router's words."""
    if status is None:
        return RouterStatus(value="unloaded")
    if status.state in _LOADING:
        return RouterStatus(value="loading")
    is_loaded = status.state in {EngineState.READY, EngineState.DRAINING}
    return RouterStatus(value="loaded" if is_loaded else "unloaded", failed=status.state is EngineState.FAILED)


def _model_card(
    settings: SettingsStore, tuning_file: ModelSettingsFile, model: ModelInfo, status: EngineStatus | None
) -> OpenAIModelCard:
    is_loaded = status is not None and status.state is EngineState.READY
    context = context_of(settings, tuning_file, model, status)
    takes = {Capability.VISION: "image", Capability.AUDIO: "audio"}
    inputs = ["text", *(word for capability, word in takes.items() if capability in model.capabilities)]
    return OpenAIModelCard(
        id=model.name,
        created=int(model.modified_at),
        state="loaded" if is_loaded else "not-loaded",
        loaded=is_loaded,
        context_length=context,
        max_model_len=context,
        max_context_length=model.trained_context,
        loaded_context_length=status.context if status is not None and is_loaded else None,
        capabilities=model.capabilities,
        status=router_status(status),
        meta=RouterMeta(
            n_ctx=context, n_ctx_train=model.trained_context, n_params=model.parameters, size=model.size_bytes
        ),
        architecture=RouterArchitecture(input_modalities=inputs, output_modalities=["text"]),
    )
