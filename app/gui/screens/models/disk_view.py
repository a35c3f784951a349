"""The disk side of the models page: what takes the space of each drive, equal files, and the folders looked through.

Files of the same content: looked for, shown with what sharing would free, and made to share.

The folders that are looked through for models: what is in each, why one cannot be read, and taking one out.

A job of the library while it goes on: what is done, how far, and the way to call it off.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core import words
from app.core.library import DiskUse, Drive, Duplicate, Folder, JobKind
from app.core.models import ModelInfo
from app.core.translation import LazyText, tr
from app.gui.screens.models import disk, library_jobs
from app.gui.screens.models.library_jobs import LibraryJobsModel
from app.gui.screens.models.model import ModelsModel
from app.gui.screens.models.model_files import can_remove, can_verify
from app.gui.theme.theme import Theme
from app.gui.widgets.bars import Legend, PartsBar
from app.gui.widgets.buttons import Button, ButtonLook
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import HBox, Surface, VBox, clear_layout
from app.gui.widgets.menus import Menu
from app.gui.widgets.panels import ErrorPanel, Section
from app.gui.widgets.rows import IconLabel, ListRow, RowList
from app.gui.widgets.status import ProgressBar, Skeleton
from app.gui.widgets.text import ElidedLabel, FigureView, Label, Paragraph
from app.gui.widgets.treemap import Treemap


class DiskView(QWidget):
    """Shows a `DiskModel`. `model_requested` carries a model that is to be shown in the list."""

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
        job_view = JobView(theme, model.jobs, {JobKind.VERIFY, JobKind.EMPTY})
        for widget in (self._error, job_view, self._skeleton, self._usage, self.duplicates, self.folders):
            box.addWidget(widget)
        self._state.changed.connect(self._show_use)
        self._show_use()

    def _show_use(self) -> None:
        use, error = self._state.value, self._state.error
        self._skeleton.setVisible(use is None and error is None)
        for widget in (self._usage, self.folders, self.duplicates):
            widget.setVisible(use is not None)
        if error is not None:
            self._error.show_error(error, tr("Try again"), self._state.read)
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
        menu.add_entry(tr("Show in the list"), partial(self.model_requested.emit, model.name), icon="search")
        if can_verify(model):
            menu.add_entry(tr("Check the files"), partial(self._model.files.verify, model), icon="circle-check")
        if can_remove(model):
            menu.addSeparator()
            label = tr("Move to the trash, {size}", size=words.format_bytes(model.size_bytes))
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
        self.treemap = Treemap(theme, tr("Models by size on disk"))
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
            self.empty_button.setAccessibleName(
                tr("{offer}, from the trash: {drive}", offer=offer, drive=disk.drive_name(drive))
            )

    def _empty_trash(self) -> None:
        self._model.empty_trash(self._drive)


_ABOUT = LazyText(
    "Models installed by several programs are often stored more than once. Files of the same size are compared by "
    "content, which means reading them."
)
_KINDS = frozenset({JobKind.DUPLICATES, JobKind.RECLAIM, JobKind.SEPARATE})


class DuplicatesView(Section):
    """Shows what a `LibraryJobsModel` found."""

    def __init__(self, theme: Theme, model: LibraryJobsModel) -> None:
        super().__init__(theme, tr("Duplicate files"))
        self._theme, self._model = theme, model
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.search_button = Button(
            theme,
            tr("Find duplicates"),
            name=tr("Find duplicate files"),
            widest=tr("Search again"),
            action=model.find_duplicates,
        )
        self.reclaim_button = Button(theme, tr("Reclaim"), look=ButtonLook.PRIMARY, action=model.reclaim_space)
        for button in (self.search_button, self.reclaim_button):
            self.head.addWidget(button)
        self._about = Paragraph(theme, _ABOUT.tr(), color="ink-2")
        self.list = RowList(theme, tr("Duplicate files"))
        for widget in (self._about, JobView(theme, model, _KINDS), self.list):
            self.body.addWidget(widget)
        model.changed.connect(self._show_duplicates)
        self._show_duplicates()

    def _show_duplicates(self) -> None:
        model, duplicates = self._model, self._model.duplicates
        is_told = model.was_searched or bool(duplicates)
        self._about.setText(library_jobs.reclaim_offer(duplicates) if is_told else _ABOUT.tr())
        self.search_button.setText(tr("Search again") if is_told else tr("Find duplicates"))
        self.search_button.setEnabled(not model.is_busy)
        self.reclaim_button.setVisible(bool(model.reclaims_bytes))
        self.reclaim_button.setEnabled(not model.is_busy)
        self.reclaim_button.set_text(tr("Reclaim {size}", size=words.format_bytes(model.reclaims_bytes)))
        self.list.setVisible(bool(duplicates))
        self.list.sync(
            {duplicate.sha256: duplicate for duplicate in duplicates}, self._make_row, DuplicateRow.show_duplicate
        )

    def _make_row(self, duplicate: Duplicate) -> "DuplicateRow":
        return DuplicateRow(self._theme, self._model, duplicate)


class DuplicateRow(ListRow):
    """One content that is here more than once."""

    def __init__(self, theme: Theme, model: LibraryJobsModel, duplicate: Duplicate) -> None:
        super().__init__(theme)
        self._model = model
        self._places = Paragraph(theme, role="meta", color="ink-2")
        self.words.insertWidget(self.words.count() - 1, self._places)
        self.button = Button(theme, "", look=ButtonLook.QUIET, action=partial(model.reclaim_space, [duplicate.sha256]))
        self.tail.addWidget(self.button)

    def show_duplicate(self, duplicate: Duplicate) -> None:
        """Show what is so now."""
        self.show_text(library_jobs.duplicate_name(duplicate), library_jobs.copies_text(duplicate))
        self._places.setText("\n".join(library_jobs.copy_places(duplicate)))
        self.button.setVisible(bool(duplicate.reclaims_bytes))
        self.button.setEnabled(not self._model.is_busy)
        self.button.setText(tr("Reclaim {size}", size=words.format_bytes(duplicate.reclaims_bytes)))
        self.button.setAccessibleName(
            tr(
                "Reclaim {size} of {models}",
                size=words.format_bytes(duplicate.reclaims_bytes),
                models=library_jobs.duplicate_name(duplicate),
            )
        )
        self.button.updateGeometry()


class FoldersView(Section):
    """A row for each folder. `ask` asks a person for one more."""

    def __init__(self, theme: Theme, model: ModelsModel, ask: Callable[[], object]) -> None:
        super().__init__(theme, tr("Folders"))
        self._theme, self._model = theme, model
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.head.addWidget(Button(theme, tr("Add a folder"), icon="folder-plus", action=ask))
        self.list = RowList(theme, tr("Folders that are searched"))
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
            tr("Remove"),
            look=ButtonLook.QUIET,
            name=tr("Stop searching {title}", title=folder.title),
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


class JobView(Surface):
    """Shows a `LibraryJobsModel` while a job of these kinds goes on; hidden otherwise."""

    def __init__(self, theme: Theme, model: LibraryJobsModel, kinds: Collection[JobKind]) -> None:
        super().__init__(theme)
        self._model, self._kinds = model, kinds
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self._row = ListRow(theme)
        self._progress = ProgressBar(theme, tr("Progress"))
        end = self._row.words.count() - 1
        self._row.words.insertSpacing(end, theme.px(4))
        self._row.words.insertWidget(end + 1, self._progress)
        self.cancel_button = Button(theme, tr("Cancel"), action=model.cancel)
        self._row.tail.addWidget(self.cancel_button)
        VBox(theme, self, margins=(0, 4, 0, 4), gap=0).addWidget(self._row)
        model.changed.connect(self._show_job)
        self._show_job()

    def _show_job(self) -> None:
        job = self._model.job
        is_shown = job is not None and not job.is_done and job.kind in self._kinds
        self.setVisible(is_shown)
        if job is None or not is_shown:
            return
        self._row.show_text(library_jobs.job_title(job), library_jobs.job_progress(job))
        self._progress.set_fraction(library_jobs.job_fraction(job))
        self.cancel_button.setAccessibleName(tr("Cancel: {job}", job=library_jobs.job_title(job)))
