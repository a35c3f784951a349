"""A request in Anthropic's dialect, checked, and put so that an engine does what it asks for.

llama.cpp, which has a Messages route, takes any `max_tokens` and roles, offers the model tools that only Anthropic can
run, cannot be told to call one certain tool, and knows neither `thinking: disabled` nor `effort`. For it fields with
nothing wrong keep their bytes; for engines without such a route the request becomes a canonical one.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from app.core.errors import BadRequest
from app.gateway.canonical.assistant_prefill import NOTHING, Prefilled
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
from app.gateway.dialects.anthropic.turns import Block, Said, Turn, arranged, kind_of, opening, text_of, thinking_of
from app.gateway.dialects.keep_alive import Staying
from app.gateway.dialects.raw_fields import ABSENT, is_set

_BILLING = "x-anthropic-billing-header:"
"""Claude Code's first system block changes with every request, which would make the engine read everything anew."""
_EFFORTS = {"low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}
"""Of Anthropic's levels, what chat templates know as `reasoning_effort`."""
_OURS = ("tool_choice", "output_config", "output_format", "context_management", "mcp_servers", "container", "betas")
"""Said to the engine in other words, or meant for Anthropic's own servers."""


class OfferedTool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool of the client's, or one that Anthropic's servers run (`type` says which)."""

    name: str
    description: str | None = None
    input_schema: msgspec.Raw = ABSENT
    type: str | None = None
    strict: bool | None = None


class Choice(msgspec.Struct, frozen=True):
    """Whether the model is to call a tool, and which."""

    type: Literal["auto", "any", "tool", "none"]
    name: str = ""
    disable_parallel_tool_use: bool | None = None


class ThinkingSetting(msgspec.Struct, frozen=True):
    """Whether the model is to think before it answers."""

    type: Literal["enabled", "adaptive", "disabled"]
    budget_tokens: int | None = None


class Output(msgspec.Struct, frozen=True):
    """How much effort to make, and a form the answer must have."""

    effort: str | None = None
    format: msgspec.Raw = ABSENT


class Asked(Staying, frozen=True, kw_only=True):
    """The part of a request that concerns the gateway."""

    model: str | None = None
    stream: bool | None = None
    messages: list[Turn] | None = None
    max_tokens: int | None = None
    system: str | list[Block] | None = None
    tools: list[OfferedTool] | None = None
    tool_choice: Choice | None = None
    thinking: ThinkingSetting | None = None
    output_config: Output | None = None
    output_format: msgspec.Raw = ABSENT
    chat_template_kwargs: dict[str, msgspec.Raw] | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop_sequences: list[str] | None = None

    @property
    def is_one_at_a_time(self) -> bool:
        """Tell whether an answer may hold one tool call at most."""
        return self.tool_choice is not None and bool(self.tool_choice.disable_parallel_tool_use)


def check(asked: Asked, *, counts_only: bool = False) -> None:
    """Raise BadRequest, in Anthropic's words, for what its API refuses."""
    if not asked.messages:
        raise _missing("messages: at least one message is required")
    if counts_only:
        return
    if asked.max_tokens is None:
        raise _missing("max_tokens: Field required")
    if asked.max_tokens < 1:
        raise _missing("max_tokens: must be greater than or equal to 1")
    for name, value in (("temperature", asked.temperature), ("top_p", asked.top_p)):
        if value is not None and not 0 <= value <= 1:
            raise _missing(f"{name}: range: 0..1")
    if "" in (asked.stop_sequences or ()):
        raise _missing("stop_sequences: each stop sequence must contain text")
    effort = asked.output_config.effort if asked.output_config is not None else None
    if effort is not None and effort not in _EFFORTS:
        raise _missing(f"output_config.effort: must be one of {', '.join(_EFFORTS)}")
    if _must_call(asked.tool_choice) and not asked.tools:
        raise _missing("tool_choice: may only be specified while providing tools")


def for_engine(body: bytes, asked: Asked) -> bytes:
    """Return the request for llama.cpp's own route. Raises BadRequest for what cannot be done."""
    fields: dict[str, object] = dict(msgspec.json.decode(body, type=dict[str, msgspec.Raw]))
    for name in (*_OURS, "tools", "system"):
        fields.pop(name, None)
    first, turns = opening(asked.messages or [])
    fields["messages"] = arranged(turns) or [{"role": "user", "content": ""}]
    if system := "\n\n".join([*system_texts(asked.system), *first]):
        fields["system"] = system
    if tools := offered_tools(asked):
        fields["tools"] = [msgspec.structs.replace(tool, strict=None) for tool in tools]
        fields["tool_choice"] = {"type": "any" if _must_call(asked.tool_choice) else "auto"}
    if kwargs := _template_kwargs(asked):
        fields["chat_template_kwargs"] = kwargs
    return msgspec.json.encode(fields)


def prefilled_by(asked: Asked) -> Prefilled:
    """Return what a whole answer of llama.cpp's will repeat of the request."""
    turns = asked.messages or []
    if not turns or turns[-1].role != "assistant":
        return NOTHING
    said = arranged(turns)[-1].content
    texts = tuple(text_of([one]) for one in said if kind_of(one) == "text")
    return Prefilled(texts=texts, thinking="".join(thinking_of(one) for one in said if kind_of(one) == "thinking"))


def system_texts(system: str | list[Block] | None) -> list[str]:
    """Return what is said by the system, without what changes with every request."""
    texts = [system] if isinstance(system, str) else [text_of([one]) for one in system or [] if kind_of(one) == "text"]
    return [text for text in texts if text and not text.startswith(_BILLING)]


def offered_tools(asked: Asked) -> Sequence[OfferedTool]:
    """Return the tools to offer: none that Anthropic's servers would run, and the one that must be called alone."""
    choice = asked.tool_choice
    if choice is not None and choice.type == "none":
        return []
    tools = [_checked(tool, at) for at, tool in enumerate(asked.tools or []) if _is_the_clients(tool)]
    if choice is None or choice.type != "tool":
        return tools
    named = [tool for tool in tools if tool.name == choice.name]
    if not named:
        raise BadRequest(f"tool_choice.name: there is no tool {choice.name!r} among the tools", code="invalid_tools")
    return named


def _is_the_clients(tool: OfferedTool) -> bool:
    return tool.type in {None, "custom"}


def _checked(tool: OfferedTool, at: int) -> OfferedTool:
    if not bytes(tool.input_schema).startswith(b"{"):
        raise BadRequest(f"tools.{at}.input_schema: a JSON schema is required", code="invalid_tools")
    return msgspec.structs.replace(tool, type=None)


def _must_call(choice: Choice | None) -> bool:
    return choice is not None and choice.type in {"any", "tool"}


def _template_kwargs(asked: Asked) -> dict[str, object]:
    """Return what chat templates are told beside the conversation. Those that do not know a word pass over it."""
    kwargs: dict[str, object] = dict(asked.chat_template_kwargs or {})
    if asked.thinking is not None:
        kwargs.setdefault("enable_thinking", asked.thinking.type != "disabled")
    effort = asked.output_config.effort if asked.output_config is not None else None
    if effort in _EFFORTS:
        kwargs.setdefault("reasoning_effort", _EFFORTS[effort])
    return kwargs


def _missing(sentence: str) -> BadRequest:
    return BadRequest(sentence, code="invalid_value")


_LEVELS = {"low": Level.LOW, "medium": Level.MEDIUM, "high": Level.HIGH, "xhigh": Level.MAX, "max": Level.MAX}


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
    schema: msgspec.Raw = ABSENT


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
