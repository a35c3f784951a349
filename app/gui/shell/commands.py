"""What the window can do, once: the palette lists it, the menu arranges it, the shortcuts call it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from app.gui.net.api import GatewayApi
from app.gui.net.mirror import Library, Running
from app.gui.shell.contract import Command, Page, Shell
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


class Commands:
    """Everything the window can do now."""

    def __init__(self, api: GatewayApi, shell: Shell, looks: Looks, *, running: Running, library: Library) -> None:
        self._api, self._shell, self._looks = api, shell, looks
        self._running, self._library = running, library

    def deeds(self, *, quit_: Callable[[], object], open_palette: Callable[[], object]) -> list[Deed]:
        """Return what is always there, in the order of the menu."""
        shell, looks = self._shell, self._looks
        pages = [
            Deed("Go", TITLES[page][0], partial(shell.show_page, page), TITLES[page][1], f"Ctrl+{number}")
            for number, page in enumerate(Page, 1)
        ]
        return [
            Deed("File", "New chat", shell.new_chat, "plus", "Ctrl+N"),
            Deed("File", "Settings", partial(shell.show_page, Page.SETTINGS), "settings", "Ctrl+,"),
            Deed("File", "Quit Roundhouse", quit_, "power", "Ctrl+Q"),
            *pages,
            Deed("Go", "Command palette", open_palette, "command", "Ctrl+K"),
            Deed("View", "Larger text", partial(looks.step, SCALE_STEP), "plus", "Ctrl++"),
            Deed("View", "Smaller text", partial(looks.step, -SCALE_STEP), "chevron-down", "Ctrl+-"),
            Deed("View", "Usual size of text", looks.usual_size, "check", "Ctrl+0"),
            Deed("View", "Follow the system's appearance", partial(looks.choose_mode, "system"), "monitor"),
            Deed("View", "Light appearance", partial(looks.choose_mode, "light"), "sun"),
            Deed("View", "Dark appearance", partial(looks.choose_mode, "dark"), "moon"),
            Deed("Server", "Copy the endpoint's address", self._copy_endpoint, "copy", "Ctrl+Shift+C"),
        ]

    def models(self) -> list[Command]:
        """Return what can be done with each model now."""
        found: list[Command] = []
        for model in self._library.items:
            if model.problem:
                continue
            if model.chats:
                found.append(
                    Command(f"Chat with {model.title}", partial(self._shell.new_chat, model.name), "message-square")
                )
            if self._running.of(model.name) is None:
                found.append(Command(f"Load {model.title}", partial(self._load, model.name), "play"))
            else:
                found.append(Command(f"Unload {model.title}", partial(self._unload, model.name), "eject"))
        return found

    def _load(self, model: str) -> None:
        self._shell.show_page(Page.SERVER)
        self._running.load(model, lambda error: self._shell.toast(error.sentence))

    def _unload(self, model: str) -> None:
        self._running.unload(
            model,
            lambda: self._shell.toast(f"{model} was unloaded", lambda: self._running.load(model)),
            lambda error: self._shell.toast(error.sentence),
        )

    def _copy_endpoint(self) -> None:
        if self._api.endpoint:
            self._shell.copy(f"{self._api.endpoint}/v1", "The endpoint's address is on the clipboard")
        else:
            self._shell.toast("There is no endpoint yet: the service has not answered.")
