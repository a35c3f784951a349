"""What the window can do, once: the palette lists it, the menu arranges it, the shortcuts call it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import NoneType

from PySide6.QtGui import QAction

from app.core.errors import ErrorBody
from app.core.translation import tr
from app.gui import phrases
from app.gui.net.remote_lists import Stores
from app.gui.shell.appearance import Appearance
from app.gui.shell.contract import RAIL, Command, PageId, Shell, Task
from app.gui.shell.rail import TITLES

SCALE_STEP = 10


@dataclass(frozen=True, slots=True)
class MenuAction:
    """One thing to do, with its keys and its place in the menu."""

    menu: str
    title: str
    run: Callable[[], object]
    icon: str
    keys: str = ""
    role: QAction.MenuRole = QAction.MenuRole.TextHeuristicRole
    """Where macOS puts it instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowActions:
    """What the window itself does."""

    quit: Callable[[], object]
    palette: Callable[[], object]
    undo: Callable[[], object]
    restart: Callable[[], object]


class WindowCommands:
    """Everything the window can do now."""

    def __init__(self, stores: Stores, shell: Shell, appearance: Appearance) -> None:
        self._stores, self._shell, self._appearance = stores, shell, appearance

    def menu_actions(self, actions: WindowActions) -> list[MenuAction]:
        """Return what is always there, in the order of the menu."""
        shell, appearance = self._shell, self._appearance
        pages = [
            MenuAction(
                tr("Go"), TITLES[page][0].tr(), partial(shell.show_page, page), TITLES[page][1], f"Ctrl+{number}"
            )
            for number, page in enumerate(RAIL, 1)
        ]
        return [
            MenuAction(tr("File"), tr("New chat"), shell.new_chat, "plus", "Ctrl+N"),
            MenuAction(
                tr("File"),
                tr("Add a model file"),
                partial(shell.request_task, PageId.MODELS, Task.ADD_FILE),
                "file-plus",
                "Ctrl+O",
            ),
            MenuAction(
                tr("File"),
                tr("Add a folder of models"),
                partial(shell.request_task, PageId.MODELS, Task.ADD_FOLDER),
                "folder-plus",
            ),
            MenuAction(
                tr("File"),
                tr("Discover models"),
                partial(shell.request_task, PageId.MODELS, Task.DISCOVER),
                "search",
                "Ctrl+D",
            ),
            MenuAction(
                tr("File"),
                tr("Disk space used by models"),
                partial(shell.request_task, PageId.MODELS, Task.DISK),
                "gauge",
            ),
            MenuAction(
                tr("File"),
                tr("Check for newer models"),
                partial(shell.request_task, PageId.MODELS, Task.UPDATES),
                "refresh-cw",
            ),
            MenuAction(
                tr("File"),
                tr("Settings"),
                partial(shell.show_page, PageId.SETTINGS),
                "settings",
                "Ctrl+,",
                QAction.MenuRole.PreferencesRole,
            ),
            MenuAction(
                tr("File"),
                tr("Check for updates"),
                partial(shell.request_task, PageId.SETTINGS, Task.NEW_VERSION),
                "refresh-cw",
            ),
            MenuAction(tr("File"), tr("Quit Roundhouse"), actions.quit, "power", "Ctrl+Q", QAction.MenuRole.QuitRole),
            MenuAction(tr("Edit"), tr("Undo"), actions.undo, "undo-2", "Ctrl+Z"),
            *pages,
            MenuAction(tr("Go"), tr("Command palette"), actions.palette, "command", "Ctrl+K"),
            MenuAction(tr("View"), tr("Larger text"), partial(appearance.change_scale, SCALE_STEP), "plus", "Ctrl++"),
            MenuAction(
                tr("View"), tr("Smaller text"), partial(appearance.change_scale, -SCALE_STEP), "chevron-down", "Ctrl+-"
            ),
            MenuAction(tr("View"), tr("Default text size"), appearance.reset_scale, "check", "Ctrl+0"),
            MenuAction(
                tr("View"), tr("Follow the system's appearance"), partial(appearance.choose_mode, "system"), "monitor"
            ),
            MenuAction(tr("View"), tr("Light appearance"), partial(appearance.choose_mode, "light"), "sun"),
            MenuAction(tr("View"), tr("Dark appearance"), partial(appearance.choose_mode, "dark"), "moon"),
            MenuAction(tr("Server"), tr("Copy the endpoint's address"), self._copy_endpoint, "copy", "Ctrl+Shift+C"),
            MenuAction(tr("Server"), tr("Pause and free all memory"), self._stores.paused.pause, "pause"),
            MenuAction(tr("Server"), tr("Resume after a pause"), self._stores.paused.resume, "play"),
            MenuAction(
                tr("Server"),
                tr("Connections to other computers"),
                partial(shell.show_page, PageId.CONNECTIONS),
                "globe",
            ),
            MenuAction(tr("Server"), tr("Restart the service"), actions.restart, "rotate-ccw"),
            MenuAction(tr("Server"), tr("Stop the service"), self._stop_service, "square"),
            *self._machine_actions(),
        ]

    def _machine_actions(self) -> list[MenuAction]:
        ask = partial(self._shell.request_task, PageId.MACHINE)
        return [
            MenuAction(tr("Server"), tr("Detect this machine again"), partial(ask, Task.LOOK_AGAIN), "refresh-cw"),
            MenuAction(tr("Server"), tr("Calibrate this machine"), partial(ask, Task.CALIBRATE), "gauge"),
            MenuAction(tr("Server"), tr("Save a report on this machine"), partial(ask, Task.REPORT), "file-text"),
        ]

    def model_commands(self) -> list[Command]:
        """Return what can be done with each model now."""
        commands: list[Command] = []
        for model in self._stores.library.items:
            if model.problem:
                continue
            title = phrases.model_label(model)
            if model.chats:
                commands.append(
                    Command(
                        tr("Chat with {title}", title=title),
                        partial(self._shell.new_chat, model.name),
                        "message-square",
                    )
                )
            if self._stores.running.of(model.name) is None:
                commands.append(Command(tr("Load {title}", title=title), partial(self._load_model, model.name), "play"))
            else:
                commands.append(
                    Command(tr("Unload {title}", title=title), partial(self._unload_model, model.name), "eject")
                )
        return commands

    def setting_commands(self) -> list[Command]:
        """Return the way to every setting."""
        return [
            Command(
                tr("Setting: {title}", title=info.title),
                partial(self._shell.request_task, PageId.SETTINGS, info.name),
                "settings",
            )
            for info in self._stores.preferences.items
        ]

    def _load_model(self, model: str) -> None:
        self._shell.show_page(PageId.SERVER)
        self._stores.running.load(model, self._show_error)

    def _unload_model(self, model: str) -> None:
        self._stores.running.unload(
            model,
            lambda: self._shell.show_toast(
                tr("{model} was unloaded", model=model), lambda: self._stores.running.load(model)
            ),
            self._show_error,
        )

    def _stop_service(self) -> None:
        """Stop it; the link notices, and the window offers to start it again."""
        self._stores.api.post("/shutdown", None, kind=NoneType, then=lambda _: None, failed=self._show_error)

    def _show_error(self, error: ErrorBody) -> None:
        self._shell.show_toast(error.sentence)

    def _copy_endpoint(self) -> None:
        if self._stores.api.endpoint:
            self._shell.copy_text(f"{self._stores.api.endpoint}/v1", tr("The endpoint's address is on the clipboard"))
        else:
            self._shell.show_toast(tr("There is no endpoint yet: the service has not answered."))
