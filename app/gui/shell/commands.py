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
        return [
            *self._file_actions(actions),
            MenuAction(tr("Edit"), tr("Undo"), actions.undo, "undo-2", "Ctrl+Z"),
            *self._page_actions(),
            MenuAction(tr("Go"), tr("Command palette"), actions.palette, "command", "Ctrl+K"),
            *self._view_actions(),
            *self._server_actions(actions),
            *self._machine_actions(),
        ]

    def _file_actions(self, actions: WindowActions) -> list[MenuAction]:
        menu, models = tr("File"), partial(self._shell.request_task, PageId.MODELS)
        settings = partial(self._shell.show_page, PageId.SETTINGS)
        check_version = partial(self._shell.request_task, PageId.SETTINGS, Task.NEW_VERSION)
        is_settings, is_quit = QAction.MenuRole.PreferencesRole, QAction.MenuRole.QuitRole
        return [
            MenuAction(menu, tr("New chat"), self._shell.new_chat, "plus", "Ctrl+N"),
            MenuAction(menu, tr("Add a model file"), partial(models, Task.ADD_FILE), "file-plus", "Ctrl+O"),
            MenuAction(menu, tr("Add a folder of models"), partial(models, Task.ADD_FOLDER), "folder-plus"),
            MenuAction(menu, tr("Discover models"), partial(models, Task.DISCOVER), "search", "Ctrl+D"),
            MenuAction(menu, tr("Disk space used by models"), partial(models, Task.DISK), "gauge"),
            MenuAction(menu, tr("Check for newer models"), partial(models, Task.UPDATES), "refresh-cw"),
            MenuAction(menu, tr("Settings"), settings, "settings", "Ctrl+,", is_settings),
            MenuAction(menu, tr("Check for updates"), check_version, "refresh-cw"),
            MenuAction(menu, tr("Quit Roundhouse"), actions.quit, "power", "Ctrl+Q", is_quit),
        ]

    def _page_actions(self) -> list[MenuAction]:
        return [
            MenuAction(
                tr("Go"), TITLES[page][0].tr(), partial(self._shell.show_page, page), TITLES[page][1], f"Ctrl+{number}"
            )
            for number, page in enumerate(RAIL, 1)
        ]

    def _view_actions(self) -> list[MenuAction]:
        menu, scale, choose = tr("View"), self._appearance.change_scale, self._appearance.choose_mode
        return [
            MenuAction(menu, tr("Larger text"), partial(scale, SCALE_STEP), "plus", "Ctrl++"),
            MenuAction(menu, tr("Smaller text"), partial(scale, -SCALE_STEP), "chevron-down", "Ctrl+-"),
            MenuAction(menu, tr("Default text size"), self._appearance.reset_scale, "check", "Ctrl+0"),
            MenuAction(menu, tr("Follow the system's appearance"), partial(choose, "system"), "monitor"),
            MenuAction(menu, tr("Light appearance"), partial(choose, "light"), "sun"),
            MenuAction(menu, tr("Dark appearance"), partial(choose, "dark"), "moon"),
        ]

    def _server_actions(self, actions: WindowActions) -> list[MenuAction]:
        menu, pause_store = tr("Server"), self._stores.paused
        connections = partial(self._shell.show_page, PageId.CONNECTIONS)
        return [
            MenuAction(menu, tr("Copy the endpoint's address"), self._copy_endpoint, "copy", "Ctrl+Shift+C"),
            MenuAction(menu, tr("Pause and free all memory"), pause_store.pause, "pause"),
            MenuAction(menu, tr("Resume after a pause"), pause_store.resume, "play"),
            MenuAction(menu, tr("Connections to other computers"), connections, "globe"),
            MenuAction(menu, tr("Other computers"), partial(self._shell.show_page, PageId.MACHINES), "monitor"),
            MenuAction(menu, tr("Tools for models"), partial(self._shell.show_page, PageId.MCP), "wrench"),
            MenuAction(menu, tr("Coding agents"), partial(self._shell.show_page, PageId.AGENTS), "command"),
            MenuAction(menu, tr("Profiles"), partial(self._shell.show_page, PageId.PROFILES), "bookmark"),
            MenuAction(menu, tr("Documents"), partial(self._shell.show_page, PageId.DOCUMENTS), "book-open"),
            MenuAction(menu, tr("Restart the service"), actions.restart, "rotate-ccw"),
            MenuAction(menu, tr("Stop the service"), self._stop_service, "square"),
        ]

    def _machine_actions(self) -> list[MenuAction]:
        menu, ask = tr("Server"), partial(self._shell.request_task, PageId.MACHINE)
        return [
            MenuAction(menu, tr("Detect this machine again"), partial(ask, Task.LOOK_AGAIN), "refresh-cw"),
            MenuAction(menu, tr("Calibrate this machine"), partial(ask, Task.CALIBRATE), "gauge"),
            MenuAction(menu, tr("Measure a model"), partial(self._shell.show_page, PageId.BENCHMARKS), "gauge"),
            MenuAction(menu, tr("Save a report on this machine"), partial(ask, Task.REPORT), "file-text"),
        ]

    def own_commands(self) -> list[Command]:
        """Return what is offered of models, profiles and settings."""
        return [*self.model_commands(), *self.profile_commands(), *self.setting_commands()]

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

    def profile_commands(self) -> list[Command]:
        """Return the switches to other profiles."""
        store = self._stores.profiles
        others = [profile.name for profile in store.state.profiles if profile.name != store.state.active]
        commands = [
            Command(tr("Use the profile {name}", name=name), partial(store.use_profile, name), "bookmark")
            for name in others
        ]
        if store.state.active:
            commands.append(Command(tr("Use no profile"), partial(store.use_profile, ""), "bookmark"))
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
        self._stores.api.post("/shutdown", None, kind=NoneType, then=lambda _: None, on_error=self._show_error)

    def _show_error(self, error: ErrorBody) -> None:
        self._shell.show_toast(error.sentence)

    def _copy_endpoint(self) -> None:
        if self._stores.api.endpoint:
            self._shell.copy_text(f"{self._stores.api.endpoint}/v1", tr("The endpoint's address is on the clipboard"))
        else:
            self._shell.show_toast(tr("There is no endpoint yet: the service has not answered."))
