"""What an engine is sent for a request, and how its answer is to be read.

An engine that parses its models' answers itself is sent the request as it is. One that hands on raw text is asked so
that what it lacks can be had: tools told of where the template does not, calls that must be made held to a schema or
insisted upon, stop sequences kept back, since they would end reasoning too.
"""

import msgspec

from app.gateway.canonical.families.answer import ReadingOptions
from app.gateway.canonical.families.family import PLAIN_JSON, TAGGED, ModelFamily
from app.gateway.canonical.request import (
    ConversationRequest,
    Request,
    ResponseFormat,
    ResponseShape,
    ThinkingLevel,
    ToolDefinition,
    ToolMode,
)
from app.gateway.exchange.engine import tool_prompt as instructing
from app.gateway.exchange.engine.call_schema import may_call, must_call
from app.gateway.exchange.engine.capability import Fulfilment, RequestNeed, check_needs, fulfilment_of
from app.gateway.exchange.engine.request import body_of, callable_tools
from engines.api import Descriptor, Feature

_CONSTRAINED = ModelFamily(forms=(PLAIN_JSON,))
"""An answer held to a schema from its first token: it cannot hold reasoning, nor marks."""


class UpstreamPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The body to send. `reading` is None where the engine tells everything apart itself.

    `again` is what to send, once, if an answer that had to call a tool did not.
    """

    body: bytes
    reading: ReadingOptions | None = None
    again: bytes | None = None


def reads_itself(descriptor: Descriptor) -> bool:
    """Whether an engine tells reasoning and calls from text itself, so that its bytes may pass untouched."""
    return {Feature.TOOLS, Feature.REASONING} <= descriptor.features


def plan_request(request: Request, descriptor: Descriptor, family: ModelFamily, *, model: str) -> UpstreamPlan:
    """Return the plan for a chat or a bare prompt. Raises BadRequest (engine_cannot)."""
    check_needs(request, descriptor.features, engine=descriptor.name)
    if not isinstance(request, ConversationRequest) or reads_itself(descriptor):
        return UpstreamPlan(body=body_of(request, model=model, features=descriptor.features))
    asked, reading = _fitted_request(request, descriptor, family)
    again = None
    if reading.must_call:
        insisting = instructing.with_system(asked.messages, instructing.AGAIN)
        again = _request_body(msgspec.structs.replace(asked, messages=insisting), model, descriptor)
    return UpstreamPlan(body=_request_body(asked, model, descriptor), reading=reading, again=again)


def _request_body(request: ConversationRequest, model: str, descriptor: Descriptor) -> bytes:
    return body_of(request, model=model, features=descriptor.features | {Feature.TOOLS})


def _fitted_request(
    request: ConversationRequest, descriptor: Descriptor, family: ModelFamily
) -> tuple[ConversationRequest, ReadingOptions]:
    """Return what a model that is not read by its engine is asked, and how it is read."""
    reads_calls = Feature.TOOLS not in descriptor.features
    tools = _offered_tools(request) if reads_calls else ()
    stops = request.limits.stops if reads_calls else ()
    asked = request
    if reads_calls:
        limits = msgspec.structs.replace(request.limits, stops=())
        asked = msgspec.structs.replace(request, limits=limits, tools=tools)
    asked, must_be = _with_format(asked, tools, descriptor)
    if reads_calls:
        asked = _with_tool_turns(asked, family)
    is_held = must_be.shape is not ResponseShape.TEXT
    reading = ReadingOptions(
        family=_CONSTRAINED if is_held else _readable_family(family),
        tools=tools,
        reads_thoughts=Feature.REASONING not in descriptor.features,
        is_open=_is_open(family, request.thinking),
        one_at_a_time=request.tool_choice.one_at_a_time,
        must_call=bool(tools) and request.tool_choice.is_required,
        stops=stops,
    )
    return asked, reading


def _offered_tools(request: ConversationRequest) -> tuple[ToolDefinition, ...]:
    """Return the tools that may be called."""
    choice = request.tool_choice
    return () if choice.choose is ToolMode.NONE else callable_tools(request.tools, choice)


def _with_format(
    asked: ConversationRequest, tools: tuple[ToolDefinition, ...], descriptor: Descriptor
) -> tuple[ConversationRequest, ResponseFormat]:
    """Return the request with the format its answer is held to; in a format there is no room for reasoning."""
    wanted = asked.response_format
    if tools and asked.tool_choice.is_required:
        is_held = fulfilment_of(RequestNeed.TOOL_CHOICE, descriptor.features) is Fulfilment.CONSTRAINED
        wanted = must_call(tools) if is_held else ResponseFormat()
    elif tools and wanted.shape is not ResponseShape.TEXT:
        wanted = may_call(tools, wanted)
    if wanted.shape is ResponseShape.TEXT:
        return msgspec.structs.replace(asked, response_format=wanted), wanted
    return msgspec.structs.replace(asked, response_format=wanted, thinking=ThinkingLevel.OFF), wanted


def _with_tool_turns(asked: ConversationRequest, family: ModelFamily) -> ConversationRequest:
    """Return the request with its tools told of, and insisted upon, where the template and the engine do not."""
    messages, tools, choice = asked.messages, asked.tools, asked.tool_choice
    if not family.renders_tools:
        messages, tools = instructing.with_tool_prompt(messages, tools), ()
    if asked.tools and choice.is_required:
        must = instructing.MUST_NAMED.format(name=choice.name) if choice.name else instructing.MUST
        messages = instructing.with_system(messages, must)
    arguments = {**_thinking_arguments(asked.thinking), **asked.template_arguments}
    automatic = msgspec.structs.replace(choice, choose=ToolMode.AUTO, name="", one_at_a_time=False)
    return msgspec.structs.replace(
        asked, messages=messages, tools=tools, tool_choice=automatic, template_arguments=arguments
    )


def _thinking_arguments(level: ThinkingLevel) -> dict[str, msgspec.Raw]:
    """Return the other word for it: DeepSeek's and Granite's templates know `thinking`, most know `enable_thinking`."""
    if level is ThinkingLevel.DEFAULT:
        return {}
    return {"thinking": msgspec.Raw(b"false" if level is ThinkingLevel.OFF else b"true")}


def _readable_family(family: ModelFamily) -> ModelFamily:
    """Return the family with the tags that tools were told of with, where its own template tells of none."""
    if family.renders_tools or TAGGED in family.forms:
        return family
    return msgspec.structs.replace(family, forms=(TAGGED, *family.forms))


def _is_open(family: ModelFamily, level: ThinkingLevel) -> bool:
    if level is ThinkingLevel.DEFAULT:
        return family.opens
    return family.opens_when_on if level is not ThinkingLevel.OFF else family.opens and not family.can_switch
