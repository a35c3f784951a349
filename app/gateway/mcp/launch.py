"""How one MCP server is started: the program that talks to it, what it is told, and what both may reach.

A built-in server is such a program itself: it answers the gateway's lines without a protocol between.

A server on this computer may read the system's programs and its own, and change the folders a person gave it, those
that its arguments name, and one of its own, which is its home: runners such as npx keep what they download there, and
no server can change what another one runs. It connects to other computers only where a person let it, over HTTP and
HTTPS.
"""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from app.config.paths import PROGRAM
from app.confinement.policy import PLAIN_DEVICES
from app.confinement.rules import ConfinementRules, LaunchOrder, PortRange
from app.core.connections import ConnectionReason, Purpose
from app.core.errors import NotFound
from app.core.mcp import SEARXNG_URL, BuiltinServer, HostOrder, McpServerSettings
from app.gateway.hosting.reach import READABLE_FACTS, WEB_PORTS, home_environment, launch_host, runnable_paths
from app.network.egress import egress_gate
from engines.environment import engine_environment

_TASKS = 512
"""Processes and threads: a runner, its package manager, and the server."""
_SCRIPTS = frozenset({".js", ".mjs", ".cjs", ".ts", ".py"})
_PROJECT_MARKS = ("package.json", "pyproject.toml", ".git")
_PACKAGES = "node_modules"
BRAVE_SEARCH = "https://api.search.brave.com"


def host_order(name: str, settings: McpServerSettings, home: Path, sign_in: str = "") -> HostOrder:
    """Return what the host is told. Raises NotFound for a program that is not here, Offline for another computer."""
    if settings.url:
        note_call(name, settings.url)
        return HostOrder(url=settings.url, headers=settings.headers, sign_in=sign_in)
    environment = {**engine_environment(), **_own_environment(settings, home), **settings.env}
    if settings.builtin is not None:
        if settings.builtin is BuiltinServer.WEB_SEARCH:
            note_call(name, settings.env.get(SEARXNG_URL, BRAVE_SEARCH))
        return HostOrder(builtin=settings.builtin, folders=settings.folders, env=environment)
    return HostOrder(command=find_program(settings), args=settings.args, env=environment, cwd=str(home))


def note_call(name: str, url: str) -> None:
    """Note that another computer is called. Raises Offline where nothing may go out."""
    where = urlsplit(url)
    port = where.port or (443 if where.scheme == "https" else 80)
    egress_gate.note_call(where.hostname or "", port, Purpose(why=ConnectionReason.TOOLS, about=name))


def find_program(settings: McpServerSettings) -> str:
    """Return the path of a server's program. Raises NotFound."""
    path = shutil.which(settings.command, path=settings.env.get("PATH"))
    if path is None:
        raise NotFound(
            f"The program {settings.command!r} is not on this computer.",
            hint="Install it, or give its whole path.",
            code="mcp_command_not_found",
        )
    return path


def host_launch(settings: McpServerSettings, order: HostOrder, home: Path, *, is_confined: bool) -> LaunchOrder:
    """Return how the host is started, or the built-in server in its place. Makes the folder. Raises OSError."""
    confinement = confine_server(settings, order, home) if is_confined else None
    if settings.builtin is None:
        return launch_host("app.mcp_host", home, confinement)
    return msgspec.structs.replace(launch_host("app.mcp_tools", home, confinement), env=order.env)


def confine_server(settings: McpServerSettings, order: HostOrder, home: Path) -> ConfinementRules:
    """Return what a server and the program that talks to it may reach. Looks at the disk."""
    has_network = has_network_access(settings)
    folders = tuple(str(path) for path in server_folders(settings))
    reads_only = settings.builtin is not None
    return ConfinementRules(
        list=(str(PROGRAM),),
        read=(*READABLE_FACTS, *map(str, script_folders(settings)), *(folders if reads_only else ())),
        run=(*runnable_paths(Path(order.command) if order.command else None), str(home)),
        write=(str(home), *(() if reads_only else folders)),
        devices=PLAIN_DEVICES,
        connect=tuple(PortRange(port, port) for port in (*WEB_PORTS, *_own_ports(settings))) if has_network else (),
        is_alone=not has_network,
        tasks=_TASKS,
    )


def has_network_access(settings: McpServerSettings) -> bool:
    """Tell whether a server may connect to other computers now."""
    return settings.has_network and not egress_gate.is_closed


def _own_ports(settings: McpServerSettings) -> Iterator[int]:
    """Yield the port of a search endpoint, which may be another than the web's usual ones."""
    port = urlsplit(settings.env.get(SEARXNG_URL, "")).port if settings.builtin is not None else None
    if port is not None:
        yield port


def script_folders(settings: McpServerSettings) -> Iterator[Path]:
    """Yield the projects of scripts among the arguments (`node build/index.js`): they import what lies around them.

    A script that npm installed imports the packages beside its own.
    """
    for path in map(Path, settings.args):
        if path.suffix in _SCRIPTS and path.is_absolute() and path.is_file():
            folders = [folder for folder in path.resolve().parents if not Path.home().is_relative_to(folder)]
            package_folders = [folder for folder in folders if folder.name == _PACKAGES]
            marked_folders = [folder for folder in folders if any((folder / mark).exists() for mark in _PROJECT_MARKS)]
            yield from (package_folders[-1:] or marked_folders[:1] or folders[:1])


def server_folders(settings: McpServerSettings) -> Iterator[Path]:
    """Yield the folders and files a server may change: those it was given, and those that its arguments name.

    A script that it consists of is none of them.
    """
    named_words = (word for argument in settings.args for word in (argument, argument.partition("=")[2]))
    for path in (Path(word).expanduser() for word in (*settings.folders, *named_words)):
        is_whole_home = Path.home().is_relative_to(path)  # or all there is
        if path.is_absolute() and path.exists() and not is_whole_home and path.suffix not in _SCRIPTS:
            yield path.resolve()


def _own_environment(settings: McpServerSettings, home: Path) -> Mapping[str, str]:
    """Return what has a server keep its things where it may, and runners not wait for a network that it has not."""
    offline = {} if has_network_access(settings) else {"npm_config_offline": "true", "UV_OFFLINE": "1"}
    return {**home_environment(home), **offline}
