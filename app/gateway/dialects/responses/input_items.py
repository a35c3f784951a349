"""The items of a conversation: read as turns, and given the form in which they are kept.

What one turn of the assistant was comes as several items (reasoning, message, calls), and becomes one turn again. Items
of kinds that nobody here makes, such as web searches, are passed over, as the dialect has it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TypeVar

import msgspec

from app.core.errors import BadRequest, quote_value
from app.gateway.canonical.request import (
    ConversationMessage,
    Image,
    MessageRole,
    Part,
    Sound,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    image_of,
    sound_of,
    text_of,
)
from app.gateway.dialects.responses.hosted_input import (
    ApprovalRequestInput,
    ApprovalResponseInput,
    FileSearchInput,
    McpCallInput,
    McpListInput,
)
from app.gateway.dialects.responses.tools import INPUT, LOCAL_SHELL, flat_name
from app.gateway.dialects.responses.wire import FileSearchResult
from app.gateway.mcp.model_tools import LEAST_RESULT

T = TypeVar("T")
NewId = Callable[[str], str]
"""Returns an id that begins with the letters given, and that nobody can guess."""
ENCRYPTED = "roundhouse-reasoning:"
"""Before reasoning that a client only hands back: it is no secret, but another program's would be gibberish here."""
REFERENCE = "item_reference"
_ROLES = {
    "user": MessageRole.USER,
    "assistant": MessageRole.ASSISTANT,
    "system": MessageRole.SYSTEM,
    "developer": MessageRole.SYSTEM,
}
_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "local_shell_call": "lsh",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcpl",
    "mcp_approval_request": "mcpr",
    "mcp_approval_response": "mcpa",
    "file_search_call": "fs",
}
_OTHER_PREFIX = "item"
_HOSTED_KINDS = frozenset({"mcp_call", "file_search_call"})
_ASSISTANT = msgspec.Raw(b'"assistant"')
_PART_SEPARATOR = "\n\n"
_TEXT_TYPES = frozenset({"input_text", "output_text", "text", "reasoning_text", "summary_text"})


class ResponseItem(msgspec.Struct, frozen=True):
    """One item: what it is, its JSON as it was sent or kept, and its id, empty if the client gave it none."""

    kind: str
    value: msgspec.Raw
    id: str = ""

    @property
    def is_hosted(self) -> bool:
        """Tell whether it is of a tool that was run here."""
        return self.kind in _HOSTED_KINDS

    @property
    def without_results(self) -> msgspec.Raw:
        """Its JSON without the passages that a search came to, which are told to those who ask for them."""
        if self.kind != "file_search_call":
            return self.value
        return _encode_raw({**msgspec.json.decode(self.value), "results": None})

    def decode_as(self, kind: type[T]) -> T:
        """Return what it says; it was read before."""
        return msgspec.json.decode(self.value, type=kind)


class _ItemHead(msgspec.Struct, frozen=True, kw_only=True):
    type: str | None = None
    id: str | None = None
    role: str | None = None

    @property
    def kind(self) -> str:
        if self.type is None and self.role is None and self.id is not None:
            return REFERENCE
        return self.type or "message"


class _ImageUrl(msgspec.Struct, frozen=True):
    url: str = ""


class _InputAudio(msgspec.Struct, frozen=True):
    data: str = ""
    format: str = ""


class _ContentPart(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | _ImageUrl | None = None
    file_data: str | None = None
    input_audio: _InputAudio | None = None


_Content = str | list[_ContentPart] | None


class _MessageInput(msgspec.Struct, frozen=True, kw_only=True):
    role: str
    content: _Content = None


class _ReasoningInput(msgspec.Struct, frozen=True, kw_only=True):
    summary: list[_ContentPart] | None = None
    content: list[_ContentPart] | None = None
    encrypted_content: str | None = None


class _FunctionCallInput(msgspec.Struct, frozen=True, kw_only=True):
    call_id: str
    name: str
    arguments: str
    namespace: str | None = None


class _CustomCallInput(msgspec.Struct, frozen=True, kw_only=True):
    call_id: str
    name: str
    input: str
    namespace: str | None = None


class _ShellCallInput(msgspec.Struct, frozen=True, kw_only=True):
    call_id: str
    action: dict[str, msgspec.Raw]
    id: str | None = None


class _CallOutputInput(msgspec.Struct, frozen=True, kw_only=True):
    output: _Content
    call_id: str | None = None
    id: str | None = None


def calls_to_make(earlier: Sequence[ResponseItem], new: Sequence[ResponseItem]) -> list[ApprovalRequestInput]:
    """Return the calls that the `new` items approve, and that were not made yet."""
    requests = {
        item.id: item.decode_as(ApprovalRequestInput)
        for item in (*earlier, *new)
        if item.kind == "mcp_approval_request"
    }
    made_calls = {item.decode_as(McpCallInput).approval_request_id for item in new if item.kind == "mcp_call"}
    responses = [item.decode_as(ApprovalResponseInput) for item in new if item.kind == "mcp_approval_response"]
    wishes = [response.approval_request_id for response in responses if response.approve]
    return [requests[name] for name in dict.fromkeys(wishes) if name in requests and name not in made_calls]


def tool_lists(items: Iterable[ResponseItem]) -> dict[str, object]:
    """Return what servers were last said to list, by their labels."""
    lists = (item.decode_as(McpListInput) for item in items if item.kind == "mcp_list_tools")
    return {each.server_label: each.tools for each in lists}


def search_results(items: Iterable[ResponseItem]) -> list[FileSearchResult]:
    """Return what the searches of a conversation came to; the first has the number 1."""
    searches = (item.decode_as(FileSearchInput) for item in items if item.kind == "file_search_call")
    return [result for search in searches for result in search.results or ()]


def items_of(request_input: str | Sequence[msgspec.Raw]) -> list[ResponseItem]:
    """Return what a request says as items. Raises BadRequest for what is no item."""
    if isinstance(request_input, str):
        return [ResponseItem("message", _encode_raw({"role": "user", "content": request_input}))]
    return [_read_item(raw, at) for at, raw in enumerate(request_input)]


def item_from_store(name: str, value: str) -> ResponseItem:
    """Return an item that was kept."""
    return msgspec.structs.replace(_read_item(msgspec.Raw(value.encode())), id=name)


def to_keep(item: ResponseItem, new_id: NewId) -> ResponseItem:
    """Return an item as it is kept: with its kind and an id, and what a message says as parts."""
    raw_fields = msgspec.json.decode(item.value, type=dict[str, msgspec.Raw])
    name = item.id or new_id(_PREFIXES.get(item.kind, _OTHER_PREFIX))
    fields: dict[str, object] = {**raw_fields, "type": item.kind, "id": name}
    if item.kind == "message":
        fields = {
            "status": "completed",
            **fields,
            **_content_as_parts(raw_fields.get("content"), raw_fields.get("role")),
        }
    return ResponseItem(item.kind, _encode_raw(fields), name)


def reference_ids(items: Iterable[ResponseItem]) -> list[str]:
    """Return the ids of earlier items that these stand for."""
    return [item.id for item in items if item.kind == REFERENCE]


def resolve_references(items: Iterable[ResponseItem], stored_items: Mapping[str, str]) -> list[ResponseItem]:
    """Return the items with what the references stand for. Raises BadRequest if one is not kept."""
    return [_resolve_reference(item, stored_items) if item.kind == REFERENCE else item for item in items]


def to_turns(
    items: Sequence[ResponseItem], *, earlier: int = 0, longest_result: int = LEAST_RESULT
) -> list[ConversationMessage]:
    """Return the turns. Raises BadRequest for what cannot be read; the first `earlier` items are not the request's.

    Results of tools that were run here are cut to `longest_result` characters.
    """
    calls = _CallIndex(longest_result)
    turns = [turn for at, item in enumerate(items, -earlier) for turn in _item_turns(item, at, calls)]
    merged_turns = [_merge_turns(role, group) for role, group in groupby(turns, key=lambda turn: turn.role)]
    return [turn for merged_turn in merged_turns for turn in _results_first(merged_turn)]


def kinds_not_read(items: Iterable[ResponseItem]) -> list[str]:
    """Return the kinds of those items that are not read."""
    return list(dict.fromkeys(item.kind for item in items if item.kind not in _READERS))


_Turns = tuple[ConversationMessage, ...]


class _CallIndex:
    """The calls so far: whom a result answers."""

    def __init__(self, longest_result: int) -> None:
        self.longest_result = longest_result
        self.passages = 0
        """How many passages searches came to."""
        self._names: dict[str, str] = {}
        self._items: dict[str, str] = {}
        self._requests: dict[str, ApprovalRequestInput] = {}

    def add_call(self, call: ToolCall, item: str | None = None) -> _Turns:
        self._names[call.id] = call.name
        if item is not None:
            self._items[item] = call.id
        return (ConversationMessage(MessageRole.ASSISTANT, (call,)),)

    def add_request(self, request: ApprovalRequestInput) -> None:
        self._requests[request.id] = request

    def find_request(self, response: ApprovalResponseInput) -> ApprovalRequestInput:
        """Return the call that was approved or refused. Raises BadRequest."""
        request = self._requests.get(response.approval_request_id)
        if request is None:
            raise BadRequest(
                f"There is no mcp_approval_request {quote_value(response.approval_request_id)} before its response.",
                hint="Send the request's item with its response, or go on with previous_response_id.",
                code="approval_request_not_found",
            )
        return request

    def find_call(self, output: _CallOutputInput) -> tuple[str, str]:
        """Return the id and the name of a call. The result of a shell's names the item instead."""
        call = output.call_id or self._items.get(output.id or "", output.id or "")
        return call, self._names.get(call, "")


def _item_turns(item: ResponseItem, at: int, calls: _CallIndex) -> Iterator[ConversationMessage]:
    reader = _READERS.get(item.kind)
    turns = reader(item.value, at, calls) if reader is not None else ()
    yield from (turn for turn in turns if turn.parts)


def _read_message(raw: msgspec.Raw, at: int, _calls: _CallIndex) -> _Turns:
    message = _decode_raw(raw, _MessageInput, at)
    role = _ROLES.get(message.role)
    if role is None:
        raise _invalid_value(
            f"`input[{at}].role` is user, assistant, system or developer, not {quote_value(message.role)}."
        )
    return (ConversationMessage(role, tuple(_content_parts(message.content, at))),)


def _read_reasoning(raw: msgspec.Raw, at: int, _calls: _CallIndex) -> _Turns:
    """Read reasoning from where it is told best: its own text, then ours handed back, then the summary."""
    item = _decode_raw(raw, _ReasoningInput, at)
    text = _plain_text(item.content)
    sealed_text = item.encrypted_content or ""
    if not text and sealed_text.startswith(ENCRYPTED):
        text = sealed_text.removeprefix(ENCRYPTED)
    text = text or _plain_text(item.summary)
    return (ConversationMessage(MessageRole.ASSISTANT, (Thinking(text),) if text else ()),)


def _function_call(raw: msgspec.Raw, at: int, calls: _CallIndex) -> _Turns:
    call = _decode_raw(raw, _FunctionCallInput, at)
    name = flat_name(call.namespace, call.name)
    return calls.add_call(ToolCall(id=call.call_id, name=name, arguments=_object_arguments(call.arguments)))


def _custom_call(raw: msgspec.Raw, at: int, calls: _CallIndex) -> _Turns:
    call = _decode_raw(raw, _CustomCallInput, at)
    name = flat_name(call.namespace, call.name)
    return calls.add_call(ToolCall(id=call.call_id, name=name, arguments=_encode_json({INPUT: call.input})))


def _shell_call(raw: msgspec.Raw, at: int, calls: _CallIndex) -> _Turns:
    call = _decode_raw(raw, _ShellCallInput, at)
    arguments = {name: value for name, value in call.action.items() if name != "type" and value != b"null"}
    return calls.add_call(ToolCall(id=call.call_id, name=LOCAL_SHELL, arguments=_encode_json(arguments)), call.id)


def _read_output(raw: msgspec.Raw, at: int, calls: _CallIndex) -> _Turns:
    output = _decode_raw(raw, _CallOutputInput, at)
    call, name = calls.find_call(output)
    parts = tuple(_content_parts(output.output, at))
    text = "".join(part.text for part in parts if isinstance(part, Text))
    media = (part for part in parts if isinstance(part, Image | Sound))
    return (ConversationMessage(MessageRole.TOOL, (ToolResult(call_id=call, text=text, name=name), *media)),)


def _mcp_call(raw: msgspec.Raw, at: int, calls: _CallIndex) -> _Turns:
    return _decode_raw(raw, McpCallInput, at).read_turns(calls.longest_result)


def _approval_request(raw: msgspec.Raw, at: int, calls: _CallIndex) -> _Turns:
    """Remember a call: it is told of with what came of it."""
    calls.add_request(_decode_raw(raw, ApprovalRequestInput, at))
    return ()


def _approval_response(raw: msgspec.Raw, at: int, calls: _CallIndex) -> _Turns:
    response = _decode_raw(raw, ApprovalResponseInput, at)
    return response.read_refusal(calls.find_request(response))


def _file_search(raw: msgspec.Raw, at: int, calls: _CallIndex) -> _Turns:
    search, first = _decode_raw(raw, FileSearchInput, at), calls.passages + 1
    calls.passages += len(search.results or ())
    return search.read_turns(first, calls.longest_result)


def _mcp_list(raw: msgspec.Raw, at: int, _calls: _CallIndex) -> _Turns:
    """Check a list of tools: a model is offered those that there are now."""
    _decode_raw(raw, McpListInput, at)
    return ()


_READERS: dict[str, Callable[[msgspec.Raw, int, _CallIndex], _Turns]] = {
    "message": _read_message,
    "reasoning": _read_reasoning,
    "function_call": _function_call,
    "custom_tool_call": _custom_call,
    "local_shell_call": _shell_call,
    "function_call_output": _read_output,
    "custom_tool_call_output": _read_output,
    "local_shell_call_output": _read_output,
    "mcp_call": _mcp_call,
    "mcp_list_tools": _mcp_list,
    "mcp_approval_request": _approval_request,
    "mcp_approval_response": _approval_response,
    "file_search_call": _file_search,
}


def _content_parts(content: _Content, at: int) -> Iterator[Part]:
    if isinstance(content, str):
        yield Text(content)
        return
    for number, part in enumerate(content or ()):
        piece = _content_part(part, f"input[{at}].content[{number}]")
        if piece is not None:
            yield piece


def _content_part(part: _ContentPart, field: str) -> Part | None:
    if part.type in _TEXT_TYPES:
        return Text(part.text or "")
    if part.type == "refusal":
        return Text(part.refusal or "")
    if part.type == "input_image":
        url = part.image_url.url if isinstance(part.image_url, _ImageUrl) else part.image_url
        return image_of(url or "", field=f"{field}.image_url")
    if part.type == "input_file":
        return Text(text_of(part.file_data or "", field=f"{field}.file_data"))
    if part.type == "input_audio":
        sound = part.input_audio or _InputAudio()
        return sound_of(sound.format, sound.data, field=f"{field}.input_audio")
    return None


def _plain_text(parts: Iterable[_ContentPart] | None) -> str:
    return _PART_SEPARATOR.join(part.text for part in parts or () if part.text)


def _merge_turns(role: MessageRole, turns: Iterable[ConversationMessage]) -> ConversationMessage:
    """Return several turns of one role as one; what they say stays apart."""
    parts: list[Part] = []
    for turn in turns:
        is_more = any(isinstance(part, Text) for part in parts) and bool(turn.text)
        parts += [Text(_PART_SEPARATOR), *turn.parts] if is_more else turn.parts
    return ConversationMessage(role, tuple(parts))


def _results_first(turn: ConversationMessage) -> list[ConversationMessage]:
    """Return a turn of results without its media, which templates do not take there, and those as the user's."""
    media = tuple(part for part in turn.parts if isinstance(part, Image | Sound))
    if turn.role is not MessageRole.TOOL or not media:
        return [turn]
    results = tuple(part for part in turn.parts if isinstance(part, ToolResult))
    return [ConversationMessage(MessageRole.TOOL, results), ConversationMessage(MessageRole.USER, media)]


def _read_item(raw: msgspec.Raw, at: int = 0) -> ResponseItem:
    head = _decode_raw(raw, _ItemHead, at)
    return ResponseItem(head.kind, raw, head.id or "")


def _content_as_parts(content: msgspec.Raw | None, role: msgspec.Raw | None) -> dict[str, object]:
    if content is None or not bytes(content).startswith(b'"'):
        return {}
    if role == _ASSISTANT:
        return {"content": [{"type": "output_text", "text": content, "annotations": []}]}
    return {"content": [{"type": "input_text", "text": content}]}


def _resolve_reference(item: ResponseItem, stored_items: Mapping[str, str]) -> ResponseItem:
    if item.id not in stored_items:
        raise BadRequest(
            f"There is no item {quote_value(item.id)} to refer to.",
            hint="Send the item itself: the response it belongs to is not kept.",
            code="item_not_found",
        )
    return item_from_store(item.id, stored_items[item.id])


def _object_arguments(arguments: str) -> str:
    """Return arguments that are an object: llama.cpp refuses the whole conversation for others a model once made."""
    try:
        msgspec.json.decode(arguments, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return _encode_json({"arguments": arguments})
    return arguments


def _decode_raw(raw: msgspec.Raw, kind: type[T], at: int) -> T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise _invalid_value(f"`input[{at}]` is not as expected: {error}.") from None


def _invalid_value(sentence: str) -> BadRequest:
    return BadRequest(sentence, code="invalid_value")


def _encode_raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _encode_json(value: object) -> str:
    return msgspec.json.encode(value).decode()
