"""The folders that are looked through for models: what is in each, why one cannot be read, and taking one out."""

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtWidgets import QSizePolicy

from app.core.disk import Folder
from app.gui.screens.models import disk
from app.gui.screens.models.model import ModelsModel
from app.gui.theme.theme import Theme
from app.gui.widgets.panels import Section
from app.gui.widgets.press import Button, Look
from app.gui.widgets.rows import Picture, Row, RowList
from app.gui.widgets.text import Paragraph


class FoldersView(Section):
    """A row for each folder. `ask` asks a person for one more."""

    def __init__(self, theme: Theme, model: ModelsModel, ask: Callable[[], object]) -> None:
        super().__init__(theme, "Folders")
        self._theme, self._model = theme, model
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.head.addWidget(Button(theme, "Add a folder", icon="folder-plus", action=ask))
        self.list = RowList(theme, "Folders that are searched")
        self.body.addWidget(self.list)

    def show_folders(self, folders: Sequence[Folder]) -> None:
        """Show what is so now."""
        self.list.sync({f"{one.kind} {one.path}": one for one in folders}, self._row, FolderRow.show_folder)

    def _row(self, folder: Folder) -> "FolderRow":
        return FolderRow(self._theme, self._model, folder)


class FolderRow(Row):
    """One folder."""

    def __init__(self, theme: Theme, model: ModelsModel, folder: Folder) -> None:
        super().__init__(theme)
        self.lead.addWidget(Picture(theme, "folder"))
        self._wrong = Paragraph(theme, role="meta", color="warn")
        self.words.insertWidget(self.words.count() - 1, self._wrong)
        self.remove_button = Button(
            theme,
            "Remove",
            look=Look.QUIET,
            name=f"Stop searching {folder.title}",
            action=lambda: model.remove_folder(Path(folder.path)),
        )
        self.remove_button.setVisible(disk.can_remove(folder))
        self.tail.addWidget(self.remove_button)

    def show_folder(self, folder: Folder) -> None:
        """Show what is so now."""
        self.say(folder.title, disk.folder_facts(folder))
        self._wrong.setText(folder.problem)
        self._wrong.setVisible(bool(folder.problem))
        if folder.problem:
            self.setAccessibleDescription(folder.problem)
