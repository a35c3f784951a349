"""Installers that are the system's, not ours: called only after a person asked, and told what came of it.

Debian's packages go to apt with an administrator's password (polkit asks for it), or are opened as a double-click
would. Tried with stand-ins for pkexec and xdg-open; Windows' and macOS' were never run.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Event

from app.config.programs import child_environment, find_program
from app.core.errors import EnvironmentFault
from app.hub.download.wire import DownloadStopped

_POLL_S = 0.1
_LAST = 2000
_NOT_ALLOWED = frozenset({126, 127})
"""What pkexec exits with when nobody could be asked, or somebody said no."""


def install_package(package: Path, off: Event) -> bool:
    """Hand a Debian package to the system. Returns whether it is installed now, or only opened for somebody to install.

    Raises EnvironmentFault (update_by_hand) with the command that does it, where the system cannot ask.
    """
    apt, asking = find_program("apt-get"), find_program("pkexec")
    if apt and asking and _can_ask():
        _run_installer([asking, apt, "install", "--yes", "--", str(package)], package, off)
        return True
    opener = find_program("xdg-open")
    if opener and _can_ask():
        subprocess.Popen([opener, str(package)], start_new_session=True)
        return False
    raise _manual_update_fault(package, "There is no way to ask for an administrator's password from here.")


def open_image(image: Path) -> None:
    """Show a disk image, from which a person drags the application. Raises EnvironmentFault."""
    result = subprocess.run(["/usr/bin/open", str(image)], capture_output=True, check=False)
    if result.returncode:
        raise EnvironmentFault(f"{image} cannot be opened.", hint="Open it yourself.", code="update_by_hand")


def start_setup(setup: Path) -> None:
    """Start Windows' installer, which asks what it has to and outlives us. Raises OSError."""
    subprocess.Popen([str(setup)], close_fds=True)


def _run_installer(argv: Sequence[str], package: Path, off: Event) -> None:
    child = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    output = _wait_for_output(child, off)
    if child.returncode in _NOT_ALLOWED:
        raise _manual_update_fault(package, "The system was not allowed to install the package.", output)
    if child.returncode:
        raise _manual_update_fault(package, "The package could not be installed.", output)


def _wait_for_output(child: "subprocess.Popen[bytes]", off: Event) -> str:
    """Return what a program said once it has ended; ends it when `off`, as far as it lets us."""
    while True:
        try:
            output, _ = child.communicate(timeout=_POLL_S)
            return output.decode("utf-8", "replace")[-_LAST:]
        except subprocess.TimeoutExpired:
            if off.is_set() and _try_to_end(child):
                raise DownloadStopped from None


def _try_to_end(child: "subprocess.Popen[bytes]") -> bool:
    """Ask a program to end; one that runs as an administrator by now cannot be, and is waited for."""
    try:
        child.terminate()
    except PermissionError:
        return False
    child.communicate()
    return True


def _can_ask() -> bool:
    environ = child_environment()
    return sys.platform == "linux" and bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def _manual_update_fault(package: Path, why: str, output: str = "") -> EnvironmentFault:
    return EnvironmentFault(
        why,
        hint=f"In a terminal: sudo apt install {package}",
        code="update_by_hand",
        detail=output.strip(),
    )
