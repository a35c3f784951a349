"""What a screen may ask of the window around it. Screens get a `Shell`, never the window itself."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from PySide6.QtCore import QObject, QRect, Signal

from app.core.events import Event


class PageId(StrEnum):
    """The screens there are."""

    CHAT = "chat"
    MODELS = "models"
    SERVER = "server"
    CONNECT = "connect"
    MACHINE = "machine"
    ENGINES = "engines"
    SETTINGS = "settings"
    CONNECTIONS = "connections"
    MCP = "mcp"
    AGENTS = "agents"
    DOCUMENTS = "documents"
    BENCHMARKS = "benchmarks"
    PROFILES = "profiles"
    MACHINES = "machines"


_OFF_RAIL = frozenset(
    {
        PageId.CONNECTIONS,
        PageId.MCP,
        PageId.AGENTS,
        PageId.DOCUMENTS,
        PageId.BENCHMARKS,
        PageId.PROFILES,
        PageId.MACHINES,
    }
)
RAIL = tuple(page for page in PageId if page not in _OFF_RAIL)
"""Those on the rail, in its order; Ctrl 1 to 7. The others are reached from one of them."""


@dataclass(frozen=True, slots=True)
class Command:
    """One line of the command palette. `hint` is quiet text after the title, usually the shortcut."""

    title: str
    run: Callable[[], object]
    icon: str = "chevron-right"
    hint: str = ""


class Task(StrEnum):
    """What the palette and the menu may ask of a page that need not have been shown before."""

    INSTALLED = "installed"
    ADD_FILE = "add_file"
    ADD_FOLDER = "add_folder"
    DISCOVER = "discover"
    DISK = "disk"
    UPDATES = "updates"
    LOOK_AGAIN = "look_again"
    CALIBRATE = "calibrate"
    REPORT = "report"
    NEW_VERSION = "new_version"
    ATTACH_FILES = "attach_files"
    """Only of the chat, by a button of the Guide's answer."""


RACE_TASK = "race:"
"""Before a model's name: the benchmarks page shows who could race on it."""
TUNE_TASK = "tune:"
"""Before a model's name: the benchmarks page looks for its fastest settings."""
CommandSearch = Callable[[str, Callable[[list[Command]], object]], object]
"""Looks for what was typed, and calls back with what can be done with it."""


class Shell(QObject):
    """Signals the window sends and the services it offers. The window subclasses it; tests use it as it is."""

    event_received = Signal(object)
    """A `core.events.Event` from the gateway."""
    connected = Signal()
    """The gateway answers, for the first time or again: read everything anew."""
    disconnected = Signal(object)
    """The gateway is gone; carries an `ErrorBody` to show."""
    chat_requested = Signal(str)
    """Start a new chat with the model of this name; empty means the usual model."""
    files_dropped = Signal(list)
    """Model files (`Path`) that were dropped on the window; the models page lists them."""
    repository_requested = Signal(str)
    """Show this repository of the hub, "owner/name", on the models page."""
    task_requested = Signal(str)
    """A `Task`, or the name of a setting to show: for the page that is shown now."""
    reopen_requested = Signal()
    """Close the window and open it again, as the version that is in its place now."""
    page_shown = Signal(str)
    """The page that is shown now."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.is_connected = False
        self.sources: list[Callable[[], list[Command]]] = []
        self.searches: list[CommandSearch] = []
        self.feet: dict[PageId, Callable[[], QRect]] = {}
        """What nothing may cover at the foot of a page, in the window's coordinates."""

    def show_toast(self, sentence: str, undo: Callable[[], object] | None = None) -> None:
        """Say something in passing at the foot of the window, with an Undo button if there is a way back."""

    def show_offer(self, sentence: str, command: Command) -> None:
        """Say something in passing at the foot of the window, with a button that does `command`."""

    def confirm(self, title: str, sentence: str, command: Command) -> None:
        """Ask before what cannot be undone; `command` is done if its button is pressed."""

    def show_page(self, page: PageId) -> None:
        """Bring a page to the front."""

    def request_task(self, page: PageId, task: str) -> None:
        """Show a page and have it do something."""
        self.show_page(page)
        self.task_requested.emit(task)

    def new_chat(self, model: str = "") -> None:
        """Show the chat page and start a new chat on it."""
        self.show_page(PageId.CHAT)
        self.chat_requested.emit(model)

    def copy_text(self, text: str, message: str = "") -> None:
        """Put text on the clipboard and say so, in these words if there are some."""

    def add_commands(self, source: Callable[[], list[Command]]) -> None:
        """Add lines to the command palette; `source` is asked each time it opens."""
        self.sources.append(source)

    def add_search(self, search: CommandSearch) -> None:
        """Have the palette offer what is found by what is typed; `search` hands its lines on once it has them."""
        self.searches.append(search)

    def broadcast_event(self, event: Event) -> None:
        """Hand an event of the gateway to every screen."""
        self.event_received.emit(event)
