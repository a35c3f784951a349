"""What the window can do, once: the palette lists it, the menu arranges it, the shortcuts call it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import NoneType

from app.core.errors import ErrorBody
from app.gui import phrases
from app.gui.net.stores import Stores
from app.gui.shell.contract import RAIL, Command, Page, Shell, Task
from app.gui.shell.looks import Looks
from app.gui.shell.rail import TITLES

SCALE_STEP = 10


@dataclass(frozen=True, slots=True)
class Deed:
    """One thing to do, with its keys and its place in the menu."""

    menu: str
    title: str
    run: Callable[[], object]
    icon: str
    keys: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """What the window itself does."""

    quit: Callable[[], object]
    palette: Callable[[], object]
    undo: Callable[[], object]
    restart: Callable[[], object]


class Commands:
    """Everything the window can do now."""

    def __init__(self, stores: Stores, shell: Shell, looks: Looks) -> None:
        self._stores, self._shell, self._looks = stores, shell, looks

    def deeds(self, own: Own) -> list[Deed]:
        """Return what is always there, in the order of the menu."""
        shell, looks = self._shell, self._looks
        pages = [
            Deed("Go", TITLES[page][0], partial(shell.show_page, page), TITLES[page][1], f"Ctrl+{number}")
            for number, page in enumerate(RAIL, 1)
        ]
        return [
            Deed("File", "New chat", shell.new_chat, "plus", "Ctrl+N"),
            Deed("File", "Add a model file", partial(shell.ask, Page.MODELS, Task.ADD_FILE), "file-plus", "Ctrl+O"),
            Deed("File", "Add a folder of models", partial(shell.ask, Page.MODELS, Task.ADD_FOLDER), "folder-plus"),
            Deed("File", "Discover models", partial(shell.ask, Page.MODELS, Task.DISCOVER), "search", "Ctrl+D"),
            Deed("File", "Disk space used by models", partial(shell.ask, Page.MODELS, Task.DISK), "gauge"),
            Deed("File", "Check for newer models", partial(shell.ask, Page.MODELS, Task.UPDATES), "refresh-cw"),
            Deed("File", "Settings", partial(shell.show_page, Page.SETTINGS), "settings", "Ctrl+,"),
            Deed("File", "Check for updates", partial(shell.ask, Page.SETTINGS, Task.NEW_VERSION), "refresh-cw"),
            Deed("File", "Quit Roundhouse", own.quit, "power", "Ctrl+Q"),
            Deed("Edit", "Undo", own.undo, "undo-2", "Ctrl+Z"),
            *pages,
            Deed("Go", "Command palette", own.palette, "command", "Ctrl+K"),
            Deed("View", "Larger text", partial(looks.step, SCALE_STEP), "plus", "Ctrl++"),
            Deed("View", "Smaller text", partial(looks.step, -SCALE_STEP), "chevron-down", "Ctrl+-"),
            Deed("View", "Default text size", looks.usual_size, "check", "Ctrl+0"),
            Deed("View", "Follow the system's appearance", partial(looks.choose_mode, "system"), "monitor"),
            Deed("View", "Light appearance", partial(looks.choose_mode, "light"), "sun"),
            Deed("View", "Dark appearance", partial(looks.choose_mode, "dark"), "moon"),
            Deed("Server", "Copy the endpoint's address", self._copy_endpoint, "copy", "Ctrl+Shift+C"),
            Deed("Server", "Pause: give all memory back", self._stores.paused.pause, "pause"),
            Deed("Server", "Resume after a pause", self._stores.paused.resume, "play"),
            Deed("Server", "Connections to other computers", partial(shell.show_page, Page.CONNECTIONS), "globe"),
            Deed("Server", "Restart the service", own.restart, "rotate-ccw"),
            Deed("Server", "Stop the service", self._stop_service, "square"),
            *self._of_machine(),
        ]

    def _of_machine(self) -> list[Deed]:
        ask = partial(self._shell.ask, Page.MACHINE)
        return [
            Deed("Server", "Detect this machine again", partial(ask, Task.LOOK_AGAIN), "refresh-cw"),
            Deed("Server", "Calibrate this machine", partial(ask, Task.CALIBRATE), "gauge"),
            Deed("Server", "Save a report on this machine", partial(ask, Task.REPORT), "file-text"),
        ]

    def models(self) -> list[Command]:
        """Return what can be done with each model now."""
        found: list[Command] = []
        for model in self._stores.library.items:
            if model.problem:
                continue
            title = phrases.label(model)
            if model.chats:
                found.append(Command(f"Chat with {title}", partial(self._shell.new_chat, model.name), "message-square"))
            if self._stores.running.of(model.name) is None:
                found.append(Command(f"Load {title}", partial(self._load, model.name), "play"))
            else:
                found.append(Command(f"Unload {title}", partial(self._unload, model.name), "eject"))
        return found

    def settings(self) -> list[Command]:
        """Return the way to every setting."""
        return [
            Command(f"Setting: {info.title}", partial(self._shell.ask, Page.SETTINGS, info.name), "settings")
            for info in self._stores.preferences.items
        ]

    def _load(self, model: str) -> None:
        self._shell.show_page(Page.SERVER)
        self._stores.running.load(model, self._refused)

    def _unload(self, model: str) -> None:
        self._stores.running.unload(
            model,
            lambda: self._shell.toast(f"{model} was unloaded", lambda: self._stores.running.load(model)),
            self._refused,
        )

    def _stop_service(self) -> None:
        """Stop it; the link notices, and the window offers to start it again."""
        self._stores.api.post("/shutdown", None, kind=NoneType, then=lambda _: None, failed=self._refused)

    def _refused(self, error: ErrorBody) -> None:
        self._shell.toast(error.sentence)

    def _copy_endpoint(self) -> None:
        if self._stores.api.endpoint:
            self._shell.copy(f"{self._stores.api.endpoint}/v1", "The endpoint's address is on the clipboard")
        else:
            self._shell.toast("There is no endpoint yet: the service has not answered.")
