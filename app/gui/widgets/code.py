"""A block of text to be read closely and copied: a snippet, a log."""

from collections.abc import Callable

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QPlainTextEdit, QSizePolicy

from app.core.translation import tr
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import Radius
from app.gui.widgets.buttons import IconButton
from app.gui.widgets.layout import HBox, Surface, VBox

_LAST_LINES = 5000
_DIFF_COLOURS = {"+": "ok", "-": "bad", "@": "ink-3"}
_MOST_DIFF_LINES = 18


class Verbatim(QPlainTextEdit):
    """Read-only text in the monospaced face."""

    def __init__(self, theme: Theme, name: str) -> None:
        super().__init__()
        self._theme = theme
        self.setReadOnly(True)
        self.setAccessibleName(name)
        self.setFrameShape(QPlainTextEdit.Shape.NoFrame)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.setTabChangesFocus(True)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        theme.changed.connect(self._restyle)
        self._restyle()

    def _restyle(self) -> None:
        self.setFont(self._theme.font("mono"))
        self.document().setDocumentMargin(0)
        self.updateGeometry()


class Snippet(Surface):
    """A few lines of code with a button that copies them; as tall as its text."""

    def __init__(self, theme: Theme, name: str, copy: Callable[[str], object]) -> None:
        super().__init__(theme, fill="sunken", outline="", radius=Radius.CARD)
        self._text = _SnippetText(theme, name)
        line = HBox(theme, self, margins=(16, 12, 12, 4))
        line.addWidget(self._text, 1)
        button = IconButton(
            theme, "copy", tr("Copy: {name}", name=name), action=lambda: copy(self._text.toPlainText()), size=24
        )
        line.addWidget(button, 0, Qt.AlignmentFlag.AlignTop)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def set_text(self, text: str) -> None:
        """Show other lines; the same lines keep the selection."""
        if text != self._text.toPlainText():
            self._text.setPlainText(text)
            self._text.updateGeometry()


class _SnippetText(Verbatim):
    """As tall as its lines, with room for the horizontal scroll bar that long ones bring."""

    def __init__(self, theme: Theme, name: str) -> None:
        super().__init__(theme, name)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        lines = max(1, self.blockCount())
        return QSize(self._theme.px(240), QFontMetrics(self.font()).lineSpacing() * lines + self._theme.px(14))

    def minimumSizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        return self.sizeHint()


class LogView(Verbatim):
    """Lines that are added at the end; it follows them only while the reader is at the end."""

    def __init__(self, theme: Theme, name: str) -> None:
        super().__init__(theme, name)
        self.setMaximumBlockCount(_LAST_LINES)

    def add_lines(self, lines: list[tuple[str, str]]) -> None:
        """Append lines, each with its colour in the table."""
        bar = self.verticalScrollBar()
        is_at_end = bar.value() >= bar.maximum() - 1
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.beginEditBlock()
        for text, color in lines:
            if not self.document().isEmpty():
                cursor.insertBlock()
            cursor.insertText(text, _color_format(self._theme.color(color)))
        cursor.endEditBlock()
        if is_at_end:
            bar.setValue(bar.maximum())


def _color_format(color: QColor) -> QTextCharFormat:
    format_ = QTextCharFormat()
    format_.setForeground(color)
    return format_


class DiffView(Surface):
    """A unified diff in the colours of what comes and goes; as tall as it is, up to a height."""

    def __init__(self, theme: Theme, name: str) -> None:
        super().__init__(theme, fill="sunken", outline="")
        self._theme, self._text = theme, ""
        self._view = LogView(theme, name)
        VBox(theme, self, margins=(16, 12, 8, 8)).addWidget(self._view)
        theme.changed.connect(self._fill_view)
        self.hide()

    def show_difference(self, text: str) -> None:
        """Show other lines; hidden while there are none."""
        if text != self._text:
            self._text = text
            self._fill_view()
        self.setVisible(bool(text))

    def _fill_view(self) -> None:
        lines = self._text.splitlines()[2:]  # without the two that name the file: the row does
        self._view.clear()
        self._view.add_lines([(line, _DIFF_COLOURS.get(line[:1], "ink-2")) for line in lines])
        # The layout knows how tall a line is; the font's own figure is less where a letter comes from another font.
        document = self._view.document()
        line_height = document.documentLayout().blockBoundingRect(document.firstBlock()).height()
        self._view.setFixedHeight(round(line_height * min(len(lines), _MOST_DIFF_LINES)) + self._theme.px(16))
        self.updateGeometry()
        self._view.verticalScrollBar().setValue(0)
        is_cut = len(lines) > _MOST_DIFF_LINES
        policy = Qt.ScrollBarPolicy.ScrollBarAsNeeded if is_cut else Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        self._view.setVerticalScrollBarPolicy(policy)
