"""Where things lie on this computer: the folder models are put into, conversations, logs; each opens with a click."""

from functools import partial
from pathlib import Path

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QSizePolicy

from app.config.paths import Paths
from app.gui.theme.theme import Theme
from app.gui.widgets.layout import Column, Surface
from app.gui.widgets.panels import Section
from app.gui.widgets.press import Button
from app.gui.widgets.rows import Row


class Places(Section):
    """The folders of this installation."""

    def __init__(self, theme: Theme, paths: Paths) -> None:
        super().__init__(theme, "Folders")
        sheet = Surface(theme)
        sheet.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        column = Column(theme, sheet, margins=(0, 4, 0, 4))
        self.folders = {
            "Models: put .gguf files here": paths.models,
            "Conversations": paths.data,
            "Logs": paths.logs,
        }
        for title, folder in self.folders.items():
            row = Row(theme, title, str(folder))
            row.tail.addWidget(Button(theme, "Open", name=f"Open {folder}", action=partial(_open, folder)))
            column.addWidget(row)
        self.body.addWidget(sheet)


def _open(folder: Path) -> None:
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))
