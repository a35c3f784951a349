"""How many tokens the text in the composer is: estimated at once, and counted by the engine once nobody types.

Nothing waits for the count: each key costs an estimate, and one that is outdated is cancelled.
"""

from PySide6.QtCore import QObject, QTimer, Signal

from app.core.errors import ErrorBody
from app.core.tokens import LONGEST_COUNTED, CountText, TextTokens, estimate_text_tokens
from app.gui.net.api import GatewayApi, GatewayCall

_AFTER_MS = 400
"""Since the last key: between the words of somebody who types, nothing is asked."""


class DraftTokens(QObject):
    """`changed`: the text that was noted last is counted."""

    changed = Signal()

    def __init__(self, api: GatewayApi, parent: QObject) -> None:
        super().__init__(parent)
        self._api = api
        self._draft, self._model, self._counted_text = "", "", ""
        self._tokens = 0
        self._call: GatewayCall | None = None
        self._timer = QTimer(self, singleShot=True, interval=_AFTER_MS)
        self._timer.timeout.connect(self._ask)

    def note_draft(self, text: str, model: str, *, is_loaded: bool) -> None:
        """Have a text counted soon, if the model is there to count it."""
        text = text.strip()
        if (text, model) == (self._draft, self._model):
            return
        self._draft, self._model, self._counted_text = text, model, ""
        if self._call is not None:
            self._call.cancel()
            self._call = None
        if text and is_loaded and len(text) <= LONGEST_COUNTED:
            self._timer.start()
        else:
            self._timer.stop()

    def count(self, text: str) -> TextTokens:
        """Return the count of a text, or an estimate."""
        text = text.strip()
        if text and text == self._counted_text:
            return TextTokens(tokens=self._tokens, is_estimate=False)
        return TextTokens(tokens=estimate_text_tokens(text))

    def _ask(self) -> None:
        text = self._draft
        body = CountText(model=self._model, text=text)

        def take_count(count: TextTokens) -> None:
            self._call = None
            if text == self._draft and not count.is_estimate:
                self._counted_text, self._tokens = text, count.tokens
                self.changed.emit()

        self._call = self._api.post("/tokens", body, kind=TextTokens, then=take_count, on_error=self._forget_call)

    def _forget_call(self, _error: ErrorBody) -> None:
        """Leave it at the estimate."""
        self._call = None
