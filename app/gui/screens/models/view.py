"""The models page: what is here, what it takes of the disks, and what the hub has; one side of it is shown."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QDir, Qt, QTimer
from PySide6.QtWidgets import QButtonGroup, QFileDialog, QWidget

from app.core.downloads import Download
from app.core.errors import ErrorBody
from app.core.library import JobKind
from app.core.models import ModelInfo
from app.gui import phrases
from app.gui.net.stores import Stores
from app.gui.screens.models.attach import AttachCard
from app.gui.screens.models.discover import Discover
from app.gui.screens.models.disk_view import DiskView
from app.gui.screens.models.downloads_panel import DownloadsPanel
from app.gui.screens.models.fetching import Fetching, library_name
from app.gui.screens.models.finding import Finding
from app.gui.screens.models.job_view import JobView
from app.gui.screens.models.memory_panel import MemoryPanel
from app.gui.screens.models.model import ModelsModel, Side
from app.gui.screens.models.row import ModelRowView
from app.gui.screens.models.tuning_view import TuningView
from app.gui.shell.contract import Shell, Task
from app.gui.theme.theme import Theme
from app.gui.widgets.fields import Field
from app.gui.widgets.layout import Column, Line
from app.gui.widgets.panels import Empty, ErrorPanel, Page
from app.gui.widgets.press import Button, Chip, IconButton, Look, Pressable
from app.gui.widgets.rows import RowList
from app.gui.widgets.status import Skeleton
from app.gui.widgets.text import Label

_SIDES = {Side.HERE: "On this computer", Side.DISK: "Disk", Side.HUB: "Discover"}


class ModelsScreen(Page):
    """Shows a `ModelsModel`."""

    def __init__(self, theme: Theme, stores: Stores, shell: Shell) -> None:
        super().__init__(theme, "Models")
        self._shell = shell
        self.model = ModelsModel(stores, shell)
        self.finding, self.fetching = Finding(stores.api, shell), Fetching(stores, shell)
        self.attach_card, self.tuning = AttachCard(theme, self.model), TuningView(theme, self.model.tuning)
        self._search = Field(theme, "Search models", placeholder="Search", icon="search")
        self._library_tools = self._tools()
        self._attach_button = self._library_tools[-1]
        self._error, self._trouble = ErrorPanel(theme), ErrorPanel(theme)
        self._skeleton = Skeleton(theme, is_card=True)
        self._memory = MemoryPanel(theme)
        self._list = RowList(theme, "Models on this machine")
        self._nothing_fits = Label(theme, "No models match your search.", color="ink-2")
        self._empty = Empty(
            theme,
            "box",
            "No models yet",
            "Find one that suits this machine, or add a GGUF file. A file is used where it is; nothing is copied.",
        )
        self._empty.add_action(Button(theme, "Discover models", look=Look.PRIMARY, action=self.show_discover))
        self._library, self._places = self._laid_out(), _Places(theme, self._turn)
        self.disk = DiskView(theme, self.model, self._ask_folder)
        self.discover = Discover(theme, self.finding, self.fetching, shell)
        self._downloads = DownloadsPanel(theme, self.fetching, shell)
        self._downloads.chat_asked.connect(self._chat)
        sides = (self.discover, self.disk, self._library, self.tuning)
        for part in (self._places, self._trouble, self._downloads, *sides):
            self.body.addWidget(part)
        self.body.addStretch(1)
        self._listen()
        self._turn(Side.HERE)

    def _tools(self) -> tuple[Pressable, ...]:
        """Put into the head what adds to the library."""
        theme = self.theme
        self._search.setMaximumWidth(theme.px(240))
        self._search.textChanged.connect(self.model.look_for)
        self.head.addWidget(self._search)
        self._refresh = IconButton(
            theme, "refresh-cw", "Check for newer files on the hub", action=self.model.updates.check
        )
        tools = (
            self._refresh,
            Button(theme, "Add a file", icon="file-plus", action=self._ask_file),
            Button(theme, "Add a folder", icon="folder-plus", action=self._ask_folder),
            Button(theme, "Attach", name="Attach an endpoint", icon="plug", action=self.attach_card.open),
        )
        for tool in tools:
            self.head.addWidget(tool)
        return tools

    def _laid_out(self) -> QWidget:
        """Return the library's side of the page."""
        library = QWidget()
        box = Column(self.theme, library, gap=16)
        for widget in (
            self.attach_card,
            JobView(self.theme, self.model.work, {JobKind.VERIFY}),
            self._error,
            self._skeleton,
            self._memory,
            self._list,
            self._nothing_fits,
            self._empty,
        ):
            box.addWidget(widget)
        return library

    def _listen(self) -> None:
        shell = self._shell
        self.model.changed.connect(self._show)
        self.model.settled.connect(self._trouble.hide)
        self.model.attach_asked.connect(self._open_attach)
        self.model.correct_asked.connect(self._open_correction)
        self.model.tuning.opened.connect(self._show_sides)
        self.model.tuning.closed.connect(self._leave_tuning)
        self.attach_card.closed.connect(self._attach_button.setFocus)
        for told in (self.fetching.said, self.model.said):
            told.connect(shell.toast)
        for failed in (self.fetching.failed, self.model.failed):
            failed.connect(self._say)
        self.model.updates.wanted.connect(self.fetching.pull)
        self.fetching.failed.connect(self.model.updates.refused)
        self.disk.model_asked.connect(self._show_model)
        self.fetching.begun.connect(self._trouble.hide)
        self.fetching.changed.connect(self._show_coming)
        shell.files_dropped.connect(self._add_dropped)
        shell.repository_asked.connect(self._find)
        shell.task_asked.connect(self._do)

    def show_discover(self) -> None:
        """Turn to what the hub has, with the field to look for it."""
        self._turn(Side.HUB)
        self.discover.field.setFocus(Qt.FocusReason.OtherFocusReason)

    def _open_correction(self, model: ModelInfo) -> None:
        self._turn(Side.HERE)
        self.attach_card.correct(model)

    def _open_attach(self, url: str, name: str) -> None:
        self._turn(Side.HERE)
        self.attach_card.open(url, name)

    def _turn(self, side: Side) -> None:
        self._side = side
        self._places.mark(side)
        self.model.tuning.close()
        self._show_sides()
        self._show_coming()
        if side is Side.HUB:
            self.finding.open()
        if side is Side.DISK:
            self.model.disk.open()
        else:
            self.model.disk.close()
        self._show()

    def _show_sides(self) -> None:
        """Show the side that is chosen, or one model's settings."""
        is_tuning = self.model.tuning.model is not None
        shown = None if is_tuning else self._side
        lists = shown is Side.HERE
        self._places.setVisible(not is_tuning)
        self._library.setVisible(lists)
        self.disk.setVisible(shown is Side.DISK)
        self.discover.setVisible(shown is Side.HUB)
        self.tuning.setVisible(is_tuning)
        self._downloads.allow(is_allowed=lists)
        self._search.setVisible(self.model.wants_search and lists)
        for tool in self._library_tools:
            tool.setVisible(lists)

    def _leave_tuning(self) -> None:
        left = self.tuning.shown
        self._show_sides()
        self._point_out(left)

    def _show_model(self, name: str) -> None:
        """Turn to the list, to one model's row."""
        self._turn(Side.HERE)
        self._search.clear()
        self._point_out(name)

    def _point_out(self, name: str) -> None:
        row = self._list.rows.get(name)
        if isinstance(row, ModelRowView):
            row.take_focus()
            QTimer.singleShot(0, row, partial(self.scroller.ensureWidgetVisible, row))

    def _show(self) -> None:
        model = self.model
        rows = model.rows()
        known = model.library.is_known
        is_searching = bool(model.search)
        self._list.sync(
            {row.model.name: row for row in rows},
            lambda row: ModelRowView(self.theme, model, self._shell, row),
            ModelRowView.show_row,
        )
        self._refresh.setEnabled(not model.updates.is_asking)
        self._memory.show_state(model.sharing.memory)
        self.about.setText(model.summary)
        self._search.setVisible(model.wants_search and self._library.isVisibleTo(self))
        self._skeleton.setVisible(not known and model.error is None)
        self._list.setVisible(bool(rows))
        self._nothing_fits.setVisible(known and not rows and is_searching)
        self._empty.setVisible(known and not rows and not is_searching)
        if model.error is not None:
            self._error.say(model.error, "Try again", model.library.read)
        elif known:
            self._error.hide()

    def _show_coming(self) -> None:
        self._places.tell(phrases.coming(self.fetching.queue.items) if self._side is not Side.HERE else "")

    def _chat(self, download: Download) -> None:
        self._shell.new_chat(library_name(self.model.library.items, download))

    def _say(self, error: ErrorBody) -> None:
        self._trouble.say(error, "Dismiss", self._trouble.hide)

    def _add_dropped(self, files: list[Path]) -> None:
        self._turn(Side.HERE)
        for file in files:
            self.model.register(file)

    def _find(self, repository: str) -> None:
        self.show_discover()
        self.discover.field.setText(repository)

    def _do(self, task: str) -> None:
        if task == Task.ADD_FILE:
            self._ask_file()
        elif task == Task.ADD_FOLDER:
            self._ask_folder()
        elif task == Task.DISCOVER:
            self.show_discover()
        elif task == Task.DISK:
            self._turn(Side.DISK)
        elif task == Task.UPDATES:
            self.model.updates.check()

    def _ask_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Add a model file", QDir.homePath(), "Models (*.gguf)")
        if path:
            self.model.register(Path(path))

    def _ask_folder(self) -> None:
        path = QFileDialog.getExistingDirectory(self, "Add a folder of models", QDir.homePath())
        if path:
            self.model.add_folder(Path(path))


class _Places(QWidget):
    """The sides of the page: what is on this computer, what that takes, and what the hub has."""

    def __init__(self, theme: Theme, turn: Callable[[Side], object]) -> None:
        super().__init__()
        self.setAccessibleName("Sections of the page")
        line, group = Line(theme, self, gap=8), QButtonGroup(self)
        self._chips = {side: Chip(theme, words) for side, words in _SIDES.items()}
        for side, chip in self._chips.items():
            group.addButton(chip)
            chip.act(partial(turn, side))
            line.addWidget(chip)
        line.addStretch(1)
        self.coming = Button(theme, "", look=Look.BARE, name="Downloads", action=partial(turn, Side.HERE))
        line.addWidget(self.coming)

    def tell(self, coming: str) -> None:
        """Say at the end of the line what is being downloaded."""
        self.coming.setText(coming)
        self.coming.setAccessibleName(f"Downloads: {coming}")
        self.coming.updateGeometry()
        self.coming.setVisible(bool(coming))

    def mark(self, side: Side) -> None:
        """Mark the side that is shown."""
        self._chips[side].setChecked(True)
