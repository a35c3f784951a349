"""A whole answer is its stream, folded: what streaming sends piece by piece, every dialect can also send at once."""

from collections.abc import Iterable

import msgspec

from app.gateway.canonical.events import Event, Failed, Finished, ReasoningDelta, TextDelta, TokenLogprob, ToolCallDelta
from app.gateway.canonical.request import ToolCall


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A whole answer. `end` is None if the stream just stopped."""

    text: str = ""
    thinking: str = ""
    calls: tuple[ToolCall, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    end: Finished | Failed | None = None


class Calls:
    """Tool calls that arrive in pieces."""

    def __init__(self) -> None:
        self._calls: dict[int, ToolCall] = {}

    def add(self, delta: ToolCallDelta) -> None:
        """Take the next piece."""
        known = self._calls.get(delta.index)
        if known is None:
            self._calls[delta.index] = ToolCall(id=delta.id, name=delta.name, arguments=delta.arguments)
            return
        self._calls[delta.index] = ToolCall(
            id=known.id or delta.id, name=known.name or delta.name, arguments=known.arguments + delta.arguments
        )

    def all(self) -> tuple[ToolCall, ...]:
        """Return what has arrived, in the model's order."""
        return tuple(call for _, call in sorted(self._calls.items()))


def fold(events: Iterable[Event]) -> Answer:
    """Return the whole answer. What comes after its end does not count."""
    text: list[str] = []
    thinking: list[str] = []
    logprobs: list[TokenLogprob] = []
    calls, end = Calls(), None
    for event in events:
        match event:
            case TextDelta():
                text.append(event.text)
                logprobs += event.logprobs
            case ReasoningDelta():
                thinking.append(event.text)
            case ToolCallDelta():
                calls.add(event)
            case Finished() | Failed():
                end = event
                break
            case _:
                pass
    return Answer(text="".join(text), thinking="".join(thinking), calls=calls.all(), logprobs=tuple(logprobs), end=end)
