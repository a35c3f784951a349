"""The MCP servers of this installation: what is set, what runs, which tools are allowed, and calls of them.

A server is started when it is first used and ends when nobody has used it for a while. A tool whose description is not
what it was when somebody allowed it asks again.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from pathlib import Path

from aiohttp import web
from msgspec.structs import replace

from app.config.paths import Paths
from app.confinement.rules import LaunchOrder
from app.core.errors import Conflict, Forbidden, NotFound, RoundhouseError, StorageFault, quote_value
from app.core.events import McpServersChanged
from app.core.mcp import (
    MOST_SERVERS,
    BuiltinServer,
    HostOrder,
    McpImportResult,
    McpPermission,
    McpResult,
    McpServer,
    McpServerPatch,
    McpServerSettings,
    McpServerState,
    McpTool,
    McpToolDescription,
)
from app.gateway.background import Background
from app.gateway.events import EventHub
from app.gateway.hosting.reach import can_confine, folder_name
from app.gateway.mcp.host import McpHost, McpServerFailed
from app.gateway.mcp.launch import host_launch, host_order
from app.gateway.mcp.settings_file import KeptPermission, KeptSignIn, McpSettingsFile, read_servers
from app.network.egress import egress_gate

log = logging.getLogger(__name__)

IDLE_S = 300.0
"""After so long without a call a server is ended."""
CALL_S = 120.0
"""How long one call may take."""
_LOOK_S = 15.0


class SignInNeeded(Conflict):
    """A server's tools cannot be used before a person has signed in to it."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} asks you to sign in.",
            hint=f"`roundhouse mcp sign-in {name}` opens its page; in the window, Tools for models does.",
            code="mcp_sign_in",
        )


class _RunningServer:
    """What is known of a server beside its settings."""

    def __init__(self) -> None:
        self.host: McpHost | None = None
        self.state = McpServerState.STOPPED
        self.problem = ""
        self.tools: list[McpToolDescription] = []
        self.used_at = time.monotonic()
        self.starting = asyncio.Lock()


class McpServers:
    """All servers. Belongs to the event loop; its files are written in threads."""

    def __init__(self, paths: Paths, events: EventHub, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = McpSettingsFile(paths.mcp_file, paths.mcp_permissions_file, paths.mcp_sign_ins_file)
        self._homes, self._events, self._clock = paths.mcp_homes, events, clock
        self._settings = self._file.list_servers()
        self._running_servers: dict[str, _RunningServer] = {}
        self._idle_watch: asyncio.Task[None] | None = None
        self._background = Background()
        egress_gate.add_holder(self)
        for problem in self._file.problems:
            log.warning("%s", problem)

    async def list_servers(self) -> list[McpServer]:
        """Return the servers by name. Raises StorageFault for a file that has a mistake."""
        self._file.check_readable()
        return [await self.read_server(name) for name in sorted(self._settings, key=str.casefold)]

    async def read_server(self, name: str) -> McpServer:
        """Return one server. Raises NotFound."""
        settings, running_server = self._settings_of(name), self._running_servers.get(name)
        can_be_confined = await asyncio.to_thread(can_confine)
        return McpServer(
            name=name,
            builtin=settings.builtin,
            command=settings.command,
            args=settings.args,
            url=settings.url,
            env=sorted(settings.env),
            headers=sorted(settings.headers),
            folders=settings.folders,
            network=settings.has_network,
            is_enabled=not settings.disabled,
            is_confirmed=not settings.unconfirmed,
            is_confined=can_be_confined and not settings.url,
            state=running_server.state if running_server else McpServerState.STOPPED,
            sign_in_url=running_server.host.sign_in_url if running_server and running_server.host else "",
            problem=running_server.problem if running_server else "",
            tools=[self._judge_tool(name, tool) for tool in running_server.tools] if running_server else [],
        )

    async def save_server(self, name: str, settings: McpServerSettings) -> McpServer:
        """Add a server, or set one anew. Raises BadRequest, Conflict or StorageFault."""
        settings.check()
        if name not in self._settings and len(self._settings) >= MOST_SERVERS:
            raise Conflict(f"There are {MOST_SERVERS} servers already.", hint="Remove one first.", code="too_many")
        await asyncio.to_thread(self._file.save_server, name, settings)
        self._settings[name] = settings
        await self._stop_server(name)
        self._running_servers.pop(name, None)
        self._events.publish(McpServersChanged())
        return await self.read_server(name)

    async def change_server(self, name: str, patch: McpServerPatch) -> McpServer:
        """Change what a server may. Raises NotFound or StorageFault."""
        settings = self._settings_of(name)
        if patch.is_enabled is not None:
            settings = replace(settings, disabled=not patch.is_enabled)
        if patch.is_confirmed:
            settings = replace(settings, unconfirmed=False)
        if patch.folders is not None:
            settings = replace(settings, folders=patch.folders)
        if patch.network is not None:
            settings = replace(settings, network=patch.network)
        return await self.save_server(name, settings)

    async def remove_server(self, name: str) -> None:
        """End a server and forget it. Raises NotFound or StorageFault."""
        self._settings_of(name)
        await self._stop_server(name)
        await asyncio.to_thread(self._file.remove_server, name)
        del self._settings[name]
        self._running_servers.pop(name, None)
        self._events.publish(McpServersChanged())

    async def import_servers(self, text: str, *, is_confirmed: bool) -> McpImportResult:
        """Add the servers of another program's file that are not here. Raises BadRequest or StorageFault."""
        result = McpImportResult(added=[], skipped=[])
        for name, settings in read_servers(text).items():
            if isinstance(settings, str) or name in self._settings:
                result.skipped.append(name)
                continue
            await self.save_server(name, replace(settings, unconfirmed=not is_confirmed))
            result.added.append(name)
        return result

    async def set_permission(self, name: str, tool: str, permission: McpPermission) -> McpTool:
        """Allow a tool as it is described now, block it, or ask. Raises NotFound or StorageFault."""
        about = self._find_tool(name, tool)
        permission_record = KeptPermission(permission, about.fingerprint)
        await asyncio.to_thread(self._file.save_permission, name, tool, permission_record)
        self._events.publish(McpServersChanged())
        return self._judge_tool(name, about)

    async def start_server(self, name: str) -> McpServer:
        """Start a server that does not run, and return it with its tools. Raises what `_host_of` does.

        One that asks a person to sign in is returned with the page for that.
        """
        with contextlib.suppress(SignInNeeded):
            await self._host_of(name)
        return await self.read_server(name)

    async def list_tools(self, name: str) -> list[McpTool]:
        """Return the tools of a server as it describes them now, starting it. Raises what `_host_of` does."""
        await self._host_of(name)
        return [self._judge_tool(name, tool) for tool in self._running_servers[name].tools]

    def is_builtin(self, name: str, kind: BuiltinServer) -> bool:
        """Tell whether a server is one of those that come with Roundhouse."""
        settings = self._settings.get(name)
        return settings is not None and settings.builtin is kind

    def is_ready(self, name: str) -> bool:
        """Tell whether a server runs and has listed its tools."""
        running_server = self._running_servers.get(name)
        return running_server is not None and running_server.state is McpServerState.READY

    def read_tool(self, name: str, tool: str) -> McpTool:
        """Return a tool as it is described now. Raises NotFound."""
        return self._judge_tool(name, self._find_tool(name, tool))

    async def call_tool(
        self, name: str, tool: str, arguments: dict[str, object], *, limit_s: float = CALL_S
    ) -> McpResult:
        """Return what a tool returns; whether it may be called is for the caller to know. Raises McpServerFailed."""
        host = await self._host_of(name)
        self._find_tool(name, tool)
        running_server = self._running_servers[name]
        running_server.used_at = self._clock()
        try:
            return await host.call(tool, arguments, limit_s)
        finally:
            running_server.used_at = self._clock()

    def cut_connections(self) -> None:
        """End the servers that may reach other computers: nothing is to go out any more."""
        for name in self._running_servers:
            settings = self._settings.get(name)
            if settings is not None and (settings.url or settings.has_network):
                self._background.spawn(self._stop_server(name))

    async def close(self) -> None:
        """End every server."""
        if self._idle_watch is not None:
            self._idle_watch.cancel()
        await self._background.join(cancel=True)
        await asyncio.gather(*(self._stop_server(name) for name in list(self._running_servers)))

    def _settings_of(self, name: str) -> McpServerSettings:
        try:
            return self._settings[name]
        except KeyError:
            raise NotFound(
                f"There is no MCP server {quote_value(name)}.", hint="`roundhouse mcp list` shows them.",
                code="mcp_server_not_found",
            ) from None  # fmt: skip

    def _find_tool(self, name: str, tool: str) -> McpToolDescription:
        running_server = self._running_servers.get(name)
        for about in running_server.tools if running_server else ():
            if about.name == tool:
                return about
        raise NotFound(f"{name} has no tool {quote_value(tool)}.", code="mcp_tool_not_found")

    def _judge_tool(self, name: str, about: McpToolDescription) -> McpTool:
        kept_permission = self._file.permission_of(name, about.name)
        if kept_permission is None:
            return McpTool(server=name, about=about)
        if kept_permission.permission is McpPermission.ALLOW and kept_permission.fingerprint != about.fingerprint:
            return McpTool(server=name, about=about, has_changed=True)
        return McpTool(server=name, about=about, permission=kept_permission.permission)

    async def _host_of(self, name: str) -> McpHost:
        """Return a server that runs, starting it. Raises NotFound, Forbidden, Conflict, Offline or McpServerFailed."""
        settings = self._settings_of(name)
        if settings.unconfirmed:
            raise Forbidden(
                f"{name} was added by a program and has not been confirmed.",
                hint=f"`roundhouse mcp confirm {name}` shows and confirms its command.",
                code="mcp_unconfirmed",
            )
        if settings.disabled:
            raise Conflict(f"{name} is switched off.", hint="Switch it on first.", code="mcp_disabled")
        if settings.builtin is BuiltinServer.PYTHON and not await asyncio.to_thread(can_confine):
            raise Forbidden(
                "Python that models write runs only where the system can confine it, and this one cannot.",
                hint="A Linux kernel with Landlock can.",
                code="mcp_not_confined",
            )
        running_server = self._running_servers.setdefault(name, _RunningServer())
        async with running_server.starting:
            if running_server.host is not None and running_server.host.is_running:
                return running_server.host
            host = running_server.host
            if host is None or not host.sign_in_url:
                host = await self._start(name, settings, running_server)
            if host.sign_in_url:
                raise SignInNeeded(name)
            return host

    async def _start(self, name: str, settings: McpServerSettings, running_server: _RunningServer) -> McpHost:
        self._note_state(running_server, McpServerState.STARTING)
        host = running_server.host = McpHost(name, _ServerListener(self, name, settings.url, running_server))
        home = self._homes / folder_name(name)
        try:
            order = host_order(name, settings, home, self._file.sign_in_of(name, settings.url))
            is_ready = await host.start(await asyncio.to_thread(_launch, settings, order, home), order)
        except (RoundhouseError, OSError) as error:
            self._note_state(running_server, McpServerState.FAILED, str(error))
            if isinstance(error, OSError):
                raise McpServerFailed(f"{name} could not be started: {error}.") from error
            raise
        if self._idle_watch is None:
            self._idle_watch = asyncio.create_task(self._end_idle_servers())
        if is_ready:
            self._note_ready(running_server)
        else:
            self._note_state(running_server, McpServerState.SIGN_IN)
            self._background.spawn(self._wait_for_sign_in(host, running_server))
        return host

    async def _wait_for_sign_in(self, host: McpHost, running_server: _RunningServer) -> None:
        try:
            await host.wait_until_ready()
        except RoundhouseError as error:
            if running_server.host is host:
                running_server.host = None
                self._note_state(running_server, McpServerState.FAILED, str(error))
            return
        self._note_ready(running_server)

    def _note_ready(self, running_server: _RunningServer) -> None:
        running_server.used_at = self._clock()
        self._note_state(running_server, McpServerState.READY)

    def _note_state(self, running_server: _RunningServer, state: McpServerState, problem: str = "") -> None:
        running_server.state, running_server.problem = state, problem
        self._events.publish(McpServersChanged())

    def note_tools(self, running_server: _RunningServer, tools: list[McpToolDescription]) -> None:
        """Take the tools that a server lists now."""
        running_server.tools = tools
        self._events.publish(McpServersChanged())

    def keep_sign_in(self, name: str, sign_in: KeptSignIn) -> None:
        """Keep what a server trusts us with, for its next start."""
        self._background.spawn(self._keep_sign_in(name, sign_in))

    async def _keep_sign_in(self, name: str, sign_in: KeptSignIn) -> None:
        try:
            await asyncio.to_thread(self._file.save_sign_in, name, sign_in)
        except StorageFault as fault:
            log.warning("%s has to be signed in to again: %s", name, fault)

    async def _stop_server(self, name: str) -> None:
        running_server = self._running_servers.get(name)
        if running_server is not None and running_server.host is not None:
            host, running_server.host = running_server.host, None
            await host.stop()
            self._note_state(running_server, McpServerState.STOPPED)

    async def _end_idle_servers(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            for name, running_server in list(self._running_servers.items()):
                host = running_server.host
                if (
                    host is None
                    or not host.is_running
                    or host.is_busy
                    or self._clock() - running_server.used_at < IDLE_S
                ):
                    continue
                with contextlib.suppress(OSError):
                    await self._stop_server(name)


class _ServerListener:
    """Notes what one server says by itself."""

    def __init__(self, servers: McpServers, name: str, url: str, running_server: _RunningServer) -> None:
        self._servers, self._name, self._url, self._running_server = servers, name, url, running_server

    def take_tools(self, tools: list[McpToolDescription]) -> None:
        self._servers.note_tools(self._running_server, tools)

    def keep_sign_in(self, state: str) -> None:
        self._servers.keep_sign_in(self._name, KeptSignIn(self._url, state))


def _launch(settings: McpServerSettings, order: HostOrder, home: Path) -> LaunchOrder:
    return host_launch(settings, order, home, is_confined=can_confine() and not settings.url)


MCP_SERVERS = web.AppKey("mcp_servers", McpServers)
