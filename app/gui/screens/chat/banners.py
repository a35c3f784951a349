"""Lines about files, by the composer: a model that cannot see them, and a dropped file that could be run."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QWidget

from app.core.translation import tr
from app.gui.screens.chat.model import SightProblem
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook
from app.gui.widgets.layout import HBox, Surface
from app.gui.widgets.text import ElidedLabel


class SightBanner(QWidget):
    """That the model cannot see the pictures, with the button that helps."""

    model_chosen = Signal(str)
    models_requested = Signal()

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._problem: SightProblem | None = None
        line = HBox(theme, self, margins=(0, 0, 8, 0), gap=8)
        self._words = ElidedLabel(theme, role="meta", color="bad")
        self.button = Button(theme, "", look=ButtonLook.QUIET, action=self._help)
        line.addWidget(self._words, 1)
        line.addWidget(self.button)
        self.hide()

    def show_problem(self, problem: SightProblem | None) -> None:
        """Show it, or nothing."""
        self.setVisible(problem is not None)
        if problem is None or problem == self._problem:
            self._problem = problem
            return
        self._problem = problem
        self._words.setText(problem.words)
        self.button.set_text(problem.remedy)
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, problem.words))

    def _help(self) -> None:
        if self._problem is not None and self._problem.other:
            self.model_chosen.emit(self._problem.other)
        else:
            self.models_requested.emit()


class FileOffer(Surface):
    """One line about a dropped file, with the button that runs it."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(theme, fill="accent-soft", outline="")
        line = HBox(theme, self, margins=(16, 8, 8, 8), gap=8)
        self._words = ElidedLabel(theme)
        self._run = Button(theme, tr("Run it"), look=ButtonLook.PRIMARY, icon="play")
        line.addWidget(self._words, 1)
        line.addWidget(self._run)
        line.addWidget(Button(theme, tr("Not now"), look=ButtonLook.QUIET, action=self.hide))
        self.hide()

    def show_file(self, path: Path, run: Callable[[], object]) -> None:
        """Ask about a file."""
        self._words.setText(tr("{name} can run where it is; nothing is copied.", name=path.name))

        def run_file() -> None:
            self.hide()
            run()

        self._run.set_action(run_file)
        self.show()
        self._run.setFocus()
