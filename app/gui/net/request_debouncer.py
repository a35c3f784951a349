"""A question whose answer follows what is asked: asked after a short rest, one at a time, answered only while it holds.

Typing asks once, when it pauses. A question that changes while it is under way is taken back and asked anew, so that
an answer that arrives is always the answer to what is asked now.
"""

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from app.core.errors import ErrorBody
from app.gui.net.api import ErrorHandler, GatewayCall

REST_MS = 200
"""A pause in typing or stepping: shorter than one notices, longer than between two keys."""


RequestSender = Callable[[Any, Callable[[Any], object], ErrorHandler], GatewayCall]
"""Sends a question; exactly one of the callbacks is the answer."""


class RequestDebouncer(QObject):
    """The owner of one question. `answered` carries the value, `refused` an `ErrorBody`."""

    answered = Signal(object)
    refused = Signal(object)
    waiting_changed = Signal()
    """It began to wait, or no longer waits, for an answer."""

    def __init__(self, ask: RequestSender, parent: QObject) -> None:
        super().__init__(parent)
        self._ask = ask
        self._body: object = None
        self._call: GatewayCall | None = None
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._send_body)

    @property
    def is_waiting(self) -> bool:
        """Whether an answer to what is asked now is still to come."""
        return self._call is not None or self._timer.isActive()

    def send_later(self, body: object, *, rest_ms: int = REST_MS) -> None:
        """Ask `body`, instead of what was asked before, after a rest."""
        self._drop_call()
        self._body = body
        self._timer.start(rest_ms)
        self.waiting_changed.emit()

    def send_now(self, body: object) -> None:
        """Ask without a rest: the words are complete."""
        self._drop_call()
        self._body = body
        self._send_body()
        self.waiting_changed.emit()

    def cancel_request(self) -> None:
        """Ask nothing; an answer under way is not heard."""
        self._drop_call()
        self.waiting_changed.emit()

    def _send_body(self) -> None:
        self._call = self._ask(self._body, self._handle_answer, self._handle_error)

    def _drop_call(self) -> None:
        self._timer.stop()
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _handle_answer(self, value: object) -> None:
        self._call = None
        self.answered.emit(value)
        self.waiting_changed.emit()

    def _handle_error(self, error: ErrorBody) -> None:
        self._call = None
        self.refused.emit(error)
        self.waiting_changed.emit()
