"""How far a run is: what goes on, a bar, and a button that stops it."""

from collections.abc import Callable
from typing import Protocol

from PySide6.QtWidgets import QWidget

from app.core.translation import tr
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button
from app.gui.widgets.layout import HBox, VBox
from app.gui.widgets.status import ProgressBar
from app.gui.widgets.text import ElidedLabel


class RunStage(Protocol):
    """What is to know of a run: an event about it."""

    @property
    def model(self) -> str: ...  # noqa: D102 -- as the events have it
    @property
    def stage(self) -> str: ...  # noqa: D102 -- as above
    @property
    def fraction(self) -> float | None: ...  # noqa: D102 -- as above


class RunProgress(QWidget):
    """Hidden while nothing runs."""

    def __init__(self, theme: Theme, title: str, cancel_name: str, cancel: Callable[[], object]) -> None:
        super().__init__()
        line = HBox(theme, self, gap=12)
        column = VBox(theme, gap=6)
        self._stage = ElidedLabel(theme, role="meta", color="ink-2")
        self._bar = ProgressBar(theme, title)
        column.addWidget(self._stage)
        column.addWidget(self._bar)
        line.addLayout(column, 1)
        line.addWidget(Button(theme, tr("Cancel"), name=cancel_name, action=cancel))

    def show_stage(self, progress: RunStage | None) -> None:
        """Show how far it is; nothing for none."""
        self.setVisible(progress is not None)
        if progress is not None:
            self._stage.setText(f"{progress.model} · {progress.stage}")
            self._bar.set_fraction(progress.fraction)
