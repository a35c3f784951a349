"""Keeps the window linked to a gateway: finds the running one, starts one, and does so again when it dies.

    searching ── answers ──> linked ── stream ends ──> searching
        │                                                  │
        └── nobody there ──> starting ── gives up ──> lost ┘ (a timer looks again; `start_gateway()` starts one)

A gateway that leaves and takes its port file with it was stopped on purpose: it is not started again unasked.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from types import NoneType
from typing import Protocol

from PySide6.QtCore import QObject, QTimer, Signal

from app.client.discovery import NO_ROOM, read_port_file, read_start_log_tail, spawn_gateway
from app.config.paths import Paths
from app.core.api import EXIT_ALREADY_RUNNING, EXIT_DISK_FULL, PortFile, Status
from app.core.errors import ErrorBody, is_disk_full
from app.core.events import Event
from app.core.translation import tr
from app.gui.net.api import GatewayApi, GatewayCall

_POLL_MS = 60
_LOOK_AGAIN_MS = 1000
_ANSWER_LIMIT_S = 3.0
"""A port file may name a port that something silent has taken since."""
_START_LIMIT_S = 20.0
_RESTARTS = 3
"""Starts within `_RESTART_WINDOW_S` after which a dying gateway is left alone."""
_RESTART_WINDOW_S = 60.0


class GatewayProcess(Protocol):
    """As much of `subprocess.Popen` as is needed here."""

    def poll(self) -> int | None:
        """Return the exit code once it has ended."""

    def terminate(self) -> None:
        """Ask it to end."""


@dataclass(frozen=True, slots=True)
class GatewayFinder:
    """How to find and start a gateway; replaced in tests."""

    read: Callable[[], PortFile | None]
    spawn: Callable[[], GatewayProcess]
    last_words: Callable[[], str]


def make_finder(paths: Paths) -> GatewayFinder:
    """Return the real one."""
    return GatewayFinder(
        read=lambda: read_port_file(paths.port_file),
        spawn=lambda: spawn_gateway(paths),
        last_words=lambda: read_start_log_tail(paths),
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
    disconnected = Signal(object)
    """`ErrorBody`: why there is none."""
    event_received = Signal(object)
    """`core.events.Event`."""

    def __init__(self, api: GatewayApi, find: GatewayFinder, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.state = LinkState.SEARCHING
        self._api = api
        self._find = find
        self._child: GatewayProcess | None = None
        self._status_call: GatewayCall | None = None
        self._events: GatewayCall | None = None
        self._call_started_at = 0.0
        self._leaving_pid: int | None = None
        self._ours: int | None = None
        """The process that answered after a start from here."""
        self._starts: list[float] = []
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._look_for_gateway)

    @property
    def is_own_gateway(self) -> bool:
        """Whether the gateway that answers now is the one this window started."""
        gateway = self._api.gateway
        return self.state is LinkState.LINKED and gateway is not None and gateway.pid == self._ours

    @property
    def own_service(self) -> int | None:
        """The process of the gateway that this window started, if it answers now."""
        return self._ours if self.is_own_gateway else None

    def adopt_service(self, service: int | None) -> None:
        """Take a gateway for one that was started here: the window before this one started it."""
        self._ours = service

    def open(self) -> None:
        """Begin; returns at once."""
        self._start_search()

    def start_gateway(self) -> None:
        """Start a gateway if none answers: what the button does."""
        self._starts.clear()
        self._start_search()

    def restart_gateway(self) -> None:
        """Ask the running gateway to end and start another when it has."""
        if self.state is LinkState.LINKED:
            self._drop_events()
            self._api.post("/shutdown", None, kind=NoneType, then=lambda _: None, on_error=lambda _: None)
            self._leaving_pid = self._api.gateway.pid if self._api.gateway else None
        self._starts.clear()
        self.state = LinkState.STARTING
        self._child = None
        self._timer.start(_POLL_MS)

    def close(self) -> None:
        """Stop looking and listening; the gateway is left alone."""
        self._timer.stop()
        self._drop_events()
        if self._status_call is not None:
            self._status_call.cancel()
            self._status_call = None

    def abandon_start(self) -> None:
        """End a gateway that was started from here and has not answered yet: nobody else knows of it."""
        if self.state is LinkState.STARTING and self._child is not None and self._child.poll() is None:
            self._child.terminate()

    def _start_search(self) -> None:
        self.state = LinkState.SEARCHING
        self._timer.start(_POLL_MS)
        self._look_for_gateway()

    def _look_for_gateway(self) -> None:
        if self._status_call is not None:
            if time.monotonic() - self._call_started_at < _ANSWER_LIMIT_S:
                return
            self._status_call.cancel()
        port_file = self._find.read()
        if port_file is not None and port_file.pid == self._leaving_pid:
            return
        self._leaving_pid = None
        if port_file is None:
            self._fail_attempt(_gateway_slow())
            return
        self._api.gateway = port_file
        self._call_started_at = time.monotonic()
        self._status_call = self._api.get("/status", Status, self._accept_status, self._fail_attempt)

    def _accept_status(self, status: Status) -> None:
        if self._api.gateway is None or status.pid != self._api.gateway.pid:
            self._fail_attempt(_gateway_slow())
            return
        self._status_call = None
        self._timer.stop()
        if self.state is LinkState.STARTING and self._child is not None and self._child.poll() is None:
            self._ours = status.pid
        self.state = LinkState.LINKED
        self._events = self._api.open_stream("/events", Event, self.event_received.emit, self._handle_stream_end)
        self.connected.emit(status)

    def _fail_attempt(self, _error: ErrorBody) -> None:
        self._status_call = None
        self._start_or_wait()

    def _start_or_wait(self) -> None:
        if self.state is LinkState.SEARCHING:
            self._begin_start()
        elif self.state is LinkState.STARTING:
            self._watch_start()

    def _begin_start(self) -> None:
        now = time.monotonic()
        self._starts = [at for at in self._starts if now - at < _RESTART_WINDOW_S]
        if len(self._starts) >= _RESTARTS:
            self._give_up(self._startup_error())
            return
        self._starts.append(now)
        self.state = LinkState.STARTING
        self._timer.start(_POLL_MS)
        try:
            self._child = self._find.spawn()
        except OSError as error:
            sentence = tr("Roundhouse's service cannot be started.")
            fault = ErrorBody(code="gateway_start", sentence=sentence, detail=str(error))
            self._give_up(NO_ROOM if is_disk_full(error) else fault)

    def _watch_start(self) -> None:
        if self._child is None:
            self._begin_start()
        elif self._child.poll() not in {None, EXIT_ALREADY_RUNNING}:  # one that lost the race leaves a winner
            self._give_up(self._startup_error())
        elif time.monotonic() - self._starts[-1] > _START_LIMIT_S:
            self._give_up(_gateway_slow(self._find.last_words()))

    def _startup_error(self) -> ErrorBody:
        if self._child is not None and self._child.poll() == EXIT_DISK_FULL:
            return NO_ROOM
        return ErrorBody(
            code="gateway_start",
            sentence=tr("Roundhouse's service ended while it was starting."),
            hint=tr("Start it again; if it ends again, the last lines of its log below say why."),
            detail=self._find.last_words(),
        )

    def _handle_stream_end(self, _error: ErrorBody | None) -> None:
        self._events = None
        self._child = None
        if self._find.read() is None:
            self._give_up(_gateway_stopped())
        else:
            self._start_search()

    def _give_up(self, error: ErrorBody) -> None:
        self.state = LinkState.LOST
        self.disconnected.emit(error)
        self._timer.start(_LOOK_AGAIN_MS)

    def _drop_events(self) -> None:
        if self._events is not None:
            self._events.cancel()
            self._events = None


def _gateway_slow(detail: str = "") -> ErrorBody:
    return ErrorBody(
        code="gateway_slow",
        sentence=tr("Roundhouse's service has not answered yet."),
        hint=tr("See its log for what it is doing."),
        detail=detail,
    )


def _gateway_stopped() -> ErrorBody:
    return ErrorBody(
        code="gateway_stopped",
        sentence=tr("Roundhouse's service was stopped."),
        hint=tr("Start it to continue."),
    )
