"""A request in Anthropic's dialect, checked, and put so that an engine does what it asks for.

llama.cpp, which has a Messages route, takes any `max_tokens` and roles, offers the model tools that only Anthropic can
run, cannot be told to call one certain tool, and knows neither `thinking: disabled` nor `effort`. For it fields with
nothing wrong keep their bytes; for engines without such a route the request becomes a canonical one.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from app.core.errors import BadRequest, quote_value
from app.core.thinking import ThinkingLevel
from app.gateway.canonical.assistant_prefill import NOTHING, AssistantPrefill
from app.gateway.canonical.request import (
    ConversationMessage,
    ConversationRequest,
    GenerationLimits,
    Image,
    MessageRole,
    Part,
    ResponseFormat,
    ResponseShape,
    SamplingParams,
    Text,
    Thinking,
    ToolCall,
    ToolChoice,
    ToolDefinition,
    ToolMode,
    ToolResult,
)
from app.gateway.dialects.anthropic.turns import (
    AnthropicTurn,
    Block,
    EngineTurn,
    arrange_turns,
    kind_of,
    split_system_turns,
    text_of,
    thinking_of,
)
from app.gateway.dialects.keep_alive import ModelLoadFields
from app.gateway.dialects.raw_fields import ABSENT, is_set

_BILLING = "x-anthropic-billing-header:"
"""Claude Code's first system block changes with every request, which would make the engine read everything anew."""
_EFFORTS = {"low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}
"""Of Anthropic's levels, what chat templates know as `reasoning_effort`."""
_GATEWAY_FIELDS = (
    "tool_choice",
    "output_config",
    "output_format",
    "context_management",
    "mcp_servers",
    "container",
    "betas",
)
"""Said to the engine in other words, or meant for Anthropic's own servers."""


class AnthropicTool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool of the client's, or one that Anthropic's servers run (`type` says which)."""

    name: str
    description: str | None = None
    input_schema: msgspec.Raw = ABSENT
    type: str | None = None
    strict: bool | None = None


class AnthropicToolChoice(msgspec.Struct, frozen=True):
    """Whether the model is to call a tool, and which."""

    type: Literal["auto", "any", "tool", "none"]
    name: str = ""
    disable_parallel_tool_use: bool | None = None


class AnthropicThinking(msgspec.Struct, frozen=True):
    """Whether the model is to think before it answers."""

    type: Literal["enabled", "adaptive", "disabled"]
    budget_tokens: int | None = None


class AnthropicOutputConfig(msgspec.Struct, frozen=True):
    """How much effort to make, and a form the answer must have."""

    effort: str | None = None
    format: msgspec.Raw = ABSENT


class AnthropicRequest(ModelLoadFields, frozen=True, kw_only=True):
    """The part of a request that concerns the gateway."""

    model: str | None = None
    stream: bool | None = None
    messages: list[AnthropicTurn] | None = None
    max_tokens: int | None = None
    system: str | list[Block] | None = None
    tools: list[AnthropicTool] | None = None
    tool_choice: AnthropicToolChoice | None = None
    thinking: AnthropicThinking | None = None
    output_config: AnthropicOutputConfig | None = None
    output_format: msgspec.Raw = ABSENT
    chat_template_kwargs: dict[str, msgspec.Raw] | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop_sequences: list[str] | None = None

    @property
    def is_one_at_a_time(self) -> bool:
        """Tell whether an answer may hold one tool call at most."""
        return self.tool_choice is not None and bool(self.tool_choice.disable_parallel_tool_use)


def check_request(request: AnthropicRequest, *, counts_only: bool = False) -> None:
    """Raise BadRequest, in Anthropic's words, for what its API refuses."""
    if not request.messages:
        raise _invalid_value("messages: at least one message is required")
    if counts_only:
        return
    if request.max_tokens is None:
        raise _invalid_value("max_tokens: Field required")
    if request.max_tokens < 1:
        raise _invalid_value("max_tokens: must be greater than or equal to 1")
    for name, value in (("temperature", request.temperature), ("top_p", request.top_p)):
        if value is not None and not 0 <= value <= 1:
            raise _invalid_value(f"{name}: range: 0..1")
    if "" in (request.stop_sequences or ()):
        raise _invalid_value("stop_sequences: each stop sequence must contain text")
    effort = request.output_config.effort if request.output_config is not None else None
    if effort is not None and effort not in _EFFORTS:
        raise _invalid_value(f"output_config.effort: must be one of {', '.join(_EFFORTS)}")
    if _must_call(request.tool_choice) and not request.tools:
        raise _invalid_value("tool_choice: may only be specified while providing tools")


def for_engine(body: bytes, request: AnthropicRequest) -> bytes:
    """Return the request for llama.cpp's own route. Raises BadRequest for what cannot be done."""
    fields: dict[str, object] = dict(msgspec.json.decode(body, type=dict[str, msgspec.Raw]))
    for name in (*_GATEWAY_FIELDS, "tools", "system"):
        fields.pop(name, None)
    first, turns = split_system_turns(request.messages or [])
    fields["messages"] = arrange_turns(turns) or [{"role": "user", "content": ""}]
    if system := "\n\n".join([*system_texts(request.system), *first]):
        fields["system"] = system
    if tools := tools_to_offer(request):
        fields["tools"] = [msgspec.structs.replace(tool, strict=None) for tool in tools]
        fields["tool_choice"] = {"type": "any" if _must_call(request.tool_choice) else "auto"}
    if kwargs := _template_kwargs(request):
        fields["chat_template_kwargs"] = kwargs
    return msgspec.json.encode(fields)


def prefill_of(request: AnthropicRequest) -> AssistantPrefill:
    """Return what a whole answer of llama.cpp's will repeat of the request."""
    turns = request.messages or []
    if not turns or turns[-1].role != "assistant":
        return NOTHING
    blocks = arrange_turns(turns)[-1].content
    texts = tuple(text_of([block]) for block in blocks if kind_of(block) == "text")
    return AssistantPrefill(
        texts=texts, thinking="".join(thinking_of(block) for block in blocks if kind_of(block) == "thinking")
    )


def system_texts(system: str | list[Block] | None) -> list[str]:
    """Return what is said by the system, without what changes with every request."""
    texts = (
        [system]
        if isinstance(system, str)
        else [text_of([block]) for block in system or [] if kind_of(block) == "text"]
    )
    return [text for text in texts if text and not text.startswith(_BILLING)]


def tools_to_offer(request: AnthropicRequest) -> Sequence[AnthropicTool]:
    """Return the tools to offer: none that Anthropic's servers would run, and the one that must be called alone."""
    choice = request.tool_choice
    if choice is not None and choice.type == "none":
        return []
    tools = [_check_tool(tool, at) for at, tool in enumerate(request.tools or []) if _is_the_clients(tool)]
    if choice is None or choice.type != "tool":
        return tools
    matches = [tool for tool in tools if tool.name == choice.name]
    if not matches:
        raise BadRequest(
            f"tool_choice.name: there is no tool {quote_value(choice.name)} among the tools", code="invalid_tools"
        )
    return matches


def _is_the_clients(tool: AnthropicTool) -> bool:
    return tool.type in {None, "custom"}


def _check_tool(tool: AnthropicTool, at: int) -> AnthropicTool:
    if not bytes(tool.input_schema).startswith(b"{"):
        raise BadRequest(f"tools.{at}.input_schema: a JSON schema is required", code="invalid_tools")
    return msgspec.structs.replace(tool, type=None)


def _must_call(choice: AnthropicToolChoice | None) -> bool:
    return choice is not None and choice.type in {"any", "tool"}


def _template_kwargs(request: AnthropicRequest) -> dict[str, object]:
    """Return what chat templates are told beside the conversation. Those that do not know a word pass over it."""
    kwargs: dict[str, object] = dict(request.chat_template_kwargs or {})
    if request.thinking is not None:
        kwargs.setdefault("enable_thinking", request.thinking.type != "disabled")
    effort = request.output_config.effort if request.output_config is not None else None
    if effort in _EFFORTS:
        kwargs.setdefault("reasoning_effort", _EFFORTS[effort])
    return kwargs


def _invalid_value(sentence: str) -> BadRequest:
    return BadRequest(sentence, code="invalid_value")


_LEVELS = {
    "low": ThinkingLevel.LOW,
    "medium": ThinkingLevel.MEDIUM,
    "high": ThinkingLevel.HIGH,
    "xhigh": ThinkingLevel.MAX,
    "max": ThinkingLevel.MAX,
}


class AnthropicSampling(msgspec.Struct, frozen=True, kw_only=True):
    """What of a request concerns only whoever writes the answer."""

    stop_sequences: list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    """Not Anthropic's, but llama-server's clients say it."""


class _TextBlock(msgspec.Struct, frozen=True):
    text: str = ""


class _ThinkingBlock(msgspec.Struct, frozen=True):
    thinking: str = ""


class _ToolUseBlock(msgspec.Struct, frozen=True):
    id: str = ""
    name: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")


class _ToolResultBlock(msgspec.Struct, frozen=True):
    tool_use_id: str = ""
    content: str = ""


class _ImageSource(msgspec.Struct, frozen=True):
    media_type: str = ""
    data: str = ""


class _ImageBlock(msgspec.Struct, frozen=True):
    source: _ImageSource = _ImageSource()


class _OutputFormat(msgspec.Struct, frozen=True):
    type: str = ""
    schema: msgspec.Raw = ABSENT


def wants_format(request: AnthropicRequest) -> bool:
    """Whether an answer in a given form is asked for, which llama.cpp's own route passes over."""
    return is_set(_raw_format(request))


def to_canonical_request(request: AnthropicRequest, settings: AnthropicSampling) -> ConversationRequest:
    """Return what a request asks for. Raises BadRequest."""
    first, turns = split_system_turns(request.messages or [])
    system = "\n\n".join([*system_texts(request.system), *first])
    messages = tuple(_to_message(turn) for turn in arrange_turns(turns)) or (
        ConversationMessage(MessageRole.USER, (Text(""),)),
    )
    return ConversationRequest(
        messages=(ConversationMessage(MessageRole.SYSTEM, (Text(system),)), *messages) if system else messages,
        tools=tuple(
            ToolDefinition(
                name=tool.name, description=tool.description or "", parameters=tool.input_schema, strict=tool.strict
            )
            for tool in tools_to_offer(request)
        ),
        tool_choice=_to_tool_choice(request),
        response_format=_to_response_format(request),
        thinking=_thinking_level(request),
        sampling=SamplingParams(
            temperature=settings.temperature, top_p=settings.top_p, top_k=settings.top_k, seed=settings.seed
        ),
        limits=GenerationLimits(max_tokens=request.max_tokens, stops=tuple(settings.stop_sequences or ())),
        template_arguments=request.chat_template_kwargs or {},
    )


def _to_message(turn: EngineTurn) -> ConversationMessage:
    parts = tuple(_to_part(block) for block in turn.content)
    if any(isinstance(part, ToolResult) for part in parts):
        return ConversationMessage(MessageRole.TOOL, parts)
    return ConversationMessage(MessageRole.ASSISTANT if turn.role == "assistant" else MessageRole.USER, parts)


def _to_part(block: Block) -> Part:
    encoded_block = msgspec.json.encode(block)
    try:
        match kind_of(block):
            case "thinking":
                return Thinking(msgspec.json.decode(encoded_block, type=_ThinkingBlock).thinking)
            case "tool_use":
                use = msgspec.json.decode(encoded_block, type=_ToolUseBlock)
                return ToolCall(id=use.id, name=use.name, arguments=bytes(use.input).decode())
            case "tool_result":
                result = msgspec.json.decode(encoded_block, type=_ToolResultBlock)
                return ToolResult(call_id=result.tool_use_id, text=result.content)
            case "image":
                source = msgspec.json.decode(encoded_block, type=_ImageBlock).source
                return Image(media_type=source.media_type, data=source.data)
        return Text(msgspec.json.decode(encoded_block, type=_TextBlock).text)
    except msgspec.ValidationError as error:
        raise BadRequest(f"A block of the type {quote_value(kind_of(block))} is not as expected: {error}.") from None


def _to_tool_choice(request: AnthropicRequest) -> ToolChoice:
    choice, one_at_a_time = request.tool_choice, request.is_one_at_a_time
    if choice is None or choice.type == "auto":
        return ToolChoice(one_at_a_time=one_at_a_time)
    if choice.type == "none":
        return ToolChoice(choose=ToolMode.NONE)
    name = choice.name if choice.type == "tool" else ""
    return ToolChoice(choose=ToolMode.REQUIRED, name=name, one_at_a_time=one_at_a_time)


def _raw_format(request: AnthropicRequest) -> msgspec.Raw:
    if request.output_config is not None and is_set(request.output_config.format):
        return request.output_config.format
    return request.output_format


def _to_response_format(request: AnthropicRequest) -> ResponseFormat:
    raw = _raw_format(request)
    if not is_set(raw):
        return ResponseFormat()
    try:
        output_format = msgspec.json.decode(raw, type=_OutputFormat)
    except msgspec.ValidationError as error:
        raise BadRequest(f"output_config.format: {error}", code="invalid_value") from None
    if output_format.type != "json_schema" or not bytes(output_format.schema).startswith(b"{"):
        raise BadRequest("output_config.format: a json_schema with a schema is expected", code="invalid_value")
    return ResponseFormat(shape=ResponseShape.SCHEMA, schema=output_format.schema)


def _thinking_level(request: AnthropicRequest) -> ThinkingLevel:
    """Return how much to think: an effort says how much only where thinking is not switched off."""
    if request.thinking is not None and request.thinking.type == "disabled":
        return ThinkingLevel.OFF
    effort = request.output_config.effort if request.output_config is not None else None
    if effort in _LEVELS:
        return _LEVELS[effort]
    return ThinkingLevel.DEFAULT if request.thinking is None else ThinkingLevel.ON
