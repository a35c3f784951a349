"""A canonical request as the engine is sent it. Always as a stream: a whole answer is the fold of one.

What an engine cannot do is refused here rather than left out. Fields beyond OpenAI's (top_k, min_p, the template's own
arguments) have llama-server's names, which vLLM and SGLang share but for the penalty of repetition: it has both.

A conversation as chat templates take it: one system message, at the top; tool results as turns of their own.

Many templates refuse a system message later on, and agents send them. There it becomes a reminder inside the next
user's turn, or in one of its own.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from app.core.errors import BadRequest, quote_value
from app.core.thinking import ThinkingLevel
from app.gateway.canonical.request import (
    CompletionRequest,
    ConversationMessage,
    ConversationRequest,
    GenerationLimits,
    Image,
    MessageRole,
    Part,
    Request,
    ResponseFormat,
    ResponseShape,
    SamplingParams,
    Sound,
    Text,
    Thinking,
    ToolCall,
    ToolChoice,
    ToolDefinition,
    ToolMode,
    ToolResult,
)
from app.gateway.exchange.engine.capability import RequestNeed, cannot_error
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


def body_of(
    request: Request,
    *,
    model: str,
    features: Collection[Feature],
    grammar_field: str = "grammar",
    prefill_fields: Mapping[str, bool] = MappingProxyType({}),
) -> bytes:
    """Return the body for `route_of(request)`, of which `capability.check_needs` found nothing refused.

    Whoever reads tool calls out of the answer adds `Feature.TOOLS` to the engine's own features. Raises BadRequest
    (engine_cannot) for tools that nobody would read.
    """
    if isinstance(request, ConversationRequest) and request.tools and Feature.TOOLS not in features:
        raise cannot_error(RequestNeed.TOOLS)
    if isinstance(request, ConversationRequest):
        body = _chat_fields(request, grammar_field) | dict(prefill_fields if request.continues else {})
    else:
        body = _completion_fields(request) if request.suffix is None else _infill_fields(request)
    body |= {"model": model, "stream": True, **_sampling_fields(request.sampling)}
    if Feature.STREAM_USAGE in features:
        body["stream_options"] = {"include_usage": True}
    if isinstance(request, ConversationRequest) and request.wants_progress and Feature.PROGRESS in features:
        body |= {"return_progress": True, "timings_per_token": False}  # llama-server's own: timings once, at the end
    return msgspec.json.encode(body)


def _chat_fields(request: ConversationRequest, grammar_field: str) -> dict[str, object]:
    body: dict[str, object] = {"messages": wire_messages(request.messages), **_limit_fields(request.limits)}
    if request.tools:
        body |= _tool_fields(request.tools, request.tool_choice)
    if request.thinking_budget is not None:
        body["thinking_budget_tokens"] = request.thinking_budget  # llama-server's own name
    return body | _format_field(request.response_format, grammar_field) | _template_arguments(request)


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
    chosen_values = {name: value for name, value in msgspec.structs.asdict(sampling).items() if value is not None}
    if sampling.repeat_last_n is not None:
        chosen_values["repeat_last_n"] = look_back_tokens(sampling.repeat_last_n)
    if sampling.repeat_penalty is not None:
        chosen_values["repetition_penalty"] = sampling.repeat_penalty  # every other engine's name for it
    return chosen_values


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
    named_tools = tuple(tool for tool in tools if tool.name == choice.name)
    if not named_tools:
        raise BadRequest(
            f"`tool_choice` names {quote_value(choice.name)}, which is not among the tools.", code="invalid_tools"
        )
    return named_tools


def _format_field(response_format: ResponseFormat, grammar_field: str) -> dict[str, object]:
    if response_format.shape is ResponseShape.GRAMMAR:
        return nest_grammar(response_format.grammar, grammar_field)
    if response_format.shape is ResponseShape.TEXT:
        return {}
    if response_format.shape is ResponseShape.JSON:
        return {"response_format": {"type": "json_object"}}
    schema = {"name": response_format.name, "schema": response_format.schema, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def nest_grammar(grammar: str, field: str) -> dict[str, object]:
    """Return the fields that hold an answer to a grammar: `Descriptor.grammar_field` says where."""
    outer, _, inner = field.partition(".")
    return {outer: {inner: grammar} if inner else grammar}


def _schema_of(response_format: ResponseFormat) -> object:
    return {"type": "object"} if response_format.shape is ResponseShape.JSON else response_format.schema


def _template_arguments(request: ConversationRequest) -> dict[str, object]:
    arguments = {**thinking_arguments(request.thinking), **request.template_arguments}
    return {"chat_template_kwargs": arguments} if arguments else {}


def thinking_arguments(level: ThinkingLevel) -> dict[str, object]:
    """Return how much to think as arguments of a chat template."""
    if level is ThinkingLevel.DEFAULT:
        return {}
    is_on = level is not ThinkingLevel.OFF
    # Most templates know the first word, DeepSeek's and Granite's the second.
    arguments: dict[str, object] = {"enable_thinking": is_on, "thinking": is_on}
    if level in EFFORTS:
        arguments["reasoning_effort"] = EFFORTS[level]
    return arguments


_BETWEEN = "\n\n"


def wire_messages(messages: Sequence[ConversationMessage]) -> list[dict[str, object]]:
    """Return the messages of an OpenAI chat request."""
    return [wire for message in in_order(messages) for wire in _wire_message(message)]


def in_order(messages: Sequence[ConversationMessage]) -> list[ConversationMessage]:
    """Return the same conversation with all its system messages where templates take them."""
    first = next((at for at, message in enumerate(messages) if message.role is not MessageRole.SYSTEM), len(messages))
    system = _BETWEEN.join(message.text for message in messages[:first] if message.text)
    turns = _with_reminders(messages[first:])
    return [ConversationMessage(MessageRole.SYSTEM, (Text(system),)), *turns] if system else turns


def _with_reminders(messages: Iterable[ConversationMessage]) -> list[ConversationMessage]:
    turns: list[ConversationMessage] = []
    waiting_parts: list[Part] = []
    for message in messages:
        if message.role is MessageRole.SYSTEM:
            waiting_parts.append(_reminder_text(message))
        elif message.role is MessageRole.USER:
            turns.append(
                ConversationMessage(MessageRole.USER, (*waiting_parts, *message.parts)) if waiting_parts else message
            )
            waiting_parts.clear()
        else:
            turns += _user_turn(waiting_parts)
            turns.append(message)
            waiting_parts.clear()
    return [*turns, *_user_turn(waiting_parts)]


def _reminder_text(message: ConversationMessage) -> Text:
    return Text(f"<system-reminder>\n{message.text}\n</system-reminder>\n")


def _user_turn(parts: Sequence[Part]) -> list[ConversationMessage]:
    return [ConversationMessage(MessageRole.USER, tuple(parts))] if parts else []


def _wire_message(message: ConversationMessage) -> list[dict[str, object]]:
    """Return one message's; the results of tools come before what is said beside them, as templates expect."""
    match message.parts:
        case (Text(text=text),):  # as most are
            return [{"role": message.role, "content": text}]
    results = [_wire_result(part) for part in message.parts if isinstance(part, ToolResult)]
    rest = tuple(part for part in message.parts if not isinstance(part, ToolResult))
    if results and not rest:
        return results
    return [*results, _wire_turn(ConversationMessage(message.role, rest))]


def _wire_result(result: ToolResult) -> dict[str, object]:
    text = f"Error: {result.text}" if result.is_error else result.text
    wire: dict[str, object] = {"role": "tool", "tool_call_id": result.call_id, "content": text}
    return wire | ({"name": result.name} if result.name else {})


def _wire_turn(message: ConversationMessage) -> dict[str, object]:
    wire: dict[str, object] = {"role": message.role, "content": _wire_content(message)}
    reasoning = "".join(part.text for part in message.parts if isinstance(part, Thinking))
    calls = [_wire_call(part) for part in message.parts if isinstance(part, ToolCall)]
    if reasoning:
        wire["reasoning_content"] = reasoning
    if calls:
        wire["tool_calls"] = calls
    return wire


def _wire_content(message: ConversationMessage) -> str | list[dict[str, object]]:
    if not any(isinstance(part, Image | Sound) for part in message.parts):
        return message.text
    return [_wire_part(part) for part in message.parts if isinstance(part, Text | Image | Sound)]


def _wire_part(part: Text | Image | Sound) -> dict[str, object]:
    if isinstance(part, Sound):
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": part.format}}
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}


def _wire_call(call: ToolCall) -> dict[str, object]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
