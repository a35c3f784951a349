"""A canonical request as the engine is sent it. Always as a stream: a whole answer is the fold of one.

What an engine cannot do is refused here rather than left out. Fields beyond OpenAI's (top_k, min_p, the template's own
arguments) have llama-server's names, which vLLM and SGLang share but for the penalty of repetition: it has both.
"""

from collections.abc import Collection, Sequence

import msgspec

from app.core.errors import BadRequest
from app.gateway.canonical.request import (
    Choose,
    Complete,
    Generate,
    Level,
    Limits,
    Request,
    ResponseFormat,
    Sampling,
    Shape,
    Tool,
    ToolChoice,
)
from app.gateway.exchange.engine.capability import Need, cannot
from app.gateway.exchange.engine.messages import wire_messages
from engines.api import Feature, Route

EFFORTS = {Level.MINIMAL: "low", Level.LOW: "low", Level.MEDIUM: "medium", Level.HIGH: "high", Level.MAX: "high"}
"""What templates know: gpt-oss takes low, medium and high."""


_WHOLE_CONTEXT = 1 << 20
"""More tokens than any context here has; llama.cpp keeps four bytes for each."""


def looked_back(count: int) -> int:
    """Return how many tokens the penalty of repetition looks back upon, as engines take it: -1 is the whole context."""
    return _WHOLE_CONTEXT if count == -1 else count


def route_of(request: Request) -> Route:
    """Return which of the engine's routes answers it."""
    if isinstance(request, Generate):
        return Route.CHAT
    return Route.COMPLETIONS if request.suffix is None else Route.INFILL


def body_of(request: Request, *, model: str, features: Collection[Feature]) -> bytes:
    """Return the body for `route_of(request)`, of which `capability.check` found nothing refused.

    Whoever reads tool calls out of the answer adds `Feature.TOOLS` to the engine's own features. Raises BadRequest
    (engine_cannot) for tools that nobody would read.
    """
    if isinstance(request, Generate) and request.tools and Feature.TOOLS not in features:
        raise cannot(Need.TOOLS)
    if isinstance(request, Generate):
        body = _chat(request)
    else:
        body = _completion(request) if request.suffix is None else _infill(request)
    body |= {"model": model, "stream": True, **_sampling(request.sampling)}
    if Feature.STREAM_USAGE in features:
        body["stream_options"] = {"include_usage": True}
    if isinstance(request, Generate) and request.wants_progress and Feature.PROGRESS in features:
        body |= {"return_progress": True, "timings_per_token": False}  # llama-server's own: timings once, at the end
    return msgspec.json.encode(body)


def _chat(request: Generate) -> dict[str, object]:
    body: dict[str, object] = {"messages": wire_messages(request.messages), **_limits(request.limits)}
    if request.tools:
        body |= _offer(request.tools, request.tool_choice)
    return body | _format(request.response_format) | _template_arguments(request)


def _completion(request: Complete) -> dict[str, object]:
    schema = _schema(request.response_format)
    return {"prompt": request.prompt, **_limits(request.limits), **({"json_schema": schema} if schema else {})}


def _infill(request: Complete) -> dict[str, object]:
    limits = request.limits
    body: dict[str, object] = {"input_prefix": request.prompt, "input_suffix": request.suffix}
    if limits.max_tokens is not None:
        body["n_predict"] = limits.max_tokens
    return body | ({"stop": limits.stops} if limits.stops else {})


def _limits(limits: Limits) -> dict[str, object]:
    fields: dict[str, object] = {"stop": limits.stops} if limits.stops else {}
    if limits.max_tokens is not None:
        fields["max_tokens"] = limits.max_tokens
    if limits.logprobs is not None:
        fields |= {"logprobs": True, "top_logprobs": limits.logprobs}
    return fields


def _sampling(sampling: Sampling) -> dict[str, object]:
    said = {name: value for name, value in msgspec.structs.asdict(sampling).items() if value is not None}
    if sampling.repeat_last_n is not None:
        said["repeat_last_n"] = looked_back(sampling.repeat_last_n)
    if sampling.repeat_penalty is not None:
        said["repetition_penalty"] = sampling.repeat_penalty  # every other engine's name for it
    return said


def _tool(tool: Tool) -> dict[str, object]:
    function: dict[str, object] = {"name": tool.name, "description": tool.description}
    if tool.parameters is not None:
        function["parameters"] = tool.parameters
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _offer(tools: Sequence[Tool], choice: ToolChoice) -> dict[str, object]:
    """Return the tools and whether to call them.

    A tool that must be called by name is the only one offered: llama-server takes no names, and passes over them.
    """
    fields: dict[str, object] = {"tools": [_tool(tool) for tool in callable_tools(tools, choice)]}
    if choice.one_at_a_time:
        fields["parallel_tool_calls"] = False
    if choice.is_required:
        return fields | {"tool_choice": Choose.REQUIRED}
    return fields | ({} if choice.choose is Choose.AUTO else {"tool_choice": choice.choose})


def callable_tools(tools: Sequence[Tool], choice: ToolChoice) -> tuple[Tool, ...]:
    """Return the tools that a choice leaves. Raises BadRequest (invalid_tools) where it names one there is not."""
    if not choice.name:
        return tuple(tools)
    named = tuple(tool for tool in tools if tool.name == choice.name)
    if not named:
        raise BadRequest(f"`tool_choice` names {choice.name!r}, which is not among the tools.", code="invalid_tools")
    return named


def _format(wanted: ResponseFormat) -> dict[str, object]:
    if wanted.shape is Shape.TEXT:
        return {}
    if wanted.shape is Shape.JSON:
        return {"response_format": {"type": "json_object"}}
    schema = {"name": wanted.name, "schema": wanted.schema, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def _schema(wanted: ResponseFormat) -> object:
    return {"type": "object"} if wanted.shape is Shape.JSON else wanted.schema


def _template_arguments(request: Generate) -> dict[str, object]:
    arguments = {**_thinking(request.thinking), **request.template_arguments}
    return {"chat_template_kwargs": arguments} if arguments else {}


def _thinking(level: Level) -> dict[str, object]:
    if level is Level.DEFAULT:
        return {}
    arguments: dict[str, object] = {"enable_thinking": level is not Level.OFF}
    if level in EFFORTS:
        arguments["reasoning_effort"] = EFFORTS[level]
    return arguments
