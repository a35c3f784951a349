"""The output of a response, item by item, as events go by.

An item ends before the next one begins. A call whose arguments are not yet an object stays open, since an engine may
still go on with it. A call nobody named yet waits, since what its tool is to the client decides how it is told; a
shell's waits for the end, since it is nothing without its command.
"""

import msgspec

from app.gateway.canonical.events import ReasoningDelta, TextDelta, ToolCallDelta
from app.gateway.dialects.responses.calls import Call
from app.gateway.dialects.responses.input_items import NewId
from app.gateway.dialects.responses.output_items import Message, Part, Place, Reasoning, Sink, Summary
from app.gateway.dialects.responses.tools import Kind, Offer
from app.gateway.dialects.responses.wire import ItemStatus, OutputItem

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
