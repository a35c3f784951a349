"""Keeps the window linked to a gateway: finds the running one, starts one, and does so again when it dies.

    searching ── answers ──> linked ── stream ends ──> searching
        │                                                  │
        └── nobody there ──> starting ── gives up ──> lost ┘ (a timer looks again; `start()` starts one)

A gateway that leaves and takes its port file with it was stopped on purpose: it is not started again unasked.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from types import NoneType
from typing import Protocol

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal

from app.client.discovery import last_words, read_port_file, spawn_gateway
from app.config.paths import Paths
from app.core.api import EXIT_ALREADY_RUNNING, PortFile, Status
from app.core.errors import ErrorBody
from app.core.events import Event
from app.gui.net.api import Call, GatewayApi

_POLL_MS = 60
_LOOK_AGAIN_MS = 1000
_ANSWER_LIMIT_S = 3.0
"""A port file may name a port that something silent has taken since."""
_START_LIMIT_S = 20.0
_RESTARTS = 3
"""Starts within `_RESTART_WINDOW_S` after which a dying gateway is left alone."""
_RESTART_WINDOW_S = 60.0

STOPPED = ErrorBody(code="gateway_stopped", sentence="Roundhouse's service was stopped.", hint="Start it to continue.")
SLOW = ErrorBody(
    code="gateway_slow", sentence="Roundhouse's service has not answered yet.", hint="See its log for what it is doing."
)


class Child(Protocol):
    """As much of `subprocess.Popen` as is needed here."""

    def poll(self) -> int | None:
        """Return the exit code once it has ended."""

    def terminate(self) -> None:
        """Ask it to end."""


@dataclass(frozen=True, slots=True)
class Finder:
    """How to find and start a gateway; replaced in tests."""

    read: Callable[[], PortFile | None]
    spawn: Callable[[], Child]
    last_words: Callable[[], str]


def finder(paths: Paths) -> Finder:
    """Return the real one."""
    return Finder(
        read=lambda: read_port_file(paths.port_file),
        spawn=lambda: spawn_gateway(paths),
        last_words=lambda: last_words(paths),
    )


class LinkState(StrEnum):
    """How things stand with the gateway."""

    SEARCHING = "searching"
    STARTING = "starting"
    LINKED = "linked"
    LOST = "lost"


class GatewayLink(QObject):
    """The owner of the window's link. Call `open()` once."""

    connected = Signal(object)
    """`Status` of the gateway that answers now."""
    lost = Signal(object)
    """`ErrorBody`: why there is none."""
    happened = Signal(object)
    """`core.events.Event`."""

    def __init__(self, api: GatewayApi, find: Finder, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.state = LinkState.SEARCHING
        self._api = api
        self._find = find
        self._child: Child | None = None
        self._asking: Call | None = None
        self._events: Call | None = None
        self._asked_at = 0.0
        self._leaving: int | None = None
        self._ours: int | None = None
        """The process that answered after a start from here."""
        self._starts: list[float] = []
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._look)

    @property
    def started_here(self) -> bool:
        """Whether the gateway that answers now is the one this window started."""
        found = self._api.gateway
        return self.state is LinkState.LINKED and found is not None and found.pid == self._ours

    @property
    def own_service(self) -> int | None:
        """The process of the gateway that this window started, if it answers now."""
        return self._ours if self.started_here else None

    def adopt(self, service: int | None) -> None:
        """Take a gateway for one that was started here: the window before this one started it."""
        self._ours = service

    def open(self) -> None:
        """Begin; returns at once."""
        self._search()

    def start(self) -> None:
        """Start a gateway if none answers: what the button does."""
        self._starts.clear()
        self._search()

    def restart(self) -> None:
        """Ask the running gateway to end and start another when it has."""
        if self.state is LinkState.LINKED:
            self._drop_events()
            self._api.post("/shutdown", None, kind=NoneType, then=lambda _: None, failed=lambda _: None)
            self._leaving = self._api.gateway.pid if self._api.gateway else None
        self._starts.clear()
        self.state = LinkState.STARTING
        self._child = None
        self._timer.start(_POLL_MS)

    def close(self) -> None:
        """Stop looking and listening; the gateway is left alone."""
        self._timer.stop()
        self._drop_events()
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    def abandon(self) -> None:
        """End a gateway that was started from here and has not answered yet: nobody else knows of it."""
        if self.state is LinkState.STARTING and self._child is not None and self._child.poll() is None:
            self._child.terminate()

    def _search(self) -> None:
        self.state = LinkState.SEARCHING
        self._timer.start(_POLL_MS)
        self._look()

    def _look(self) -> None:
        if self._asking is not None:
            if time.monotonic() - self._asked_at < _ANSWER_LIMIT_S:
                return
            self._asking.cancel()
        found = self._find.read()
        if found is not None and found.pid == self._leaving:
            return
        self._leaving = None
        if found is None:
            self._refused(SLOW)
            return
        self._api.gateway = found
        self._asked_at = time.monotonic()
        self._asking = self._api.get("/status", Status, self._answered, self._refused)

    def _answered(self, status: Status) -> None:
        if self._api.gateway is None or status.pid != self._api.gateway.pid:
            self._refused(SLOW)
            return
        self._asking = None
        self._timer.stop()
        if self.state is LinkState.STARTING and self._child is not None and self._child.poll() is None:
            self._ours = status.pid
        self.state = LinkState.LINKED
        self._events = self._api.stream("/events", Event, self.happened.emit, self._ended)
        self.connected.emit(status)

    def _refused(self, _error: ErrorBody) -> None:
        self._asking = None
        self._nobody()

    def _nobody(self) -> None:
        if self.state is LinkState.SEARCHING:
            self._begin_start()
        elif self.state is LinkState.STARTING:
            self._watch_start()

    def _begin_start(self) -> None:
        now = time.monotonic()
        self._starts = [at for at in self._starts if now - at < _RESTART_WINDOW_S]
        if len(self._starts) >= _RESTARTS:
            self._give_up(self._died())
            return
        self._starts.append(now)
        self.state = LinkState.STARTING
        self._timer.start(_POLL_MS)
        try:
            self._child = self._find.spawn()
        except OSError as error:
            self._give_up(
                ErrorBody(code="gateway_start", sentence="Roundhouse's service cannot be started.", detail=str(error))
            )

    def _watch_start(self) -> None:
        if self._child is None:
            self._begin_start()
        elif self._child.poll() not in {None, EXIT_ALREADY_RUNNING}:  # one that lost the race leaves a winner
            self._give_up(self._died())
        elif time.monotonic() - self._starts[-1] > _START_LIMIT_S:
            self._give_up(msgspec.structs.replace(SLOW, detail=self._find.last_words()))

    def _died(self) -> ErrorBody:
        return ErrorBody(
            code="gateway_start",
            sentence="Roundhouse's service ended while it was starting.",
            hint="Start it again; if it ends again, the last lines of its log below say why.",
            detail=self._find.last_words(),
        )

    def _ended(self, _error: ErrorBody | None) -> None:
        self._events = None
        self._child = None
        if self._find.read() is None:
            self._give_up(STOPPED)
        else:
            self._search()

    def _give_up(self, error: ErrorBody) -> None:
        self.state = LinkState.LOST
        self.lost.emit(error)
        self._timer.start(_LOOK_AGAIN_MS)

    def _drop_events(self) -> None:
        if self._events is not None:
            self._events.cancel()
            self._events = None
