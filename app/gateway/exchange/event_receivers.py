"""Who takes the events of an engine's answer, and how an answer ends."""

from collections.abc import Sequence
from typing import Protocol

from app.gateway.canonical.events import AnswerFailed, AnswerFinished, Event
from app.gateway.exchange.connections import ReadFlow

End = AnswerFinished | AnswerFailed


class EventReceiver(Protocol):
    """Who takes an answer's events."""

    async def open(self) -> None:
        """Note that the engine has begun to answer."""

    def take_events(self, events: Sequence[Event]) -> ReadFlow:
        """Take what a piece of the answer says. Returns PAUSE where they come faster than they are taken."""

    async def drain(self) -> None:
        """Wait until there is room for more."""


class CollectingReceiver:
    """Keeps an answer's events until all are there."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    async def open(self) -> None:
        """Begin."""

    def take_events(self, events: Sequence[Event]) -> ReadFlow:
        """Keep them."""
        self.events += events
        return ReadFlow.MORE

    async def drain(self) -> None:
        """Go on."""
