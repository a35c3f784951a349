"""Canonical events -> the typed events of a response, and the response object they come to.

    response.created  response.in_progress  (items)*  response.completed | response.incomplete | response.failed

An item ends before the next one begins. A call whose arguments are not yet an object stays open, since an engine may
still go on with it. A call nobody named yet waits, since what its tool is to the client decides how it is told; a
shell's waits for the end, since it is nothing without its command. When an answer breaks off, the items being written
are not said to be done: clients run a call that is.

A response whose tools are run here has several answers of the model in a row: after each `end_round` ends its items,
`take_hosted_calls` returns the calls that are to be made, and what they come to are items of their own.
"""

import time
from collections.abc import Callable
from typing import Literal

import msgspec

from app.gateway.canonical.events import (
    AnswerFailed,
    AnswerFinished,
    Event,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from app.gateway.canonical.request import ToolCall
from app.gateway.dialects.responses.hosted_items import FileSearchWriter
from app.gateway.dialects.responses.input_items import NewId
from app.gateway.dialects.responses.output_items import (
    CallItemWriter,
    ItemPosition,
    MessageItemWriter,
    OutputItemWriter,
    ReasoningItemWriter,
    ResponseEventWriter,
    SummaryItemWriter,
)
from app.gateway.dialects.responses.record import RESPONSES_DIALECT
from app.gateway.dialects.responses.tools import ClientToolKind, ToolOffer
from app.gateway.dialects.responses.wire import (
    FileSearchResult,
    IncompleteDetails,
    ItemStatus,
    OutputItem,
    ResponseError,
    ResponseObject,
    TruncationNote,
    to_usage,
)

_PREFIXES = {ClientToolKind.FUNCTION: "fc", ClientToolKind.CUSTOM: "ctc", ClientToolKind.LOCAL_SHELL: "lsh"}


class ResponseStyle(msgspec.Struct, frozen=True, kw_only=True):
    """How an answer is told: reasoning as a summary or as it is, sealed too if asked for; one call at most, or more."""

    offer: ToolOffer = ToolOffer()
    is_summary: bool = False
    is_sealed: bool = False
    one_call: bool = False


class ResponseOutput:
    """The items of one response. Methods return the events to send."""

    def __init__(self, sink: ResponseEventWriter, style: ResponseStyle, new_id: NewId) -> None:
        self.thoughts = 0
        """How many pieces of reasoning there were."""
        self._sink, self._style, self._new_id = sink, style, new_id
        self.offer = style.offer
        """Whom the names of calls mean; with tools that are run here it is known after they were listed."""
        self._parts: list[OutputItemWriter] = []
        self._statuses: dict[int, ItemStatus] = {}
        self._prose: MessageItemWriter | ReasoningItemWriter | None = None
        self._calls: dict[int, CallItemWriter] = {}
        self._pending_calls: dict[int, ToolCallDelta] = {}
        self._only_call: int | None = None
        self.passages: list[FileSearchResult] = []
        """What messages may cite, by numbers from 1 on."""

    def list_items(self, unfinished_status: ItemStatus) -> list[OutputItem]:
        """Return what was written so far; what has not ended has the status `unfinished`."""
        return [part.item(self._status_of(part, unfinished_status)) for part in self._parts]

    def list_whole_items(self, unfinished_status: ItemStatus) -> list[OutputItem]:
        """Return the same with what only the model is told: the passages that searches came to."""
        return [
            part.whole_item(self._status_of(part, unfinished_status))
            if isinstance(part, FileSearchWriter)
            else part.item(self._status_of(part, unfinished_status))
            for part in self._parts
        ]

    def begin_item(self, part: OutputItemWriter) -> bytes:
        """Begin an item of a tool that is run here."""
        return self._open_item(part)

    def end_item(self, part: OutputItemWriter) -> bytes:
        """End such an item."""
        return self._end_item(part, "completed")

    def take_hosted_calls(self) -> tuple[ToolCall, ...]:
        """Return the calls that are to be made here, and forget them."""
        pending_calls = {index: delta for index, delta in self._pending_calls.items() if self._is_hosted(delta)}
        self._pending_calls = {index: call for index, call in self._pending_calls.items() if index not in pending_calls}
        return tuple(
            ToolCall(id=delta.id or self._new_id("call"), name=delta.name, arguments=delta.arguments)
            for delta in pending_calls.values()
        )

    @property
    def has_client_calls(self) -> bool:
        """Whether this answer of the model calls tools that the client runs."""
        return bool(self._calls) or any(not self._is_hosted(delta) for delta in self._pending_calls.values())

    def end_round(self) -> bytes:
        """End the items of one answer of the model; another begins with calls of its own."""
        output = self._end_items(is_cut=False)
        self._calls, self._only_call, self._prose = {}, None, None
        return output

    def add_text(self, delta: TextDelta) -> bytes:
        """Go on with the message."""
        message, head = self._prose, b""
        if not isinstance(message, MessageItemWriter):
            head = self._end_complete()
            self._prose = message = MessageItemWriter(self.next_position("msg"), self.passages)
            head += self._open_item(message)
        if delta.logprobs:
            return head + message.add_with_odds(self._sink, delta.text, delta.logprobs)
        return head + message.add_text(self._sink, delta.text)

    def add_reasoning(self, delta: ReasoningDelta) -> bytes:
        """Go on with the reasoning."""
        self.thoughts += 1
        thinking, head = self._prose, b""
        if not isinstance(thinking, ReasoningItemWriter):
            head = self._end_complete()
            kind = SummaryItemWriter if self._style.is_summary else ReasoningItemWriter
            self._prose = thinking = kind(self.next_position("rs"), is_sealed=self._style.is_sealed)
            head += self._open_item(thinking)
        return head + thinking.add_text(self._sink, delta.text)

    def add_call(self, delta: ToolCallDelta) -> bytes:
        """Begin a call, or go on with one. What comes after a call's arguments are whole is not part of it."""
        if self._only_call is None:
            self._only_call = delta.index
        if self._style.one_call and delta.index != self._only_call:
            return b""
        call = self._calls.get(delta.index)
        if call is not None:
            return b"" if call.place.output_index in self._statuses else call.add_delta(self._sink, delta)
        delta = _join_deltas(self._pending_calls.pop(delta.index, None), delta)
        if delta.name and not self._is_told_late(delta):
            return self._begin_call(delta)
        self._pending_calls[delta.index] = delta
        return b""

    def finish_items(self, *, is_cut: bool) -> bytes:
        """End everything; `is_cut` if the model was not done. An answer without anything is an empty message."""
        output = b"" if self._parts or self._pending_calls or is_cut else self.add_text(TextDelta(""))
        return output + self._end_items(is_cut=is_cut)

    def next_position(self, prefix: str) -> ItemPosition:
        """Return where the next item stands."""
        return ItemPosition(item_id=self._new_id(prefix), output_index=len(self._parts))

    def _end_items(self, *, is_cut: bool) -> bytes:
        pending_calls, self._pending_calls = self._pending_calls, {}
        output = b"".join(self._begin_call(call) for call in pending_calls.values() if not self._is_hosted(call))
        for part in self._parts:
            if part.place.output_index not in self._statuses:
                is_whole = not is_cut or (isinstance(part, CallItemWriter) and part.is_whole)
                output += self._end_item(part, "completed" if is_whole else "incomplete")
        return output

    def _begin_call(self, delta: ToolCallDelta) -> bytes:
        head = self._end_complete()
        tool = self.offer.find_tool(delta.name)
        call = CallItemWriter(self.next_position(_PREFIXES[tool.kind]), tool, delta.id or self._new_id("call"))
        self._calls[delta.index] = call
        return head + self._open_item(call) + call.add_delta(self._sink, delta)

    def _end_complete(self) -> bytes:
        """End what is complete, since something else begins."""
        prose, self._prose = self._prose, None
        output = self._end_item(prose, "completed") if prose is not None else b""
        for call in self._calls.values():
            if call.place.output_index not in self._statuses and call.is_whole:
                output += self._end_item(call, "completed")
        return output

    def _is_hosted(self, delta: ToolCallDelta) -> bool:
        return bool(delta.name) and self.offer.find_tool(delta.name).kind.is_hosted

    def _is_told_late(self, delta: ToolCallDelta) -> bool:
        kind = self.offer.find_tool(delta.name).kind
        return kind is ClientToolKind.LOCAL_SHELL or kind.is_hosted

    def _status_of(self, part: OutputItemWriter, unfinished_status: ItemStatus) -> ItemStatus:
        return self._statuses.get(part.place.output_index, unfinished_status)

    def _open_item(self, part: OutputItemWriter) -> bytes:
        self._parts.append(part)
        return part.open(self._sink)

    def _end_item(self, part: OutputItemWriter, status: ItemStatus) -> bytes:
        self._statuses[part.place.output_index] = status
        return part.close(self._sink, status)


def _join_deltas(earlier: ToolCallDelta | None, delta: ToolCallDelta) -> ToolCallDelta:
    if earlier is None:
        return delta
    return ToolCallDelta(
        index=delta.index,
        id=earlier.id or delta.id,
        name=earlier.name or delta.name,
        arguments=earlier.arguments + delta.arguments,
    )


STOPPED = "request_stopped"
"""The code of an answer that somebody ended by hand."""
_SERVER_ERROR = 500
_REASONS = {FinishReason.LENGTH: "max_output_tokens", FinishReason.CONTENT_FILTER: "content_filter"}


class ResponseEncoder:
    """One response. Every method returns bytes to send; `response` is the object, as far as it is made."""

    def __init__(
        self, response: ResponseObject, style: ResponseStyle, new_id: NewId, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._response = response
        self._clock = clock
        self._sink = ResponseEventWriter()
        self.output = ResponseOutput(self._sink, style, new_id)
        """Its items. What is added to them here comes after `begin`."""
        self._has_begun = False

    @property
    def is_over(self) -> bool:
        """Tell whether the response has ended."""
        return self._response.status != "in_progress"

    @property
    def response(self) -> ResponseObject:
        """The response with what was written so far."""
        if self.is_over:
            return self._response
        return msgspec.structs.replace(self._response, output=self.output.list_items("in_progress"))

    @property
    def whole_items(self) -> list[OutputItem]:
        """Its items with what only the model is told."""
        return self.output.list_whole_items("completed" if self._response.status == "completed" else "incomplete")

    def begin(self) -> bytes:
        """Open the stream, if it is not open yet."""
        if self._has_begun:
            return b""
        self._has_begun = True
        response = msgspec.Raw(msgspec.json.encode(self._response))
        kinds = ("response.created", "response.in_progress")
        return b"".join(self._sink.encode_event(kind, response=response) for kind in kinds)

    def note_dropped(self, messages: int) -> None:
        """Note that so many of the oldest messages were left out, or none after all."""
        note = TruncationNote(dropped_messages=messages) if messages else msgspec.UNSET
        self._response = msgspec.structs.replace(self._response, roundhouse=note)

    def take_event(self, event: Event) -> bytes:
        """Encode the next event. Nothing comes after `AnswerFinished` and `AnswerFailed`."""
        if self.is_over:
            return b""
        return self.begin() + self._encode_output(event)

    def cancel_response(self) -> None:
        """End a response that nobody encodes any more, and of which nobody is told."""
        if not self.is_over:
            self._response = msgspec.structs.replace(
                self._response, status="cancelled", output=self.output.list_items("incomplete")
            )

    def _encode_output(self, event: Event) -> bytes:
        match event:
            case TextDelta():
                return self.output.add_text(event)
            case ReasoningDelta():
                return self.output.add_reasoning(event)
            case ToolCallDelta():
                return self.output.add_call(event)
            case AnswerFinished():
                return self._finish_response(event)
            case AnswerFailed():
                return self._fail_response(event)
            case _:
                return b""

    def _finish_response(self, end: AnswerFinished) -> bytes:
        reason = _REASONS.get(end.reason)
        output = self.output.finish_items(is_cut=reason is not None)
        status: Literal["completed", "incomplete"] = "incomplete" if reason else "completed"
        self._response = msgspec.structs.replace(
            self._response,
            status=status,
            completed_at=None if reason else int(self._clock()),
            incomplete_details=IncompleteDetails(reason) if reason else None,
            usage=to_usage(end.usage, thoughts=self.output.thoughts),
            output=self.output.list_items(status),
        )
        return output + self._sink.encode_event(f"response.{status}", response=self._response)

    def _fail_response(self, failure: AnswerFailed) -> bytes:
        is_stopped = failure.error.code == STOPPED
        self._response = msgspec.structs.replace(
            self._response,
            status="cancelled" if is_stopped else "failed",
            error=_response_error(failure),
            output=self.output.list_items("incomplete"),
        )
        return self._sink.encode_event("response.failed", response=self._response)


def _response_error(failure: AnswerFailed) -> ResponseError:
    """Return the error; its code is OpenAI's where the mistake is not the caller's."""
    error = failure.error
    code = "server_error" if failure.status >= _SERVER_ERROR else error.code
    return ResponseError(code=code, message=RESPONSES_DIALECT.word_message(error.text, failure.overflow))
