"""From a canonical request to what its engine is sent: what the engine lacks is supplied, or refused by name.

Every dialect that is translated asks here, so that all of them have the same on every engine.
"""

import asyncio
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from app.config.model_settings import ModelSettingsFile
from app.core.errors import BadRequest, EngineFailed
from app.core.model_facts import ModelFacts
from app.core.models import ModelInfo, Preset
from app.gateway.advising.model_facts import FactsReader
from app.gateway.canonical.events import AnswerFinished, TokenUsage
from app.gateway.canonical.families.family import ModelFamily, family_of
from app.gateway.canonical.request import ConversationMessage, ConversationRequest, MessageRole, Request, Text
from app.gateway.entry.bodies import call_off_loop
from app.gateway.exchange.engine.answers import TemplateReply, TokenizeReply, decode_reply
from app.gateway.exchange.engine.capability import RequestNeed, cannot_error, needs_of
from app.gateway.exchange.engine.planning import AnswerRepairs, UpstreamPlan, plan_request, reads_itself
from app.gateway.exchange.engine.request import route_of
from app.gateway.exchange.presets import apply_preset, with_default_thinking
from app.gateway.exchange.upstream import EngineAccess, UpstreamRequest
from app.gateway.guide.questions import guide_question
from app.gateway.loading.launch import is_ready
from app.gateway.loading.requested_model import ResolvedModel
from app.gateway.services import Services
from app.supervisor.lease import Lease
from app.supervisor.policy import LoadRequest
from app.supervisor.pool import Supervisor
from engines.api import Descriptor, EngineAdapter, Feature, ModelFormat, Route
from engines.parsers import with_parser_features

T = TypeVar("T")

CHECK_CALLS = "models.check_calls"
"""The setting."""
_NO_FAMILY = ModelFamily()
_FAMILIES: dict[tuple[str, str], ModelFamily] = {}
_MOST_FAMILIES = 64
_COUNT_WITHIN_S = 5.0
"""Counting tokens is quick, or not worth the wait."""
_OK = 200


async def plan_fallbacks(services: Services, target: ResolvedModel, request: Request) -> UpstreamPlan:
    """Return what the engine is sent, and how its answer is read. Raises BadRequest (engine_cannot).

    What the Guide looks up is in the plan, too.
    """
    plan = await _plan_for_engine(services, target, request)
    question = guide_question(target.model, request)
    return msgspec.structs.replace(plan, question=question) if question else plan


async def _plan_for_engine(services: Services, target: ResolvedModel, request: Request) -> UpstreamPlan:
    descriptor = running_descriptor(services.adapters, services.supervisor, target.load)
    if Feature.VISION in descriptor.features:
        _check_sight(request, target)
    if not can_hear(target, descriptor) and RequestNeed.SOUND in needs_of(request):
        raise cannot_error(RequestNeed.SOUND, descriptor.name)
    if (
        isinstance(request, ConversationRequest)
        and request.tools
        and not await renders_tools(services.facts, services.model_settings, target.model)
    ):
        descriptor = _without_feature(descriptor, Feature.TOOLS)
        # What is said of the tools is a system prompt too, to which the model's own would give way.
        request = with_system(request, target.model.preset)
    if isinstance(request, ConversationRequest):
        request = with_default_thinking(request, target.model.preset)
    family = _NO_FAMILY
    is_readable = not getattr(request, "tools", ()) and target.load.source.name not in services.unreadable
    if isinstance(request, ConversationRequest) and not (is_readable and reads_itself(descriptor)):
        family = await family_for(services.facts, services.model_settings, target.model)
    plan = plan_request(request, descriptor, family, model=target.model.name, is_readable=is_readable)
    if plan.repairs is not None:
        plan = msgspec.structs.replace(plan, repairs=_repairs_for(services, target.model, plan.repairs))
    if target.model.preset is None:
        return plan
    route = route_of(request)
    again = None if plan.again is None else apply_preset(plan.again, target.model, route)
    return msgspec.structs.replace(plan, body=apply_preset(plan.body, target.model, route), again=again)


def _repairs_for(services: Services, model: ModelInfo, repairs: AnswerRepairs) -> AnswerRepairs:
    """Return what is done about answers that cannot be used, as the settings and a made model have it."""

    def write(request: Request) -> bytes:
        return apply_preset(repairs.write(request), model, route_of(request))

    checks_calls = bool(repairs.tools) and services.settings.get_flag(CHECK_CALLS)
    return msgspec.structs.replace(repairs, write=write, checks_calls=checks_calls)


def checks_calls(services: Services, target: ResolvedModel) -> bool:
    """Tell whether calls of a model's are checked before a client gets them: of engines of ours, unless set otherwise.

    What an endpoint of somebody else's answers in its own dialect is passed on as it is.
    """
    return target.load.source.remote is None and services.settings.get_flag(CHECK_CALLS)


def running_descriptor(adapters: Mapping[str, EngineAdapter], supervisor: Supervisor, load: LoadRequest) -> Descriptor:
    """Return what an engine can do with the parsers it was started with; if it was not yet, with those it will have."""
    about, model = adapters[load.engine].descriptor, load.source.name
    if Feature.TOOL_PARSER not in about.features:
        return about
    running_request = supervisor.request_of(model) if is_ready(supervisor, model) else None
    return with_parser_features(about, (running_request or load).options)


def can_hear(target: ResolvedModel, descriptor: Descriptor) -> bool:
    """Tell whether sound may be sent to an engine: one that transcribes hears, and an endpoint judges for itself."""
    hears = "audio" in descriptor.modalities or Route.TRANSCRIPTIONS in descriptor.routes
    return hears or target.load.source.remote is not None


def _check_sight(request: Request, target: ResolvedModel) -> None:
    """Raise BadRequest for images or sound to a model of GGUF files without a projector."""
    load = target.load
    is_blind = load.source.format is ModelFormat.GGUF and load.options.projector is None
    needs = needs_of(request) if is_blind else []
    what = "images" if RequestNeed.IMAGES in needs else "sound" if RequestNeed.SOUND in needs else ""
    if what:
        raise BadRequest(
            f"{target.model.title} cannot read {what}: it has no projector (mmproj) on this computer.",
            hint=f"Leave it out, or choose a model that reads {what}.",
            code="unsupported_content",
        )


def _without_feature(descriptor: Descriptor, feature: Feature) -> Descriptor:
    if feature not in descriptor.features:
        return descriptor
    return msgspec.structs.replace(descriptor, features=descriptor.features - {feature})


def with_system(request: ConversationRequest, preset: Preset | None) -> ConversationRequest:
    """Return the request with the system prompt of a made model, if it brings none of its own."""
    has_system = any(message.role is MessageRole.SYSTEM for message in request.messages)
    if preset is None or not preset.system or has_system:
        return request
    system = ConversationMessage(MessageRole.SYSTEM, (Text(preset.system),))
    return msgspec.structs.replace(request, messages=(system, *request.messages))


async def with_plan(
    services: Services, upstream: UpstreamRequest, target: ResolvedModel, request: Request
) -> UpstreamRequest:
    """Return what asks the engine for this. Raises as `plan_fallbacks` does."""
    plan = await plan_fallbacks(services, target, request)
    return await call_off_loop(plan.body, msgspec.structs.replace, upstream, body=plan.body, plan=plan)


async def can_pass_bytes(services: Services, target: ResolvedModel, *, has_tools: bool) -> bool:
    """Tell whether nothing in the model's answers is left for us to tell apart, and nobody else tells it of its tools.

    An engine that reads tool calls alone is enough for a model that does not think.
    """
    descriptor = running_descriptor(services.adapters, services.supervisor, target.load)
    if Feature.TOOLS not in descriptor.features:
        return False
    if has_tools and not await renders_tools(services.facts, services.model_settings, target.model):
        return False
    if reads_itself(descriptor):
        return True
    facts = await services.facts.of_model(target.model)
    return facts is not None and "thinking" not in facts.capabilities


async def renders_tools(facts: FactsReader, tuning_file: ModelSettingsFile, model: ModelInfo) -> bool:
    """Tell whether the model's chat template tells it of tools, as far as is known: engines leave out the others'."""
    known_facts = await facts.of_model(model)
    return known_facts is None or _family_of(tuning_file, model, known_facts).renders_tools


async def family_for(facts: FactsReader, tuning_file: ModelSettingsFile, model: ModelInfo) -> ModelFamily:
    """Return how the model writes, by its chat template; by its architecture if its files cannot be read."""
    return _family_of(tuning_file, model, await facts.of_model(model))


def _family_of(tuning_file: ModelSettingsFile, model: ModelInfo, facts: ModelFacts | None) -> ModelFamily:
    architecture = facts.architecture if facts else model.architecture
    set_for_it = (model.preset.chat_template if model.preset else "") or tuning_file.settings_of(
        model.runs_as
    ).chat_template
    template = set_for_it or (facts.chat_template + facts.tool_template if facts else "")
    family = _FAMILIES.get((template, architecture))
    if family is None:
        if len(_FAMILIES) >= _MOST_FAMILIES:
            _FAMILIES.clear()
        family = _FAMILIES[template, architecture] = family_of(template, architecture)
    return family


class AnswerTokenCounter:
    """Counts tokens with the engine's own tokenizer, where the engine does not say. What cannot be is unknown."""

    def __init__(self, engines: EngineAccess, lease: Lease, upstream: UpstreamRequest) -> None:
        self._engines = engines
        self._lease = lease
        self._body = upstream.body
        self._routes = engines.adapters[upstream.load.engine].descriptor.routes

    async def count_tokens(self, end: AnswerFinished, answer_text: str) -> AnswerFinished:
        """Return the end of an answer in which the model wrote this, with both counts."""
        usage = end.usage
        prompt = usage.prompt if usage.prompt is not None else await self._count_prompt()
        completion = usage.completion if usage.completion is not None else await self._count_text(answer_text)
        counts = TokenUsage(prompt=prompt, cached=usage.cached, completion=completion, reasoning=usage.reasoning)
        return msgspec.structs.replace(end, usage=counts)

    async def _count_prompt(self) -> int | None:
        reply = await self._ask_engine(Route.APPLY_TEMPLATE, self._body, TemplateReply)
        return None if reply is None else await self._count_text(reply.prompt, special=True)

    async def _count_text(self, text: str, *, special: bool = False) -> int | None:
        question = {"content": text, "add_special": special, "parse_special": True}
        reply = await self._ask_engine(Route.TOKENIZE, msgspec.json.encode(question), TokenizeReply)
        return None if reply is None else len(reply.tokens)

    async def _ask_engine(self, route: Route, body: bytes, kind: type[T]) -> T | None:
        path = self._routes.get(route)
        if path is None:
            return None
        try:
            async with asyncio.timeout(_COUNT_WITHIN_S):
                status, answer = await self._engines.ask_engine(self._lease, path, body)
            return decode_reply(answer, kind) if status == _OK else None
        except (OSError, EngineFailed):
            return None
