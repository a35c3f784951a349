"""The tools of a request: what the model is offered for each, and what its calls are to the client.

A model is only ever offered functions. Custom tools, whose input is any text, and OpenAI's local shell become functions
and their calls are translated back; the functions of a namespace get its name in front. Tools that only OpenAI's
servers run are not offered: clients list them unasked, and a model can do without.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

import msgspec

from app.core.errors import BadRequest
from app.gateway.canonical.request import Choose, Tool, ToolChoice
from app.gateway.dialects.raw_fields import ABSENT

T = TypeVar("T")
LOCAL_SHELL = "local_shell"
INPUT = "input"
"""The one argument of a custom tool."""
_NULL = msgspec.Raw(b"null")
_UNSAID = (ABSENT, _NULL)
_FREE_TEXT = msgspec.Raw(
    b'{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}'
)
_COMMAND = msgspec.Raw(
    b'{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"},"description":"The program '
    b'and its arguments."},"working_directory":{"type":"string"},"timeout_ms":{"type":"integer"}},'
    b'"required":["command"]}'
)


class Kind(StrEnum):
    """What a tool is to the client."""

    FUNCTION = "function"
    CUSTOM = "custom"
    LOCAL_SHELL = "local_shell"


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as the client knows it."""

    kind: Kind
    name: str
    namespace: str = ""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What the model is offered, whom its names mean, and what the response says of it."""

    tools: tuple[Tool, ...] = ()
    choice: ToolChoice = ToolChoice()
    known: Mapping[str, Known] = {}
    told: tuple[msgspec.Raw, ...] = ()
    told_choice: msgspec.Raw = msgspec.Raw(b'"auto"')
    left_out: tuple[str, ...] = ()
    """Kinds of tools that nobody here runs."""

    def of(self, name: str) -> Known:
        """Return whom the model means."""
        return self.known.get(name) or Known(kind=Kind.FUNCTION, name=name)


_NO_OFFER = Offer()


class _Grammar(msgspec.Struct, frozen=True):
    type: str = "text"
    syntax: str = ""
    definition: str = ""


class _Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of any kind."""

    type: str
    name: str = ""
    description: str | None = None
    parameters: msgspec.Raw = ABSENT
    strict: bool | None = None
    format: _Grammar | None = None
    tools: list[msgspec.Raw] = []


class _Choice(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    name: str = ""
    namespace: str | None = None
    mode: Choose = Choose.AUTO
    tools: list[msgspec.Raw] = []


class _Ready(msgspec.Struct, frozen=True):
    tool: Tool
    known: Known


def flat_name(namespace: str | None, name: str) -> str:
    """Return the name the model has for a function of a namespace."""
    return f"{namespace}.{name}" if namespace else name


def offer_of(tools: Sequence[msgspec.Raw], choice: msgspec.Raw = ABSENT, *, one_at_a_time: bool = False) -> Offer:
    """Return what is offered for `tools` and `tool_choice`. Raises BadRequest for what cannot be read or done."""
    if not tools and choice in _UNSAID and not one_at_a_time:
        return _NO_OFFER  # as with every request that is only text
    ready: list[_Ready] = []
    told: list[msgspec.Raw] = []
    left_out: list[str] = []
    for at, raw in enumerate(tools):
        sent = _read(raw, _Sent, f"tools[{at}]")
        made = _made(sent, f"tools[{at}]")
        if made is None:
            left_out.append(sent.type)
        else:
            ready += made
            told.append(_told(raw, sent))
    chosen = _chosen(choice, ready, one_at_a_time=one_at_a_time)
    return Offer(
        tools=tuple(one.tool for one in chosen.ready),
        choice=chosen.choice,
        known={one.tool.name: one.known for one in ready},
        told=tuple(told),
        told_choice=msgspec.Raw(b'"auto"') if choice in _UNSAID else choice,
        left_out=tuple(dict.fromkeys(left_out)),
    )


def _made(sent: _Sent, field: str) -> list[_Ready] | None:
    make = _MAKERS.get(sent.type)
    return None if make is None else make(sent, field)


def _function(sent: _Sent, field: str) -> list[_Ready]:
    parameters = None if sent.parameters in _UNSAID else sent.parameters
    if not sent.name:
        raise _invalid(f"`{field}.name` is missing: a function is flat here, not inside a `function` of its own.")
    if parameters is not None and not bytes(parameters).startswith(b"{"):
        raise _invalid(f"`{field}.parameters` is a JSON schema.")
    tool = Tool(name=sent.name, description=sent.description or "", parameters=parameters, strict=sent.strict)
    return [_Ready(tool, Known(kind=Kind.FUNCTION, name=sent.name))]


def _custom(sent: _Sent, field: str) -> list[_Ready]:
    """Offer a function of one text. Its grammar is told in words: no engine holds a part of a call to one."""
    if not sent.name:
        raise _invalid(f"`{field}.name` is missing.")
    rule = ""
    if sent.format is not None and sent.format.type == "grammar":
        rule = f"`{INPUT}` keeps to this {sent.format.syntax} grammar:\n{sent.format.definition}"
    description = "\n\n".join(filter(None, [sent.description, rule]))
    tool = Tool(name=sent.name, description=description, parameters=_FREE_TEXT)
    return [_Ready(tool, Known(kind=Kind.CUSTOM, name=sent.name))]


def _local_shell(_sent: _Sent, _field: str) -> list[_Ready]:
    tool = Tool(name=LOCAL_SHELL, description="Run a command on the user's computer.", parameters=_COMMAND)
    return [_Ready(tool, Known(kind=Kind.LOCAL_SHELL, name=LOCAL_SHELL))]


def _namespace(sent: _Sent, field: str) -> list[_Ready]:
    if not sent.name:
        raise _invalid(f"`{field}.name` is missing.")
    inner = [_read(raw, _Sent, f"{field}.tools[{at}]") for at, raw in enumerate(sent.tools)]
    made = [one for at, tool in enumerate(inner) for one in _within(tool, f"{field}.tools[{at}]")]
    return [
        _Ready(
            msgspec.structs.replace(one.tool, name=flat_name(sent.name, one.tool.name)),
            msgspec.structs.replace(one.known, namespace=sent.name),
        )
        for one in made
    ]


def _within(sent: _Sent, field: str) -> list[_Ready]:
    make = {"function": _function, "custom": _custom}.get(sent.type)
    return [] if make is None else make(sent, field)


_MAKERS: dict[str, Callable[[_Sent, str], list[_Ready]]] = {
    "function": _function,
    "custom": _custom,
    "local_shell": _local_shell,
    "namespace": _namespace,
}


def _told(raw: msgspec.Raw, sent: _Sent) -> msgspec.Raw:
    """Return a tool as responses show it: a function with all its keys, which OpenAI's clients want."""
    if sent.type != "function":
        return raw
    fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    for name in ("description", "parameters", "strict"):
        fields.setdefault(name, _NULL)
    return msgspec.Raw(msgspec.json.encode(fields))


class _Chosen(msgspec.Struct, frozen=True):
    ready: Sequence[_Ready]
    choice: ToolChoice


def _chosen(raw: msgspec.Raw, ready: Sequence[_Ready], *, one_at_a_time: bool) -> _Chosen:
    """Return the tools that may be called. No engine is told a name: it is offered the one tool, and must call it."""
    if raw in _UNSAID or bytes(raw).startswith(b'"'):
        choose = Choose.AUTO if raw in _UNSAID else _read(raw, Choose, "tool_choice")
        allowed = [] if choose is Choose.NONE else ready
    else:
        wanted = _read(raw, _Choice, "tool_choice")
        choose = wanted.mode if wanted.type == "allowed_tools" else Choose.REQUIRED
        allowed = _allowed(wanted, ready)
    if choose is Choose.REQUIRED and not allowed:
        raise _invalid("`tool_choice` asks for a call, and there is no tool that can be called here.")
    return _Chosen(allowed, ToolChoice(choose=choose, one_at_a_time=one_at_a_time))


def _allowed(wanted: _Choice, ready: Sequence[_Ready]) -> list[_Ready]:
    if wanted.type == "allowed_tools":
        named = [_read(raw, _Choice, f"tool_choice.tools[{at}]") for at, raw in enumerate(wanted.tools)]
        return [one for one in ready if any(_is_meant(one.known, choice) for choice in named)]
    found = [one for one in ready if _is_meant(one.known, wanted)]
    if not found:
        what = wanted.name or wanted.type
        raise _invalid(f"`tool_choice` names {what[:80]!r}, which is not among the tools that can be called here.")
    return found[:1]


def _is_meant(known: Known, choice: _Choice) -> bool:
    if choice.type == Kind.LOCAL_SHELL:
        return known.kind is Kind.LOCAL_SHELL
    is_named = choice.name in (known.name, flat_name(known.namespace, known.name))
    return choice.type == known.kind and is_named and choice.namespace in (None, known.namespace)


def _read(raw: msgspec.Raw, kind: type[T], field: str) -> T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise _invalid(f"`{field}` is not as expected: {error}.") from None


def _invalid(sentence: str) -> BadRequest:
    return BadRequest(sentence, code="invalid_tools")
