"""The items of a conversation: read as turns, and given the form in which they are kept.

What one turn of the assistant was comes as several items (reasoning, message, calls), and becomes one turn again. Items
of kinds that nobody here makes, such as web searches, are passed over, as the dialect has it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TypeVar

import msgspec

from app.core.errors import BadRequest
from app.gateway.canonical.images import image_of, text_of
from app.gateway.canonical.request import Image, Message, Part, Role, Text, Thinking, ToolCall, ToolResult
from app.gateway.dialects.responses.tools import INPUT, LOCAL_SHELL, flat_name

T = TypeVar("T")
NewId = Callable[[str], str]
"""Returns an id that begins with the letters given, and that nobody can guess."""
ENCRYPTED = "roundhouse-reasoning:"
"""Before reasoning that a client only hands back: it is no secret, but another program's would be gibberish here."""
REFERENCE = "item_reference"
_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM, "developer": Role.SYSTEM}
_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "local_shell_call": "lsh",
}
_OTHER_PREFIX = "item"
_ASSISTANT = msgspec.Raw(b'"assistant"')
_BETWEEN = "\n\n"
_SAID = frozenset({"input_text", "output_text", "text", "reasoning_text", "summary_text"})


class Item(msgspec.Struct, frozen=True):
    """One item: what it is, its JSON as it was sent or kept, and its id, empty if the client gave it none."""

    kind: str
    value: msgspec.Raw
    id: str = ""


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    type: str | None = None
    id: str | None = None
    role: str | None = None

    @property
    def kind(self) -> str:
        if self.type is None and self.role is None and self.id is not None:
            return REFERENCE
        return self.type or "message"


class _Url(msgspec.Struct, frozen=True):
    url: str = ""


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | _Url | None = None
    file_data: str | None = None


_Content = str | list[_Part] | None


class _Said(msgspec.Struct, frozen=True, kw_only=True):
    role: str
    content: _Content = None


class _Reasoned(msgspec.Struct, frozen=True, kw_only=True):
    summary: list[_Part] | None = None
    content: list[_Part] | None = None
    encrypted_content: str | None = None


class _Called(msgspec.Struct, frozen=True, kw_only=True):
    call_id: str
    name: str
    arguments: str
    namespace: str | None = None


class _CustomCalled(msgspec.Struct, frozen=True, kw_only=True):
    call_id: str
    name: str
    input: str
    namespace: str | None = None


class _ShellCalled(msgspec.Struct, frozen=True, kw_only=True):
    call_id: str
    action: dict[str, msgspec.Raw]
    id: str | None = None


class _Answered(msgspec.Struct, frozen=True, kw_only=True):
    output: _Content
    call_id: str | None = None
    id: str | None = None


def items_of(given: str | Sequence[msgspec.Raw]) -> list[Item]:
    """Return what a request says as items. Raises BadRequest for what is no item."""
    if isinstance(given, str):
        return [Item("message", _raw({"role": "user", "content": given}))]
    return [_item(raw, at) for at, raw in enumerate(given)]


def kept_item(name: str, value: str) -> Item:
    """Return an item that was kept."""
    return msgspec.structs.replace(_item(msgspec.Raw(value.encode())), id=name)


def to_keep(item: Item, new_id: NewId) -> Item:
    """Return an item as it is kept: with its kind and an id, and what a message says as parts."""
    sent = msgspec.json.decode(item.value, type=dict[str, msgspec.Raw])
    name = item.id or new_id(_PREFIXES.get(item.kind, _OTHER_PREFIX))
    fields: dict[str, object] = {**sent, "type": item.kind, "id": name}
    if item.kind == "message":
        fields = {"status": "completed", **fields, **_parted(sent.get("content"), sent.get("role"))}
    return Item(item.kind, _raw(fields), name)


def references(items: Iterable[Item]) -> list[str]:
    """Return the ids of earlier items that these stand for."""
    return [item.id for item in items if item.kind == REFERENCE]


def resolved(items: Iterable[Item], found: Mapping[str, str]) -> list[Item]:
    """Return the items with what the references stand for. Raises BadRequest if one is not kept."""
    return [_resolved(item, found) if item.kind == REFERENCE else item for item in items]


def conversation(items: Sequence[Item], *, earlier: int = 0) -> list[Message]:
    """Return the turns. Raises BadRequest for what cannot be read; the first `earlier` items are not the request's."""
    calls = _Calls()
    turns = [turn for at, item in enumerate(items, -earlier) for turn in _turns(item, at, calls)]
    merged = [_merged(role, group) for role, group in groupby(turns, key=lambda turn: turn.role)]
    return [turn for one in merged for turn in _results_first(one)]


def passed_over(items: Iterable[Item]) -> list[str]:
    """Return the kinds of those items that are not read."""
    return list(dict.fromkeys(item.kind for item in items if item.kind not in _READERS))


class _Calls:
    """The calls so far: whom a result answers."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._items: dict[str, str] = {}

    def made(self, call: ToolCall, item: str | None = None) -> Message:
        self._names[call.id] = call.name
        if item is not None:
            self._items[item] = call.id
        return Message(Role.ASSISTANT, (call,))

    def answered(self, said: _Answered) -> tuple[str, str]:
        """Return the id and the name of a call. The result of a shell's names the item instead."""
        call = said.call_id or self._items.get(said.id or "", said.id or "")
        return call, self._names.get(call, "")


def _turns(item: Item, at: int, calls: _Calls) -> Iterator[Message]:
    read = _READERS.get(item.kind)
    turn = read(item.value, at, calls) if read is not None else None
    if turn is not None and turn.parts:
        yield turn


def _message(raw: msgspec.Raw, at: int, _calls: _Calls) -> Message:
    said = _read(raw, _Said, at)
    role = _ROLES.get(said.role)
    if role is None:
        raise _invalid(f"`input[{at}].role` is user, assistant, system or developer, not {said.role[:40]!r}.")
    return Message(role, tuple(_parts(said.content, at)))


def _reasoning(raw: msgspec.Raw, at: int, _calls: _Calls) -> Message:
    """Read reasoning from where it is told best: its own text, then ours handed back, then the summary."""
    told = _read(raw, _Reasoned, at)
    text = _plain(told.content)
    sealed = told.encrypted_content or ""
    if not text and sealed.startswith(ENCRYPTED):
        text = sealed.removeprefix(ENCRYPTED)
    text = text or _plain(told.summary)
    return Message(Role.ASSISTANT, (Thinking(text),) if text else ())


def _function_call(raw: msgspec.Raw, at: int, calls: _Calls) -> Message:
    called = _read(raw, _Called, at)
    name = flat_name(called.namespace, called.name)
    return calls.made(ToolCall(id=called.call_id, name=name, arguments=_object(called.arguments)))


def _custom_call(raw: msgspec.Raw, at: int, calls: _Calls) -> Message:
    called = _read(raw, _CustomCalled, at)
    name = flat_name(called.namespace, called.name)
    return calls.made(ToolCall(id=called.call_id, name=name, arguments=_json({INPUT: called.input})))


def _shell_call(raw: msgspec.Raw, at: int, calls: _Calls) -> Message:
    called = _read(raw, _ShellCalled, at)
    arguments = {name: value for name, value in called.action.items() if name != "type" and value != b"null"}
    return calls.made(ToolCall(id=called.call_id, name=LOCAL_SHELL, arguments=_json(arguments)), called.id)


def _output(raw: msgspec.Raw, at: int, calls: _Calls) -> Message:
    said = _read(raw, _Answered, at)
    call, name = calls.answered(said)
    parts = tuple(_parts(said.output, at))
    text = "".join(part.text for part in parts if isinstance(part, Text))
    images = (part for part in parts if isinstance(part, Image))
    return Message(Role.TOOL, (ToolResult(call_id=call, text=text, name=name), *images))


_READERS: dict[str, Callable[[msgspec.Raw, int, _Calls], Message]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function_call,
    "custom_tool_call": _custom_call,
    "local_shell_call": _shell_call,
    "function_call_output": _output,
    "custom_tool_call_output": _output,
    "local_shell_call_output": _output,
}


def _parts(content: _Content, at: int) -> Iterator[Part]:
    if isinstance(content, str):
        yield Text(content)
        return
    for number, part in enumerate(content or ()):
        read = _part(part, f"input[{at}].content[{number}]")
        if read is not None:
            yield read


def _part(part: _Part, field: str) -> Part | None:
    if part.type in _SAID:
        return Text(part.text or "")
    if part.type == "refusal":
        return Text(part.refusal or "")
    if part.type == "input_image":
        url = part.image_url.url if isinstance(part.image_url, _Url) else part.image_url
        return image_of(url or "", field=f"{field}.image_url")
    if part.type == "input_file":
        return Text(text_of(part.file_data or "", field=f"{field}.file_data"))
    if part.type == "input_audio":
        raise BadRequest(f"`{field}`: sound is not taken here.", hint="Send text.", code="unsupported_content")
    return None


def _plain(parts: Iterable[_Part] | None) -> str:
    return _BETWEEN.join(part.text for part in parts or () if part.text)


def _merged(role: Role, turns: Iterable[Message]) -> Message:
    """Return several turns of one role as one; what they say stays apart."""
    parts: list[Part] = []
    for turn in turns:
        is_more = any(isinstance(part, Text) for part in parts) and bool(turn.text)
        parts += [Text(_BETWEEN), *turn.parts] if is_more else turn.parts
    return Message(role, tuple(parts))


def _results_first(turn: Message) -> list[Message]:
    """Return a turn of results without its pictures, which templates do not take there, and those as the user's."""
    images = tuple(part for part in turn.parts if isinstance(part, Image))
    if turn.role is not Role.TOOL or not images:
        return [turn]
    results = tuple(part for part in turn.parts if isinstance(part, ToolResult))
    return [Message(Role.TOOL, results), Message(Role.USER, images)]


def _item(raw: msgspec.Raw, at: int = 0) -> Item:
    head = _read(raw, _Head, at)
    return Item(head.kind, raw, head.id or "")


def _parted(content: msgspec.Raw | None, role: msgspec.Raw | None) -> dict[str, object]:
    if content is None or not bytes(content).startswith(b'"'):
        return {}
    if role == _ASSISTANT:
        return {"content": [{"type": "output_text", "text": content, "annotations": []}]}
    return {"content": [{"type": "input_text", "text": content}]}


def _resolved(item: Item, found: Mapping[str, str]) -> Item:
    if item.id not in found:
        raise BadRequest(
            f"There is no item {item.id[:80]!r} to refer to.",
            hint="Send the item itself: the response it belongs to is not kept.",
            code="item_not_found",
        )
    return kept_item(item.id, found[item.id])


def _object(arguments: str) -> str:
    """Return arguments that are an object: llama.cpp refuses the whole conversation for others a model once made."""
    try:
        msgspec.json.decode(arguments, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return _json({"arguments": arguments})
    return arguments


def _read(raw: msgspec.Raw, kind: type[T], at: int) -> T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise _invalid(f"`input[{at}]` is not as expected: {error}.") from None


def _invalid(sentence: str) -> BadRequest:
    return BadRequest(sentence, code="invalid_value")


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
