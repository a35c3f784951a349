"""The items of a response while they are written: each opens, grows, and closes, and says so in typed events.

    reasoning   item added, part added, delta*, text done, part done, item done
    message     item added, part added, delta*, text done, part done, item done
    function    item added, arguments delta*, arguments done, item done
    custom      item added, input delta, input done, item done
    shell       item added, item done

The input of a custom call and the command of a shell call arrive wrapped in JSON, so they are told once they are
whole.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from app.core.documents import citations_in
from app.gateway.canonical.events import TokenLogprob, ToolCallDelta
from app.gateway.dialects.responses.input_items import ENCRYPTED
from app.gateway.dialects.responses.tools import INPUT, ClientToolKind, ResponseTool
from app.gateway.dialects.responses.wire import (
    UNSET,
    CustomCallItem,
    FileCitation,
    FileSearchResult,
    FunctionCallItem,
    ItemStatus,
    MessageItem,
    OutputItem,
    OutputText,
    ReasoningItem,
    ReasoningText,
    ResponseTopLogprob,
    ShellAction,
    ShellCallItem,
    to_logprob,
)


class ResponseEventWriter:
    """Writes events, each with the next number."""

    def __init__(self) -> None:
        self._next = 0

    def encode_event(self, kind: str, **fields: object) -> bytes:
        """Return one event."""
        data = {"type": kind, **fields, "sequence_number": self._next_number()}
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode(data))

    def encode_delta(self, head: bytes, text: str) -> bytes:
        """Return an event that begins with `head` (see `delta_head`) and adds a piece of text, as most do."""
        return b'%b%b,"sequence_number":%d}\n\n' % (head, msgspec.json.encode(text), self._next_number())

    def _next_number(self) -> int:
        number = self._next
        self._next += 1
        return number


class ItemPosition(msgspec.Struct, frozen=True, kw_only=True):
    """Where in the response an item stands."""

    item_id: str
    output_index: int


def delta_head(kind: str, place: ItemPosition, **fields: object) -> bytes:
    """Return how every delta of one part begins."""
    data = msgspec.json.encode({"type": kind, **msgspec.structs.asdict(place), **fields})
    return b'event: %b\ndata: %b,"delta":' % (kind.encode(), data[:-1])


class OutputItemWriter(Protocol):
    """One item being written."""

    place: ItemPosition

    def open(self, sink: ResponseEventWriter) -> bytes:
        """Return what announces it."""

    def close(self, sink: ResponseEventWriter, status: ItemStatus) -> bytes:
        """Return what ends it."""

    def item(self, status: ItemStatus) -> OutputItem:
        """Return it as far as it is written."""


class _TextItemWriter:
    """A text in pieces, within an item of one part."""

    _delta = ""

    def __init__(self, place: ItemPosition) -> None:
        self.place = place
        self._pieces: list[str] = []
        self._head = delta_head(self._delta, place, **self._index_field(), **self._extra_fields())

    @property
    def text(self) -> str:
        """What was said so far."""
        return "".join(self._pieces)

    def add_text(self, sink: ResponseEventWriter, text: str) -> bytes:
        """Return what adds a piece."""
        self._pieces.append(text)
        return sink.encode_delta(self._head, text)

    def open(self, sink: ResponseEventWriter) -> bytes:
        """Return what announces the item and its part."""
        item = sink.encode_event(
            "response.output_item.added", output_index=self.place.output_index, item=self._empty_item()
        )
        return item + self._encode_event(sink, self._part_kind("added"), part=self._item_part())

    def close(self, sink: ResponseEventWriter, status: ItemStatus) -> bytes:
        """Return what ends the text, its part and the item."""
        done_event = self._encode_event(
            sink, f"{self._delta.removesuffix('.delta')}.done", text=self.text, **self._extra_fields()
        )
        part = self._encode_event(sink, self._part_kind("done"), part=self._item_part())
        item = self.item(status)
        return (
            done_event
            + part
            + sink.encode_event("response.output_item.done", output_index=self.place.output_index, item=item)
        )

    def item(self, status: ItemStatus) -> OutputItem:
        """Return the item as far as it is written."""
        raise NotImplementedError

    def _encode_event(self, sink: ResponseEventWriter, kind: str, **fields: object) -> bytes:
        return sink.encode_event(kind, **msgspec.structs.asdict(self.place), **self._index_field(), **fields)

    def _empty_item(self) -> OutputItem:
        raise NotImplementedError

    def _item_part(self) -> object:
        raise NotImplementedError

    def _part_kind(self, step: str) -> str:
        return f"response.content_part.{step}"

    def _index_field(self) -> dict[str, object]:
        return {"content_index": 0}

    def _extra_fields(self) -> dict[str, object]:
        return {}


class MessageItemWriter(_TextItemWriter):
    """What the model says."""

    _delta = "response.output_text.delta"

    def __init__(self, place: ItemPosition, passages: Sequence[FileSearchResult] = ()) -> None:
        self._logprobs: list[ResponseTopLogprob] = []
        self._passages = passages
        """What it may cite, by numbers from 1 on."""
        super().__init__(place)

    def add_with_odds(self, sink: ResponseEventWriter, text: str, tokens: Sequence[TokenLogprob]) -> bytes:
        """Return what adds a piece whose tokens' odds are known."""
        odds = [to_logprob(token) for token in tokens]
        self._pieces.append(text)
        self._logprobs += odds
        return self._encode_event(sink, self._delta, delta=text, logprobs=odds)

    def close(self, sink: ResponseEventWriter, status: ItemStatus) -> bytes:
        """Return what ends it, its citations first."""
        return b"".join(
            self._encode_event(
                sink, "response.output_text.annotation.added", annotation_index=number, annotation=citation
            )
            for number, citation in enumerate(self._citations())
        ) + super().close(sink, status)

    def item(self, status: ItemStatus) -> OutputItem:
        """Return the item as far as it is written."""
        return MessageItem(id=self.place.item_id, status=status, content=[self._item_part()])

    def _citations(self) -> list[FileCitation]:
        if not self._passages:
            return []
        text = self.text
        citations = [(int(number), end) for number, _, end in citations_in(text)]
        return [
            FileCitation(
                file_id=self._passages[number - 1].file_id,
                filename=self._passages[number - 1].filename,
                index=text.index("]", end) + 1,
            )
            for number, end in citations
            if 0 < number <= len(self._passages)
        ]

    def _empty_item(self) -> OutputItem:
        return MessageItem(id=self.place.item_id, status="in_progress", content=[])

    def _item_part(self) -> OutputText:
        return OutputText(text=self.text, logprobs=self._logprobs, annotations=self._citations())

    def _extra_fields(self) -> dict[str, object]:
        return {"logprobs": self._logprobs}


class ReasoningItemWriter(_TextItemWriter):
    """What the model thinks."""

    _delta = "response.reasoning_text.delta"
    _type = "reasoning_text"

    def __init__(self, place: ItemPosition, *, is_sealed: bool) -> None:
        super().__init__(place)
        self._is_sealed = is_sealed

    def item(self, status: ItemStatus) -> OutputItem:
        """Return the item as far as it is written."""
        return self._make_item(status, content=[self._item_part()])

    def _make_item(
        self, status: ItemStatus, *, content: Sequence[ReasoningText] = (), summary: Sequence[ReasoningText] = ()
    ) -> ReasoningItem:
        sealed_text = ENCRYPTED + self.text if self._is_sealed else UNSET
        return ReasoningItem(
            id=self.place.item_id,
            status=status,
            summary=list(summary),
            content=list(content),
            encrypted_content=sealed_text,
        )

    def _empty_item(self) -> OutputItem:
        return self._make_item("in_progress")

    def _item_part(self) -> ReasoningText:
        return ReasoningText(self._type, self.text)


class SummaryItemWriter(ReasoningItemWriter):
    """What the model thinks, told where most clients look for it."""

    _delta = "response.reasoning_summary_text.delta"
    _type = "summary_text"

    def item(self, status: ItemStatus) -> OutputItem:
        """Return the item as far as it is written."""
        return self._make_item(status, summary=[self._item_part()])

    def _part_kind(self, step: str) -> str:
        return f"response.reasoning_summary_part.{step}"

    def _index_field(self) -> dict[str, object]:
        return {"summary_index": 0}


_NO_ARGUMENTS = "{}"


class CallItemWriter:
    """A tool call, told as what its tool is to the client."""

    def __init__(self, place: ItemPosition, tool: ResponseTool, call_id: str) -> None:
        self.place = place
        self._tool = tool
        self._call_id = call_id
        self._pieces: list[str] = []
        self._head = delta_head("response.function_call_arguments.delta", place)

    @property
    def arguments(self) -> str:
        """The arguments so far."""
        return "".join(self._pieces)

    @property
    def is_whole(self) -> bool:
        """Tell whether the arguments are an object already, to which nothing can be added."""
        try:
            msgspec.json.decode(self.arguments, type=dict[str, msgspec.Raw])
        except (msgspec.DecodeError, RecursionError):
            return False
        return True

    def add_delta(self, sink: ResponseEventWriter, delta: ToolCallDelta) -> bytes:
        """Return what adds a piece of the arguments."""
        if not delta.arguments:
            return b""
        self._pieces.append(delta.arguments)
        return sink.encode_delta(self._head, delta.arguments) if self._tool.kind is ClientToolKind.FUNCTION else b""

    def open(self, sink: ResponseEventWriter) -> bytes:
        """Return what announces it; a shell call is nothing without its command, so that waits."""
        if self._tool.kind is ClientToolKind.LOCAL_SHELL:
            return b""
        return self._item_event(sink, "added", self._empty_item())

    def close(self, sink: ResponseEventWriter, status: ItemStatus) -> bytes:
        """Return what ends it."""
        item, missing_event = self.item(status), b""
        if isinstance(item, ShellCallItem):
            return self._item_event(
                sink, "added", msgspec.structs.replace(item, status="in_progress")
            ) + self._item_event(sink, "done", item)
        if isinstance(item, CustomCallItem):
            return self._close_custom(sink, item)
        if self._tool.kind is not ClientToolKind.FUNCTION:
            missing_event = self._item_event(sink, "added", self._empty_item()) + sink.encode_delta(
                self._head, self.arguments or _NO_ARGUMENTS
            )
        elif not self._pieces:
            missing_event = sink.encode_delta(self._head, _NO_ARGUMENTS)
        done_event = sink.encode_event(
            "response.function_call_arguments.done",
            **msgspec.structs.asdict(self.place),
            arguments=self.arguments or _NO_ARGUMENTS,
        )
        return missing_event + done_event + self._item_event(sink, "done", item)

    def item(self, status: ItemStatus) -> OutputItem:
        """Return the item as far as it is written."""
        if self._tool.kind is ClientToolKind.CUSTOM:
            return self._custom_item(status, _custom_input(self.arguments))
        action = _shell_action(self.arguments) if self._tool.kind is ClientToolKind.LOCAL_SHELL else None
        if action is None:
            return self._function_item(status, self.arguments or _NO_ARGUMENTS)
        return ShellCallItem(id=self.place.item_id, call_id=self._call_id, action=action, status=status)

    def _close_custom(self, sink: ResponseEventWriter, item: CustomCallItem) -> bytes:
        kind, place = "response.custom_tool_call_input", msgspec.structs.asdict(self.place)
        delta = sink.encode_event(f"{kind}.delta", **place, delta=item.input)
        return (
            delta + sink.encode_event(f"{kind}.done", **place, input=item.input) + self._item_event(sink, "done", item)
        )

    def _item_event(self, sink: ResponseEventWriter, step: str, item: OutputItem) -> bytes:
        return sink.encode_event(f"response.output_item.{step}", output_index=self.place.output_index, item=item)

    def _empty_item(self) -> OutputItem:
        if self._tool.kind is ClientToolKind.CUSTOM:
            return self._custom_item("in_progress", "")
        return self._function_item("in_progress", "")

    def _function_item(self, status: ItemStatus, arguments: str) -> FunctionCallItem:
        return FunctionCallItem(
            id=self.place.item_id,
            call_id=self._call_id,
            name=self._tool.name,
            arguments=arguments,
            status=status,
            namespace=self._tool.namespace or UNSET,
        )

    def _custom_item(self, status: ItemStatus, text: str) -> CustomCallItem:
        return CustomCallItem(
            id=self.place.item_id,
            call_id=self._call_id,
            name=self._tool.name,
            input=text,
            status=status,
            namespace=self._tool.namespace or UNSET,
        )


def _custom_input(arguments: str) -> str:
    """Return the text a custom tool is given; what the model wrote, if that is not what it was asked for."""
    try:
        fields = msgspec.json.decode(arguments, type=dict[str, msgspec.Raw])
        return msgspec.json.decode(fields[INPUT], type=str)
    except (msgspec.MsgspecError, RecursionError, KeyError):
        return arguments


def _shell_action(arguments: str) -> ShellAction | None:
    try:
        return msgspec.json.decode(arguments, type=ShellAction)
    except (msgspec.MsgspecError, RecursionError):
        return None
