"""A gateway as a program that knows this computer from another one of the same tests: `python -m tests.known_machine`.

Four children look at a computer, which takes half a second of a processor, and most tests that start a gateway ask
nothing of it but that it is right. The first one of a process of pytest looks, and leaves what it found in a file.
Those that the command line starts look for themselves.
"""

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from unittest.mock import patch

import msgspec

from app.client import discovery
from app.config.paths import Paths
from app.config.programs import module_command
from app.core.api import PortFile
from app.core.machine import Machine
from app.gateway.advising.machine import MachineReader

VARIABLE = "TEST_MACHINE_FILE"


class KnownMachineReader(MachineReader):
    """Takes this computer from the file that the environment names, or writes it there."""

    async def _probe(self) -> Machine:
        file = Path(os.environ[VARIABLE])
        machine = read_known(file)
        if machine is None:
            machine = await super()._probe()
            keep_known(machine, file)
        return machine


def read_known(file: Path) -> Machine | None:
    """Return the machine of a file; None without one, or where what is free of its cards has to be looked at again."""
    if not file.exists():
        return None
    machine = msgspec.json.decode(file.read_bytes(), type=Machine)
    return machine if len(machine.pools) == 1 else None


def keep_known(machine: Machine, file: Path) -> None:
    """Write the file, whole for whoever reads it meanwhile."""
    stage_file = file.with_suffix(f".{os.getpid()}")
    stage_file.write_bytes(msgspec.json.encode(machine))
    stage_file.replace(file)


@cache
def machine_environment() -> Mapping[str, str]:
    """Return what gateways of this process's tests are started with, so that they share a machine."""
    folder = tempfile.mkdtemp(prefix="known-machine-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return {VARIABLE: str(Path(folder, "machine.json"))}


def share_machine() -> None:
    """Have the gateway of this process read the machine so."""
    from app.gateway import main  # noqa: PLC0415 -- only programs bring it in, and one sets its clocks first

    main.MachineReader = KnownMachineReader  # type: ignore[attr-defined]  # it is imported there


def ensure_gateway(paths: Paths, extra: Mapping[str, str] | None = None) -> PortFile:
    """Return the running gateway, or start one as the client does, which shares the machine."""
    program = module_command("tests.known_machine")
    with patch.object(discovery, "standalone_command", lambda _module: program):
        return discovery.ensure_gateway(paths, extra={**machine_environment(), **(extra or {})})


if __name__ == "__main__":
    share_machine()
    from app.gateway.main import main

    sys.exit(main())
