"""The disk side of the models page: what takes the space of each drive, equal files, and the folders looked through."""

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core import words
from app.core.disk import DiskUse, Drive
from app.core.library import JobKind
from app.core.models import ModelInfo
from app.gui.screens.models import disk
from app.gui.screens.models.duplicates_view import DuplicatesView
from app.gui.screens.models.folders_view import FoldersView
from app.gui.screens.models.job_view import JobView
from app.gui.screens.models.model import ModelsModel
from app.gui.screens.models.model_files import can_remove, can_verify
from app.gui.theme.theme import Theme
from app.gui.widgets.bars import Legend, PartsBar
from app.gui.widgets.buttons import Button, ButtonLook
from app.gui.widgets.figures import FigureView
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import HBox, Surface, VBox, clear_layout
from app.gui.widgets.menus import Menu
from app.gui.widgets.panels import ErrorPanel
from app.gui.widgets.status import Skeleton
from app.gui.widgets.text import ElidedLabel, Label
from app.gui.widgets.treemap import Treemap


class DiskView(QWidget):
    """Shows a `Disk`. `model_requested` carries a model that is to be shown in the list."""

    model_requested = Signal(str)

    def __init__(self, theme: Theme, model: ModelsModel, ask_folder: Callable[[], object]) -> None:
        super().__init__()
        self._theme, self._model, self._state = theme, model, model.disk
        box = VBox(theme, self, gap=16)
        self._error = ErrorPanel(theme)
        self._skeleton = Skeleton(theme, rows=5, is_card=True)
        self._usage = _DiskUsageView(theme, model)
        self.treemap = self._usage.treemap
        self.treemap.chosen.connect(self._open_menu)
        self.folders = FoldersView(theme, model, ask_folder)
        self.duplicates = DuplicatesView(theme, model.jobs)
        checking = JobView(theme, model.jobs, {JobKind.VERIFY, JobKind.EMPTY})
        for widget in (self._error, checking, self._skeleton, self._usage, self.duplicates, self.folders):
            box.addWidget(widget)
        self._state.changed.connect(self._show_use)
        self._show_use()

    def _show_use(self) -> None:
        use, error = self._state.value, self._state.error
        self._skeleton.setVisible(use is None and error is None)
        for widget in (self._usage, self.folders, self.duplicates):
            widget.setVisible(use is not None)
        if error is not None:
            self._error.show_error(error, "Try again", self._state.read)
        else:
            self._error.hide()
        if use is not None:
            self._usage.show_use(use)
            self.folders.show_folders(use.folders)

    def _open_menu(self, name: str, where: QPointF) -> None:
        model = next((item for item in self._model.library.items if item.name == name), None)
        if model is None:
            return
        menu = self._make_menu(model)
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self.treemap.mapToGlobal(where).toPoint())

    def _make_menu(self, model: ModelInfo) -> Menu:
        menu = Menu(self._theme, self, model.title)
        menu.add_entry("Show in the list", partial(self.model_requested.emit, model.name), icon="search")
        if can_verify(model):
            menu.add_entry("Check the files", partial(self._model.files.verify, model), icon="circle-check")
        if can_remove(model):
            menu.addSeparator()
            label = f"Move to the trash, {words.format_bytes(model.size_bytes)}"
            menu.add_entry(label, partial(self._model.files.remove, model), icon="trash-2")
        return menu


class _DiskUsageView(Surface):
    """Figures, a bar for each drive, and the models as large as they are."""

    def __init__(self, theme: Theme, model: ModelsModel) -> None:
        super().__init__(theme)
        self._model = model
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, margins=(16, 16, 16, 16), gap=16)
        self._figures = FlowLayout(theme, gap=32, line_gap=12)
        self._shown_figures: dict[str, FigureView] = {}
        self._drives = VBox(theme, gap=16)
        self._shown_drives: dict[str, _DriveView] = {}
        self.treemap = Treemap(theme, "Models by size on disk")
        box.addLayout(self._figures)
        box.addLayout(self._drives)
        box.addWidget(self.treemap)
        model.jobs.changed.connect(self._show_busy)

    def show_use(self, use: DiskUse) -> None:
        """Show what is so now."""
        self._show_figures(use)
        drives = {drive.path: drive for drive in use.drives}
        if list(drives) != list(self._shown_drives):
            clear_layout(self._drives)
            self._shown_drives = {path: _DriveView(self.theme, self._model, drive) for path, drive in drives.items()}
            for view in self._shown_drives.values():
                self._drives.addWidget(view)
        for path, drive in drives.items():
            self._shown_drives[path].show_drive(drive, use)
        self.treemap.show_groups(disk.treemap_groups(use))
        self.treemap.setVisible(bool(self.treemap.cells))
        self._show_busy()

    def _show_busy(self) -> None:
        for view in self._shown_drives.values():
            view.empty_button.setEnabled(not self._model.jobs.is_busy)

    def _show_figures(self, use: DiskUse) -> None:
        figures = {name: value for value, name in disk.disk_summary(use)}
        if list(figures) != list(self._shown_figures):
            clear_layout(self._figures)
            self._shown_figures = {name: FigureView(self.theme, name, role="title") for name in figures}
            for figure in self._shown_figures.values():
                self._figures.addWidget(figure)
        for name, value in figures.items():
            self._shown_figures[name].show_value(value)


class _DriveView(QWidget):
    """One drive."""

    def __init__(self, theme: Theme, model: ModelsModel, drive: Drive) -> None:
        super().__init__()
        self._model, self._drive = model, drive
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, gap=6)
        head = HBox(theme, gap=8)
        self._free = Label(theme, role="meta", color="ink-2")
        name = disk.drive_name(drive)
        head.addWidget(ElidedLabel(theme, name, weight=500), 1)
        head.addWidget(self._free)
        box.addLayout(head)
        self._bar, self._legend = PartsBar(theme, name), Legend(theme)
        box.addWidget(self._bar)
        box.addWidget(self._legend)
        self.empty_button = Button(theme, "", look=ButtonLook.BARE, icon="trash-2", action=self._empty_trash)
        box.addSpacing(theme.px(2))
        box.addWidget(self.empty_button, 0, Qt.AlignmentFlag.AlignLeading)

    def show_drive(self, drive: Drive, use: DiskUse) -> None:
        """Show what is so now."""
        self._drive = drive
        pieces = disk.drive_pieces(drive, use)
        whole = float(drive.total_bytes or drive.models_bytes or 1)
        descriptions = [*(words for _, words in pieces), disk.drive_headline(drive)]
        self._free.setText(disk.drive_headline(drive))
        self._bar.set_parts([part for part, _ in pieces], whole, "; ".join(descriptions))
        self._legend.set_entries([(part.color, words) for part, words in pieces])
        self.empty_button.setVisible(drive.trashed is not None)
        if drive.trashed is not None:
            offer = disk.trash_offer(drive.trashed)
            self.empty_button.set_text(offer)
            self.empty_button.setAccessibleName(f"{offer}, from the trash: {disk.drive_name(drive)}")

    def _empty_trash(self) -> None:
        self._model.empty_trash(self._drive)
