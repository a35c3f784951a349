"""State of the connect page: the tools, the model they are to use, and per tool what is open below its row."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from PySide6.QtCore import QObject, Signal

from app.core.errors import ErrorBody
from app.core.tools import ToolChange, ToolInfo, ToolProbe, WireTool
from app.gui import phrases
from app.gui.net.remote import RemoteList
from app.gui.net.stores import Stores
from app.gui.shell.contract import Command, Page, Shell


@dataclass(frozen=True, slots=True)
class Opened:
    """What stands below a tool's row: a change to look at, what a try said, or what went wrong."""

    change: ToolChange | None = None
    probe: ToolProbe | None = None
    error: ErrorBody | None = None
    is_busy: bool = False


CLOSED = Opened()


class ConnectModel(QObject):
    """Lists, previews, wires and undoes; everything is decided by the gateway."""

    changed = Signal()
    said = Signal(str, object)

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(shell)
        self._api, self._shell = stores.api, shell
        self.tools = RemoteList(stores.api, shell, "/tools", list[ToolInfo])
        self.library = stores.library
        self.model = ""
        """The model tools are to use; empty: the gateway's usual one."""
        self._opened: dict[str, Opened] = {}
        self.tools.changed.connect(self.changed)
        self.library.changed.connect(self.changed)
        shell.add_commands(self.commands)

    @property
    def here(self) -> list[ToolInfo]:
        """The tools found on this computer, and those that are wired all the same."""
        return [tool for tool in self.tools.items if tool.found or tool.wired]

    @property
    def others(self) -> list[ToolInfo]:
        """The tools that were not found."""
        return [tool for tool in self.tools.items if not tool.found and not tool.wired]

    def models(self) -> list[tuple[str, str]]:
        """Return the models to choose from, each with its words."""
        able = [info for info in self.library.items if info.chats and not info.problem]
        return [("", "Your usual model"), *((info.name, phrases.label(info)) for info in able)]

    def opened(self, tool: str) -> Opened:
        """Return what stands below a tool's row."""
        return self._opened.get(tool, CLOSED)

    def choose(self, model: str) -> None:
        """Take another model; a change that is open is asked for anew."""
        self.model = model
        for tool, opened in list(self._opened.items()):
            if opened.change is not None and not opened.change.is_written:
                self.look(tool)

    def look(self, tool: str) -> None:
        """Show what wiring a tool would change."""
        self._ask(tool, "preview", self._previewed)

    def connect_tool(self, tool: str) -> None:
        """Wire a tool."""
        self._ask(tool, "connect", self._connected)

    def undo(self, tool: str) -> None:
        """Put a tool's file back."""
        self._busy(tool)
        self._api.post(
            f"/tools/{tool}/undo",
            None,
            kind=ToolChange,
            then=partial(self._undone, tool),
            failed=partial(self._failed, tool),
        )

    def try_out(self, tool: str) -> None:
        """Have the gateway asked as the tool asks, for the model the tool is wired to."""
        self._busy(tool)
        wired = next((info.model for info in self.tools.items if info.id == tool), "")
        self._api.post(
            f"/tools/{tool}/probe",
            WireTool(model=wired or self.model),
            kind=ToolProbe,
            then=partial(self._probed, tool),
            failed=partial(self._failed, tool),
        )

    def close(self, tool: str) -> None:
        """Put away what stands below a row."""
        self._set(tool, CLOSED)

    def commands(self) -> list[Command]:
        """Return what the palette offers for each tool."""
        return [
            *(
                Command(f"Connect {tool.name}", partial(self._show_and_look, tool.id), "plug")
                for tool in self.tools.items
            ),
            *(
                Command(f"Undo the connection of {tool.name}", partial(self._show_and_undo, tool.id), "undo-2")
                for tool in self.tools.items
                if tool.can_undo
            ),
        ]

    def _show_and_look(self, tool: str) -> None:
        self._shell.show_page(Page.CONNECT)
        self.look(tool)

    def _show_and_undo(self, tool: str) -> None:
        self._shell.show_page(Page.CONNECT)
        self.undo(tool)

    def _ask(self, tool: str, verb: str, then: Callable[[str, ToolChange], None]) -> None:
        self._busy(tool)
        self._api.post(
            f"/tools/{tool}/{verb}",
            WireTool(model=self.model),
            kind=ToolChange,
            then=partial(then, tool),
            failed=partial(self._failed, tool),
        )

    def _busy(self, tool: str) -> None:
        self._set(tool, replace(self.opened(tool), is_busy=True, error=None, probe=None))

    def _previewed(self, tool: str, change: ToolChange) -> None:
        self._set(tool, Opened(change=change))

    def _connected(self, tool: str, change: ToolChange) -> None:
        self._set(tool, Opened(change=change))
        self.tools.read()
        if change.is_written:
            self.said.emit(f"{change.name} was connected to {change.model}.", partial(self.undo, tool))

    def _undone(self, tool: str, change: ToolChange) -> None:
        self._set(tool, CLOSED)
        self.tools.read()
        self.said.emit(f"{change.name}'s settings were restored.", None)

    def _probed(self, tool: str, probe: ToolProbe) -> None:
        self._set(tool, Opened(probe=probe))

    def _failed(self, tool: str, error: ErrorBody) -> None:
        self._set(tool, Opened(error=error))

    def _set(self, tool: str, opened: Opened) -> None:
        self._opened[tool] = opened
        self.changed.emit()
