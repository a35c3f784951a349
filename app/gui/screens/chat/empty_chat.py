"""An empty chat: what can be asked, and of whom. The Guide is offered by what it is: tiny, built in, for help."""

from functools import partial

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.errors import ErrorBody
from app.core.models import ModelInfo
from app.core.translation import LazyText, tr
from app.gui import phrases
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import ICON_SIZE, Radius
from app.gui.widgets.buttons import Button, ButtonLook, Pressable
from app.gui.widgets.layout import HBox, VBox, hairline_pen, outline_area
from app.gui.widgets.status import Skeleton
from app.gui.widgets.text import Paragraph

SUGGESTIONS = (
    LazyText("Which model fits this computer?"),
    LazyText("How do I use Roundhouse from my editor?"),
    LazyText("What do Q4 and Q8 mean?"),
    LazyText("Why is my answer slow?"),
)
_ABOUT = LazyText("A tiny built-in help model. It knows about Roundhouse and running models, but not much else.")
_WIDTH = 560
_ROW = 40


class Suggestion(Pressable):
    """A question to ask with one press."""

    def __init__(self, theme: Theme, text: str) -> None:
        super().__init__(theme, tr("Ask the Guide: {text}", text=text))
        self._words = text
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return one row."""
        return QSize(self.theme.px(240), self.theme.px(_ROW))

    def paint(self, painter: QPainter) -> None:
        """Draw the row, its words and an arrow."""
        px, area = self.theme.px, outline_area(self)
        painter.setBrush(self.theme.color("surface"))
        painter.setPen(hairline_pen(self.theme, "line"))
        painter.drawRoundedRect(area, px(Radius.CONTROL), px(Radius.CONTROL))
        self.paint_wash(painter, area, px(Radius.CONTROL))
        painter.setFont(self.theme.font("body"))
        painter.setPen(self.theme.color("ink"))
        room = QRectF(self.rect()).adjusted(px(12), 0, -px(12 + ICON_SIZE), 0)
        text = painter.fontMetrics().elidedText(self._words, Qt.TextElideMode.ElideRight, int(room.width()))
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeading, text)


class EmptyChat(QWidget):
    """Shown while nothing was asked. `question_chosen` is a question for the Guide."""

    question_chosen = Signal(str)
    models_requested = Signal()

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        outer = HBox(theme, self, gap=0)
        outer.addStretch(1)
        middle = QWidget()
        self._middle, self._theme = middle, theme
        outer.addWidget(middle, 1000)
        outer.addStretch(1)
        box = VBox(theme, middle, margins=(24, 24, 24, 24), gap=8)
        box.addStretch(3)
        self._skeleton = Skeleton(theme, rows=3)
        self._title = Paragraph(theme, role="title")
        self._quiet = Paragraph(theme, color="ink-2")
        self._add = Button(
            theme, tr("Add a model"), look=ButtonLook.PRIMARY, icon="plus", action=self.models_requested.emit
        )
        box.addWidget(self._skeleton)
        box.addWidget(self._title)
        box.addWidget(self._quiet)
        box.addSpacing(theme.px(4))
        box.addWidget(self._add, 0, Qt.AlignmentFlag.AlignLeft)
        box.addSpacing(theme.px(16))
        box.addWidget(self._make_guide(theme))
        box.addStretch(4)
        theme.changed.connect(self._restyle)
        self._restyle()

    def show_state(self, model: ModelInfo | None, *, has_models: bool, has_guide: bool) -> None:
        """Say who answers: a model and where it runs, the Guide, or nobody."""
        is_guide = model is not None and model.is_builtin
        self._skeleton.hide()
        self._title.show()
        self._quiet.show()
        self._heading.setVisible(not is_guide)
        self._about.setVisible(not is_guide)
        if model is None:
            self._title.setText(tr("No model yet"))
            self._quiet.setText(tr("Add a GGUF file, or drop one here. It is used in place, not copied."))
        elif is_guide:
            self._title.setText(tr("Ask the Guide"))
            self._quiet.setText(f"{_ABOUT} {tr('Add a model of your own for everything else.')}")
        else:
            self._title.setText(tr("Ask {model}", model=phrases.model_title(model)))
            self._quiet.setText(_privacy_words(model))
        self._add.setVisible(not has_models)
        self._offer.setVisible(has_guide)

    def show_nothing_known(self, error: ErrorBody | None) -> None:
        """Hold the place until the models were read, or say why they were not."""
        for widget in (self._add, self._offer):
            widget.hide()
        self._skeleton.setVisible(error is None)
        for widget in (self._title, self._quiet):
            widget.setVisible(error is not None)
        if error is not None:
            self._title.setText(tr("The models could not be read"))
            self._quiet.setText(f"{error.sentence} {error.hint}".strip())

    def _make_guide(self, theme: Theme) -> QWidget:
        self._offer = QWidget()
        box = VBox(theme, self._offer, gap=8)
        self._heading = Paragraph(theme, tr("Ask the Guide…"), weight=600)
        self._about = Paragraph(theme, _ABOUT.tr(), role="meta", color="ink-2")
        box.addWidget(self._heading)
        box.addWidget(self._about)
        for text in (suggestion.tr() for suggestion in SUGGESTIONS):
            row = Suggestion(theme, text)
            row.set_action(partial(self.question_chosen.emit, text))
            box.addWidget(row)
        return self._offer

    def _restyle(self) -> None:
        self._middle.setMaximumWidth(self._theme.px(_WIDTH))


def _privacy_words(model: ModelInfo) -> str:
    """Say where what is written goes: nowhere, or to the endpoint that answers."""
    if not model.attached:
        return tr("It runs on this computer, and so do your chats: nothing you write leaves it.")
    return tr(
        "It runs at {host}: what you write to it is sent there. Your chats are kept on this computer.",
        host=phrases.model_host(model),
    )
