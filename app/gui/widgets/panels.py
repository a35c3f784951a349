"""What a screen says when there is nothing to list or something went wrong: in place, with the way out as a button."""

from collections.abc import Callable

from PySide6.QtCore import QEasingCurve, Qt, QTimer, QVariantAnimation
from PySide6.QtWidgets import QApplication, QSizePolicy, QWidget

from app.core.errors import ErrorBody
from app.core.translation import tr
from app.gui import phrases
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import PAGE_WIDTH, UNBOUNDED, Motion
from app.gui.widgets.buttons import Button, ButtonLook
from app.gui.widgets.flow_layout import FlowLayout, PairLayout
from app.gui.widgets.layout import HBox, Scroller, Surface, VBox, WidthLimiter
from app.gui.widgets.rows import IconLabel
from app.gui.widgets.text import Label, Paragraph


class Fold(QWidget):
    """Something that can be unfolded below its title."""

    def __init__(self, theme: Theme, title: str, content: QWidget) -> None:
        super().__init__()
        self._theme, self._title, self._content = theme, title, content
        box = VBox(theme, self, gap=4)
        self._button = Button(theme, title, look=ButtonLook.BARE, icon="chevron-right", action=self.toggle)
        box.addWidget(self._button, 0, Qt.AlignmentFlag.AlignLeft)
        box.addWidget(content)
        content.hide()
        self._slide = QVariantAnimation(self)
        self._slide.setEasingCurve(QEasingCurve.Type.OutCubic)
        self._slide.valueChanged.connect(lambda value: content.setMaximumHeight(int(value)))
        self._slide.finished.connect(lambda: content.setMaximumHeight(UNBOUNDED))

    @property
    def is_open(self) -> bool:
        """Whether the content is shown."""
        return not self._content.isHidden()

    def set_title(self, title: str) -> None:
        """Show another title."""
        if title != self._title:
            self._title = title
            self._button.set_text(title)

    def toggle(self) -> None:
        """Unfold what is folded, fold what is not."""
        is_opening = not self.is_open
        self._button.set_icon("chevron-down" if is_opening else "chevron-right")
        self._content.setVisible(is_opening)
        duration = self._theme.duration(Motion.QUICK)
        if is_opening and duration and self.isVisible():
            self._slide.setDuration(duration)
            self._slide.setStartValue(0)
            self._slide.setEndValue(self._content.sizeHint().height())
            self._slide.start()


class ErrorPanel(Surface):
    """An error said in place: the sentence, what to do, the cause for who wants it, and the button that fixes it."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(theme, fill="bad-soft", outline="")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        outer = HBox(theme, self, margins=(16, 16, 16, 16), gap=12)
        outer.addWidget(IconLabel(theme, "triangle-alert", color="bad"), 0, Qt.AlignmentFlag.AlignTop)
        pair = PairLayout(theme)
        outer.addLayout(pair, 1)
        self.words = box = VBox(theme, gap=4)
        self._sentence = Paragraph(theme, weight=500)
        self._hint = Paragraph(theme, color="ink-2")
        self._cause = Paragraph(theme, role="mono", color="ink-2")
        self._fold = Fold(theme, tr("Show the cause"), self._cause)
        for widget in (self._sentence, self._hint, self._fold):
            box.addWidget(widget)
        pair.addLayout(box)
        self.buttons = FlowLayout(theme, gap=8)
        pair.addLayout(self.buttons)
        self._button = Button(theme, tr("Try again"), look=ButtonLook.PLAIN)
        self._other = Button(theme, "", look=ButtonLook.QUIET)
        self.buttons.addWidget(self._button)
        self.buttons.addWidget(self._other)
        self._other.hide()
        self.hide()

    def offer_other(self, words: str, action: Callable[[], object]) -> None:
        """Show a second button, for those who want it all the same."""
        self._other.set_text(words)
        self._other.set_action(action)
        self._other.show()

    def show_problem(self, problem: tuple[ErrorBody, str, Callable[[], object]] | None) -> None:
        """Show an error with its button; None where nothing is wrong."""
        if problem is None:
            self.hide()
        else:
            self.show_error(*problem)

    def show_error(self, error: ErrorBody, words: str = "", action: Callable[[], object] | None = None) -> None:
        """Show `error`; with `words` and `action`, the button that fixes it."""
        self._sentence.setText(error.sentence)
        hint = phrases.drop_commands(error.hint)
        self._hint.setText(hint)
        self._hint.setVisible(bool(hint))
        self._cause.setText(error.detail)
        self._fold.setVisible(bool(error.detail))
        self._button.setVisible(action is not None)
        self._button.set_text(words or tr("Try again"))
        self._button.set_action(action)
        self._other.hide()
        self.setAccessibleName(tr("Problem: {sentence}", sentence=error.sentence))
        self.show()


class EmptyState(QWidget):
    """Nothing here yet: what this place is for, and the one button that begins."""

    def __init__(self, theme: Theme, icon: str, title: str, sentence: str) -> None:
        super().__init__()
        box = VBox(theme, self, margins=(24, 48, 24, 48), gap=8)
        box.addStretch(1)
        middle = Qt.AlignmentFlag.AlignHCenter
        box.addWidget(IconLabel(theme, icon, color="ink-3", size=32), 0, middle)
        self._title = Paragraph(theme, title, role="section")
        self._title.setAlignment(Qt.AlignmentFlag.AlignCenter)
        box.addWidget(self._title)
        self._sentence = Paragraph(theme, sentence, color="ink-2")
        self._sentence.setAlignment(Qt.AlignmentFlag.AlignCenter)
        box.addWidget(self._sentence)
        self.buttons = HBox(theme, margins=(0, 8, 0, 0), gap=8)
        self.buttons.addStretch(1)
        self.buttons.addStretch(1)
        box.addLayout(self.buttons)
        box.addStretch(2)

    def add_action(self, button: QWidget) -> None:
        """Put a button in the middle."""
        self.buttons.insertWidget(self.buttons.count() - 1, button)


class PageFrame(QWidget):
    """A screen's frame: the title in its place, what can be done at its end, and the content below, scrolled as one."""

    def __init__(self, theme: Theme, title: str) -> None:
        super().__init__()
        self.theme = theme
        content = QWidget()
        box = VBox(theme, content, margins=(32, 24, 32, 32), gap=16)
        name = HBox(theme, gap=8)
        name.addWidget(Label(theme, title, role="title"))
        self.about = Label(theme, color="ink-2")
        self.about.setContentsMargins(0, theme.px(6), 0, 0)
        name.addSpacing(theme.px(4))
        name.addWidget(self.about, 1)
        self.head = HBox(theme, gap=8)
        top = PairLayout(theme)
        top.addLayout(name)
        top.addLayout(self.head)
        box.addLayout(top)
        self.body = VBox(theme, gap=16)
        box.addLayout(self.body, 1)
        self.scroller = Scroller(WidthLimiter(theme, content, PAGE_WIDTH), title)
        VBox(theme, self, gap=0).addWidget(self.scroller)
        self.setAccessibleName(title)
        theme.changed.connect(lambda: QTimer.singleShot(0, self, self._follow_focus))

    def _follow_focus(self) -> None:
        """Keep what the keyboard is on in view when everything changes its size."""
        focus_widget: QWidget | None = QApplication.focusWidget()
        if focus_widget is not None and self.scroller.isAncestorOf(focus_widget):
            self.scroller.ensureWidgetVisible(focus_widget)


class Section(QWidget):
    """A part of a page under a title of its own; `head` takes what stands at the title's end."""

    def __init__(self, theme: Theme, title: str) -> None:
        super().__init__()
        self.body = VBox(theme, self, margins=(0, 8, 0, 0), gap=8)
        self.head = HBox(theme, gap=8)
        self.head.addWidget(Label(theme, title, role="section"), 1)
        self.body.addLayout(self.head)
        self.setAccessibleName(title)
