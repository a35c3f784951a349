"""What an agent may do over MCP: a table of tools, each with its arguments and the calls of the gateway behind it.

Nothing here knows the protocol. A tool's description is written for a model that has to decide whether to call it.
"""

from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec

from app.client.endpoint import AnswerStream, EndpointMessage
from app.client.http import GatewayClient
from app.core.advice import Estimate, EstimateRequest, PlanRequest
from app.core.api import Status
from app.core.chats import Sampling
from app.core.downloads import Download, Pull
from app.core.engines import EngineStatus
from app.core.errors import BadRequest
from app.core.guide import GuideTool
from app.core.hub import HubPick, HubResults, MachineAdvice
from app.core.lookups import LOOKUPS, EstimateArguments, NoArguments, PlanArguments, SearchArguments
from app.core.models import LoadModel, LoadOptions, ModelInfo, UnloadModel
from app.core.tool_results import (
    AnswerText,
    DownloadProgress,
    EstimateAnswer,
    InstalledModels,
    LoadedModel,
    PlanAnswer,
    SearchAnswer,
    ServiceStatus,
    download_progress,
    estimate_answer,
    installed_model,
    loaded_model,
    picks_answer,
    plan_answer,
    search_answer,
)

_HUB_S = 120.0
"""Reading a repository's description and a model's header, over a slow line."""
_LOAD_S = 3600.0
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
_Tokens = Annotated[int, msgspec.Meta(ge=1, le=1 << 30)]


class PullArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to download."""

    model: Annotated[_Name, msgspec.Meta(description="qwen3:8b, owner/name, or owner/name:Q4_K_M.")]
    quantization: Annotated[
        str, msgspec.Meta(max_length=64, description="Such as Q4_K_M; empty for the best here.")
    ] = ""
    format: Annotated[str, msgspec.Meta(max_length=32, description="Empty for the one planned for this machine.")] = ""


class LoadArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to load."""

    model: Annotated[_Name, msgspec.Meta(description="A name that list_models gives.")]
    context: (
        Annotated[_Tokens, msgspec.Meta(description="Tokens per conversation; empty for the best here.")] | None
    ) = None


class UnloadArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to unload."""

    model: Annotated[_Name, msgspec.Meta(description="A name that status gives.")]


class AskArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to ask a model."""

    prompt: Annotated[str, msgspec.Meta(min_length=1)]
    model: Annotated[_Name, msgspec.Meta(description="A name that list_models gives, or auto.")] = "auto"
    system: Annotated[str, msgspec.Meta(description="Instructions that stand before the prompt.")] = ""
    max_tokens: Annotated[_Tokens, msgspec.Meta(description="The longest answer.")] | None = None


class ManagementTool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool. `arguments` and `answer` are Structs; `run` takes a client of the gateway and the arguments.

    A tool that is not `is_read_only` changes what is on this computer or in its memory. One that `reaches_hub` may
    make requests to another computer.
    """

    name: str
    title: str
    description: str
    arguments: type[msgspec.Struct]
    answer: type[msgspec.Struct]
    run: Callable[[GatewayClient, Any], msgspec.Struct]
    is_read_only: bool = True
    reaches_hub: bool = False


def show_status(client: GatewayClient, arguments: NoArguments) -> ServiceStatus:
    """Return what runs and what is on its way."""
    del arguments
    status = client.get("/status", Status)
    return ServiceStatus(
        version=status.version,
        endpoint=status.url,
        loaded=[loaded_model(engine) for engine in client.get("/running", list[EngineStatus])],
        downloads=[download_progress(download) for download in client.get("/downloads", list[Download])],
    )


def list_models(client: GatewayClient, arguments: NoArguments) -> InstalledModels:
    """Return the models of the library."""
    del arguments
    return InstalledModels(models=[installed_model(model) for model in client.get("/models", list[ModelInfo])])


def make_plan(client: GatewayClient, arguments: PlanArguments) -> PlanAnswer:
    """Return how a model is best run here."""
    request = PlanRequest(model=arguments.model, intent=arguments.use, users=arguments.users, context=arguments.context)
    return plan_answer(client.post("/plan", request, MachineAdvice, timeout_s=_HUB_S))


def make_estimate(client: GatewayClient, arguments: EstimateArguments) -> EstimateAnswer:
    """Return a model's memory and speed."""
    request = EstimateRequest(model=arguments.model, context=arguments.context, slots=arguments.slots)
    return estimate_answer(client.post("/estimate", request, Estimate, timeout_s=_HUB_S))


def search_models(client: GatewayClient, arguments: SearchArguments) -> SearchAnswer:
    """Return models of the hub by words, or those of the catalogue for a use."""
    if arguments.best is not None:
        return picks_answer(client.get(f"/hub/best?use={arguments.best.value}", list[HubPick]))
    if not arguments.text.strip():
        raise BadRequest("A search needs `text` or `best`.", code="search_empty")
    words = {"text": arguments.text, "format": arguments.format.lower()}
    query = urlencode({name: value for name, value in words.items() if value})
    return search_answer(client.get(f"/hub/search?{query}", HubResults, timeout_s=_HUB_S))


def pull_model(client: GatewayClient, arguments: PullArguments) -> DownloadProgress:
    """Begin a download and return at once."""
    request = Pull(model=arguments.model, quantization=arguments.quantization, format=arguments.format)
    return download_progress(client.post("/downloads", request, Download, timeout_s=_HUB_S))


def load_model(client: GatewayClient, arguments: LoadArguments) -> LoadedModel:
    """Load a model and return once it is ready."""
    request = LoadModel(model=arguments.model, options=LoadOptions(context=arguments.context))
    return loaded_model(client.post("/load", request, EngineStatus, timeout_s=_LOAD_S))


def unload_model(client: GatewayClient, arguments: UnloadArguments) -> LoadedModel:
    """Stop a model's engine."""
    return loaded_model(client.post("/unload", UnloadModel(model=arguments.model), EngineStatus, timeout_s=_HUB_S))


def ask_model(client: GatewayClient, arguments: AskArguments) -> AnswerText:
    """Return a model's whole answer; it is loaded first if need be."""
    system = [EndpointMessage("system", arguments.system)] if arguments.system else []
    messages = [*system, EndpointMessage("user", arguments.prompt)]
    stream = AnswerStream(client.gateway, arguments.model, messages, Sampling(max_tokens=arguments.max_tokens))
    text = "".join(stream)
    return AnswerText(
        text=text,
        prompt_tokens=stream.timings.prompt_tokens,
        completion_tokens=stream.timings.completion_tokens,
        tokens_per_s=stream.timings.decode_tokens_per_s,
    )


def _make_lookup(tool: GuideTool, run: Callable[[GatewayClient, Any], msgspec.Struct]) -> ManagementTool:
    """Return one of the Guide's lookups, asked for over the gateway's API."""
    lookup = LOOKUPS[tool]
    return ManagementTool(
        name=tool.value,
        title=lookup.title,
        description=lookup.description,
        arguments=lookup.arguments,
        answer=lookup.answer,
        run=run,
        reaches_hub=lookup.reaches_hub,
    )


TOOLS: tuple[ManagementTool, ...] = (
    _make_lookup(GuideTool.STATUS, show_status),
    _make_lookup(GuideTool.LIST_MODELS, list_models),
    _make_lookup(GuideTool.PLAN, make_plan),
    _make_lookup(GuideTool.ESTIMATE, make_estimate),
    _make_lookup(GuideTool.SEARCH, search_models),
    ManagementTool(
        name="pull",
        title="Download a model",
        description=(
            "Begin to download a model, often many gigabytes, in the quantisation that suits this computer. Returns "
            "at once; status shows how far it is."
        ),
        arguments=PullArguments,
        answer=DownloadProgress,
        run=pull_model,
        is_read_only=False,
        reaches_hub=True,
    ),
    ManagementTool(
        name="load",
        title="Load a model",
        description="Load a model into memory and wait until it is ready. Others may be unloaded to make room.",
        arguments=LoadArguments,
        answer=LoadedModel,
        run=load_model,
        is_read_only=False,
    ),
    ManagementTool(
        name="unload",
        title="Unload a model",
        description="Free a model's memory. Answers that it is writing are finished first.",
        arguments=UnloadArguments,
        answer=LoadedModel,
        run=unload_model,
        is_read_only=False,
    ),
    ManagementTool(
        name="ask",
        title="Ask a local model",
        description="Send a prompt to a model and return its whole answer. The model is loaded first if need be.",
        arguments=AskArguments,
        answer=AnswerText,
        run=ask_model,
        is_read_only=False,
    ),
)
