"""One publisher, many listeners, and no listener can hold the publisher up.

Every subscriber owns a bounded queue. Events say what changed whole (`core.events`), so a newer one replaces an older
one about the same thing; log lines are shed oldest first; a subscriber that is still too far behind is dropped, which
ends its iteration: the client reconnects and reads the present state. All of it belongs to the event loop's thread.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from types import TracebackType
from typing import Any, Self

from app.core.events import (
    AgentSessionsChanged,
    ChatChanged,
    ChatFoldersChanged,
    CollectionsChanged,
    ConnectionChanged,
    DownloadChanged,
    DownloadRemoved,
    EngineChanged,
    EngineJobChanged,
    EnginesChanged,
    Event,
    FleetsChanged,
    LibraryJobChanged,
    LogLine,
    MachinesChanged,
    ModelsChanged,
    ProfilesChanged,
    RequestChanged,
    SettingChanged,
    UpdateJobChanged,
    UpdatesChanged,
)

QUEUE_LIMIT = 512
"""Events kept per subscriber: minutes of engine changes, or a burst of log lines, in well under a megabyte."""


class Subscription:
    """One listener's queue: `with hub.subscribe() as events: async for event in events`. Ends when it was dropped."""

    def __init__(self, hub: "EventHub", *, logs: bool = False, kinds: tuple[type[Event], ...] = (), limit: int) -> None:
        self._hub = hub
        self._wants_logs = logs
        self.kinds = kinds
        """What it hears; without any it hears everything, as those do who are told what happens here."""
        self._limit = limit
        self._pending_events: dict[Hashable, Event] = {}
        self._arrival = asyncio.Event()
        self._serial = 0
        self.is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            while self._pending_events:
                yield self._pending_events.pop(next(iter(self._pending_events)))
            if self.is_closed:
                return
            self._arrival.clear()
            await self._arrival.wait()

    def close(self) -> None:
        """Stop listening; what is still queued can be read."""
        self.is_closed = True
        self._hub.forget(self)
        self._arrival.set()

    def offer(self, event: Event) -> None:
        """Queue an event, replacing what it outdates. Never blocks; drops this subscriber when it is too far behind."""
        is_wanted = isinstance(event, self.kinds) if self.kinds else self._wants_logs or not isinstance(event, LogLine)
        if not is_wanted:
            return
        self._serial += 1
        subject = _subject(event, self._serial)
        self._pending_events.pop(subject, None)
        self._pending_events[subject] = event
        self._arrival.set()
        if len(self._pending_events) > self._limit and not self._shed_log_line():
            self._pending_events.clear()
            self.close()

    def _shed_log_line(self) -> bool:
        oldest = next((key for key, event in self._pending_events.items() if isinstance(event, LogLine)), None)
        return oldest is not None and self._pending_events.pop(oldest, None) is not None


class EventHub:
    """Hands every event to every subscriber."""

    def __init__(self, limit: int = QUEUE_LIMIT) -> None:
        self._limit = limit
        self._subscribers: set[Subscription] = set()
        self.revision = 0
        """Rises with every event after which a model's name may mean something else."""

    @property
    def has_listeners(self) -> bool:
        """Whether anybody is told what happens: what is made only to be told need not be made."""
        return any(not subscriber.kinds for subscriber in self._subscribers)

    def publish(self, event: Event) -> None:
        """Offer `event` to everybody. Returns at once."""
        self.revision += isinstance(event, (ModelsChanged, SettingChanged, EnginesChanged, ProfilesChanged))
        for subscriber in tuple(self._subscribers):
            subscriber.offer(event)

    def subscribe(self, *, logs: bool = False) -> Subscription:
        """Start listening from now on; `logs` includes the engines' log lines."""
        return self._add(Subscription(self, logs=logs, limit=self._limit))

    def watch(self, *kinds: type[Event]) -> Subscription:
        """Start listening to events of these kinds for work of the gateway itself, which is told nothing else."""
        return self._add(Subscription(self, kinds=kinds, limit=self._limit))

    def _add(self, subscription: Subscription) -> Subscription:
        self._subscribers.add(subscription)
        return subscription

    def forget(self, subscription: Subscription) -> None:
        """Stop offering to `subscription`."""
        self._subscribers.discard(subscription)

    def close(self) -> None:
        """End every subscriber's iteration, so that their connections close."""
        for subscriber in tuple(self._subscribers):
            subscriber.close()


_SUBJECTS: Mapping[type, Callable[[Any], Hashable]] = {
    EngineChanged: lambda event: event.status.model,
    ModelsChanged: lambda _event: "",
    ChatChanged: lambda event: event.chat,
    ChatFoldersChanged: lambda _event: "",
    CollectionsChanged: lambda _event: "",
    ProfilesChanged: lambda _event: "",
    FleetsChanged: lambda _event: "",
    MachinesChanged: lambda _event: "",
    AgentSessionsChanged: lambda _event: "",
    SettingChanged: lambda event: event.name,
    EnginesChanged: lambda event: event.engine,
    EngineJobChanged: lambda event: event.job.id,
    DownloadChanged: lambda event: event.download.id,
    DownloadRemoved: lambda event: event.id,
    LibraryJobChanged: lambda event: event.job.id,
    UpdatesChanged: lambda _event: "",
    UpdateJobChanged: lambda event: event.job.id,
    RequestChanged: lambda event: event.request.id,
    ConnectionChanged: lambda event: event.connection.id,
}
"""What an event is about, where a newer one makes an older one worthless."""


def _subject(event: Event, serial: int) -> Hashable:
    """Name what the event is about, or something unique."""
    about = _SUBJECTS.get(type(event))
    return serial if about is None else (type(event), about(event))
