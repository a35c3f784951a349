"""What a program that is hosted may reach, as far as servers of tools and coding agents have it in common."""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from app.config.paths import PROGRAM
from app.config.programs import module_command
from app.confinement.places import program_paths
from app.confinement.policy import PROGRAMS, SYSTEM_FACTS
from app.confinement.rules import ConfinementRules, LaunchOrder
from app.confinement.support import read_kernel_offer
from engines.api import EngineInstallation
from engines.environment import engine_environment

WEB_PORTS = (53, 80, 443)
"""Names, HTTP and HTTPS."""
TOOL_FACTS = tuple(f"/etc/{name}" for name in ("gitconfig", "npmrc", "pip.conf", "uv", "xdg", "services", "protocols"))
"""Settings of the whole computer for programs that hosted ones start: git ends where it may not read its own."""
READABLE_FACTS = (*SYSTEM_FACTS, *TOOL_FACTS)
_HOST_ENVIRONMENT = {"PYDANTIC_DISABLE_PLUGINS": "__all__"}
"""The protocols' libraries are made of pydantic, which looks through all packages for plug-ins of its own else."""


def can_confine() -> bool:
    """Tell whether the system holds a program to some files; asks the kernel the first time."""
    offer = read_kernel_offer() if sys.platform == "linux" else None
    return offer is not None and bool(offer.landlock)


def launch_host(module: str, home: Path, confinement: ConfinementRules | None) -> LaunchOrder:
    """Return how the process of ours is started. Makes the hosted program's own folder. Raises OSError."""
    for folder in (home, home / "tmp"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return LaunchOrder(
        argv=tuple(module_command(module)),
        env={**engine_environment(), **_HOST_ENVIRONMENT},
        cwd=os.sep,
        parent=os.getpid() if sys.platform == "linux" else 0,
        confinement=confinement,
    )


def runnable_paths(program: Path | None) -> tuple[str, ...]:
    """Return what the process of ours and the program it starts consist of. Looks at the disk."""
    own = (str(PROGRAM / part) for part in ("app", "engines", "packaging/python") if (PROGRAM / part).is_dir())
    python = Path(sys.executable)
    installation = EngineInstallation(engine="", version="", backend="cpu", python=python, executable=program)
    return (*PROGRAMS, *own, *program_paths(installation, {}), *_packages_beside(program))


def _packages_beside(program: Path | None) -> Iterator[str]:
    """Yield what a script is installed with: its Python environment, or the `node_modules` that it lies in."""
    if program is None:
        return
    environment = program.parent.parent
    if (environment / "pyvenv.cfg").is_file():
        yield str(environment.resolve())
        yield str((environment / "bin" / "python").resolve().parent.parent)
    real = program.resolve()
    yield from (str(folder) for folder in real.parents if folder.name == "node_modules")


def home_environment(home: Path) -> Mapping[str, str]:
    """Return what has a program keep its things in a folder of its own."""
    temporary, roaming_folder = str(home / "tmp"), home / "AppData"
    own = {"HOME": str(home), "TMPDIR": temporary, "TEMP": temporary, "TMP": temporary}
    if sys.platform == "win32":
        own |= {"USERPROFILE": str(home), "APPDATA": str(roaming_folder), "LOCALAPPDATA": str(roaming_folder)}
    return own


def folder_name(name: str) -> str:
    """Return a name as that of a folder: letters, digits, dashes and dots are kept."""
    return "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in name)
