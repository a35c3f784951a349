"""How to start our own programs: from a checkout, an environment of packages, or a frozen application.

Every place that starts a child of ours asks here, so that how this copy was packed is known to one function.

How this copy of Roundhouse was installed: what its packer noted beside it, else what its place tells.

The packer's note is `installation.json` beside the executables (on macOS in the bundle's Resources): the kind, and the
version, so that a copy that does not run can be asked too.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import msgspec

from app.config.environment import current_appimage
from app.core.updates import InstallationKind

PACKAGE = "roundhouse_ai"
"""What holds everything of ours in an environment of packages."""
UV_VARIABLE = "ROUNDHOUSE_UV"
"""Names the uv to use, where the one that comes with Roundhouse will not do."""


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the argv that runs `module` (e.g. "app.gateway") with this interpreter.

    `-P` keeps the folder we are started in off the import path: people's projects often have a folder called `app`.
    """
    return [*own_program(), "-P", "-m", module, *arguments]


def own_program() -> list[str]:
    """Return what runs our modules, told `-P -m module`: a checkout's Python, or what understands the same.

    That is the package this copy was installed as, since only it finds our modules (`roundhouse_ai.start`), or the
    frozen application's command. Its window would do as well, but a list of processes should not show three windows.
    """
    executable = Path(sys.executable)
    if getattr(sys, "frozen", False):
        return [str(executable.with_name("roundhouse" + executable.suffix))]
    if this_installation().kind is InstallationKind.WHEEL:
        return [str(executable), "-P", "-m", PACKAGE]
    return [str(executable)]


def standalone_command(module: str) -> list[str]:
    """Return the argv for a program of ours that may outlive this one.

    An AppImage's files are there for as long as what was started from it: whatever goes on afterwards starts it anew.
    """
    image = _current_image()
    return module_command(module) if image is None else [str(image), "-P", "-m", module]


def _current_image() -> Path | None:
    return current_appimage() if getattr(sys, "frozen", False) else None


def window_command() -> list[str]:
    """Return the argv that opens the window: frozen, the executable a desktop starts, which needs no terminal."""
    image = _current_image()
    if image is not None:
        return [str(image)]
    if not getattr(sys, "frozen", False):
        return module_command("app.gui")
    executable = Path(sys.executable)
    return [str(executable.with_name("roundhouse-window" + executable.suffix))]


def removal_instructions() -> str:
    """Return how the program itself is removed, in a sentence: the way it came."""
    installation = this_installation()
    previous = previous_path(installation.place)
    previous_note = f" The version before it is {previous}; remove that too." if previous.exists() else ""
    return _REMOVAL[installation.kind].format(place=installation.place) + previous_note


_REMOVAL = {
    InstallationKind.DEB: "The program itself is a package: `sudo apt remove roundhouse`, or in the software centre.",
    InstallationKind.ARCHIVE: "The program itself is {place}; remove that.",
    InstallationKind.APPIMAGE: "The program itself is {place}; remove that.",
    InstallationKind.EXE: "The program itself is removed in Settings, under installed apps.",
    InstallationKind.DMG: "The program itself is {place}; remove that.",
    InstallationKind.WHEEL: "The program itself is this environment, {place}; remove that, or the package from it.",
    InstallationKind.SOURCE: "The program itself is this checkout, {place}; remove that folder.",
}


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment for a child of ours, with `extra` on top."""
    return {**os.environ, **(extra or {})}


def exec_module(module: str, *, extra: Mapping[str, str] | None = None) -> NoReturn:
    """Turn this process into another program of ours; the caller's terminal sees its exit code.

    On Windows, where exec would hand the prompt back at once, wait for it as a child instead.
    """
    argv, environment = module_command(module), child_environment(extra)
    if sys.platform == "win32":
        sys.exit(subprocess.call(argv, env=environment))
    os.execve(argv[0], argv, environment)  # noqa: S606 -- our own program, argv as a list


def uv_program() -> Path | None:
    """Return the uv that builds engines' environments; None when there is none.

    In order: the one `ROUNDHOUSE_UV` names, the one that was installed or frozen with us, a checkout's own, the one on
    PATH.
    """
    name = "uv.exe" if sys.platform == "win32" else "uv"
    variable = os.environ.get(UV_VARIABLE)
    root = Path(__file__).resolve().parents[2]
    beside = (Path(sys.executable).parent / name, root / name, root / ".uv" / "bin" / name)
    on_path = shutil.which("uv")
    candidates = [Path(variable)] if variable else [*beside, *([Path(on_path)] if on_path else [])]
    return next((path for path in candidates if path.is_file()), None)


def find_program(name: str) -> str:
    """Return the whole path of a program of the system's; empty where there is none on PATH."""
    return shutil.which(name) or ""


def program_inside(folder: Path) -> Path:
    """Return the executable that understands `-P -m module` in a frozen application's folder."""
    return folder / ("roundhouse.exe" if sys.platform == "win32" else "roundhouse")


NOTE = "installation.json"
_ROOT = Path(__file__).resolve().parents[2]
_COMMANDS = {
    "uv": "uv tool upgrade roundhouse-ai",
    "pipx": "pipx upgrade roundhouse-ai",
    "pip": f"{sys.executable} -m pip install --upgrade roundhouse-ai",
    "source": f"git -C {_ROOT} pull, then make in that folder",
}


class PackerNote(msgspec.Struct, frozen=True, kw_only=True):
    """What a packer says of a copy."""

    kind: InstallationKind
    version: str = ""


class AppInstallation(msgspec.Struct, frozen=True, kw_only=True):
    """This copy: its kind, the folder or file that is replaced as a whole, and what updates it by hand."""

    kind: InstallationKind
    place: Path
    command: str = ""


def this_installation(environ: Mapping[str, str] | None = None) -> AppInstallation:
    """Return how the copy that runs now was installed. Reads a small file."""
    executable = Path(sys.executable)
    if not getattr(sys, "frozen", False):
        return _python_installation()
    image = current_appimage(environ)
    if image is not None:
        return AppInstallation(kind=InstallationKind.APPIMAGE, place=image)
    folder = bundle_folder(executable)
    note = read_note(folder)
    return AppInstallation(kind=note.kind if note else _guess_kind(executable), place=folder)


def read_note(folder: Path) -> PackerNote | None:
    """Return what the packer of a copy noted; None without a note that can be read."""
    for place in (folder / NOTE, folder / "Contents/Resources" / NOTE):
        try:
            return msgspec.json.decode(place.read_bytes(), type=PackerNote)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            continue
    return None


def previous_path(place: Path) -> Path:
    """Return where what was in a place before is kept, beside it."""
    return place.with_name(f".{place.name}.previous")


def encode_note(kind: InstallationKind, version: str) -> bytes:
    """Return what a packer writes into `NOTE`."""
    return msgspec.json.encode(PackerNote(kind=kind, version=version)) + b"\n"


def bundle_folder(executable: Path) -> Path:
    """Return what a person sees of a frozen application: on macOS the .app around it, else its folder."""
    return next((folder for folder in executable.parents if folder.suffix == ".app"), executable.parent)


def _guess_kind(executable: Path) -> InstallationKind:
    if sys.platform == "win32":
        return InstallationKind.EXE
    if sys.platform == "darwin":
        return InstallationKind.DMG
    return InstallationKind.DEB if executable.is_relative_to("/usr") else InstallationKind.ARCHIVE


def _python_installation() -> AppInstallation:
    if (_ROOT / "pyproject.toml").is_file():
        return AppInstallation(kind=InstallationKind.SOURCE, place=_ROOT, command=_COMMANDS["source"])
    parts = Path(sys.prefix).parts
    tool = next((tool for tool in ("uv", "pipx") if tool in parts), "pip")
    return AppInstallation(kind=InstallationKind.WHEEL, place=Path(sys.prefix), command=_COMMANDS[tool])
