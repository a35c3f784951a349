"""Does in the window what was asked from outside: raises it, lists files, shows repositories, starts chats."""

from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from app.gui.net.stores import LibraryStore
from app.gui.shell.contract import Page, Shell
from app.gui.shell.front import bring_to_front
from app.gui.shell.opening import ChatWith, FindModel, NotOpened, OpenFile, openings


class Opener(QObject):
    """Takes arguments of this start, and of those that came later and handed theirs over."""

    def __init__(self, window: QWidget, shell: Shell, library: LibraryStore) -> None:
        super().__init__(window)
        self._window, self._shell, self._library = window, shell, library
        self._waiting: list[ChatWith] = []
        library.changed.connect(self._chat)

    def take(self, arguments: list[str], folder: Path) -> None:
        """Bring the window to the front and do what the arguments ask."""
        bring_to_front(self._window)
        asked = openings(arguments, folder)
        files = [one.path for one in asked if isinstance(one, OpenFile)]
        if files:
            self._shell.show_page(Page.MODELS)
            self._shell.files_dropped.emit(files)
        for one in asked:
            if isinstance(one, FindModel):
                self._shell.show_page(Page.MODELS)
                self._shell.repository_asked.emit(one.repository)
            elif isinstance(one, ChatWith):
                self._waiting = [one]  # a second chat takes the place of the first
            elif isinstance(one, NotOpened):
                self._shell.toast(one.sentence)
        self._chat()

    def _chat(self) -> None:
        """Start the chat that was asked for, once it is known which models there are."""
        if not self._waiting or not self._library.is_known:
            return
        model = self._waiting.pop().model
        if model and not any(item.name == model for item in self._library.items):
            self._shell.toast(f"There is no model called {model}.")
        else:
            self._shell.new_chat(model)
