"""A field for several lines of text."""

from PySide6.QtCore import Signal
from PySide6.QtGui import QFocusEvent, QFont, QTextOption
from PySide6.QtWidgets import QPlainTextEdit

from app.gui.theme.theme import Theme


class PromptField(QPlainTextEdit):
    """Several lines of text; `focus_left` when the keyboard goes elsewhere."""

    focus_left = Signal()

    def __init__(self, theme: Theme, name: str, *, height: int, role: str = "body") -> None:
        super().__init__()
        self._theme, self._height, self._role = theme, height, role
        self.setAccessibleName(name)
        self.setProperty("field", True)  # noqa: FBT003 -- Qt's property
        self.setTabChangesFocus(True)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        theme.changed.connect(self._restyle)
        self._restyle()

    def set_text(self, text: str) -> None:
        """Show another text, unless one is being typed."""
        if not self.hasFocus() and text != self.toPlainText():
            self.setPlainText(text)

    def set_wrong(self, is_wrong: bool) -> None:  # noqa: FBT001 -- a setter of one flag
        """Outline the field as wrong, or not."""
        if bool(self.property("wrong")) != is_wrong:
            self.setProperty("wrong", is_wrong)
            self.style().unpolish(self)
            self.style().polish(self)

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802 -- Qt's name
        """Tell that the reader is done."""
        super().focusOutEvent(event)
        self.focus_left.emit()

    def _restyle(self) -> None:
        set_text_font(self, self._theme.font(self._role))
        self.document().setDocumentMargin(self._theme.px(6))
        self.setFixedHeight(self._theme.px(self._height))


def set_text_font(field: QPlainTextEdit, font: QFont) -> None:
    """Set the font of a field with its placeholder, which Qt draws in that of the viewport.

    Once a style sheet was set for the application, a viewport no longer follows its field.
    """
    field.setFont(font)
    field.viewport().setFont(font)
