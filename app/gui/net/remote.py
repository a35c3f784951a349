"""One thing the gateway knows, kept up to date here: read on every connection, and again when an event says so.

A store has at most one request under way. Whoever asks for another meanwhile has it sent once more after that, however
many ask; and events that arrive together send one. So a change costs one request, and no old answer outlives a new one.
"""

from typing import Generic, TypeVar

from PySide6.QtCore import QObject, Signal

from app.core.errors import ErrorBody
from app.core.events import Event
from app.gui.net.api import GatewayApi, GatewayCall
from app.gui.shell.contract import Shell

T = TypeVar("T")


class RemoteStore(QObject, Generic[T]):
    """One value, `is_known` once it has been read. A failed read keeps what was there; `error` says why it failed.

    A subclass says what an event means: that the value has to be read again, or what the value is now.
    """

    changed = Signal()

    def __init__(self, api: GatewayApi, shell: Shell, path: str, kind: type[T]) -> None:
        super().__init__(shell)
        self.api = api
        self.value: T | None = None
        self.error: ErrorBody | None = None
        self._path, self._kind = path, kind
        self._call: GatewayCall | None = None
        self._is_due = False
        """Whether it has to be read (again)."""
        self._overtaking_events: list[Event] = []
        """Events that came while an answer was under way, which may not know of them."""
        shell.connected.connect(self.read_anew)
        shell.event_received.connect(self.take)
        if shell.is_connected:
            self.read_anew()

    @property
    def is_known(self) -> bool:
        """Whether it has been read or told."""
        return self.value is not None

    def is_outdated_by(self, event: Event) -> bool:
        """Tell whether the value has to be read again after an event."""
        del event
        return False

    def apply(self, event: Event) -> None:
        """Take over what an event says of the value itself."""

    def read(self) -> None:
        """Fetch the value now, or once more if an answer is under way."""
        self._is_due = True
        if self._call is None:
            self._send()

    def refresh(self) -> None:
        """Fetch the value once everybody was heard who wants that now."""
        self._is_due = True
        self.api.defer(self, self._read_if_due)

    def read_anew(self) -> None:
        """Fetch the value from a gateway that may be another: an answer under way is not waited for."""
        if self._call is not None:
            self._call.cancel()
            self._call = None
        self.read()

    def replace(self, value: T) -> None:
        """Take a value as the present one."""
        self.value, self.error = value, None
        self.changed.emit()

    def take(self, event: Event) -> None:
        """Act on an event of the gateway."""
        if self.is_outdated_by(event):
            self.refresh()
            return
        if self._call is not None:
            self._overtaking_events.append(event)
        self.apply(event)

    def _read_if_due(self) -> None:
        if self._is_due and self._call is None:
            self._send()

    def _send(self) -> None:
        self._is_due = False
        self._overtaking_events.clear()
        self._call = self._ask()

    def _ask(self) -> GatewayCall:
        return self.api.get(self._path, self._kind, self._take_answer, self._store_error)

    def _take_answer(self, value: T) -> None:
        self._call = None
        overtaking_items, self._overtaking_events = self._overtaking_events, []
        self.replace(value)
        for event in overtaking_items:
            self.apply(event)
        self._read_if_due()

    def _store_error(self, error: ErrorBody) -> None:
        self._call, self.error = None, error
        self.changed.emit()
        self._read_if_due()


class RemoteList(RemoteStore[list[T]]):
    """A list; nothing is in it before it was read."""

    @property
    def items(self) -> list[T]:
        """What is in it."""
        return self.value if self.value is not None else []
