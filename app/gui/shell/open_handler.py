"""Does in the window what was asked from outside: raises it, lists files, shows repositories, starts chats."""

from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from app.gui.net.remote_lists import LibraryStore
from app.gui.shell.contract import PageId, Shell
from app.gui.shell.front import bring_to_front
from app.gui.shell.open_requests import OpenChat, OpenFile, OpenRefusal, OpenRepository, parse_arguments


class OpenHandler(QObject):
    """Takes arguments of this start, and of those that came later and handed theirs over."""

    def __init__(self, window: QWidget, shell: Shell, library: LibraryStore) -> None:
        super().__init__(window)
        self._window, self._shell, self._library = window, shell, library
        self._waiting: list[OpenChat] = []
        library.changed.connect(self._start_chat)

    def handle_arguments(self, arguments: list[str], folder: Path) -> None:
        """Bring the window to the front and do what the arguments ask."""
        bring_to_front(self._window)
        requests = parse_arguments(arguments, folder)
        files = [request.path for request in requests if isinstance(request, OpenFile)]
        if files:
            self._shell.show_page(PageId.MODELS)
            self._shell.files_dropped.emit(files)
        for request in requests:
            if isinstance(request, OpenRepository):
                self._shell.show_page(PageId.MODELS)
                self._shell.repository_requested.emit(request.repository)
            elif isinstance(request, OpenChat):
                self._waiting = [request]  # a second chat takes the place of the first
            elif isinstance(request, OpenRefusal):
                self._shell.show_toast(request.sentence)
        self._start_chat()

    def _start_chat(self) -> None:
        """Start the chat that was asked for, once it is known which models there are."""
        if not self._waiting or not self._library.is_known:
            return
        model = self._waiting.pop().model
        if model and not any(item.name == model for item in self._library.items):
            self._shell.show_toast(f"There is no model called {model}.")
        else:
            self._shell.new_chat(model)
