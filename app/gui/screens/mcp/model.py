"""What the page of MCP servers knows and does: servers are added, allowed, started and removed through the gateway."""

import shlex
from types import NoneType

import msgspec
from PySide6.QtCore import QObject, Signal

from app.client.http import quote_segment
from app.core.errors import ErrorBody
from app.core.mcp import (
    McpImportResult,
    McpPermission,
    McpServer,
    McpServerPatch,
    McpServerSettings,
    McpServersImport,
    McpTool,
    NewMcpServer,
    SetMcpPermission,
)
from app.core.translation import tr, tr_list
from app.gui.net.remote_lists import Stores
from app.gui.shell.contract import Command, Shell

_OPENING = "{"


class McpModel(QObject):
    """The servers, by name. `changed`: they, or what is wrong, are not what they were."""

    changed = Signal()
    added = Signal()
    """What was asked for is there."""

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(shell)
        self._api, self._shell = stores.api, shell
        self.store = stores.tool_servers
        self.refusal: ErrorBody | None = None
        """Why the last thing that was asked for was not done."""
        self.store.changed.connect(self.changed)

    @property
    def servers(self) -> list[McpServer]:
        """The servers that are known."""
        return self.store.items

    def add_server(self, settings: NewMcpServer) -> None:
        """Add a server, which is started to see that it works."""
        self._api.post("/mcp/servers", settings, kind=McpServer, then=self._finish_adding, failed=self._refuse)

    def import_servers(self, text: str) -> None:
        """Add the servers of another program's file, or of a part of one that was copied."""
        self._api.post(
            "/mcp/servers/import",
            McpServersImport(text=text),
            kind=McpImportResult,
            then=self._finish_import,
            failed=self._refuse,
        )

    def start(self, name: str) -> None:
        """Start a server, to see its tools."""
        self.dismiss_refusal()
        self._api.post(
            f"{_path_of(name)}/start", None, kind=McpServer, then=lambda _: self.store.read(), failed=self._refuse
        )

    def change(self, name: str, patch: McpServerPatch) -> None:
        """Change what a server may."""
        self._api.patch(_path_of(name), patch, kind=McpServer, then=lambda _: self.store.read(), failed=self._refuse)

    def allow(self, tool: McpTool, permission: McpPermission) -> None:
        """Decide whether models may call a tool."""
        path = f"{_path_of(tool.server)}/tools/{quote_segment(tool.about.name)}/permission"
        body = SetMcpPermission(permission=permission)
        self._api.post(path, body, kind=McpTool, then=lambda _: self.store.read(), failed=self._refuse)

    def remove(self, name: str) -> None:
        """Remove a server, once that is confirmed: its secrets are kept nowhere else."""

        def delete() -> None:
            self._api.send_request(
                "DELETE",
                _path_of(name),
                None,
                kind=NoneType,
                then=lambda _: self._tell_removal(name),
                failed=self._refuse,
            )

        sentence = tr("Its command, its variables and what you allowed are forgotten. Files it wrote stay.")
        self._shell.confirm(tr("Remove {name}?", name=name), sentence, Command(tr("Remove"), delete, icon="trash-2"))

    def dismiss_refusal(self) -> None:
        """Say no more what went wrong."""
        if self.refusal is not None:
            self.refusal = None
            self.changed.emit()

    def _finish_adding(self, server: McpServer) -> None:
        self.dismiss_refusal()
        self.store.read()
        self.added.emit()
        self.start(server.name)

    def _finish_import(self, result: McpImportResult) -> None:
        self.dismiss_refusal()
        self.store.read()
        self.added.emit()
        sentences = []
        if result.added:
            sentences.append(tr("{names} added.", names=tr_list(result.added)))
        if result.skipped:
            sentences.append(tr("{names} left as they are.", names=tr_list(result.skipped)))
        self._shell.show_toast(" ".join(sentences) or tr("There is no server in it."))

    def _tell_removal(self, name: str) -> None:
        self.store.read()
        self._shell.show_toast(tr("{name} was removed.", name=name))

    def _refuse(self, error: ErrorBody) -> None:
        self.refusal = error
        self.changed.emit()


def parse_new_server(name: str, start: str) -> NewMcpServer | str:
    """Return the server that somebody described by a command or an address, or what is wrong with that."""
    start = start.strip()
    try:
        words = [] if is_address(start) else shlex.split(start)
        settings = (
            McpServerSettings(url=start)
            if is_address(start)
            else McpServerSettings(command=words[0] if words else "", args=words[1:])
        )
        if not start:
            return tr("Write the command that starts it, or its address.")
        return msgspec.convert(
            {"name": " ".join(name.split()), "settings": msgspec.to_builtins(settings)}, NewMcpServer
        )
    except ValueError:
        return tr("A quotation mark is not closed, or the name has characters other than letters, digits, . _ and -.")


def is_address(start: str) -> bool:
    """Tell whether a server is described by where it is."""
    return start.startswith(("http://", "https://"))


def is_configuration(text: str) -> bool:
    """Tell whether a text that was pasted is the configuration of servers, and no command."""
    return text.lstrip().startswith(_OPENING)


def command_line(server: McpServer) -> str:
    """Return how a server is started, or where it is."""
    return server.url or shlex.join([server.command, *server.args])


def _path_of(name: str) -> str:
    return f"/mcp/servers/{quote_segment(name)}"
