"""What the launcher is told: values, and how they are handed over.

The order goes through a file in memory whose descriptor the launcher inherits: it holds the engine's key, which no
list of processes may show, and an engine could rewrite a file in its own folder before the next is started.
"""

from collections.abc import Mapping

import msgspec

from engines.api import PrivateNetwork


class PortRange(msgspec.Struct, frozen=True, array_like=True):
    """Ports from the first to the last, both included."""

    first: int
    last: int


class ConfinementRules(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine may reach; everything else is refused. Paths name files, or folders and all beneath them.

    `bind` are TCP ports it may listen on, `connect` those it may listen on and connect to. `is_alone`: it works
    without helpers that it would have to connect to, so it connects to nothing. `tasks`: processes and threads.
    """

    list: tuple[str, ...] = ()
    """Folders it may list, without reading what is in them."""
    read: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    """Read, and run programs from."""
    write: tuple[str, ...] = ()
    """Read, write, make and remove; nothing in them can be run."""
    devices: tuple[str, ...] = ()
    names_threads: bool = False
    """It writes the names of its threads in `/proc`, without which CUDA does not start."""
    bind: tuple[int, ...] = ()
    connect: tuple[PortRange, ...] = ()
    is_alone: bool = True
    has_own_network: bool = False
    """It is in a network that has nobody else, where every port is its own."""
    tasks: int


class LaunchOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A process to become. `parent` is whose end it does not survive; 0 where it watches a lifeline itself."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None
    parent: int = 0
    memory_bytes: int = 0
    """Of its own that it may have; 0 sets no limit. What is mapped from files does not count, threads' stacks do."""
    confinement: ConfinementRules | None = None
    network: PrivateNetwork | None = None
    """The network to be started in; None for this computer's."""
