"""The items of a response while they are written: each opens, grows, and closes, and says so in typed events.

    reasoning   item added, part added, delta*, text done, part done, item done
    message     item added, part added, delta*, text done, part done, item done

Tool calls are in `calls`.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from app.gateway.canonical.events import TokenLogprob
from app.gateway.dialects.responses.input_items import ENCRYPTED
from app.gateway.dialects.responses.wire import (
    UNSET,
    ItemStatus,
    MessageItem,
    OutputItem,
    OutputText,
    ReasoningItem,
    Thought,
    TopLogprob,
    logprob,
)


class Sink:
    """Writes events, each with the next number."""

    def __init__(self) -> None:
        self._next = 0

    def event(self, kind: str, **fields: object) -> bytes:
        """Return one event."""
        data = {"type": kind, **fields, "sequence_number": self._number()}
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode(data))

    def delta(self, head: bytes, text: str) -> bytes:
        """Return an event that begins with `head` (see `delta_head`) and adds a piece of text, as most do."""
        return b'%b%b,"sequence_number":%d}\n\n' % (head, msgspec.json.encode(text), self._number())

    def _number(self) -> int:
        number = self._next
        self._next += 1
        return number


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where in the response an item stands."""

    item_id: str
    output_index: int


def delta_head(kind: str, place: Place, **fields: object) -> bytes:
    """Return how every delta of one part begins."""
    data = msgspec.json.encode({"type": kind, **msgspec.structs.asdict(place), **fields})
    return b'event: %b\ndata: %b,"delta":' % (kind.encode(), data[:-1])


class Part(Protocol):
    """One item being written."""

    place: Place

    def open(self, sink: Sink) -> bytes:
        """Return what announces it."""

    def close(self, sink: Sink, status: ItemStatus) -> bytes:
        """Return what ends it."""

    def item(self, status: ItemStatus) -> OutputItem:
        """Return it as far as it is written."""


class _Prose:
    """A text in pieces, within an item of one part."""

    _delta = ""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._pieces: list[str] = []
        self._head = delta_head(self._delta, place, **self._index(), **self._beside())

    @property
    def text(self) -> str:
        """What was said so far."""
        return "".join(self._pieces)

    def add(self, sink: Sink, text: str) -> bytes:
        """Return what adds a piece."""
        self._pieces.append(text)
        return sink.delta(self._head, text)

    def open(self, sink: Sink) -> bytes:
        """Return what announces the item and its part."""
        item = sink.event("response.output_item.added", output_index=self.place.output_index, item=self._empty())
        return item + self._event(sink, self._part_kind("added"), part=self._part())

    def close(self, sink: Sink, status: ItemStatus) -> bytes:
        """Return what ends the text, its part and the item."""
        done = self._event(sink, f"{self._delta.removesuffix('.delta')}.done", text=self.text, **self._beside())
        part = self._event(sink, self._part_kind("done"), part=self._part())
        item = self.item(status)
        return done + part + sink.event("response.output_item.done", output_index=self.place.output_index, item=item)

    def item(self, status: ItemStatus) -> OutputItem:
        """Return the item as far as it is written."""
        raise NotImplementedError

    def _event(self, sink: Sink, kind: str, **fields: object) -> bytes:
        return sink.event(kind, **msgspec.structs.asdict(self.place), **self._index(), **fields)

    def _empty(self) -> OutputItem:
        raise NotImplementedError

    def _part(self) -> object:
        raise NotImplementedError

    def _part_kind(self, step: str) -> str:
        return f"response.content_part.{step}"

    def _index(self) -> dict[str, object]:
        return {"content_index": 0}

    def _beside(self) -> dict[str, object]:
        return {}


class Message(_Prose):
    """What the model says."""

    _delta = "response.output_text.delta"

    def __init__(self, place: Place) -> None:
        self._logprobs: list[TopLogprob] = []
        super().__init__(place)

    def add_with_odds(self, sink: Sink, text: str, told: Sequence[TokenLogprob]) -> bytes:
        """Return what adds a piece whose tokens' odds are known."""
        odds = [logprob(one) for one in told]
        self._pieces.append(text)
        self._logprobs += odds
        return self._event(sink, self._delta, delta=text, logprobs=odds)

    def item(self, status: ItemStatus) -> OutputItem:
        """Return the item as far as it is written."""
        return MessageItem(id=self.place.item_id, status=status, content=[self._part()])

    def _empty(self) -> OutputItem:
        return MessageItem(id=self.place.item_id, status="in_progress", content=[])

    def _part(self) -> OutputText:
        return OutputText(text=self.text, logprobs=self._logprobs)

    def _beside(self) -> dict[str, object]:
        return {"logprobs": self._logprobs}


class Reasoning(_Prose):
    """What the model thinks."""

    _delta = "response.reasoning_text.delta"
    _type = "reasoning_text"

    def __init__(self, place: Place, *, is_sealed: bool) -> None:
        super().__init__(place)
        self._is_sealed = is_sealed

    def item(self, status: ItemStatus) -> OutputItem:
        """Return the item as far as it is written."""
        return self._made(status, content=[self._part()])

    def _made(
        self, status: ItemStatus, *, content: Sequence[Thought] = (), summary: Sequence[Thought] = ()
    ) -> ReasoningItem:
        sealed = ENCRYPTED + self.text if self._is_sealed else UNSET
        return ReasoningItem(
            id=self.place.item_id,
            status=status,
            summary=list(summary),
            content=list(content),
            encrypted_content=sealed,
        )

    def _empty(self) -> OutputItem:
        return self._made("in_progress")

    def _part(self) -> Thought:
        return Thought(self._type, self.text)


class Summary(Reasoning):
    """What the model thinks, told where most clients look for it."""

    _delta = "response.reasoning_summary_text.delta"
    _type = "summary_text"

    def item(self, status: ItemStatus) -> OutputItem:
        """Return the item as far as it is written."""
        return self._made(status, summary=[self._part()])

    def _part_kind(self, step: str) -> str:
        return f"response.reasoning_summary_part.{step}"

    def _index(self) -> dict[str, object]:
        return {"summary_index": 0}
