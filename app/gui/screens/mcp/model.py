"""What the page of MCP servers knows and does: servers are added, allowed, started and removed through the gateway."""

import shlex
from collections.abc import Sequence

import msgspec

from app.client.http import quote_segment
from app.core.mcp import (
    BRAVE_API_KEY,
    SEARXNG_URL,
    BuiltinServer,
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
from app.gui.net.managed_list import ManagedList
from app.gui.net.remote_lists import Stores
from app.gui.shell.contract import Shell

_OPENING = "{"


class McpModel(ManagedList[McpServer]):
    """The servers, by name."""

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(stores.tool_servers, shell)

    @property
    def servers(self) -> list[McpServer]:
        """The servers that are known."""
        return self.store.items

    def add_server(self, settings: NewMcpServer) -> None:
        """Add a server, which is started to see that it works."""
        self.api.post("/mcp/servers", settings, kind=McpServer, then=self._finish_adding, on_error=self.show_refusal)

    def add_builtin(self, builtin: BuiltinServer, folders: Sequence[str] = ()) -> None:
        """Add a server that comes with the product, under its own name."""
        settings = McpServerSettings(builtin=builtin, folders=list(folders))
        self.add_server(NewMcpServer(name=builtin.value, settings=settings))

    def has_server(self, name: str) -> bool:
        """Tell whether there is a server of this name."""
        return any(server.name == name for server in self.servers)

    def import_servers(self, text: str) -> None:
        """Add the servers of another program's file, or of a part of one that was copied."""
        self.api.post(
            "/mcp/servers/import",
            McpServersImport(text=text),
            kind=McpImportResult,
            then=self._finish_import,
            on_error=self.show_refusal,
        )

    def start(self, name: str) -> None:
        """Start a server, to see its tools."""
        self.dismiss_refusal()
        self.api.post(
            f"{_path_of(name)}/start",
            None,
            kind=McpServer,
            then=lambda _: self.store.read(),
            on_error=self.show_refusal,
        )

    def change(self, name: str, patch: McpServerPatch) -> None:
        """Change what a server may."""
        self.api.patch(
            _path_of(name), patch, kind=McpServer, then=lambda _: self.store.read(), on_error=self.show_refusal
        )

    def allow(self, tool: McpTool, permission: McpPermission) -> None:
        """Decide whether models may call a tool."""
        path = f"{_path_of(tool.server)}/tools/{quote_segment(tool.about.name)}/permission"
        body = SetMcpPermission(permission=permission)
        self.api.post(path, body, kind=McpTool, then=lambda _: self.store.read(), on_error=self.show_refusal)

    def remove(self, name: str) -> None:
        """Remove a server, once that is confirmed: its secrets are kept nowhere else."""
        sentence = tr("Its command, its variables and what you allowed are forgotten. Files it wrote stay.")
        self.confirm_removal(name, _path_of(name), sentence)

    def _finish_adding(self, server: McpServer) -> None:
        self.finish_adding()
        self.start(server.name)

    def _finish_import(self, result: McpImportResult) -> None:
        self.finish_adding()
        sentences = []
        if result.added:
            sentences.append(tr("{names} added.", names=tr_list(result.added)))
        if result.skipped:
            sentences.append(tr("{names} left as they are.", names=tr_list(result.skipped)))
        self.shell.show_toast(" ".join(sentences) or tr("There is no server in it."))


def parse_new_server(name: str, start: str, *, is_search: bool = False) -> NewMcpServer | str:
    """Return the server that somebody described by a command or an address, or what is wrong with that."""
    start = start.strip()
    try:
        settings = search_settings(start) if is_search else _settings_of(start)
        new = {"name": " ".join(name.split()), "settings": msgspec.to_builtins(settings)}
        return msgspec.convert(new, NewMcpServer)
    except ValueError:
        return tr("A quotation mark is not closed, or the name has characters other than letters, digits, . _ and -.")


def _settings_of(start: str) -> McpServerSettings:
    if is_address(start):
        return McpServerSettings(url=start)
    command, *arguments = shlex.split(start) or [""]
    return McpServerSettings(command=command, args=arguments)


def search_settings(start: str) -> McpServerSettings:
    """Return the server that searches the web: by the SearXNG at an address, else by Brave with this key."""
    variable = SEARXNG_URL if is_address(start) else BRAVE_API_KEY
    return McpServerSettings(builtin=BuiltinServer.WEB_SEARCH, env={variable: start.strip()})


def is_address(start: str) -> bool:
    """Tell whether a server is described by where it is."""
    return start.startswith(("http://", "https://"))


def is_configuration(text: str) -> bool:
    """Tell whether a text that was pasted is the configuration of servers, and no command."""
    return text.lstrip().startswith(_OPENING)


def command_line(server: McpServer) -> str:
    """Return how a server is started, or where it is; nothing for one that comes with the product."""
    if server.builtin is not None:
        return ""
    return server.url or shlex.join([server.command, *server.args])


def _path_of(name: str) -> str:
    return f"/mcp/servers/{quote_segment(name)}"
