"""Engines started as the application starts them: confined, with carried wheels besides.

What is refused to an engine shows on a card alone: NVIDIA's driver needs more than a processor does.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import msgspec

from app.confinement.command import launcher_command
from app.confinement.confiner import Confiner, LaunchPlaces
from app.confinement.rules import LaunchOrder
from engines.api import Descriptor, EngineInstallation, LaunchOptions, LaunchPlan, ModelSource, ProcessSpec, Readiness
from engines.environment import engine_environment
from tests.gpu.places import with_wheels


def order_process(  # noqa: PLR0913 -- all that a launch is made of
    about: Descriptor,
    source: ModelSource,
    options: LaunchOptions,
    installation: EngineInstallation,
    *,
    spec: ProcessSpec,
    folder: Path,
    port: int,
    writes: Sequence[Path] = (),
) -> LaunchOrder:
    """Return what is started: a process of an engine, confined where this system can, that works in `folder`."""
    wheels = with_wheels({"PYTHONPATH": os.environ.get("PYTHONPATH", "")})["PYTHONPATH"]
    confinement = Confiner(folder / "homes", lambda _engine: True).confine(
        about,
        source,
        options,
        installation,
        plan=LaunchPlan(processes=(spec,), base_url="", served_name=source.name, readiness=Readiness()),
        places=LaunchPlaces(scratch=folder / "scratch", short=folder / "short", port=port),
        inherited_environment=engine_environment(),
    )
    environment = {**engine_environment(), **(confinement.environment if confinement else {}), **spec.env}
    environment |= {**spec.secrets, "PYTHONPATH": os.pathsep.join((spec.env.get("PYTHONPATH", ""), wheels))}
    rules = None if confinement is None else confinement.rules
    if rules is not None:
        wheel_folders = (str(Path(place).resolve()) for place in wheels.split(os.pathsep) if place)
        write_folders = (str(place.resolve()) for place in writes)
        rules = msgspec.structs.replace(rules, run=(*rules.run, *wheel_folders), write=(*rules.write, *write_folders))
    return LaunchOrder(argv=spec.argv, env=environment, cwd=str(folder), confinement=rules)


@contextlib.contextmanager
def run_order(order: LaunchOrder, output: IO[bytes]) -> Iterator["subprocess.Popen[bytes]"]:
    """Start it, with standard input as its lifeline; nothing ends it but whoever asks."""
    with (
        launcher_command(order) as command,
        subprocess.Popen(
            command.argv,
            env=dict(command.env),
            cwd=command.cwd,
            pass_fds=command.descriptors,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        yield process
