"""One answer by itself, as the transcript draws it and as tall as it is: what a coding agent says.

The page around it scrolls. The answer is one that is being written for good, so it has no actions and no line below it.
"""

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QGuiApplication, QWheelEvent
from PySide6.QtWidgets import QSizePolicy

from app.core.chats import Message, MessageStatus, Role
from app.core.translation import tr
from app.gui.screens.chat.transcript.transcript import Transcript
from app.gui.screens.chat.turns import LiveText, TurnView
from app.gui.theme.theme import Theme

_ID = "answer"
_LEAST_WIDTH = 240
_ROUNDS = 12
"""Layouts until heights stay: a code block that wraps changes what is below it."""


class AnswerView(Transcript):
    """A transcript of one answer, which grows at its end."""

    side = 0
    is_centred = False

    def __init__(self, theme: Theme) -> None:
        super().__init__(theme)
        self._text, self._live = "", LiveText()
        self.sticks = False
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(tr("Answer"))
        self.copy_requested.connect(lambda text: QGuiApplication.clipboard().setText(text))

    def show_markdown(self, text: str) -> None:
        """Show a text that may have grown; what has been drawn stays."""
        if text == self._text:
            return
        if text.startswith(self._text):
            self._live.content.append(text[len(self._text) :])
        else:
            self._live.content = [text]
            self._live.restarts += 1
        self._text = text
        status = MessageStatus.GENERATING
        message = Message(id=_ID, chat="", parent=None, role=Role.ASSISTANT, content=text, status=status)
        self.document.show_views([TurnView(message=message, live=self._live)])
        self.document.pull_answer(_ID)
        self.arrange()

    def plain_text(self) -> str:
        """Return what is read."""
        return "\n".join(box.text for turn in self.document.turns for box in turn.boxes if box.text)

    def arrange(self, y: float | None = None) -> None:
        """Lay all of it out; it is never scrolled."""
        del y
        for _ in range(_ROUNDS):
            if not self.document.lay_out_between(0, self.document.height):
                break
        self.updateGeometry()
        self.viewport().update()

    def ring_area(self, turn: int) -> QRectF:
        """Return what is outlined where the keys are: there is no room around it."""
        del turn
        return QRectF(self.viewport().rect()).adjusted(1, 1, -1, -1)

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802 -- Qt's name
        """Scroll code sideways; the page takes the rest."""
        if not self._mouse.handle_wheel(event):
            event.ignore()

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return the height of the text at this width, without the line that stands below answers in a chat."""
        turns = self.document.turns
        height = turns[0].stack.top_of(len(turns[0].boxes) - 1) if turns and turns[0].is_built else 0.0
        return QSize(self.theme.px(_LEAST_WIDTH), round(height))

    def minimumSizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return the same."""
        return self.sizeHint()
