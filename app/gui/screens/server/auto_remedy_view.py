"""What may be left to Roundhouse when a load fails, and what it did: a switch, and a sentence with its way back."""

from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.engines import EngineStatus, FailureReport
from app.gui.screens.server.auto_remedy_model import AutoRemedyModel
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, Toggle
from app.gui.widgets.flow_layout import PairLayout
from app.gui.widgets.layout import HBox, Surface, VBox
from app.gui.widgets.rows import IconLabel
from app.gui.widgets.text import Label, Paragraph

_WORDS = "Do this automatically from now on"
_MEANING = "A model that fails this way is loaded with other options, and you see what was changed. You can undo it."


class AutoRemedySwitch(QWidget):
    """Whether what may help against a failure is done without asking."""

    def __init__(self, theme: Theme, model: AutoRemedyModel, name: str) -> None:
        super().__init__()
        self._model, self._name = model, name
        self._failure: FailureReport | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        line = HBox(theme, self, margins=(0, 8, 0, 8), gap=12)
        self.toggle = Toggle(theme, f"{_WORDS}: {name}")
        self.toggle.clicked.connect(self._apply_choice)
        words = VBox(theme, gap=2)
        words.addWidget(Label(theme, _WORDS))
        words.addWidget(Paragraph(theme, _MEANING, role="meta", color="ink-2"))
        line.addWidget(self.toggle, 0, Qt.AlignmentFlag.AlignTop)
        line.addLayout(words, 1)

    def show_failure(self, failure: FailureReport) -> None:
        """Show what is so; nothing where nothing can be left to anybody."""
        self._failure = failure
        self.setVisible(self._model.can_be_automatic(failure))
        self.toggle.setChecked(self._model.is_automatic(failure))

    def _apply_choice(self) -> None:
        if self._failure is not None:
            self._model.set_automatic(self._name, self._failure, is_automatic=self.toggle.isChecked())


class RemedyUndoPanel(Surface):
    """What was changed so that a model loads, and the button that takes it back."""

    def __init__(self, theme: Theme, model: AutoRemedyModel, name: str) -> None:
        super().__init__(theme, fill="accent-soft", outline="")
        self._model = model
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        outer = HBox(theme, self, margins=(16, 12, 16, 12), gap=12)
        outer.addWidget(IconLabel(theme, "sliders-horizontal", color="accent"), 0, Qt.AlignmentFlag.AlignTop)
        pair = PairLayout(theme)
        outer.addLayout(pair, 1)
        box = VBox(theme, gap=4)
        self._words = Paragraph(theme)
        box.addWidget(self._words)
        pair.addLayout(box)
        self.button = Button(theme, "Undo", name=f"Load {name} as requested, and stop doing this automatically")
        pair.addWidget(self.button)

    def show_status(self, status: EngineStatus) -> None:
        """Show what was changed, if anything was."""
        self.setVisible(bool(status.mended))
        self._words.setText("\n".join(applied.sentence for applied in status.mended))
        self.button.set_action(partial(self._model.undo_remedies, status))
