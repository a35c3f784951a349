"""OpenAI's chat requests -> canonical ones, for engines whose answers have to be read or put together here.

Unknown fields are passed over, as OpenAI's clients expect. Known ones that nobody here can do are refused.
"""

from collections.abc import Iterable

import msgspec

from app.core.errors import BadRequest, quote_value
from app.core.thinking import ThinkingLevel
from app.gateway.canonical.request import (
    ConversationMessage,
    ConversationRequest,
    GenerationLimits,
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
    image_of,
    sound_of,
    text_of,
)
from app.gateway.dialects.keep_alive import ModelLoadFields
from app.gateway.dialects.raw_fields import ABSENT, is_set

_LOAD_FIELDS = frozenset(ModelLoadFields.__struct_fields__)
_MOST_LOGPROBS = 20
MOST_CHOICES = 8
"""Answers to one request are written one after another."""
_ROLES = {
    "system": MessageRole.SYSTEM,
    "developer": MessageRole.SYSTEM,
    "user": MessageRole.USER,
    "assistant": MessageRole.ASSISTANT,
    "tool": MessageRole.TOOL,
    "function": MessageRole.TOOL,
}
FORMATS = "`response_format` must be text, json_object, or json_schema with a schema."
NO_MESSAGES = "`messages` must hold at least one message."
LEVELS = {
    "none": ThinkingLevel.OFF,
    "off": ThinkingLevel.OFF,
    "minimal": ThinkingLevel.MINIMAL,
    "low": ThinkingLevel.LOW,
    "medium": ThinkingLevel.MEDIUM,
    "high": ThinkingLevel.HIGH,
    "xhigh": ThinkingLevel.MAX,
    "ultra": ThinkingLevel.MAX,
    "max": ThinkingLevel.MAX,
}
_UNSUPPORTED_FIELDS = {
    "functions": "functions; use tools",
    "function_call": "functions; use tools",
    "audio": "audio",
    "grammar": "grammars",
    "web_search_options": "searching the web",
    "prediction": "predicted answers",
}
"""Fields that mean something, and cannot be done."""


class OpenAIFunction(msgspec.Struct, frozen=True):
    """What a tool is, or what a call calls. `arguments` is JSON text; some clients send the object itself."""

    name: str = ""
    description: str | None = None
    parameters: msgspec.Raw = ABSENT
    strict: bool | None = None
    arguments: msgspec.Raw = ABSENT


class OpenAITool(msgspec.Struct, frozen=True):
    """A tool on offer."""

    type: str = "function"
    function: OpenAIFunction = OpenAIFunction()


class OpenAIToolCall(msgspec.Struct, frozen=True):
    """A call of an earlier answer."""

    id: str | None = None
    function: OpenAIFunction = OpenAIFunction()


class OpenAIFile(msgspec.Struct, frozen=True):
    """A file that came along as a data URI."""

    file_data: str | None = None


class OpenAISound(msgspec.Struct, frozen=True):
    """A sound that came along, in base64."""

    data: str = ""
    format: str = ""


class OpenAIContentPart(msgspec.Struct, frozen=True):
    """A piece of a message."""

    type: str = "text"
    text: str | None = None
    refusal: str | None = None
    image_url: str | dict[str, msgspec.Raw] | None = None
    input_audio: OpenAISound | None = None
    file: OpenAIFile | None = None

    @property
    def text_or_refusal(self) -> str | None:
        """What it says, if that is text."""
        return self.text if self.text is not None else self.refusal


class OpenAIMessage(msgspec.Struct, frozen=True):
    """One turn."""

    role: str
    content: str | list[OpenAIContentPart] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[OpenAIToolCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None


class OpenAIStreamOptions(msgspec.Struct, frozen=True):
    """What a stream says beside the answer."""

    include_usage: bool | None = None


class OpenAIJsonSchema(msgspec.Struct, frozen=True):
    """A schema and its name."""

    name: str = "answer"
    schema: msgspec.Raw = ABSENT


class OpenAIResponseFormat(msgspec.Struct, frozen=True):
    """The form an answer must have."""

    type: str = "text"
    json_schema: OpenAIJsonSchema | None = None
    schema: msgspec.Raw = ABSENT


class OpenAIReasoning(msgspec.Struct, frozen=True):
    """How much to think."""

    effort: str | None = None


class OpenAIChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of `/v1/chat/completions`, with the names llama-server and others add."""

    messages: list[OpenAIMessage] = []
    tools: list[OpenAITool] | None = None
    tool_choice: msgspec.Raw = ABSENT
    parallel_tool_calls: bool | None = None
    response_format: OpenAIResponseFormat | None = None
    json_schema: msgspec.Raw = ABSENT
    n: int | None = None
    stream: bool | None = None
    stream_options: OpenAIStreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: str | list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    typical_p: float | None = None
    seed: int | None = None
    repeat_last_n: int | None = None
    repeat_penalty: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    reasoning_effort: str | None = None
    reasoning: OpenAIReasoning | None = None
    think: bool | str | None = None
    thinking_budget_tokens: int | None = None
    chat_template_kwargs: dict[str, msgspec.Raw] | None = None
    continue_final_message: bool | None = None
    functions: msgspec.Raw = ABSENT
    function_call: msgspec.Raw = ABSENT
    audio: msgspec.Raw = ABSENT
    grammar: msgspec.Raw = ABSENT
    web_search_options: msgspec.Raw = ABSENT
    prediction: msgspec.Raw = ABSENT

    @property
    def choices(self) -> int:
        """How many answers are wanted."""
        return 1 if self.n is None else self.n

    @property
    def includes_usage(self) -> bool:
        """Whether a stream ends with the counts of tokens."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)


_PASSED_OVER = frozenset(
    ("metadata", "model", "prompt_cache_key", "safety_identifier", "service_tier", "store", "user", "verbosity")
)
"""Fields without an effect on a model here."""
_KEPT_APART = frozenset((*_UNSUPPORTED_FIELDS, "response_format", "json_schema", "n"))
"""Fields with which an engine's own way is kept."""


def is_translatable(body: bytes) -> bool:
    """Tell whether nothing of a request is lost when it is written anew: whether all that is in it is known here."""
    names = msgspec.json.decode(body, type=dict[str, msgspec.Raw]).keys() - _PASSED_OVER - _LOAD_FIELDS
    return names <= frozenset(OpenAIChatRequest.__struct_fields__) - _KEPT_APART


def to_canonical_request(request: OpenAIChatRequest) -> ConversationRequest:
    """Return what a request asks for. Raises BadRequest."""
    _check_request(request)
    selection = read_tool_choice(request.tool_choice)
    tools = (_to_tool(tool, at) for at, tool in enumerate(request.tools or ()))
    return ConversationRequest(
        messages=tuple(_to_message(message, at) for at, message in enumerate(request.messages)),
        tools=_filter_tools(tools, selection.names if selection else None),
        tool_choice=_to_tool_choice(request, selection),
        response_format=_to_response_format(request),
        thinking=_thinking_level(request),
        thinking_budget=request.thinking_budget_tokens,
        sampling=_to_sampling(request),
        limits=_to_limits(request),
        template_arguments=request.chat_template_kwargs or {},
        continues=request.continue_final_message is True,
    )


def _check_request(request: OpenAIChatRequest) -> None:
    if not request.messages:
        raise invalid_value(NO_MESSAGES)
    if not 1 <= request.choices <= MOST_CHOICES:
        raise invalid_value(f"`n` must be from 1 to {MOST_CHOICES}.")
    for field, name in _UNSUPPORTED_FIELDS.items():
        if is_set(getattr(request, field)):
            raise BadRequest(f"`{field}`: the engine does not support {name}.", code="engine_cannot")


def _to_message(message: OpenAIMessage, at: int) -> ConversationMessage:
    if message.role not in _ROLES:
        raise invalid_value(f"`messages[{at}].role`: there is no role {quote_value(message.role)}.")
    role, content = _ROLES[message.role], _content_parts(message, at)
    if role is MessageRole.TOOL:
        text = "".join(part.text for part in content if isinstance(part, Text))
        return ConversationMessage(
            role, (ToolResult(call_id=message.tool_call_id or "", text=text, name=message.name or ""),)
        )
    reasoning = message.reasoning_content or message.reasoning
    before = (Thinking(reasoning),) if reasoning else ()
    return ConversationMessage(role, (*before, *content, *(_to_call(call) for call in message.tool_calls or ())))


def _content_parts(message: OpenAIMessage, at: int) -> tuple[Part, ...]:
    if isinstance(message.content, str):
        return (Text(message.content),)
    return tuple(
        _to_part(part, f"messages[{at}].content[{number}]") for number, part in enumerate(message.content or ())
    )


def _to_part(part: OpenAIContentPart, place: str) -> Part:
    if part.text_or_refusal is not None:
        return Text(part.text_or_refusal)
    if part.type == "image_url" and part.image_url is not None:
        url = part.image_url if isinstance(part.image_url, str) else _decode_text(part.image_url.get("url", ABSENT))
        return image_of(url, field=f"{place}.image_url")
    if part.type == "input_audio" and part.input_audio is not None and part.input_audio.data:
        return sound_of(part.input_audio.format, part.input_audio.data, field=f"{place}.input_audio")
    if part.type == "file" and part.file is not None and part.file.file_data is not None:
        return Text(text_of(part.file.file_data, field=f"{place}.file.file_data"))
    raise BadRequest(
        f"`{place}`: a part of the type {quote_value(part.type)} cannot be read.", code="unsupported_content"
    )


def _to_call(call: OpenAIToolCall) -> ToolCall:
    raw_arguments = bytes(call.function.arguments)
    arguments = _decode_text(call.function.arguments) if raw_arguments.startswith(b'"') else raw_arguments.decode()
    return ToolCall(id=call.id or "", name=call.function.name, arguments=arguments)


def _to_tool(tool: OpenAITool, at: int) -> ToolDefinition:
    function = tool.function
    if tool.type != "function" or not function.name:
        raise BadRequest(f"`tools[{at}]`: a function with a name is expected.", code="invalid_tools")
    parameters = function.parameters if is_set(function.parameters) else None
    if parameters is not None and not bytes(parameters).startswith(b"{"):
        raise BadRequest(f"`tools[{at}].function.parameters` must be a JSON schema.", code="invalid_tools")
    return ToolDefinition(
        name=function.name, description=function.description or "", parameters=parameters, strict=function.strict
    )


class _ToolName(msgspec.Struct, frozen=True):
    name: str = ""


class _ToolReference(msgspec.Struct, frozen=True):
    function: _ToolName = _ToolName()
    name: str = ""


class _ToolAllowList(msgspec.Struct, frozen=True):
    mode: ToolMode = ToolMode.AUTO
    tools: list[_ToolReference] = []


class _ToolChoiceObject(msgspec.Struct, frozen=True):
    type: str = "function"
    function: _ToolName = _ToolName()
    name: str = ""
    allowed_tools: _ToolAllowList = _ToolAllowList()


class ToolSelection(msgspec.Struct, frozen=True):
    """What a `tool_choice` that is an object means: which tools are left, None for all, and whether one is called."""

    choose: ToolMode
    names: frozenset[str] | None = None


def read_tool_choice(raw: msgspec.Raw) -> ToolSelection | None:
    """Return what a `tool_choice` means; None for one that is a word, or not there. Raises BadRequest."""
    if not bytes(raw).startswith(b"{"):
        return None
    try:
        choice = msgspec.json.decode(raw, type=_ToolChoiceObject)
    except msgspec.MsgspecError:
        choice = _ToolChoiceObject(type="")
    if choice.type in set(ToolMode):
        return ToolSelection(ToolMode(choice.type))
    name = choice.function.name or choice.name
    if choice.type == "function" and name:
        return ToolSelection(ToolMode.REQUIRED, frozenset({name}))
    allowed_names = frozenset(tool.function.name or tool.name for tool in choice.allowed_tools.tools)
    if choice.type == "allowed_tools" and allowed_names:
        return ToolSelection(choice.allowed_tools.mode, allowed_names)
    raise invalid_value("`tool_choice` must be none, auto, required, name a function, or list those that are allowed.")


def _filter_tools(tools: Iterable[ToolDefinition], names: frozenset[str] | None) -> tuple[ToolDefinition, ...]:
    remaining_tools = tuple(tool for tool in tools if names is None or tool.name in names)
    if names is not None and not remaining_tools:
        raise _not_among(names)
    return remaining_tools


def _not_among(names: frozenset[str]) -> BadRequest:
    tool_names = ", ".join(sorted(names))
    return BadRequest(f"`tool_choice` names {tool_names}, which is not among the tools.", code="invalid_tools")


def _to_tool_choice(request: OpenAIChatRequest, selection: ToolSelection | None) -> ToolChoice:
    one_at_a_time = request.parallel_tool_calls is False
    if selection is not None:
        name = next(iter(selection.names)) if selection.names is not None and len(selection.names) == 1 else ""
        is_named = selection.choose is ToolMode.REQUIRED and name
        return ToolChoice(choose=selection.choose, name=name if is_named else "", one_at_a_time=one_at_a_time)
    word = _tool_choice_word(request.tool_choice) if is_set(request.tool_choice) else ToolMode.AUTO
    return ToolChoice(choose=word, one_at_a_time=one_at_a_time)


def _tool_choice_word(raw: msgspec.Raw) -> ToolMode:
    try:
        return msgspec.json.decode(raw, type=ToolMode)
    except msgspec.MsgspecError:
        raise invalid_value("`tool_choice` must be none, auto, required, or name a function.") from None


def _to_response_format(request: OpenAIChatRequest) -> ResponseFormat:
    response_format = request.response_format
    if response_format is None or response_format.type == "text":
        return _schema_format(request.json_schema, "answer") if is_set(request.json_schema) else ResponseFormat()
    if response_format.type == "json_object":
        return (
            _schema_format(response_format.schema, "answer")
            if is_set(response_format.schema)
            else ResponseFormat(shape=ResponseShape.JSON)
        )
    if response_format.type == "json_schema" and response_format.json_schema is not None:
        return _schema_format(response_format.json_schema.schema, response_format.json_schema.name)
    raise invalid_value(FORMATS)


def _schema_format(raw: msgspec.Raw, name: str) -> ResponseFormat:
    if not bytes(raw).startswith(b"{"):
        raise invalid_value("`response_format`: the schema must be an object.")
    return ResponseFormat(shape=ResponseShape.SCHEMA, schema=raw, name=name)


def _thinking_level(request: OpenAIChatRequest) -> ThinkingLevel:
    effort = request.reasoning_effort or (request.reasoning.effort if request.reasoning else None)
    if effort is None and isinstance(request.think, str):
        effort = request.think or None
    if effort is not None:
        if effort not in LEVELS:
            raise invalid_value(f"`reasoning_effort` must be one of {', '.join(LEVELS)}.")
        return LEVELS[effort]
    return ThinkingLevel.DEFAULT if request.think is None else ThinkingLevel.ON if request.think else ThinkingLevel.OFF


def _to_sampling(request: OpenAIChatRequest) -> SamplingParams:
    return SamplingParams(
        temperature=request.temperature,
        top_k=request.top_k,
        top_p=request.top_p,
        min_p=request.min_p,
        typical_p=request.typical_p,
        seed=request.seed,
        repeat_last_n=request.repeat_last_n,
        repeat_penalty=request.repeat_penalty if request.repetition_penalty is None else request.repetition_penalty,
        presence_penalty=request.presence_penalty,
        frequency_penalty=request.frequency_penalty,
        logit_bias=request.logit_bias or None,
    )


def _to_limits(request: OpenAIChatRequest) -> GenerationLimits:
    top_logprobs = request.top_logprobs or 0
    if not 0 <= top_logprobs <= _MOST_LOGPROBS:
        raise invalid_value(f"`top_logprobs` must be from 0 to {_MOST_LOGPROBS}.")
    stops = [request.stop] if isinstance(request.stop, str) else request.stop or []
    most = request.max_tokens if request.max_completion_tokens is None else request.max_completion_tokens
    return GenerationLimits(
        max_tokens=most, stops=tuple(filter(None, stops)), logprobs=top_logprobs if request.logprobs else None
    )


def with_selection(body: bytes, selection: ToolSelection) -> bytes:
    """Return a body that says by its tools which may be called, for engines that take no names.

    Raises BadRequest (invalid_tools) if none of them is there.
    """
    fields: dict[str, object] = dict(msgspec.json.decode(body, type=dict[str, msgspec.Raw]))
    if selection.names is not None:
        offered_tools = _raw_tools(msgspec.Raw(msgspec.json.encode(fields.get("tools"))))
        fields["tools"] = [tool for tool in offered_tools if _name_of(tool) in selection.names]
        if not fields["tools"]:
            raise _not_among(selection.names)
    return msgspec.json.encode({**fields, "tool_choice": selection.choose})


def _raw_tools(raw: msgspec.Raw) -> list[msgspec.Raw]:
    try:
        return msgspec.json.decode(raw, type=list[msgspec.Raw])
    except msgspec.MsgspecError:
        return []


def _name_of(tool: msgspec.Raw) -> str:
    try:
        return msgspec.json.decode(tool, type=_ToolReference).function.name
    except msgspec.MsgspecError:
        return ""


def _decode_text(raw: msgspec.Raw) -> str:
    try:
        return msgspec.json.decode(raw, type=str)
    except msgspec.MsgspecError:
        return ""


def invalid_value(sentence: str) -> BadRequest:
    """Return the refusal of a value."""
    return BadRequest(sentence, code="invalid_value")
