"""Where questions are typed: a field that grows with them, and the one button that sends or stops.

Return sends, Shift Return begins a line, Escape stops the answer. Typing is possible at all times.
"""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QKeySequence, QResizeEvent, QTextOption
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QSizePolicy, QWidget

from app.core.translation import tr
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import Radius
from app.gui.widgets.buttons import IconButton, RoundButton
from app.gui.widgets.layout import HBox, Surface, VBox
from app.gui.widgets.prompt_field import set_text_font
from app.gui.widgets.text import ElidedLabel, Label

_LONGEST_WORD = 2000
"""Characters without a space from which on lines are broken anywhere: Qt looks for the words of such a line anew for
each row of it, which takes seconds from 100,000 on."""
_BY_WORDS, _ANYWHERE = QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere, QTextOption.WrapMode.WrapAnywhere


class ComposerField(QPlainTextEdit):
    """The text field. It takes plain text only, whatever is pasted."""

    submitted = Signal()
    escaped = Signal()
    conversation_requested = Signal()
    """The keyboard is to go to the messages: Alt and an arrow up, as among them."""
    files_given = Signal(list)
    """Paths of files that were pasted or dropped."""
    picture_given = Signal(object)
    """A `QImage` from the clipboard."""
    focused = Signal(bool)

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self.limit = theme.px(240)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setAccessibleName(tr("Message"))
        self.setProperty("focusRing", False)  # noqa: FBT003 -- Qt's property: the composer around it is outlined instead
        self.setTabChangesFocus(True)
        self.setWordWrapMode(_BY_WORDS)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.document().setDocumentMargin(0)
        self.document().clearUndoRedoStacks()  # the margin is nothing to take back
        self.document().documentLayout().documentSizeChanged.connect(lambda _size: self.updateGeometry())
        self.textChanged.connect(self._follow_text)
        theme.changed.connect(self._restyle)
        self._restyle()

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return the height of the text, up to the limit."""
        line = self.fontMetrics().lineSpacing()
        height = self._count_lines(self.limit // line + 1) * line + self._theme.px(4)
        is_full = height > self.limit
        policy = Qt.ScrollBarPolicy.ScrollBarAsNeeded if is_full else Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        self.setVerticalScrollBarPolicy(policy)
        return QSize(self._theme.px(200), min(height, self.limit))

    def minimumSizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return the same: the field never gives way."""
        return self.sizeHint()

    def set_text(self, text: str) -> None:
        """Show another text."""
        self._fit_wrapping(text)
        self.setPlainText(text)

    def event(self, event: QEvent) -> bool:
        """Leave Undo to the window while there is nothing to undo here."""
        is_undo = isinstance(event, QKeyEvent) and event.matches(QKeySequence.StandardKey.Undo)
        if is_undo and event.type() is QEvent.Type.ShortcutOverride and not self.document().isUndoAvailable():
            event.ignore()
            return False
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 -- Qt's name
        """Send, stop, or type."""
        is_return = event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}
        if is_return and not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.submitted.emit()
        elif event.key() == Qt.Key.Key_Escape:
            self.escaped.emit()
        elif event.key() == Qt.Key.Key_Up and event.modifiers() & Qt.KeyboardModifier.AltModifier:
            self.conversation_requested.emit()
        else:
            super().keyPressEvent(event)

    def insertFromMimeData(self, source: QMimeData) -> None:  # noqa: N802 -- Qt's name
        """Paste text, or have what is no text attached. Programs that copy tables offer a picture of them too."""
        paths = local_files(source)
        if paths:
            self.files_given.emit(paths)
        elif source.hasImage() and not source.hasText():
            self.picture_given.emit(source.imageData())
        elif source.hasText():
            self._fit_wrapping(source.text())
            self.insertPlainText(source.text())

    def canInsertFromMimeData(self, source: QMimeData) -> bool:  # noqa: N802 -- Qt's name
        """Take text, files and pictures."""
        return source.hasText() or source.hasImage() or bool(local_files(source))

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802 -- Qt's name
        """Tell the composer."""
        super().focusInEvent(event)
        self.focused.emit(True)  # noqa: FBT003 -- Qt's signal of one flag

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802 -- Qt's name
        """Tell the composer."""
        super().focusOutEvent(event)
        self.focused.emit(False)  # noqa: FBT003 -- Qt's signal of one flag

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 -- Qt's name
        """Take the height of the text at this width."""
        super().resizeEvent(event)
        self.updateGeometry()

    def _count_lines(self, most: int) -> int:
        """Return how many rows the text takes, as far as `most`. The document's own count may be of another text."""
        layout, block, count = self.document().documentLayout(), self.document().firstBlock(), 0
        while block.isValid() and count < most:
            layout.blockBoundingRect(block)  # lays the paragraph out
            count += max(1, block.layout().lineCount())
            block = block.next()
        return max(1, min(count, most))

    def _fit_wrapping(self, text: str) -> None:
        """Break lines anywhere where a text that comes is one endless word."""
        if any(len(word) > _LONGEST_WORD for word in text.split()):
            self.setWordWrapMode(_ANYWHERE)

    def _follow_text(self) -> None:
        if self.document().isEmpty():
            self.setWordWrapMode(_BY_WORDS)
        self.updateGeometry()

    def _restyle(self) -> None:
        set_text_font(self, self._theme.font("chat"))
        self.updateGeometry()


def local_files(source: QMimeData) -> list[Path]:
    """Return the files of this computer that are pasted or dragged; folders are none."""
    paths = [Path(url.toLocalFile()) for url in source.urls() if url.isLocalFile()]
    return [path for path in paths if not path.is_dir()]


class Composer(Surface):
    """The field in its frame, with what belongs to the next question below it."""

    question_submitted = Signal(str)
    stop_requested = Signal()
    edit_cancelled = Signal()
    dictation_cancelled = Signal()
    text_changed = Signal(str)

    def __init__(self, theme: Theme) -> None:
        super().__init__(theme, outline="edge", radius=Radius.COMPOSER)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Maximum)
        self._is_busy = False
        self._is_editing = self._is_dictating = False
        self._warning = self._count = ""
        self._has_files, self._can_send = False, True
        self._box = box = VBox(theme, self, margins=(16, 12, 8, 8), gap=4)
        box.addWidget(self._make_banner())
        self.field = ComposerField(theme)
        self.field.setPlaceholderText(tr("Ask anything"))
        self.field.submitted.connect(self._submit_text)
        self.field.escaped.connect(self._handle_escape)
        self.field.textChanged.connect(self._handle_text_change)
        self.field.focused.connect(self._show_focus)
        box.addWidget(self.field)
        foot = HBox(theme, gap=4)
        self.tools = HBox(theme, gap=4)
        self._hint = ElidedLabel(theme, "", role="meta", color="ink-3", mode=Qt.TextElideMode.ElideMiddle)
        self._hint.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self._button = RoundButton(theme, "arrow-up", tr("Send"), action=self._press_button, is_primary=True)
        foot.addLayout(self.tools)
        foot.addStretch(1)
        foot.addWidget(self._hint)
        foot.addSpacing(theme.px(8))
        foot.addWidget(self._button)
        box.addLayout(foot)
        self._update_controls()

    @property
    def text(self) -> str:
        """What is typed."""
        return self.field.toPlainText()

    def set_text(self, text: str) -> None:
        """Show another text, the cursor at its end."""
        if text != self.text:
            self.field.set_text(text)
            self.field.moveCursor(self.field.textCursor().MoveOperation.End)

    def add_tool(self, icon: str, name: str, action: Callable[[], object], *, is_switch: bool = True) -> IconButton:
        """Add a button below the field; a switch shows whether what it opens is open."""
        button = IconButton(self.theme, icon, name, action=action)
        button.setCheckable(is_switch)
        self.tools.addWidget(button)
        return button

    def show_state(self, *, is_busy: bool, is_editing: bool) -> None:
        """Offer to stop while an answer is written; say when a question is edited."""
        if (is_busy, is_editing) != (self._is_busy, self._is_editing):
            self._is_busy, self._is_editing = is_busy, is_editing
            self._update_controls()

    def show_dictation(self, *, is_on: bool) -> None:
        """Take that something is dictated, which Escape cancels first."""
        self._is_dictating = is_on

    def insert_words(self, words: str) -> None:
        """Put words where the cursor is, with a blank before them where there is none."""
        cursor = self.field.textCursor()
        cursor.setPosition(cursor.selectionStart())
        cursor.movePosition(cursor.MoveOperation.PreviousCharacter, cursor.MoveMode.KeepAnchor)
        is_glued = bool(cursor.selectedText().strip())
        self.field.insertPlainText(f" {words}" if is_glued else words)
        self.field.setFocus()

    def place_above(self, widget: QWidget) -> None:
        """Put something above the field, below what is there already."""
        self._box.insertWidget(self._box.indexOf(self.field), widget)

    def show_files_state(self, *, has_files: bool, can_send: bool) -> None:
        """Take that there are files, which need no words beside them, and whether they can be sent."""
        self._has_files, self._can_send = has_files, can_send
        self._update_controls()

    def show_warning(self, words: str) -> None:
        """Say what is wrong with what is typed; nothing for nothing."""
        if words != self._warning:
            self._warning = words
            self._update_controls()

    def show_count(self, words: str) -> None:
        """Say how long what is typed is; nothing for nothing."""
        if words != self._count:
            self._count = words
            self._update_hint()

    def limit_height(self, height: int) -> None:
        """Let the field grow up to this height."""
        if self.field.limit != height:
            self.field.limit = height
            self.field.updateGeometry()

    def _make_banner(self) -> QWidget:
        self._banner = QWidget()
        line = HBox(self.theme, self._banner, margins=(0, 0, 0, 4), gap=8)
        line.addWidget(
            Label(
                self.theme,
                tr("Editing a message: sending it starts a new version from here"),
                role="meta",
                color="ink-2",
            )
        )
        line.addStretch(1)
        line.addWidget(IconButton(self.theme, "x", tr("Cancel editing"), action=self.edit_cancelled.emit, size=24))
        return self._banner

    def _update_controls(self) -> None:
        self._banner.setVisible(self._is_editing)
        self._button.is_primary = not self._is_busy
        if self._is_busy:
            self._button.set_icon("square", tr("Stop the answer"))
        else:
            self._button.set_icon("arrow-up", tr("Send"))
        self._update_hint()
        self._button.setEnabled(self._is_busy or self._is_complete())

    def _update_hint(self) -> None:
        self._hint.setText(tr("Esc stops") if self._is_busy else self._warning or self._count)
        self._hint.set_color("bad" if self._warning and not self._is_busy else "ink-3")

    def _is_complete(self) -> bool:
        return self._can_send and (self._has_files or bool(self.text.strip()))

    def _handle_text_change(self) -> None:
        self._button.setEnabled(self._is_busy or self._is_complete())
        self.text_changed.emit(self.text)

    def _press_button(self) -> None:
        if self._is_busy:
            self.stop_requested.emit()
        else:
            self._submit_text()

    def _submit_text(self) -> None:
        text = self.text.strip()
        if self._is_complete() and not self._is_busy:
            self.field.clear()
            self.question_submitted.emit(text)

    def _handle_escape(self) -> None:
        if self._is_dictating:
            self.dictation_cancelled.emit()
        elif self._is_editing:
            self.edit_cancelled.emit()
        elif self._is_busy:
            self.stop_requested.emit()

    def _show_focus(self, has_focus: bool) -> None:  # noqa: FBT001 -- a slot of a bool signal
        self.outline = "accent" if has_focus else "edge"
        self.update()
