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
from app.gui.screens.models.files import can_remove, can_verify
from app.gui.screens.models.folders_view import FoldersView
from app.gui.screens.models.job_view import JobView
from app.gui.screens.models.model import ModelsModel
from app.gui.theme.theme import Theme
from app.gui.widgets.bars import Legend, PartsBar
from app.gui.widgets.figures import Figure
from app.gui.widgets.flow import Flow
from app.gui.widgets.layout import Column, Line, Surface, clear
from app.gui.widgets.menus import Menu
from app.gui.widgets.panels import ErrorPanel
from app.gui.widgets.press import Button, Look
from app.gui.widgets.status import Skeleton
from app.gui.widgets.text import ElidedLabel, Label
from app.gui.widgets.treemap import Treemap


class DiskView(QWidget):
    """Shows a `Disk`. `model_asked` carries a model that is to be shown in the list."""

    model_asked = Signal(str)

    def __init__(self, theme: Theme, model: ModelsModel, ask_folder: Callable[[], object]) -> None:
        super().__init__()
        self._theme, self._model, self._state = theme, model, model.disk
        box = Column(theme, self, gap=16)
        self._error = ErrorPanel(theme)
        self._skeleton = Skeleton(theme, rows=5, is_card=True)
        self._usage = _Usage(theme, model)
        self.treemap = self._usage.treemap
        self.treemap.chosen.connect(self._open_menu)
        self.folders = FoldersView(theme, model, ask_folder)
        self.duplicates = DuplicatesView(theme, model.work)
        checking = JobView(theme, model.work, {JobKind.VERIFY, JobKind.EMPTY})
        for widget in (self._error, checking, self._skeleton, self._usage, self.duplicates, self.folders):
            box.addWidget(widget)
        self._state.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        use, error = self._state.value, self._state.error
        self._skeleton.setVisible(use is None and error is None)
        for widget in (self._usage, self.folders, self.duplicates):
            widget.setVisible(use is not None)
        if error is not None:
            self._error.say(error, "Try again", self._state.read)
        else:
            self._error.hide()
        if use is not None:
            self._usage.show_use(use)
            self.folders.show_folders(use.folders)

    def _open_menu(self, name: str, where: QPointF) -> None:
        model = next((one for one in self._model.library.items if one.name == name), None)
        if model is None:
            return
        menu = self._menu(model)
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self.treemap.mapToGlobal(where).toPoint())

    def _menu(self, model: ModelInfo) -> Menu:
        menu = Menu(self._theme, self, model.title)
        menu.offer("Show in the list", partial(self.model_asked.emit, model.name), icon="search")
        if can_verify(model):
            menu.offer("Check the files", partial(self._model.files.verify, model), icon="circle-check")
        if can_remove(model):
            menu.addSeparator()
            said = f"Move to the trash, {words.size(model.size_bytes)}"
            menu.offer(said, partial(self._model.files.remove, model), icon="trash-2")
        return menu


class _Usage(Surface):
    """Figures, a bar for each drive, and the models as large as they are."""

    def __init__(self, theme: Theme, model: ModelsModel) -> None:
        super().__init__(theme)
        self._model = model
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = Column(theme, self, margins=(16, 16, 16, 16), gap=16)
        self._figures = Flow(theme, gap=32, line_gap=12)
        self._shown_figures: dict[str, Figure] = {}
        self._drives = Column(theme, gap=16)
        self._shown_drives: dict[str, _DriveView] = {}
        self.treemap = Treemap(theme, "Models by size on disk")
        box.addLayout(self._figures)
        box.addLayout(self._drives)
        box.addWidget(self.treemap)
        model.work.changed.connect(self._show_busy)

    def show_use(self, use: DiskUse) -> None:
        """Show what is so now."""
        self._show_figures(use)
        drives = {drive.path: drive for drive in use.drives}
        if list(drives) != list(self._shown_drives):
            clear(self._drives)
            self._shown_drives = {path: _DriveView(self.theme, self._model, drive) for path, drive in drives.items()}
            for view in self._shown_drives.values():
                self._drives.addWidget(view)
        for path, drive in drives.items():
            self._shown_drives[path].show_drive(drive, use)
        self.treemap.show_groups(disk.groups(use))
        self.treemap.setVisible(bool(self.treemap.cells))
        self._show_busy()

    def _show_busy(self) -> None:
        for view in self._shown_drives.values():
            view.empty_button.setEnabled(not self._model.work.is_busy)

    def _show_figures(self, use: DiskUse) -> None:
        figures = {name: value for value, name in disk.summary(use)}
        if list(figures) != list(self._shown_figures):
            clear(self._figures)
            self._shown_figures = {name: Figure(self.theme, name, role="title") for name in figures}
            for figure in self._shown_figures.values():
                self._figures.addWidget(figure)
        for name, value in figures.items():
            self._shown_figures[name].say(value)


class _DriveView(QWidget):
    """One drive."""

    def __init__(self, theme: Theme, model: ModelsModel, drive: Drive) -> None:
        super().__init__()
        self._model, self._drive = model, drive
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = Column(theme, self, gap=6)
        head = Line(theme, gap=8)
        self._free = Label(theme, role="meta", color="ink-2")
        name = disk.drive_name(drive)
        head.addWidget(ElidedLabel(theme, name, weight=500), 1)
        head.addWidget(self._free)
        box.addLayout(head)
        self._bar, self._legend = PartsBar(theme, name), Legend(theme)
        box.addWidget(self._bar)
        box.addWidget(self._legend)
        self.empty_button = Button(theme, "", look=Look.BARE, icon="trash-2", action=self._empty)
        box.addSpacing(theme.px(2))
        box.addWidget(self.empty_button, 0, Qt.AlignmentFlag.AlignLeading)

    def show_drive(self, drive: Drive, use: DiskUse) -> None:
        """Show what is so now."""
        self._drive = drive
        pieces = disk.pieces(drive, use)
        whole = float(drive.total_bytes or drive.models_bytes or 1)
        said = [*(words for _, words in pieces), disk.headline(drive)]
        self._free.setText(disk.headline(drive))
        self._bar.set_parts([part for part, _ in pieces], whole, "; ".join(said))
        self._legend.set_entries([(part.color, words) for part, words in pieces])
        self.empty_button.setVisible(drive.trashed is not None)
        if drive.trashed is not None:
            offer = disk.offer(drive.trashed)
            self.empty_button.set_text(offer)
            self.empty_button.setAccessibleName(f"{offer}, from the trash: {disk.drive_name(drive)}")

    def _empty(self) -> None:
        self._model.empty_trash(self._drive)
