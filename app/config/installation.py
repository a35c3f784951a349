"""How this copy of Roundhouse was installed: what its packer noted beside it, else what its place tells.

The packer's note is `installation.json` beside the executables (on macOS in the bundle's Resources): the kind, and the
version, so that a copy that does not run can be asked too.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from app.config.environment import current_appimage
from app.core.updates import InstallationKind

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
    running = Path(sys.executable)
    if not getattr(sys, "frozen", False):
        return _python_installation()
    image = current_appimage(environ)
    if image is not None:
        return AppInstallation(kind=InstallationKind.APPIMAGE, place=image)
    folder = bundle_folder(running)
    note = read_note(folder)
    return AppInstallation(kind=note.kind if note else _guess_kind(running), place=folder)


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


def bundle_folder(running: Path) -> Path:
    """Return what a person sees of a frozen application: on macOS the .app around it, else its folder."""
    return next((folder for folder in running.parents if folder.suffix == ".app"), running.parent)


def _guess_kind(running: Path) -> InstallationKind:
    if sys.platform == "win32":
        return InstallationKind.EXE
    if sys.platform == "darwin":
        return InstallationKind.DMG
    return InstallationKind.DEB if running.is_relative_to("/usr") else InstallationKind.ARCHIVE


def _python_installation() -> AppInstallation:
    if (_ROOT / "pyproject.toml").is_file():
        return AppInstallation(kind=InstallationKind.SOURCE, place=_ROOT, command=_COMMANDS["source"])
    parts = Path(sys.prefix).parts
    tool = next((tool for tool in ("uv", "pipx") if tool in parts), "pip")
    return AppInstallation(kind=InstallationKind.WHEEL, place=Path(sys.prefix), command=_COMMANDS[tool])
