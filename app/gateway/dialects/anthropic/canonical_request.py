"""Anthropic's requests -> canonical ones, for engines without a Messages route that can do what is asked."""

import msgspec

from app.core.errors import BadRequest
from app.gateway.canonical.request import (
    Choose,
    Generate,
    Image,
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
from app.gateway.dialects.anthropic.requests import Asked, is_set, offered_tools, system_texts
from app.gateway.dialects.anthropic.turns import Block, Said, arranged, kind_of, opening

_LEVELS = {"low": Level.LOW, "medium": Level.MEDIUM, "high": Level.HIGH, "xhigh": Level.MAX, "max": Level.MAX}
_NOTHING = msgspec.Raw()


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What of a request concerns only whoever writes the answer."""

    stop_sequences: list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    """Not Anthropic's, but llama-server's clients say it."""


class _Text(msgspec.Struct, frozen=True):
    text: str = ""


class _Thought(msgspec.Struct, frozen=True):
    thinking: str = ""


class _Use(msgspec.Struct, frozen=True):
    id: str = ""
    name: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")


class _Result(msgspec.Struct, frozen=True):
    tool_use_id: str = ""
    content: str = ""


class _Source(msgspec.Struct, frozen=True):
    media_type: str = ""
    data: str = ""


class _Image(msgspec.Struct, frozen=True):
    source: _Source = _Source()


class _Format(msgspec.Struct, frozen=True):
    type: str = ""
    schema: msgspec.Raw = _NOTHING


def wants_format(asked: Asked) -> bool:
    """Whether an answer in a given form is asked for, which llama.cpp's own route passes over."""
    return is_set(_raw_format(asked))


def generate(asked: Asked, settings: Settings) -> Generate:
    """Return what a request asks for. Raises BadRequest."""
    first, turns = opening(asked.messages or [])
    system = "\n\n".join([*system_texts(asked.system), *first])
    messages = tuple(_message(turn) for turn in arranged(turns)) or (Message(Role.USER, (Text(""),)),)
    return Generate(
        messages=(Message(Role.SYSTEM, (Text(system),)), *messages) if system else messages,
        tools=tuple(
            Tool(name=tool.name, description=tool.description or "", parameters=tool.input_schema, strict=tool.strict)
            for tool in offered_tools(asked)
        ),
        tool_choice=_choice(asked),
        response_format=_format(asked),
        thinking=_thinking(asked),
        sampling=Sampling(
            temperature=settings.temperature, top_p=settings.top_p, top_k=settings.top_k, seed=settings.seed
        ),
        limits=Limits(max_tokens=asked.max_tokens, stops=tuple(settings.stop_sequences or ())),
        template_arguments=asked.chat_template_kwargs or {},
    )


def _message(said: Said) -> Message:
    parts = tuple(_part(block) for block in said.content)
    if any(isinstance(part, ToolResult) for part in parts):
        return Message(Role.TOOL, parts)
    return Message(Role.ASSISTANT if said.role == "assistant" else Role.USER, parts)


def _part(block: Block) -> Part:
    encoded = msgspec.json.encode(block)
    try:
        match kind_of(block):
            case "thinking":
                return Thinking(msgspec.json.decode(encoded, type=_Thought).thinking)
            case "tool_use":
                use = msgspec.json.decode(encoded, type=_Use)
                return ToolCall(id=use.id, name=use.name, arguments=bytes(use.input).decode())
            case "tool_result":
                result = msgspec.json.decode(encoded, type=_Result)
                return ToolResult(call_id=result.tool_use_id, text=result.content)
            case "image":
                source = msgspec.json.decode(encoded, type=_Image).source
                return Image(media_type=source.media_type, data=source.data)
        return Text(msgspec.json.decode(encoded, type=_Text).text)
    except msgspec.ValidationError as error:
        raise BadRequest(f"A block of the type {kind_of(block)!r} is not as expected: {error}.") from None


def _choice(asked: Asked) -> ToolChoice:
    choice, one = asked.tool_choice, asked.is_one_at_a_time
    if choice is None or choice.type == "auto":
        return ToolChoice(one_at_a_time=one)
    if choice.type == "none":
        return ToolChoice(choose=Choose.NONE)
    name = choice.name if choice.type == "tool" else ""
    return ToolChoice(choose=Choose.REQUIRED, name=name, one_at_a_time=one)


def _raw_format(asked: Asked) -> msgspec.Raw:
    if asked.output_config is not None and is_set(asked.output_config.format):
        return asked.output_config.format
    return asked.output_format


def _format(asked: Asked) -> ResponseFormat:
    raw = _raw_format(asked)
    if not is_set(raw):
        return ResponseFormat()
    try:
        wanted = msgspec.json.decode(raw, type=_Format)
    except msgspec.ValidationError as error:
        raise BadRequest(f"output_config.format: {error}", code="invalid_value") from None
    if wanted.type != "json_schema" or not bytes(wanted.schema).startswith(b"{"):
        raise BadRequest("output_config.format: a json_schema with a schema is expected", code="invalid_value")
    return ResponseFormat(shape=Shape.SCHEMA, schema=wanted.schema)


def _thinking(asked: Asked) -> Level:
    """Return how much to think: an effort says how much only where thinking is not switched off."""
    if asked.thinking is not None and asked.thinking.type == "disabled":
        return Level.OFF
    effort = asked.output_config.effort if asked.output_config is not None else None
    if effort in _LEVELS:
        return _LEVELS[effort]
    return Level.DEFAULT if asked.thinking is None else Level.ON
