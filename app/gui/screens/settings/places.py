"""Where things lie on this computer: the folder models are put into, conversations, logs; each opens with a click."""

from functools import partial
from pathlib import Path

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices

from app.config.paths import Paths
from app.gui.theme.theme import Theme
from app.gui.widgets.panels import Section
from app.gui.widgets.press import Button
from app.gui.widgets.rows import Row, RowList


class Places(Section):
    """The folders of this installation."""

    def __init__(self, theme: Theme, paths: Paths) -> None:
        super().__init__(theme, "Folders")
        self.folders = {
            "Models: put .gguf files here": paths.models,
            "Conversations": paths.data,
            "Logs": paths.logs,
        }
        rows = RowList(theme, "Folders")
        rows.sync(
            {title: (title, folder) for title, folder in self.folders.items()},
            lambda place: _row(theme, place[1]),
            lambda row, place: row.say(place[0], str(place[1])),
        )
        self.body.addWidget(rows)


def _row(theme: Theme, folder: Path) -> Row:
    row = Row(theme)
    row.tail.addWidget(Button(theme, "Open", name=f"Open {folder}", action=partial(_open, folder)))
    return row


def _open(folder: Path) -> None:
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))
