"""Ctrl-C in the terminal, and being asked to end, close the window in good order.

Qt's event loop never lets Python's signal handlers run; a byte that the interpreter writes to a socket does.
"""

import signal
import socket
from collections.abc import Callable

from PySide6.QtCore import QObject, QSocketNotifier

_ENDS = (signal.SIGINT, signal.SIGTERM)


class Interrupts(QObject):
    """Calls `then` in the event loop when this process is asked to end. Make one, in the main thread."""

    def __init__(self, then: Callable[[], object], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._then = then
        self._receiver, self._sender = socket.socketpair()
        for end in (self._receiver, self._sender):
            end.settimeout(0)
        self._before = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        self._handlers = {number: signal.signal(number, lambda *_: None) for number in _ENDS}
        self._notifier = QSocketNotifier(self._receiver.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._read_signals)

    def close(self) -> None:
        """Put everything back as it was."""
        self._notifier.setEnabled(False)
        signal.set_wakeup_fd(self._before)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._receiver.close()
        self._sender.close()

    def _read_signals(self) -> None:
        received = self._receiver.recv(64)
        if any(number in received for number in _ENDS):
            self._then()
