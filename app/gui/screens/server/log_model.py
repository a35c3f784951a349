"""The live log: what engines wrote, the newest at the end, filtered, and held still while paused."""

from collections import deque

from PySide6.QtCore import QObject, Signal

from app.core.errors import ErrorBody
from app.core.events import Event, LogLine
from app.gui.net.api import GatewayApi, GatewayCall
from app.gui.shell.contract import Shell

_KEPT = 5000
_TAIL = 500


class LogModel(QObject):
    """Listens only while it is looked at. `appended` carries new lines that fit; `replaced` means: show all anew."""

    appended = Signal(list)
    replaced = Signal()

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(shell)
        self._api, self._shell = api, shell
        self._lines: deque[LogLine] = deque(maxlen=_KEPT)
        self._held_lines: list[LogLine] = []
        self._filter = ""
        self._stream: GatewayCall | None = None
        self._is_watched = False
        self.is_paused = False
        shell.connected.connect(self._open_log)

    def start_watching(self) -> None:
        """Begin to listen."""
        self._is_watched = True
        self._open_log()

    def stop_watching(self) -> None:
        """Stop listening."""
        self._is_watched = False
        self._drop_stream()

    def visible_lines(self) -> list[LogLine]:
        """Return the lines that fit the filter."""
        return [line for line in self._lines if self._fits_filter(line)]

    def visible_text(self) -> str:
        """Return what is shown, to be copied."""
        return "\n".join(line.text for line in self.visible_lines())

    def set_filter(self, text: str) -> None:
        """Show only lines with `text` in them or in their model's name."""
        self._filter = text.casefold()
        self.replaced.emit()

    def set_paused(self, is_paused: bool) -> None:  # noqa: FBT001 -- a slot of a bool signal
        """Hold the view still, or let what came meanwhile in."""
        self.is_paused = is_paused
        if not is_paused:
            lines, self._held_lines = self._held_lines, []
            self._add_lines(lines)

    def _open_log(self) -> None:
        self._drop_stream()
        if not self._is_watched or not self._shell.is_connected:
            return
        self._api.get(f"/logs?tail={_TAIL}", list[LogLine], self._set_lines, lambda _error: None)
        self._stream = self._api.open_stream("/events?logs=1", Event, self._handle_event, self._forget_stream)

    def _set_lines(self, lines: list[LogLine]) -> None:
        self._lines = deque(sorted(lines, key=lambda line: line.at), maxlen=_KEPT)
        self.replaced.emit()

    def _handle_event(self, event: Event) -> None:
        if not isinstance(event, LogLine):
            return
        if self.is_paused:
            self._held_lines.append(event)
            del self._held_lines[:-_KEPT]
        else:
            self._add_lines([event])

    def _forget_stream(self, _error: ErrorBody | None) -> None:
        self._stream = None

    def _drop_stream(self) -> None:
        if self._stream is not None:
            self._stream.cancel()
            self._stream = None

    def _add_lines(self, lines: list[LogLine]) -> None:
        self._lines.extend(lines)
        fitting_lines = [line for line in lines if self._fits_filter(line)]
        if fitting_lines:
            self.appended.emit(fitting_lines)

    def _fits_filter(self, line: LogLine) -> bool:
        return self._filter in f"{line.model} {line.text}".casefold()
