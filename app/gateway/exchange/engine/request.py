"""A canonical request as the engine is sent it. Always as a stream: a whole answer is the fold of one.

What an engine cannot do is refused here rather than left out. Fields beyond OpenAI's (top_k, min_p, the template's own
arguments) have llama-server's names, which vLLM and SGLang share but for the penalty of repetition: it has both.
"""

from collections.abc import Collection, Sequence

import msgspec

from app.core.errors import BadRequest
from app.gateway.canonical.request import (
    CompletionRequest,
    ConversationRequest,
    GenerationLimits,
    Request,
    ResponseFormat,
    ResponseShape,
    SamplingParams,
    ThinkingLevel,
    ToolChoice,
    ToolDefinition,
    ToolMode,
)
from app.gateway.exchange.engine.capability import RequestNeed, cannot_error
from app.gateway.exchange.engine.messages import wire_messages
from engines.api import Feature, Route

EFFORTS = {
    ThinkingLevel.MINIMAL: "low",
    ThinkingLevel.LOW: "low",
    ThinkingLevel.MEDIUM: "medium",
    ThinkingLevel.HIGH: "high",
    ThinkingLevel.MAX: "high",
}
"""What templates know: gpt-oss takes low, medium and high."""


_WHOLE_CONTEXT = 1 << 20
"""More tokens than any context here has; llama.cpp keeps four bytes for each."""


def look_back_tokens(count: int) -> int:
    """Return how many tokens the penalty of repetition looks back upon, as engines take it: -1 is the whole context."""
    return _WHOLE_CONTEXT if count == -1 else count


def route_of(request: Request) -> Route:
    """Return which of the engine's routes answers it."""
    if isinstance(request, ConversationRequest):
        return Route.CHAT
    return Route.COMPLETIONS if request.suffix is None else Route.INFILL


def body_of(request: Request, *, model: str, features: Collection[Feature]) -> bytes:
    """Return the body for `route_of(request)`, of which `capability.check_needs` found nothing refused.

    Whoever reads tool calls out of the answer adds `Feature.TOOLS` to the engine's own features. Raises BadRequest
    (engine_cannot) for tools that nobody would read.
    """
    if isinstance(request, ConversationRequest) and request.tools and Feature.TOOLS not in features:
        raise cannot_error(RequestNeed.TOOLS)
    if isinstance(request, ConversationRequest):
        body = _chat_fields(request)
    else:
        body = _completion_fields(request) if request.suffix is None else _infill_fields(request)
    body |= {"model": model, "stream": True, **_sampling_fields(request.sampling)}
    if Feature.STREAM_USAGE in features:
        body["stream_options"] = {"include_usage": True}
    if isinstance(request, ConversationRequest) and request.wants_progress and Feature.PROGRESS in features:
        body |= {"return_progress": True, "timings_per_token": False}  # llama-server's own: timings once, at the end
    return msgspec.json.encode(body)


def _chat_fields(request: ConversationRequest) -> dict[str, object]:
    body: dict[str, object] = {"messages": wire_messages(request.messages), **_limit_fields(request.limits)}
    if request.tools:
        body |= _tool_fields(request.tools, request.tool_choice)
    return body | _format_field(request.response_format) | _template_arguments(request)


def _completion_fields(request: CompletionRequest) -> dict[str, object]:
    schema = _schema_of(request.response_format)
    return {"prompt": request.prompt, **_limit_fields(request.limits), **({"json_schema": schema} if schema else {})}


def _infill_fields(request: CompletionRequest) -> dict[str, object]:
    limits = request.limits
    body: dict[str, object] = {"input_prefix": request.prompt, "input_suffix": request.suffix}
    if limits.max_tokens is not None:
        body["n_predict"] = limits.max_tokens
    return body | ({"stop": limits.stops} if limits.stops else {})


def _limit_fields(limits: GenerationLimits) -> dict[str, object]:
    fields: dict[str, object] = {"stop": limits.stops} if limits.stops else {}
    if limits.max_tokens is not None:
        fields["max_tokens"] = limits.max_tokens
    if limits.logprobs is not None:
        fields |= {"logprobs": True, "top_logprobs": limits.logprobs}
    return fields


def _sampling_fields(sampling: SamplingParams) -> dict[str, object]:
    said = {name: value for name, value in msgspec.structs.asdict(sampling).items() if value is not None}
    if sampling.repeat_last_n is not None:
        said["repeat_last_n"] = look_back_tokens(sampling.repeat_last_n)
    if sampling.repeat_penalty is not None:
        said["repetition_penalty"] = sampling.repeat_penalty  # every other engine's name for it
    return said


def _tool_definition(tool: ToolDefinition) -> dict[str, object]:
    function: dict[str, object] = {"name": tool.name, "description": tool.description}
    if tool.parameters is not None:
        function["parameters"] = tool.parameters
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _tool_fields(tools: Sequence[ToolDefinition], choice: ToolChoice) -> dict[str, object]:
    """Return the tools and whether to call them.

    A tool that must be called by name is the only one offered: llama-server takes no names, and passes over them.
    """
    fields: dict[str, object] = {"tools": [_tool_definition(tool) for tool in callable_tools(tools, choice)]}
    if choice.one_at_a_time:
        fields["parallel_tool_calls"] = False
    if choice.is_required:
        return fields | {"tool_choice": ToolMode.REQUIRED}
    return fields | ({} if choice.choose is ToolMode.AUTO else {"tool_choice": choice.choose})


def callable_tools(tools: Sequence[ToolDefinition], choice: ToolChoice) -> tuple[ToolDefinition, ...]:
    """Return the tools that a choice leaves. Raises BadRequest (invalid_tools) where it names one there is not."""
    if not choice.name:
        return tuple(tools)
    named = tuple(tool for tool in tools if tool.name == choice.name)
    if not named:
        raise BadRequest(f"`tool_choice` names {choice.name!r}, which is not among the tools.", code="invalid_tools")
    return named


def _format_field(wanted: ResponseFormat) -> dict[str, object]:
    if wanted.shape is ResponseShape.TEXT:
        return {}
    if wanted.shape is ResponseShape.JSON:
        return {"response_format": {"type": "json_object"}}
    schema = {"name": wanted.name, "schema": wanted.schema, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def _schema_of(wanted: ResponseFormat) -> object:
    return {"type": "object"} if wanted.shape is ResponseShape.JSON else wanted.schema


def _template_arguments(request: ConversationRequest) -> dict[str, object]:
    arguments = {**_thinking_arguments(request.thinking), **request.template_arguments}
    return {"chat_template_kwargs": arguments} if arguments else {}


def _thinking_arguments(level: ThinkingLevel) -> dict[str, object]:
    if level is ThinkingLevel.DEFAULT:
        return {}
    arguments: dict[str, object] = {"enable_thinking": level is not ThinkingLevel.OFF}
    if level in EFFORTS:
        arguments["reasoning_effort"] = EFFORTS[level]
    return arguments
