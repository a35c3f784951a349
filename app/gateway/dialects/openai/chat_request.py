"""OpenAI's chat requests -> canonical ones, for engines whose answers have to be read or put together here.

Unknown fields are passed over, as OpenAI's clients expect. Known ones that nobody here can do are refused.
"""

from collections.abc import Iterable

import msgspec

from app.core.errors import BadRequest
from app.gateway.canonical.images import image_of, text_of
from app.gateway.canonical.request import (
    Choose,
    Generate,
    Level,
    Limits,
    Message,
    Part,
    ResponseFormat,
    Role,
    Sampling,
    Shape,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from app.gateway.dialects.raw_fields import ABSENT, is_set

_MOST_LOGPROBS = 20
MOST_CHOICES = 8
"""Answers to one request are written one after another."""
_ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
    "function": Role.TOOL,
}
FORMATS = "`response_format` must be text, json_object, or json_schema with a schema."
NO_MESSAGES = "`messages` must hold at least one message."
LEVELS = {
    "none": Level.OFF,
    "off": Level.OFF,
    "minimal": Level.MINIMAL,
    "low": Level.LOW,
    "medium": Level.MEDIUM,
    "high": Level.HIGH,
    "xhigh": Level.MAX,
    "ultra": Level.MAX,
    "max": Level.MAX,
}
_REFUSED = {
    "functions": "functions; use tools",
    "function_call": "functions; use tools",
    "audio": "audio",
    "grammar": "grammars",
    "web_search_options": "searching the web",
    "prediction": "predicted answers",
}
"""Fields that mean something, and cannot be done."""


class Function(msgspec.Struct, frozen=True):
    """What a tool is, or what a call calls. `arguments` is JSON text; some clients send the object itself."""

    name: str = ""
    description: str | None = None
    parameters: msgspec.Raw = ABSENT
    strict: bool | None = None
    arguments: msgspec.Raw = ABSENT


class SentTool(msgspec.Struct, frozen=True):
    """A tool on offer."""

    type: str = "function"
    function: Function = Function()


class SentCall(msgspec.Struct, frozen=True):
    """A call of an earlier answer."""

    id: str | None = None
    function: Function = Function()


class SentFile(msgspec.Struct, frozen=True):
    """A file that came along as a data URI."""

    file_data: str | None = None


class SentPart(msgspec.Struct, frozen=True):
    """A piece of a message."""

    type: str = "text"
    text: str | None = None
    refusal: str | None = None
    image_url: str | dict[str, msgspec.Raw] | None = None
    file: SentFile | None = None

    @property
    def said(self) -> str | None:
        """What it says, if that is text."""
        return self.text if self.text is not None else self.refusal


class SentMessage(msgspec.Struct, frozen=True):
    """One turn."""

    role: str
    content: str | list[SentPart] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[SentCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None


class StreamOptions(msgspec.Struct, frozen=True):
    """What a stream says beside the answer."""

    include_usage: bool | None = None


class JsonSchema(msgspec.Struct, frozen=True):
    """A schema and its name."""

    name: str = "answer"
    schema: msgspec.Raw = ABSENT


class Format(msgspec.Struct, frozen=True):
    """The form an answer must have."""

    type: str = "text"
    json_schema: JsonSchema | None = None
    schema: msgspec.Raw = ABSENT


class Reasoning(msgspec.Struct, frozen=True):
    """How much to think."""

    effort: str | None = None


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of `/v1/chat/completions`, with the names llama-server and others add."""

    messages: list[SentMessage] = []
    tools: list[SentTool] | None = None
    tool_choice: msgspec.Raw = ABSENT
    parallel_tool_calls: bool | None = None
    response_format: Format | None = None
    json_schema: msgspec.Raw = ABSENT
    n: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
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
    reasoning: Reasoning | None = None
    think: bool | str | None = None
    chat_template_kwargs: dict[str, msgspec.Raw] | None = None
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


def generate(sent: ChatRequest) -> Generate:
    """Return what a request asks for. Raises BadRequest."""
    _check(sent)
    said = chosen(sent.tool_choice)
    tools = (_tool(tool, at) for at, tool in enumerate(sent.tools or ()))
    return Generate(
        messages=tuple(_message(message, at) for at, message in enumerate(sent.messages)),
        tools=_left(tools, said.names if said else None),
        tool_choice=_choice(sent, said),
        response_format=_format(sent),
        thinking=_thinking(sent),
        sampling=_sampling(sent),
        limits=_limits(sent),
        template_arguments=sent.chat_template_kwargs or {},
    )


def _check(sent: ChatRequest) -> None:
    if not sent.messages:
        raise wrong(NO_MESSAGES)
    if not 1 <= sent.choices <= MOST_CHOICES:
        raise wrong(f"`n` must be from 1 to {MOST_CHOICES}.")
    for field, name in _REFUSED.items():
        if is_set(getattr(sent, field)):
            raise BadRequest(f"`{field}`: the engine does not support {name}.", code="engine_cannot")


def _message(sent: SentMessage, at: int) -> Message:
    if sent.role not in _ROLES:
        raise wrong(f"`messages[{at}].role`: there is no role {sent.role!r}.")
    role, said = _ROLES[sent.role], _content(sent, at)
    if role is Role.TOOL:
        text = "".join(part.text for part in said if isinstance(part, Text))
        return Message(role, (ToolResult(call_id=sent.tool_call_id or "", text=text, name=sent.name or ""),))
    thought = sent.reasoning_content or sent.reasoning
    before = (Thinking(thought),) if thought else ()
    return Message(role, (*before, *said, *(_call(call) for call in sent.tool_calls or ())))


def _content(sent: SentMessage, at: int) -> tuple[Part, ...]:
    if isinstance(sent.content, str):
        return (Text(sent.content),)
    return tuple(_part(part, f"messages[{at}].content[{number}]") for number, part in enumerate(sent.content or ()))


def _part(sent: SentPart, place: str) -> Part:
    if sent.said is not None:
        return Text(sent.said)
    if sent.type == "image_url" and sent.image_url is not None:
        url = sent.image_url if isinstance(sent.image_url, str) else _text(sent.image_url.get("url", ABSENT))
        return image_of(url, field=f"{place}.image_url")
    if sent.type == "file" and sent.file is not None and sent.file.file_data is not None:
        return Text(text_of(sent.file.file_data, field=f"{place}.file.file_data"))
    raise BadRequest(f"`{place}`: a part of the type {sent.type!r} cannot be read.", code="unsupported_content")


def _call(sent: SentCall) -> ToolCall:
    said = bytes(sent.function.arguments)
    arguments = _text(sent.function.arguments) if said.startswith(b'"') else said.decode()
    return ToolCall(id=sent.id or "", name=sent.function.name, arguments=arguments)


def _tool(sent: SentTool, at: int) -> Tool:
    function = sent.function
    if sent.type != "function" or not function.name:
        raise BadRequest(f"`tools[{at}]`: a function with a name is expected.", code="invalid_tools")
    parameters = function.parameters if is_set(function.parameters) else None
    if parameters is not None and not bytes(parameters).startswith(b"{"):
        raise BadRequest(f"`tools[{at}].function.parameters` must be a JSON schema.", code="invalid_tools")
    return Tool(
        name=function.name, description=function.description or "", parameters=parameters, strict=function.strict
    )


class _Named(msgspec.Struct, frozen=True):
    name: str = ""


class _Offered(msgspec.Struct, frozen=True):
    function: _Named = _Named()
    name: str = ""


class _AllowedTools(msgspec.Struct, frozen=True):
    mode: Choose = Choose.AUTO
    tools: list[_Offered] = []


class _Chosen(msgspec.Struct, frozen=True):
    type: str = "function"
    function: _Named = _Named()
    name: str = ""
    allowed_tools: _AllowedTools = _AllowedTools()


class Chosen(msgspec.Struct, frozen=True):
    """What a `tool_choice` that is an object means: which tools are left, None for all, and whether one is called."""

    choose: Choose
    names: frozenset[str] | None = None


def chosen(raw: msgspec.Raw) -> Chosen | None:
    """Return what a `tool_choice` means; None for one that is a word, or not there. Raises BadRequest."""
    if not bytes(raw).startswith(b"{"):
        return None
    try:
        said = msgspec.json.decode(raw, type=_Chosen)
    except msgspec.MsgspecError:
        said = _Chosen(type="")
    if said.type in set(Choose):
        return Chosen(Choose(said.type))
    name = said.function.name or said.name
    if said.type == "function" and name:
        return Chosen(Choose.REQUIRED, frozenset({name}))
    allowed = frozenset(one.function.name or one.name for one in said.allowed_tools.tools)
    if said.type == "allowed_tools" and allowed:
        return Chosen(said.allowed_tools.mode, allowed)
    raise wrong("`tool_choice` must be none, auto, required, name a function, or list those that are allowed.")


def _left(tools: Iterable[Tool], names: frozenset[str] | None) -> tuple[Tool, ...]:
    left = tuple(tool for tool in tools if names is None or tool.name in names)
    if names is not None and not left:
        raise _not_among(names)
    return left


def _not_among(names: frozenset[str]) -> BadRequest:
    named = ", ".join(sorted(names))
    return BadRequest(f"`tool_choice` names {named}, which is not among the tools.", code="invalid_tools")


def _choice(sent: ChatRequest, said: Chosen | None) -> ToolChoice:
    one = sent.parallel_tool_calls is False
    if said is not None:
        name = next(iter(said.names)) if said.names is not None and len(said.names) == 1 else ""
        is_named = said.choose is Choose.REQUIRED and name
        return ToolChoice(choose=said.choose, name=name if is_named else "", one_at_a_time=one)
    word = _chosen_word(sent.tool_choice) if is_set(sent.tool_choice) else Choose.AUTO
    return ToolChoice(choose=word, one_at_a_time=one)


def _chosen_word(raw: msgspec.Raw) -> Choose:
    try:
        return msgspec.json.decode(raw, type=Choose)
    except msgspec.MsgspecError:
        raise wrong("`tool_choice` must be none, auto, required, or name a function.") from None


def _format(sent: ChatRequest) -> ResponseFormat:
    wanted = sent.response_format
    if wanted is None or wanted.type == "text":
        return _schema(sent.json_schema, "answer") if is_set(sent.json_schema) else ResponseFormat()
    if wanted.type == "json_object":
        return _schema(wanted.schema, "answer") if is_set(wanted.schema) else ResponseFormat(shape=Shape.JSON)
    if wanted.type == "json_schema" and wanted.json_schema is not None:
        return _schema(wanted.json_schema.schema, wanted.json_schema.name)
    raise wrong(FORMATS)


def _schema(raw: msgspec.Raw, name: str) -> ResponseFormat:
    if not bytes(raw).startswith(b"{"):
        raise wrong("`response_format`: the schema must be an object.")
    return ResponseFormat(shape=Shape.SCHEMA, schema=raw, name=name)


def _thinking(sent: ChatRequest) -> Level:
    effort = sent.reasoning_effort or (sent.reasoning.effort if sent.reasoning else None)
    if effort is None and isinstance(sent.think, str):
        effort = sent.think or None
    if effort is not None:
        if effort not in LEVELS:
            raise wrong(f"`reasoning_effort` must be one of {', '.join(LEVELS)}.")
        return LEVELS[effort]
    return Level.DEFAULT if sent.think is None else Level.ON if sent.think else Level.OFF


def _sampling(sent: ChatRequest) -> Sampling:
    return Sampling(
        temperature=sent.temperature,
        top_k=sent.top_k,
        top_p=sent.top_p,
        min_p=sent.min_p,
        typical_p=sent.typical_p,
        seed=sent.seed,
        repeat_last_n=sent.repeat_last_n,
        repeat_penalty=sent.repeat_penalty if sent.repetition_penalty is None else sent.repetition_penalty,
        presence_penalty=sent.presence_penalty,
        frequency_penalty=sent.frequency_penalty,
        logit_bias=sent.logit_bias or None,
    )


def _limits(sent: ChatRequest) -> Limits:
    told = sent.top_logprobs or 0
    if not 0 <= told <= _MOST_LOGPROBS:
        raise wrong(f"`top_logprobs` must be from 0 to {_MOST_LOGPROBS}.")
    stops = [sent.stop] if isinstance(sent.stop, str) else sent.stop or []
    most = sent.max_tokens if sent.max_completion_tokens is None else sent.max_completion_tokens
    return Limits(max_tokens=most, stops=tuple(filter(None, stops)), logprobs=told if sent.logprobs else None)


def with_chosen(body: bytes, said: Chosen) -> bytes:
    """Return a body that says by its tools which may be called, for engines that take no names.

    Raises BadRequest (invalid_tools) if none of them is there.
    """
    fields: dict[str, object] = dict(msgspec.json.decode(body, type=dict[str, msgspec.Raw]))
    if said.names is not None:
        offered = _raw_tools(msgspec.Raw(msgspec.json.encode(fields.get("tools"))))
        fields["tools"] = [tool for tool in offered if _name_of(tool) in said.names]
        if not fields["tools"]:
            raise _not_among(said.names)
    return msgspec.json.encode({**fields, "tool_choice": said.choose})


def _raw_tools(raw: msgspec.Raw) -> list[msgspec.Raw]:
    try:
        return msgspec.json.decode(raw, type=list[msgspec.Raw])
    except msgspec.MsgspecError:
        return []


def _name_of(tool: msgspec.Raw) -> str:
    try:
        return msgspec.json.decode(tool, type=_Offered).function.name
    except msgspec.MsgspecError:
        return ""


def _text(raw: msgspec.Raw) -> str:
    try:
        return msgspec.json.decode(raw, type=str)
    except msgspec.MsgspecError:
        return ""


def wrong(sentence: str) -> BadRequest:
    """Return the refusal of a value."""
    return BadRequest(sentence, code="invalid_value")
