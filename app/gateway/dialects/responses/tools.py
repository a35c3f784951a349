"""The tools of a request: what the model is offered for each, and what its calls are to the client.

A model is only ever offered functions. Custom tools, whose input is any text, and OpenAI's local shell become functions
and their calls are translated back; the functions of a namespace get its name in front. Tools that are run here, those
of MCP servers and the search of files, come as `hosted` entries: which there are is known once servers were asked.
Tools that only OpenAI's servers run are not offered: clients list them unasked, and a model can do without.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

import msgspec

from app.core.errors import BadRequest, quote_value
from app.gateway.canonical.request import ToolChoice, ToolDefinition, ToolMode
from app.gateway.dialects.raw_fields import ABSENT

T = TypeVar("T")
LOCAL_SHELL = "local_shell"
INPUT = "input"
"""The one argument of a custom tool."""
_NULL = msgspec.Raw(b"null")
_ABSENT_OR_NULL = (ABSENT, _NULL)
_FREE_TEXT = msgspec.Raw(
    b'{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}'
)
_COMMAND = msgspec.Raw(
    b'{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"},"description":"The program '
    b'and its arguments."},"working_directory":{"type":"string"},"timeout_ms":{"type":"integer"}},'
    b'"required":["command"]}'
)


class ClientToolKind(StrEnum):
    """What a tool is to the client."""

    FUNCTION = "function"
    CUSTOM = "custom"
    LOCAL_SHELL = "local_shell"
    MCP = "mcp"
    FILE_SEARCH = "file_search"

    @property
    def is_hosted(self) -> bool:
        """Tell whether its calls are run here."""
        return self in {ClientToolKind.MCP, ClientToolKind.FILE_SEARCH}


class ResponseTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as the client knows it. That of an MCP server has the server's label as its `namespace`."""

    kind: ClientToolKind
    name: str
    namespace: str = ""


class ToolOffer(msgspec.Struct, frozen=True, kw_only=True):
    """What the model is offered, whom its names mean, and what the response says of it."""

    tools: tuple[ToolDefinition, ...] = ()
    choice: ToolChoice = ToolChoice()
    tools_by_name: Mapping[str, ResponseTool] = {}
    reply_tools: tuple[msgspec.Raw, ...] = ()
    reply_choice: msgspec.Raw = msgspec.Raw(b'"auto"')
    left_out: tuple[str, ...] = ()
    """Kinds of tools that nobody here runs."""

    def find_tool(self, name: str) -> ResponseTool:
        """Return whom the model means."""
        return self.tools_by_name.get(name) or ResponseTool(kind=ClientToolKind.FUNCTION, name=name)


_NO_OFFER = ToolOffer()


class _ToolGrammar(msgspec.Struct, frozen=True):
    type: str = "text"
    syntax: str = ""
    definition: str = ""


class _ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of any kind."""

    type: str
    name: str = ""
    description: str | None = None
    parameters: msgspec.Raw = ABSENT
    strict: bool | None = None
    format: _ToolGrammar | None = None
    tools: list[msgspec.Raw] = []


class _ToolChoiceSpec(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    name: str | None = None
    namespace: str | None = None
    server_label: str | None = None
    mode: ToolMode = ToolMode.AUTO
    tools: list[msgspec.Raw] = []


class OfferEntry(msgspec.Struct, frozen=True):
    """A function that the model is offered, and what it is to the client."""

    tool: ToolDefinition
    client_tool: ResponseTool


def flat_name(namespace: str | None, name: str) -> str:
    """Return the name the model has for a function of a namespace."""
    return f"{namespace}.{name}" if namespace else name


def offer_of(
    tools: Sequence[msgspec.Raw],
    choice: msgspec.Raw = ABSENT,
    *,
    one_at_a_time: bool = False,
    hosted_entries: Sequence[OfferEntry] = (),
) -> ToolOffer:
    """Return what is offered for `tools` and `tool_choice`. Raises BadRequest for what cannot be read or done."""
    if not tools and choice in _ABSENT_OR_NULL and not one_at_a_time:
        return _NO_OFFER  # as with every request that is only text
    ready: list[OfferEntry] = [*hosted_entries]
    reply_tools: list[msgspec.Raw] = []
    left_out: list[str] = []
    for at, raw in enumerate(tools):
        tool_spec = decode_tool(raw, _ToolSpec, f"tools[{at}]")
        entries = _make_entries(tool_spec, f"tools[{at}]")
        if entries is None:
            left_out.append(tool_spec.type)
        else:
            ready += entries
            reply_tools.append(_tool_for_reply(raw, tool_spec))
    callable_tools = _choose_tools(choice, ready, one_at_a_time=one_at_a_time)
    return ToolOffer(
        tools=tuple(entry.tool for entry in callable_tools.ready),
        choice=callable_tools.choice,
        tools_by_name={entry.tool.name: entry.client_tool for entry in ready},
        reply_tools=tuple(reply_tools),
        reply_choice=msgspec.Raw(b'"auto"') if choice in _ABSENT_OR_NULL else choice,
        left_out=tuple(dict.fromkeys(left_out)),
    )


def _make_entries(tool_spec: _ToolSpec, field: str) -> list[OfferEntry] | None:
    make = _MAKERS.get(tool_spec.type)
    return None if make is None else make(tool_spec, field)


def _function_entries(tool_spec: _ToolSpec, field: str) -> list[OfferEntry]:
    parameters = None if tool_spec.parameters in _ABSENT_OR_NULL else tool_spec.parameters
    if not tool_spec.name:
        raise invalid_tools(f"`{field}.name` is missing: a function is flat here, not inside a `function` of its own.")
    if parameters is not None and not bytes(parameters).startswith(b"{"):
        raise invalid_tools(f"`{field}.parameters` is a JSON schema.")
    tool = ToolDefinition(
        name=tool_spec.name, description=tool_spec.description or "", parameters=parameters, strict=tool_spec.strict
    )
    return [OfferEntry(tool, ResponseTool(kind=ClientToolKind.FUNCTION, name=tool_spec.name))]


def _custom_entries(tool_spec: _ToolSpec, field: str) -> list[OfferEntry]:
    """Offer a function of one text. Its grammar is told in words: no engine holds a part of a call to one."""
    if not tool_spec.name:
        raise invalid_tools(f"`{field}.name` is missing.")
    rule = ""
    if tool_spec.format is not None and tool_spec.format.type == "grammar":
        rule = f"`{INPUT}` keeps to this {tool_spec.format.syntax} grammar:\n{tool_spec.format.definition}"
    description = "\n\n".join(filter(None, [tool_spec.description, rule]))
    tool = ToolDefinition(name=tool_spec.name, description=description, parameters=_FREE_TEXT)
    return [OfferEntry(tool, ResponseTool(kind=ClientToolKind.CUSTOM, name=tool_spec.name))]


def _local_shell(_tool: _ToolSpec, _field: str) -> list[OfferEntry]:
    tool = ToolDefinition(name=LOCAL_SHELL, description="Run a command on the user's computer.", parameters=_COMMAND)
    return [OfferEntry(tool, ResponseTool(kind=ClientToolKind.LOCAL_SHELL, name=LOCAL_SHELL))]


def _namespace_entries(tool_spec: _ToolSpec, field: str) -> list[OfferEntry]:
    if not tool_spec.name:
        raise invalid_tools(f"`{field}.name` is missing.")
    inner = [decode_tool(raw, _ToolSpec, f"{field}.tools[{at}]") for at, raw in enumerate(tool_spec.tools)]
    entries = [entry for at, tool in enumerate(inner) for entry in _inner_entries(tool, f"{field}.tools[{at}]")]
    return [
        OfferEntry(
            msgspec.structs.replace(entry.tool, name=flat_name(tool_spec.name, entry.tool.name)),
            msgspec.structs.replace(entry.client_tool, namespace=tool_spec.name),
        )
        for entry in entries
    ]


def _inner_entries(tool_spec: _ToolSpec, field: str) -> list[OfferEntry]:
    make = {"function": _function_entries, "custom": _custom_entries}.get(tool_spec.type)
    return [] if make is None else make(tool_spec, field)


_MAKERS: dict[str, Callable[[_ToolSpec, str], list[OfferEntry]]] = {
    "function": _function_entries,
    "custom": _custom_entries,
    "local_shell": _local_shell,
    "namespace": _namespace_entries,
    ClientToolKind.MCP: lambda _spec, _field: [],
    ClientToolKind.FILE_SEARCH: lambda _spec, _field: [],
}


def _tool_for_reply(raw: msgspec.Raw, tool_spec: _ToolSpec) -> msgspec.Raw:
    """Return a tool as responses show it: a function with all its keys, which OpenAI's clients want."""
    if tool_spec.type != "function":
        return raw
    fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    for name in ("description", "parameters", "strict"):
        fields.setdefault(name, _NULL)
    return msgspec.Raw(msgspec.json.encode(fields))


class _CallableTools(msgspec.Struct, frozen=True):
    ready: Sequence[OfferEntry]
    choice: ToolChoice


def _choose_tools(raw: msgspec.Raw, ready: Sequence[OfferEntry], *, one_at_a_time: bool) -> _CallableTools:
    """Return the tools that may be called. No engine is told a name: it is offered the one tool, and must call it."""
    if raw in _ABSENT_OR_NULL or bytes(raw).startswith(b'"'):
        choose = ToolMode.AUTO if raw in _ABSENT_OR_NULL else decode_tool(raw, ToolMode, "tool_choice")
        allowed_tools = [] if choose is ToolMode.NONE else ready
    else:
        tool_choice = decode_tool(raw, _ToolChoiceSpec, "tool_choice")
        choose = tool_choice.mode if tool_choice.type == "allowed_tools" else ToolMode.REQUIRED
        allowed_tools = _filter_allowed(tool_choice, ready)
    if choose is ToolMode.REQUIRED and not allowed_tools:
        raise invalid_tools("`tool_choice` asks for a call, and there is no tool that can be called here.")
    return _CallableTools(allowed_tools, ToolChoice(choose=choose, one_at_a_time=one_at_a_time))


def _filter_allowed(tool_choice: _ToolChoiceSpec, ready: Sequence[OfferEntry]) -> list[OfferEntry]:
    if tool_choice.type == "allowed_tools":
        choices = [
            decode_tool(raw, _ToolChoiceSpec, f"tool_choice.tools[{at}]") for at, raw in enumerate(tool_choice.tools)
        ]
        return [entry for entry in ready if any(_is_meant(entry.client_tool, choice) for choice in choices)]
    matches = [entry for entry in ready if _is_meant(entry.client_tool, tool_choice)]
    if not matches:
        what = tool_choice.name or tool_choice.type
        raise invalid_tools(
            f"`tool_choice` names {quote_value(what)}, which is not among the tools that can be called here."
        )
    return matches if tool_choice.type == ClientToolKind.MCP else matches[:1]


def _is_meant(tool: ResponseTool, choice: _ToolChoiceSpec) -> bool:
    if choice.type in {ClientToolKind.LOCAL_SHELL, ClientToolKind.FILE_SEARCH}:
        return tool.kind == choice.type
    if choice.type == ClientToolKind.MCP:
        is_of_server = tool.kind is ClientToolKind.MCP and tool.namespace == choice.server_label
        return is_of_server and choice.name in (None, tool.name)
    is_named = choice.name in (tool.name, flat_name(tool.namespace, tool.name))
    return choice.type == tool.kind and is_named and choice.namespace in (None, tool.namespace)


def decode_tool(raw: msgspec.Raw, kind: type[T], field: str) -> T:
    """Return a tool, or a part of one. Raises BadRequest (invalid_tools)."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise invalid_tools(f"`{field}` is not as expected: {error}.") from None


def invalid_tools(sentence: str) -> BadRequest:
    """Return the refusal of tools that cannot be read or done."""
    return BadRequest(sentence, code="invalid_tools")
