"""Who takes the events of an engine's answer, and how an answer ends."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
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


class RoundsReceiver(EventReceiver, Protocol):
    """Who takes the events of several answers in a row, and what a dialect says between them."""

    def write_between(self, data: bytes) -> ReadFlow:
        """Take what a dialect says; before the first answer has begun it waits for that."""

    def keep_alive(self) -> AbstractAsyncContextManager[None]:
        """Keep the client from giving up while something else than an engine is waited for."""


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
