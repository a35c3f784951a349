"""Does in the window what was asked from outside: raises it, lists files, shows repositories, starts chats.

What the window is asked to open from outside: files that were double-clicked, and `roundhouse://` links.

A link can come from any web page, so it is read like anything from the network: nothing it says is done at once. A
repository is looked up and shown with its size and terms, and a person presses Download; a chat is only opened.

    roundhouse://pull/owner/name          show this repository, ready to download
    roundhouse://chat?model=NAME          a new chat with a model that is here
"""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from app.core.translation import tr
from app.gui.net.remote_lists import LibraryStore
from app.gui.shell.contract import PageId, Shell
from app.gui.shell.front import bring_to_front


class OpenHandler(QObject):
    """Takes arguments of this start, and of those that came later and handed theirs over."""

    def __init__(self, window: QWidget, shell: Shell, library: LibraryStore) -> None:
        super().__init__(window)
        self._window, self._shell, self._library = window, shell, library
        self._pending_chats: list[OpenChat] = []
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
                self._pending_chats = [request]  # a second chat takes the place of the first
            elif isinstance(request, OpenRefusal):
                self._shell.show_toast(request.sentence)
        self._start_chat()

    def _start_chat(self) -> None:
        """Start the chat that was asked for, once it is known which models there are."""
        if not self._pending_chats or not self._library.is_known:
            return
        model = self._pending_chats.pop().model
        if model and not any(item.name == model for item in self._library.items):
            self._shell.show_toast(tr("There is no model called {model}.", model=model))
        else:
            self._shell.new_chat(model)


SCHEME = "roundhouse"
MOST_ARGUMENTS, LONGEST = 16, 4096
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_LONGEST_NAME = 256


@dataclass(frozen=True, slots=True)
class OpenFile:
    """List a model file where it lies."""

    path: Path


@dataclass(frozen=True, slots=True)
class OpenRepository:
    """Show a repository of the hub."""

    repository: str


@dataclass(frozen=True, slots=True)
class OpenChat:
    """Start a chat; an empty name is the usual model."""

    model: str


@dataclass(frozen=True, slots=True)
class OpenRefusal:
    """What was asked cannot be done; the sentence says why."""

    sentence: str


OpenRequest = OpenFile | OpenRepository | OpenChat | OpenRefusal


def parse_arguments(arguments: list[str], folder: Path) -> list[OpenRequest]:
    """Return what a program's arguments ask for. Relative files are meant from `folder`; options are not ours."""
    targets = [argument for argument in arguments if argument and not argument.startswith("-")]
    return [_parse_argument(argument, folder) for argument in targets[:MOST_ARGUMENTS]]


def _parse_argument(argument: str, folder: Path) -> OpenRequest:
    if len(argument) > LONGEST or not argument.isprintable():
        return OpenRefusal(tr("This link or file name is too long, or holds characters that cannot be shown."))
    try:
        parts = urlsplit(argument)
    except ValueError:
        return OpenRefusal(tr("“{argument}” is not a link.", argument=argument))
    if parts.scheme == SCHEME:
        return _parse_link(parts)
    return _parse_file(Path(unquote(parts.path)) if parts.scheme == "file" else folder / argument)


def _parse_link(parts: SplitResult) -> OpenRequest:
    if parts.netloc == "pull":
        steps = unquote(parts.path).strip("/").split("/")
        if len(steps) == 2 and all(_PART.fullmatch(step) and ".." not in step for step in steps):  # noqa: PLR2004 -- owner and name
            return OpenRepository("/".join(steps))
        return OpenRefusal(tr("This link names no model: it should end in owner/name."))
    if parts.netloc == "chat":
        model = parse_qs(parts.query).get("model", [""])[0].strip()
        if len(model) <= _LONGEST_NAME and model.isprintable():
            return OpenChat(model)
    return OpenRefusal(tr("This version of Roundhouse cannot do what the link asks for."))


def _parse_file(path: Path) -> OpenRequest:
    if path.suffix.lower() != ".gguf":
        return OpenRefusal(tr("{name} is not a model file: those end in .gguf.", name=path.name))
    if not path.is_file():
        return OpenRefusal(tr("There is no file {path}.", path=path))
    return OpenFile(path)
