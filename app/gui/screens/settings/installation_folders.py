"""Where things lie on this computer: the folder models are put into, conversations, logs; each opens with a click."""

from functools import partial
from pathlib import Path

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices

from app.config.paths import Paths
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button
from app.gui.widgets.panels import Section
from app.gui.widgets.rows import ListRow, RowList


class InstallationFolders(Section):
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
            lambda place: _make_row(theme, place[1]),
            lambda row, place: row.show_text(place[0], str(place[1])),
        )
        self.body.addWidget(rows)


def _make_row(theme: Theme, folder: Path) -> ListRow:
    row = ListRow(theme)
    row.tail.addWidget(Button(theme, "Open", name=f"Open {folder}", action=partial(_open_folder, folder)))
    return row


def _open_folder(folder: Path) -> None:
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))
