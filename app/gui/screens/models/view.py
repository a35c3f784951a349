"""The models page: what is here, what it takes of the disks, and what the hub has; one side of it is shown.

The memory that loaded models share: a bar for each memory, whose pieces are the models, and who waits for whom.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QDir, Qt, QTimer
from PySide6.QtWidgets import QButtonGroup, QFileDialog, QSizePolicy, QWidget

from app.core.downloads import Download
from app.core.engines import MemoryPool, MemoryState
from app.core.errors import ErrorBody
from app.core.library import JobKind
from app.core.models import ModelInfo
from app.core.translation import LazyText, tr
from app.gui import phrases
from app.gui.net.remote_lists import Stores
from app.gui.screens.models import memory_model
from app.gui.screens.models.attach_card import AttachCard
from app.gui.screens.models.discover import DiscoverView
from app.gui.screens.models.disk_view import DiskView, JobView
from app.gui.screens.models.downloads import DownloadsModel
from app.gui.screens.models.downloads_panel import DownloadsPanel
from app.gui.screens.models.hub_search import HubSearchModel
from app.gui.screens.models.model import ModelsModel, ModelsSide
from app.gui.screens.models.model_row_view import ModelRowView
from app.gui.screens.models.model_settings_view import ModelSettingsView
from app.gui.shell.contract import PageId, Shell, Task
from app.gui.theme.theme import Theme
from app.gui.widgets.bars import Legend, PartsBar
from app.gui.widgets.buttons import Button, ButtonLook, Chip, IconButton, Pressable
from app.gui.widgets.fields import Field
from app.gui.widgets.layout import HBox, Surface, VBox, clear_layout
from app.gui.widgets.panels import EmptyState, ErrorPanel, PageFrame
from app.gui.widgets.rows import RowList
from app.gui.widgets.status import Skeleton
from app.gui.widgets.text import ElidedLabel, Label, Paragraph

_ENGINE_TOO_OLD = "engine_too_old"
_SIDES = {
    ModelsSide.HERE: LazyText("On this computer"),
    ModelsSide.DISK: LazyText("Disk"),
    ModelsSide.HUB: LazyText("Discover"),
}


class ModelsScreen(PageFrame):
    """Shows a `ModelsModel`."""

    def __init__(self, theme: Theme, stores: Stores, shell: Shell) -> None:
        super().__init__(theme, tr("Models"))
        self._shell = shell
        self.model = ModelsModel(stores, shell)
        self.hub_search, self.downloads_model = HubSearchModel(stores.api, shell), DownloadsModel(stores, shell)
        self.attach_card, self.settings_view = (
            AttachCard(theme, self.model),
            ModelSettingsView(theme, self.model.model_settings),
        )
        self._search = Field(theme, tr("Search models"), placeholder=tr("Search"), icon="search")
        self._library_tools = self._make_tools()
        self._attach_button = self._library_tools[-1]
        self._error, self._trouble = ErrorPanel(theme), ErrorPanel(theme)
        self._skeleton = Skeleton(theme, is_card=True)
        self._memory = MemoryPanel(theme)
        self._list = RowList(theme, tr("Models on this machine"))
        self._nothing_fits = Label(theme, tr("No models match your search."), color="ink-2")
        self._empty = EmptyState(
            theme,
            "box",
            tr("No models yet"),
            tr("Find one that suits this machine, or add a GGUF file. A file is used where it is; nothing is copied."),
        )
        self._empty.add_action(Button(theme, tr("Discover models"), look=ButtonLook.PRIMARY, action=self.show_discover))
        self._side = ModelsSide.HERE
        self._library, self._places = (
            self._make_library(),
            _SideChips(theme, self._turn_to, partial(shell.show_page, PageId.PROFILES)),
        )
        self.disk = DiskView(theme, self.model, self._ask_folder)
        self.discover = DiscoverView(theme, self.hub_search, self.downloads_model, shell)
        self._downloads = DownloadsPanel(theme, self.downloads_model, shell)
        self._downloads.chat_requested.connect(self._start_chat)
        sides = (self.discover, self.disk, self._library, self.settings_view)
        for part in (self._places, self._trouble, self._downloads, *sides):
            self.body.addWidget(part)
        self.body.addStretch(1)
        self._connect_signals()
        self._turn_to(ModelsSide.HERE)

    def _make_tools(self) -> tuple[Pressable, ...]:
        """Put into the head what adds to the library."""
        theme = self.theme
        self._search.setMaximumWidth(theme.px(240))
        self._search.textChanged.connect(self.model.set_search)
        self.head.addWidget(self._search)
        self._refresh = IconButton(
            theme, "refresh-cw", tr("Check for newer files on the hub"), action=self.model.updates.check_hub
        )
        tools = (
            self._refresh,
            Button(theme, tr("Add a file"), icon="file-plus", action=self._ask_file),
            Button(theme, tr("Add a folder"), icon="folder-plus", action=self._ask_folder),
            Button(theme, tr("Attach"), name=tr("Attach an endpoint"), icon="plug", action=self.attach_card.open),
        )
        for tool in tools:
            self.head.addWidget(tool)
        return tools

    def _make_library(self) -> QWidget:
        """Return the library's side of the page."""
        library = QWidget()
        box = VBox(self.theme, library, gap=16)
        for widget in (
            self.attach_card,
            JobView(self.theme, self.model.jobs, {JobKind.VERIFY}),
            self._error,
            self._skeleton,
            self._memory,
            self._list,
            self._nothing_fits,
            self._empty,
        ):
            box.addWidget(widget)
        return library

    def _connect_signals(self) -> None:
        shell = self._shell
        self.model.changed.connect(self._show_models)
        self.model.settled.connect(self._trouble.hide)
        self.model.attach_requested.connect(self._open_attach)
        self.model.correction_requested.connect(self._open_correction)
        self.model.model_settings.opened.connect(self._show_sides)
        self.model.model_settings.closed.connect(self._leave_settings)
        self.attach_card.closed.connect(self._attach_button.setFocus)
        for toast_signal in (self.downloads_model.toast_requested, self.model.toast_requested):
            toast_signal.connect(shell.show_toast)
        for error_signal in (self.downloads_model.failed, self.model.failed):
            error_signal.connect(self._show_error)
        self.model.updates.download_requested.connect(self.downloads_model.start_download)
        self.downloads_model.failed.connect(self.model.updates.restore_offers)
        self.disk.model_requested.connect(self._show_model)
        self.downloads_model.download_started.connect(self._trouble.hide)
        self.downloads_model.changed.connect(self._show_coming)
        shell.files_dropped.connect(self._add_dropped)
        shell.repository_requested.connect(self._search_repository)
        shell.task_requested.connect(self._perform_task)

    def show_discover(self) -> None:
        """Turn to what the hub has, with the field to look for it."""
        self._turn_to(ModelsSide.HUB)
        self.discover.field.setFocus(Qt.FocusReason.OtherFocusReason)

    def _open_correction(self, model: ModelInfo) -> None:
        self._turn_to(ModelsSide.HERE)
        self.attach_card.open_correction(model)

    def _open_attach(self, url: str, name: str) -> None:
        self._turn_to(ModelsSide.HERE)
        self.attach_card.open(url, name)

    def _turn_to(self, side: ModelsSide) -> None:
        if side is not self._side:
            self._trouble.hide()  # it was about what is left behind
        self._side = side
        self._places.mark_side(side)
        self.model.model_settings.close_model()
        self._show_sides()
        self._show_coming()
        if side is ModelsSide.HUB:
            self.hub_search.show_first_picks()
        if side is ModelsSide.DISK:
            self.model.disk.open()
        else:
            self.model.disk.close()
        self._show_models()

    def _show_sides(self) -> None:
        """Show the side that is chosen, or one model's settings."""
        is_tuning = self.model.model_settings.model is not None
        side = None if is_tuning else self._side
        lists = side is ModelsSide.HERE
        self._places.setVisible(not is_tuning)
        self._library.setVisible(lists)
        self.disk.setVisible(side is ModelsSide.DISK)
        self.discover.setVisible(side is ModelsSide.HUB)
        self.settings_view.setVisible(is_tuning)
        self._downloads.set_allowed(is_allowed=lists)
        self._search.setVisible(self.model.wants_search and lists)
        for tool in self._library_tools:
            tool.setVisible(lists)

    def _leave_settings(self) -> None:
        model_name = self.settings_view.shown_model
        self._show_sides()
        self._point_out(model_name)

    def _show_model(self, name: str) -> None:
        """Turn to the list, to one model's row."""
        self._turn_to(ModelsSide.HERE)
        self._search.clear()
        self._point_out(name)

    def _point_out(self, name: str) -> None:
        row = self._list.rows.get(name)
        if isinstance(row, ModelRowView):
            row.take_focus()
            QTimer.singleShot(0, row, partial(self.scroller.ensureWidgetVisible, row))

    def _show_models(self) -> None:
        model = self.model
        rows = model.list_rows()
        is_known = model.library.is_known
        is_searching = bool(model.search)
        self._list.sync(
            {row.model.name: row for row in rows},
            lambda row: ModelRowView(self.theme, model, self._shell, row),
            ModelRowView.show_row,
        )
        self._refresh.setEnabled(not model.updates.is_checking)
        self._memory.show_state(model.memory.memory)
        self.about.setText(model.summary)
        self._search.setVisible(model.wants_search and self._library.isVisibleTo(self))
        self._skeleton.setVisible(not is_known and model.error is None)
        self._list.setVisible(bool(rows))
        self._nothing_fits.setVisible(is_known and not rows and is_searching)
        self._empty.setVisible(is_known and not rows and not is_searching)
        if model.error is not None:
            self._error.show_error(model.error, tr("Try again"), model.library.read)
        elif is_known:
            self._error.hide()

    def _show_coming(self) -> None:
        self._places.show_coming(
            phrases.downloads_summary(self.downloads_model.queue.items) if self._side is not ModelsSide.HERE else ""
        )

    def _start_chat(self, download: Download) -> None:
        self._shell.new_chat(phrases.library_name(self.model.library.items, download))

    def _show_error(self, error: ErrorBody) -> None:
        if error.code == _ENGINE_TOO_OLD:
            self._trouble.show_error(error, tr("Open Engines"), partial(self._shell.show_page, PageId.ENGINES))
            if self.downloads_model.refused_pull is not None:
                self._trouble.offer_other(tr("Download anyway"), self.downloads_model.download_anyway)
            return
        self._trouble.show_error(error, tr("Dismiss"), self._trouble.hide)

    def _add_dropped(self, files: list[Path]) -> None:
        self._turn_to(ModelsSide.HERE)
        for file in files:
            self.model.register_file(file)

    def _search_repository(self, repository: str) -> None:
        self.show_discover()
        self.discover.field.setText(repository)

    def _perform_task(self, task: str) -> None:
        if task == Task.INSTALLED:
            self._turn_to(ModelsSide.HERE)
        elif task == Task.ADD_FILE:
            self._ask_file()
        elif task == Task.ADD_FOLDER:
            self._ask_folder()
        elif task == Task.DISCOVER:
            self.show_discover()
            self.discover.focus_best()
        elif task == Task.DISK:
            self._turn_to(ModelsSide.DISK)
        elif task == Task.UPDATES:
            self.model.updates.check_hub()

    def _ask_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, tr("Add a model file"), QDir.homePath(), tr("Models (*.gguf)"))
        if path:
            self.model.register_file(Path(path))

    def _ask_folder(self) -> None:
        path = QFileDialog.getExistingDirectory(self, tr("Add a folder of models"), QDir.homePath())
        if path:
            self.model.add_folder(Path(path))


class _SideChips(QWidget):
    """The sides of the page: what is on this computer, what that takes, and what the hub has."""

    def __init__(self, theme: Theme, turn: Callable[[ModelsSide], object], show_profiles: Callable[[], object]) -> None:
        super().__init__()
        self.setAccessibleName(tr("Sections of the page"))
        line, group = HBox(theme, self, gap=8), QButtonGroup(self)
        self._chips = {side: Chip(theme, words.tr()) for side, words in _SIDES.items()}
        for side, chip in self._chips.items():
            group.addButton(chip)
            chip.set_action(partial(turn, side))
            line.addWidget(chip)
        line.addStretch(1)
        self.coming = Button(
            theme, "", look=ButtonLook.BARE, name=tr("Downloads"), action=partial(turn, ModelsSide.HERE)
        )
        line.addWidget(self.coming)
        line.addWidget(Button(theme, tr("Profiles"), look=ButtonLook.BARE, icon="chevron-right", action=show_profiles))

    def show_coming(self, coming_words: str) -> None:
        """Say at the end of the line what is being downloaded."""
        self.coming.setText(coming_words)
        self.coming.setAccessibleName(tr("Downloads: {coming}", coming=coming_words))
        self.coming.updateGeometry()
        self.coming.setVisible(bool(coming_words))

    def mark_side(self, side: ModelsSide) -> None:
        """Mark the side that is shown."""
        self._chips[side].setChecked(True)


class MemoryPanel(Surface):
    """Shows a `MemoryState`; hidden while no model holds anything."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(theme)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, margins=(16, 12, 16, 12), gap=12)
        self._pools = VBox(theme, gap=12)
        self._pool_views: dict[str, _MemoryPoolView] = {}
        box.addLayout(self._pools)
        self._waits = Paragraph(theme, role="meta", color="warn")
        box.addWidget(self._waits)
        self.show_state(MemoryState(pools=[]))

    def show_state(self, state: MemoryState) -> None:
        """Show what is so now."""
        pools = {pool.id: pool for pool in memory_model.pools_in_use(state)}
        if list(pools) != list(self._pool_views):
            clear_layout(self._pools)
            self._pool_views = {key: _MemoryPoolView(self.theme, pool.name) for key, pool in pools.items()}
            for view in self._pool_views.values():
                self._pools.addWidget(view)
        for key, pool in pools.items():
            self._pool_views[key].show_pool(pool)
        waiting_text = memory_model.waits_text(state.waiting)
        self._waits.setText(waiting_text)
        self._waits.setVisible(bool(waiting_text))
        self.setVisible(bool(pools or waiting_text))


class _MemoryPoolView(QWidget):
    """One memory."""

    def __init__(self, theme: Theme, name: str) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, gap=6)
        head = HBox(theme, gap=8)
        self._figure = Label(theme, role="meta", color="ink-2")
        head.addWidget(ElidedLabel(theme, name, weight=500), 1)
        head.addWidget(self._figure)
        box.addLayout(head)
        self._bar, self._legend = PartsBar(theme, tr("{name}, used by models", name=name)), Legend(theme)
        box.addWidget(self._bar)
        box.addWidget(self._legend)

    def show_pool(self, pool: MemoryPool) -> None:
        """Show what is so now."""
        entries = memory_model.legend_entries(pool)
        self._figure.setText(memory_model.pool_headline(pool))
        self._bar.set_parts(
            memory_model.bar_parts(pool), memory_model.bar_total(pool), "; ".join(words for _, words in entries)
        )
        self._legend.set_entries(entries)
