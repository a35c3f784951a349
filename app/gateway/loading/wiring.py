"""What other programs are wired to: this endpoint, and its models with their limits, the chosen one first."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from app.connect.tool import USUAL_CONTEXT, ClientTool, CompletionModel, WiredModel, WiringTarget
from app.core.capabilities import Capability
from app.core.errors import NotFound
from app.core.models import ModelInfo
from app.gateway.loading.autocomplete import check_completion_model
from app.gateway.loading.capabilities import with_capabilities
from app.gateway.loading.launch import find_model
from app.gateway.loading.requested_model import AUTOCOMPLETE, without_completion
from app.gateway.services import Services
from engines.api import ModelFormat


async def wiring_of(services: Services, tool: ClientTool, model: str = "") -> WiringTarget:
    """Return what a tool is wired to, with the model that completes code where it does that.

    Raises NotFound or BadRequest for a model that is not there, or that cannot do what the tool is for.
    """
    if tool.is_for_completion:
        completion = await _completion_model(services, model)
        return WiringTarget(
            services.identity.url, (WiredModel(completion.name, completion.context, calls_tools=False),), completion
        )
    target = await wiring(services, model)
    if tool.completes is None or not services.settings.get_text(AUTOCOMPLETE):
        return target
    return replace(target, completion=await _completion_model(services))


async def _completion_model(services: Services, name: str = "") -> CompletionModel:
    from app.hub.facts.capabilities import read_infill_style  # noqa: PLC0415 -- the gateway starts without it

    name = name or services.settings.get_text(AUTOCOMPLETE)
    if not name:
        raise NotFound(
            "No model was chosen for code completion.",
            hint="`roundhouse autocomplete` shows which can, and chooses one.",
            code="model_not_found",
        )
    model = await check_completion_model(services, name)
    style = await asyncio.to_thread(read_infill_style, Path(model.path)) if model.format == ModelFormat.GGUF else None
    return CompletionModel(model.name, _context(model, services.settings.get_int("models.context")), style)


async def wiring(services: Services, model: str = "") -> WiringTarget:
    """Return the models for a tool that chats: `model`, else the usual one, and after it the others that chat.

    Raises NotFound for a model that is not there, or that cannot chat.
    """
    models = await asyncio.to_thread(services.library.list_models)
    usable = [info for info in models if info.chats and not info.problem]
    first = (await find_model(services, model)) if model else _usual(without_completion(services.settings, usable))
    if not first.chats:
        raise NotFound(f"{first.title} is not a chat model.", hint="Choose another model.", code="model_cannot")
    others = [info for info in usable if info.name != first.name]
    most = services.settings.get_int("models.context")
    able = await with_capabilities(services, [first, *others])
    served_models = tuple(
        WiredModel(
            info.name,
            _context(info, most),
            sees=Capability.VISION in info.capabilities,
            calls_tools=Capability.TOOLS in info.capabilities,
        )
        for info in able
    )
    return WiringTarget(services.identity.url, served_models)


def _usual(usable: Sequence[ModelInfo]) -> ModelInfo:
    """Return the first model of the person's own; the built-in one only when there is no other."""
    if not usable:
        raise NotFound("There is no model to connect a tool to.", hint="Add one first.", code="model_not_found")
    return min(usable, key=lambda info: info.is_builtin)


def _context(info: ModelInfo, most: int) -> int:
    """Return what a tool may count on: what is loaded here, or all that an attached endpoint takes."""
    usual = info.trained_context or USUAL_CONTEXT
    return usual if info.attached else min(usual, most)
