"""The folders that are looked through for models: what is in each, why one cannot be read, and taking one out."""

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtWidgets import QSizePolicy

from app.core.disk import Folder
from app.gui.screens.models import disk
from app.gui.screens.models.model import ModelsModel
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook
from app.gui.widgets.panels import Section
from app.gui.widgets.rows import IconLabel, ListRow, RowList
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
        self.list.sync(
            {f"{folder.kind} {folder.path}": folder for folder in folders}, self._make_row, FolderRow.show_folder
        )

    def _make_row(self, folder: Folder) -> "FolderRow":
        return FolderRow(self._theme, self._model, folder)


class FolderRow(ListRow):
    """One folder."""

    def __init__(self, theme: Theme, model: ModelsModel, folder: Folder) -> None:
        super().__init__(theme)
        self.lead.addWidget(IconLabel(theme, "folder"))
        self._wrong = Paragraph(theme, role="meta", color="warn")
        self.words.insertWidget(self.words.count() - 1, self._wrong)
        self.remove_button = Button(
            theme,
            "Remove",
            look=ButtonLook.QUIET,
            name=f"Stop searching {folder.title}",
            action=lambda: model.remove_folder(Path(folder.path)),
        )
        self.remove_button.setVisible(disk.can_remove(folder))
        self.tail.addWidget(self.remove_button)

    def show_folder(self, folder: Folder) -> None:
        """Show what is so now."""
        self.show_text(folder.title, disk.folder_facts(folder))
        self._wrong.setText(folder.problem)
        self._wrong.setVisible(bool(folder.problem))
        if folder.problem:
            self.setAccessibleDescription(folder.problem)
