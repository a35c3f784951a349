"""A question whose answer follows what is asked: asked after a short rest, one at a time, answered only while it holds.

Typing asks once, when it pauses. A question that changes while it is under way is taken back and asked anew, so that
an answer that arrives is always the answer to what is asked now.
"""

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from app.core.errors import ErrorBody
from app.gui.net.api import Call, Failed

REST_MS = 200
"""A pause in typing or stepping: shorter than one notices, longer than between two keys."""


Ask = Callable[[Any, Callable[[Any], object], Failed], Call]
"""Sends a question; exactly one of the callbacks is the answer."""


class LiveQuestion(QObject):
    """The owner of one question. `answered` carries the value, `refused` an `ErrorBody`."""

    answered = Signal(object)
    refused = Signal(object)
    waiting = Signal()
    """It began to wait, or no longer waits, for an answer."""

    def __init__(self, ask: Ask, parent: QObject) -> None:
        super().__init__(parent)
        self._ask = ask
        self._body: object = None
        self._call: Call | None = None
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._send)

    @property
    def is_waiting(self) -> bool:
        """Whether an answer to what is asked now is still to come."""
        return self._call is not None or self._timer.isActive()

    def put(self, body: object, *, rest_ms: int = REST_MS) -> None:
        """Ask `body`, instead of what was asked before, after a rest."""
        self._drop()
        self._body = body
        self._timer.start(rest_ms)
        self.waiting.emit()

    def put_now(self, body: object) -> None:
        """Ask without a rest: the words are complete."""
        self._drop()
        self._body = body
        self._send()
        self.waiting.emit()

    def forget(self) -> None:
        """Ask nothing; an answer under way is not heard."""
        self._drop()
        self.waiting.emit()

    def _send(self) -> None:
        self._call = self._ask(self._body, self._took, self._failed)

    def _drop(self) -> None:
        self._timer.stop()
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _took(self, value: object) -> None:
        self._call = None
        self.answered.emit(value)
        self.waiting.emit()

    def _failed(self, error: ErrorBody) -> None:
        self._call = None
        self.refused.emit(error)
        self.waiting.emit()
