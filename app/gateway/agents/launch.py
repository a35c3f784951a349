"""How one coding agent is started: the program that talks to it, what it is told, and what both may reach.

An agent may read the system's programs, and read, change and run what is in its folder and in a home of its own, which
it keeps between runs; nothing else of a person's. It connects to this endpoint and to its own helpers, and to other
computers only where a person let it, over HTTP and HTTPS.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import app
from app.config.paths import PROGRAM
from app.config.private_files import write_private
from app.confinement.places import read_passing_ports
from app.confinement.policy import PLAIN_DEVICES
from app.confinement.rules import ConfinementRules, PortRange
from app.core.agents import AgentOrder
from app.core.errors import NotFound
from app.core.tools import ToolLaunch
from app.gateway.hosting.reach import READABLE_FACTS, WEB_PORTS, home_environment, runnable_paths
from engines.environment import engine_environment

_TASKS = 2048
"""Processes and threads: the agent, what builds and tests the project, and their helpers."""
_ANY_FREE_PORT = 0
_XDG = {"XDG_CONFIG_HOME": ".config", "XDG_DATA_HOME": ".local/share", "XDG_CACHE_HOME": ".cache"}
_XDG_STATE = {"XDG_STATE_HOME": ".local/state", "XDG_RUNTIME_DIR": "tmp"}


def find_agent_program(launch: ToolLaunch) -> str:
    """Return the path of an agent's program. Raises NotFound."""
    path = shutil.which(launch.program)
    if path is None:
        raise NotFound(
            f"{launch.name} is not installed: there is no program {launch.program!r} on PATH.",
            hint=f"Install it: {launch.install}",
            code="agent_not_installed",
        )
    return path


def agent_order(launch: ToolLaunch, folder: Path, home: Path, *, load: str, is_confined: bool) -> AgentOrder:
    """Return what the host is told, and write the agent's settings for this run. Raises NotFound or OSError."""
    own = home / "roundhouse"
    file = own / launch.file if launch.file else own
    if launch.file:
        write_private(file, launch.text.encode())

    def fill_in(text: str) -> str:
        return launch.fill_in(text, file=str(file), folder=str(own))

    environment = {name: fill_in(value) for name, value in launch.environment.items()}
    places = {name: str(home / place) for name, place in (_XDG | _XDG_STATE).items()}
    return AgentOrder(
        command=find_agent_program(launch),
        args=[fill_in(argument) for argument in launch.arguments],
        env={**engine_environment(), **home_environment(home), **places, "PWD": str(folder), **environment},
        folder=str(folder),
        load=load,
        has_terminals=is_confined,
        version=app.__version__,
    )


def confine_agent(order: AgentOrder, home: Path, endpoint: str, *, has_network: bool) -> ConfinementRules:
    """Return what an agent and the program that talks to it may reach. Looks at the disk."""
    port = urlsplit(endpoint).port or WEB_PORTS[-1]
    web = [PortRange(other, other) for other in WEB_PORTS] if has_network else []
    places = (str(home), order.folder)
    return ConfinementRules(
        list=(str(PROGRAM),),
        read=READABLE_FACTS,
        run=(*runnable_paths(Path(order.command)), *_person_programs(), *places),
        write=places,
        devices=PLAIN_DEVICES,
        bind=(_ANY_FREE_PORT,),
        connect=(PortRange(port, port), read_passing_ports(), *web),
        is_alone=False,
        tasks=_TASKS,
    )


def _person_programs() -> Iterator[str]:
    """Yield the folders of PATH below a person's home, and the Node.js that is used, with what it consists of."""
    home = Path.home()
    for name in os.get_exec_path():
        folder = Path(name)
        if folder.is_dir() and folder.resolve().is_relative_to(home) and folder.resolve() != home:
            yield str(folder.resolve())
    node = shutil.which("node")
    if node is not None and not home.is_relative_to(Path(node).resolve().parents[1]):
        yield str(Path(node).resolve().parents[1])
