"""The command that starts the launcher with its order, for whoever starts a process that is to be confined."""

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping

import msgspec

from app.config.programs import child_environment, module_command
from app.confinement.rules import LaunchOrder


class StartCommand(msgspec.Struct, frozen=True, kw_only=True):
    """What to start. `descriptors` have to be passed on to it."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None = None
    descriptors: tuple[int, ...] = ()


@contextlib.contextmanager
def launcher_command(order: LaunchOrder) -> Iterator[StartCommand]:
    """Yield what becomes what is ordered, to be started in the block; where there is no launcher, that itself.

    The order is in a file in memory that has no name, and is closed with the block.
    """
    if sys.platform != "linux":
        yield StartCommand(argv=order.argv, env=order.env, cwd=order.cwd)
        return
    descriptor = os.memfd_create("roundhouse-launch")
    try:
        os.write(descriptor, msgspec.json.encode(order))
        os.lseek(descriptor, 0, os.SEEK_SET)
        descriptors = () if order.network is None else (order.network.descriptor,)
        argv = module_command("app.confinement.launcher", str(descriptor))
        yield StartCommand(argv=tuple(argv), env=child_environment(), descriptors=(descriptor, *descriptors))
    finally:
        os.close(descriptor)
