"""Canonical events -> the typed events of a response, and the response object they come to.

    response.created  response.in_progress  (items)*  response.completed | response.incomplete | response.failed

An item ends before the next one begins. A call whose arguments are not yet an object stays open, since an engine may
still go on with it. A call nobody named yet waits, since what its tool is to the client decides how it is told; a
shell's waits for the end, since it is nothing without its command. When an answer breaks off, the items being written
are not said to be done: clients run a call that is.
"""

import time
from collections.abc import Callable
from typing import Literal

import msgspec

from app.gateway.canonical.events import Event, Failed, Finish, Finished, ReasoningDelta, TextDelta, ToolCallDelta
from app.gateway.dialects.responses.input_items import NewId
from app.gateway.dialects.responses.output_items import Call, Message, Part, Place, Reasoning, Sink, Summary
from app.gateway.dialects.responses.record import RESPONSES_DIALECT
from app.gateway.dialects.responses.tools import Kind, Offer
from app.gateway.dialects.responses.wire import Incomplete, ItemStatus, OutputItem, Response, Trimmed, Trouble, used

_PREFIXES = {Kind.FUNCTION: "fc", Kind.CUSTOM: "ctc", Kind.LOCAL_SHELL: "lsh"}


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """How an answer is told: reasoning as a summary or as it is, sealed too if asked for; one call at most, or more."""

    offer: Offer = Offer()
    is_summary: bool = False
    is_sealed: bool = False
    one_call: bool = False


class Output:
    """The items of one response. Methods return the events to send."""

    def __init__(self, sink: Sink, manner: Manner, new_id: NewId) -> None:
        self.thoughts = 0
        """How many pieces of reasoning there were."""
        self._sink, self._manner, self._new_id = sink, manner, new_id
        self._parts: list[Part] = []
        self._ended: dict[int, ItemStatus] = {}
        self._prose: Message | Reasoning | None = None
        self._calls: dict[int, Call] = {}
        self._waiting: dict[int, ToolCallDelta] = {}
        self._only_call: int | None = None

    def items(self, unfinished: ItemStatus) -> list[OutputItem]:
        """Return what was written so far; what has not ended has the status `unfinished`."""
        return [part.item(self._ended.get(part.place.output_index, unfinished)) for part in self._parts]

    def say(self, delta: TextDelta) -> bytes:
        """Go on with the message."""
        message, head = self._prose, b""
        if not isinstance(message, Message):
            head = self._next()
            self._prose = message = Message(self._place("msg"))
            head += self._opened(message)
        if delta.logprobs:
            return head + message.add_with_odds(self._sink, delta.text, delta.logprobs)
        return head + message.add(self._sink, delta.text)

    def think(self, delta: ReasoningDelta) -> bytes:
        """Go on with the reasoning."""
        self.thoughts += 1
        thinking, head = self._prose, b""
        if not isinstance(thinking, Reasoning):
            head = self._next()
            kind = Summary if self._manner.is_summary else Reasoning
            self._prose = thinking = kind(self._place("rs"), is_sealed=self._manner.is_sealed)
            head += self._opened(thinking)
        return head + thinking.add(self._sink, delta.text)

    def call(self, delta: ToolCallDelta) -> bytes:
        """Begin a call, or go on with one. What comes after a call's arguments are whole is not part of it."""
        if self._only_call is None:
            self._only_call = delta.index
        if self._manner.one_call and delta.index != self._only_call:
            return b""
        call = self._calls.get(delta.index)
        if call is not None:
            return b"" if call.place.output_index in self._ended else call.add(self._sink, delta)
        delta = _joined(self._waiting.pop(delta.index, None), delta)
        if delta.name and self._manner.offer.of(delta.name).kind is not Kind.LOCAL_SHELL:
            return self._begin_call(delta)
        self._waiting[delta.index] = delta
        return b""

    def finish(self, *, is_cut: bool) -> bytes:
        """End everything; `is_cut` if the model was not done. An answer without anything is an empty message."""
        waiting, self._waiting = self._waiting, {}
        told = b"".join(map(self._begin_call, waiting.values()))
        if not self._parts and not is_cut:
            told += self.say(TextDelta(""))
        for part in self._parts:
            if part.place.output_index not in self._ended:
                is_whole = not is_cut or (isinstance(part, Call) and part.is_whole)
                told += self._end(part, "completed" if is_whole else "incomplete")
        return told

    def _begin_call(self, delta: ToolCallDelta) -> bytes:
        head = self._next()
        known = self._manner.offer.of(delta.name)
        call = Call(self._place(_PREFIXES[known.kind]), known, delta.id or self._new_id("call"))
        self._calls[delta.index] = call
        return head + self._opened(call) + call.add(self._sink, delta)

    def _next(self) -> bytes:
        """End what is complete, since something else begins."""
        prose, self._prose = self._prose, None
        told = self._end(prose, "completed") if prose is not None else b""
        for call in self._calls.values():
            if call.place.output_index not in self._ended and call.is_whole:
                told += self._end(call, "completed")
        return told

    def _place(self, prefix: str) -> Place:
        return Place(item_id=self._new_id(prefix), output_index=len(self._parts))

    def _opened(self, part: Part) -> bytes:
        self._parts.append(part)
        return part.open(self._sink)

    def _end(self, part: Part, status: ItemStatus) -> bytes:
        self._ended[part.place.output_index] = status
        return part.close(self._sink, status)


def _joined(earlier: ToolCallDelta | None, delta: ToolCallDelta) -> ToolCallDelta:
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
_REASONS = {Finish.LENGTH: "max_output_tokens", Finish.CONTENT_FILTER: "content_filter"}


class Encoder:
    """One response. Every method returns bytes to send; `response` is the object, as far as it is made."""

    def __init__(
        self, begun: Response, manner: Manner, new_id: NewId, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._response = begun
        self._clock = clock
        self._sink = Sink()
        self._output = Output(self._sink, manner, new_id)
        self._has_begun = False

    @property
    def is_over(self) -> bool:
        """Tell whether the response has ended."""
        return self._response.status != "in_progress"

    @property
    def response(self) -> Response:
        """The response with what was written so far."""
        if self.is_over:
            return self._response
        return msgspec.structs.replace(self._response, output=self._output.items("in_progress"))

    def begin(self) -> bytes:
        """Open the stream, if it is not open yet."""
        if self._has_begun:
            return b""
        self._has_begun = True
        begun = msgspec.Raw(msgspec.json.encode(self._response))
        told = ("response.created", "response.in_progress")
        return b"".join(self._sink.event(kind, response=begun) for kind in told)

    def trimmed(self, messages: int) -> None:
        """Note that so many of the oldest messages were left out."""
        self._response = msgspec.structs.replace(self._response, roundhouse=Trimmed(dropped_messages=messages))

    def take(self, event: Event) -> bytes:
        """Encode the next event. Nothing comes after `Finished` and `Failed`."""
        if self.is_over:
            return b""
        return self.begin() + self._taken(event)

    def cancel(self) -> None:
        """End a response that nobody encodes any more, and of which nobody is told."""
        if not self.is_over:
            self._response = msgspec.structs.replace(
                self._response, status="cancelled", output=self._output.items("incomplete")
            )

    def _taken(self, event: Event) -> bytes:
        match event:
            case TextDelta():
                return self._output.say(event)
            case ReasoningDelta():
                return self._output.think(event)
            case ToolCallDelta():
                return self._output.call(event)
            case Finished():
                return self._finish(event)
            case Failed():
                return self._fail(event)
            case _:
                return b""

    def _finish(self, end: Finished) -> bytes:
        reason = _REASONS.get(end.reason)
        told = self._output.finish(is_cut=reason is not None)
        status: Literal["completed", "incomplete"] = "incomplete" if reason else "completed"
        self._response = msgspec.structs.replace(
            self._response,
            status=status,
            completed_at=None if reason else int(self._clock()),
            incomplete_details=Incomplete(reason) if reason else None,
            usage=used(end.usage, thoughts=self._output.thoughts),
            output=self._output.items(status),
        )
        return told + self._sink.event(f"response.{status}", response=self._response)

    def _fail(self, failed: Failed) -> bytes:
        is_stopped = failed.error.code == STOPPED
        self._response = msgspec.structs.replace(
            self._response,
            status="cancelled" if is_stopped else "failed",
            error=_trouble(failed),
            output=self._output.items("incomplete"),
        )
        return self._sink.event("response.failed", response=self._response)


def _trouble(failed: Failed) -> Trouble:
    """Return the error; its code is OpenAI's where the mistake is not the caller's."""
    error = failed.error
    code = "server_error" if failed.status >= _SERVER_ERROR else error.code
    return Trouble(code=code, message=RESPONSES_DIALECT.words(error.text, failed.overflow))
