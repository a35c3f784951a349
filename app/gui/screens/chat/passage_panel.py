"""The card that opens a citation: the passage in the text it is from, marked, and the way to the file."""

from collections.abc import Callable

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QFrame, QTextEdit, QWidget

from app.client.http import quote_segment
from app.core.documents import AnswerSource, DocumentText
from app.core.errors import ErrorBody
from app.core.guide import MANUAL
from app.core.translation import tr
from app.gui.net.api import GatewayApi, GatewayCall
from app.gui.phrases import describe_passage_place
from app.gui.screens.chat.options import OptionsPanel
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook

_AROUND = 4000
"""Characters shown before and after a passage."""
_HEIGHT = 260
_HEAD = 56


class PassagePanel(OptionsPanel):
    """Shows one passage that an answer was given."""

    def __init__(self, theme: Theme, api: GatewayApi, close: Callable[[], object]) -> None:
        super().__init__(theme, tr("Passage"), "", close)
        self._api, self._path = api, ""
        self._call: GatewayCall | None = None
        self.text = QTextEdit()
        self.text.setReadOnly(True)
        self.text.setFrameShape(QFrame.Shape.NoFrame)
        self.text.setAccessibleName(tr("The passage in its document"))
        self.open = Button(theme, tr("Open file"), look=ButtonLook.QUIET, icon="external-link", action=self._open_file)
        self.tools.addWidget(self.open)
        self.box.addWidget(self.text)
        self._mark: tuple[int, int] = (0, 0)
        theme.changed.connect(self._restyle)
        self._restyle()

    @property
    def field(self) -> QWidget:
        """Where the keyboard begins."""
        return self.text

    def limit_height(self, height: int) -> None:
        """Scroll what is higher than this."""
        most = min(self.theme.px(_HEIGHT), max(self.theme.px(_HEAD), height - self.theme.px(_HEAD)))
        self.text.setFixedHeight(most)

    def show_source(self, source: AnswerSource) -> None:
        """Show a passage at once, then the text around it if that is still there."""
        if self._call is not None:
            self._call.cancel()
        self.quiet.setText(f"[{source.number}] {describe_passage_place(source)}")
        self._path = source.path if source.collection and source.collection != MANUAL else ""
        self.open.setVisible(bool(self._path))
        self._show_text(source.text, 0, len(source.text))
        if source.collection:
            path = f"/collections/{quote_segment(source.collection)}/files/{quote_segment(source.file)}/text"
            self._call = self._api.get(
                path, kind=DocumentText, then=lambda document: self._show_around(source, document.text),
                on_error=self._tell_gone,
            )  # fmt: skip
        else:
            path = f"/attachments/{quote_segment(source.file)}/content?part=text"
            self._call = self._api.get(
                path, kind=bytes, then=lambda content: self._show_around(source, content.decode("utf-8", "replace")),
                on_error=self._tell_gone,
            )  # fmt: skip

    def _show_around(self, source: AnswerSource, text: str) -> None:
        if text[source.start : source.end] != source.text:
            self.quiet.setText(tr("{place} · the file has changed since", place=self.quiet.text()))
            return
        first = max(0, source.start - _AROUND)
        self._show_text(text[first : source.end + _AROUND], source.start - first, source.end - first)

    def _tell_gone(self, error: ErrorBody) -> None:
        self.quiet.setText(f"{self.quiet.text()} · {error.sentence}")

    def _show_text(self, text: str, start: int, end: int) -> None:
        self.text.setPlainText(text)
        # Qt counts characters beyond the first plane twice.
        self._mark = (_utf16_length(text[:start]), _utf16_length(text[:end]))
        self._restyle()
        cursor = self.text.textCursor()
        cursor.setPosition(self._mark[0])
        self.text.setTextCursor(cursor)
        self.text.ensureCursorVisible()

    def _restyle(self) -> None:
        mark = QTextEdit.ExtraSelection()
        style = QTextCharFormat()
        style.setBackground(self.theme.color("accent-soft"))
        style.setForeground(self.theme.color("ink"))
        cursor = QTextCursor(self.text.document())
        cursor.setPosition(self._mark[0])
        cursor.setPosition(self._mark[1], QTextCursor.MoveMode.KeepAnchor)
        mark.cursor, mark.format = cursor, style
        self.text.setExtraSelections([mark])
        self.text.setFont(self.theme.font("body"))

    def _open_file(self) -> None:
        if self._path:
            QDesktopServices.openUrl(QUrl.fromLocalFile(self._path))


def _utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
