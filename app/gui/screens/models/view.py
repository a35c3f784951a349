"""The models page: rows of what is here, a way to add more, and what to do when there is nothing."""

from pathlib import Path

from PySide6.QtCore import QDir
from PySide6.QtWidgets import QFileDialog

from app.core.errors import ErrorBody
from app.gui.net.api import GatewayApi
from app.gui.screens.models.attach import AttachCard
from app.gui.screens.models.memory_panel import MemoryPanel
from app.gui.screens.models.model import ModelsModel
from app.gui.screens.models.row import ModelRowView
from app.gui.shell.contract import Shell, Task
from app.gui.theme.theme import Theme
from app.gui.widgets.fields import Field
from app.gui.widgets.panels import Empty, ErrorPanel, Page
from app.gui.widgets.press import Button, Look
from app.gui.widgets.rows import RowList
from app.gui.widgets.status import Skeleton
from app.gui.widgets.text import Label


class ModelsScreen(Page):
    """Shows a `ModelsModel`."""

    def __init__(self, theme: Theme, api: GatewayApi, shell: Shell) -> None:
        super().__init__(theme, "Models")
        self._shell = shell
        self.model = ModelsModel(api, shell)
        self._search = Field(theme, "Search models", placeholder="Search", icon="search")
        self._search.setMaximumWidth(theme.px(240))
        self._search.textChanged.connect(self.model.look_for)
        self.head.addWidget(self._search)
        self.head.addWidget(Button(theme, "Add a file", icon="file-plus", action=self._ask_file))
        self.head.addWidget(Button(theme, "Add a folder", icon="folder-plus", action=self._ask_folder))
        self.attach_card = AttachCard(theme, self.model)
        self._attach_button = Button(
            theme, "Attach", name="Attach an endpoint", icon="plug", action=self.attach_card.open
        )
        self.head.addWidget(self._attach_button)
        self._error, self._trouble = ErrorPanel(theme), ErrorPanel(theme)
        self._skeleton = Skeleton(theme, is_card=True)
        self._memory = MemoryPanel(theme)
        self._list = RowList(theme, "Models on this machine")
        self._nothing_fits = Label(theme, "No model fits these words.", color="ink-2")
        self._empty = Empty(
            theme,
            "box",
            "No models yet",
            "Add a GGUF file, or drop one on this window. It is used where it lies; nothing is copied.",
        )
        self._empty.add_action(Button(theme, "Add a file", look=Look.PRIMARY, action=self._ask_file))
        for widget in (
            self._trouble,
            self.attach_card,
            self._error,
            self._skeleton,
            self._memory,
            self._list,
            self._nothing_fits,
            self._empty,
        ):
            self.body.addWidget(widget)
        self.body.addStretch(1)
        self.model.changed.connect(self._show)
        self.model.said.connect(shell.toast)
        self.model.failed.connect(self._say)
        self.model.settled.connect(self._trouble.hide)
        self.model.attach_asked.connect(self.attach_card.open)
        self.attach_card.closed.connect(self._attach_button.setFocus)
        shell.files_dropped.connect(self._add_dropped)
        shell.task_asked.connect(self._do)
        self._show()

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
        self._memory.show_state(model.sharing.memory)
        self.about.setText(model.summary)
        self._search.setVisible(model.wants_search)
        self._skeleton.setVisible(not known and model.error is None)
        self._list.setVisible(bool(rows))
        self._nothing_fits.setVisible(known and not rows and is_searching)
        self._empty.setVisible(known and not rows and not is_searching)
        if model.error is not None:
            self._error.say(model.error, "Try again", model.library.read)
        elif known:
            self._error.hide()

    def _say(self, error: ErrorBody) -> None:
        self._trouble.say(error, "Dismiss", self._trouble.hide)

    def _add_dropped(self, files: list[Path]) -> None:
        for file in files:
            self.model.register(file)

    def _do(self, task: str) -> None:
        if task == Task.ADD_FILE:
            self._ask_file()
        elif task == Task.ADD_FOLDER:
            self._ask_folder()

    def _ask_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Add a model file", QDir.homePath(), "Models (*.gguf)")
        if path:
            self.model.register(Path(path))

    def _ask_folder(self) -> None:
        path = QFileDialog.getExistingDirectory(self, "Add a folder of models", QDir.homePath())
        if path:
            self.model.add_folder(Path(path))
