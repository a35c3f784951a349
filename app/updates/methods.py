"""How a copy of each kind is replaced. A way makes ready without changing anything, and then replaces in one step.

    check    may this person replace it at all? before a byte is fetched
    prepare  unpack, try out: takes a while, can be called off, changes nothing that is used
    finish   replace it, or hand it to whoever does; what is left to do comes back

Blocks; call everything from a thread.

Does the new version run on this computer? Its service is started in an empty home, before anything is replaced.

It has to announce itself there as the version it should be; then it is ended again. What needs a newer system, lacks a
file or dies at once shows here, while the version in use still is.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Protocol

import msgspec

from app.config.programs import (
    AppInstallation,
    child_environment,
    find_program,
    previous_path,
    program_inside,
    read_note,
)
from app.core.api import PortFile
from app.core.errors import Conflict, EnvironmentFault, write_fault
from app.core.updates import InstallationKind
from app.engine_store.archives import unpack_archive
from app.engine_store.durable import sync_folder, sync_tree
from app.hub.download.wire import DownloadStopped
from app.updates import exchange
from app.updates.fetching import check_room
from app.updates.manifest import UpdateRefused

WITHIN_S = 120.0
"""A slow disk reads 300 MB in less."""
_POLL_S = 0.05
_END_S = 20.0
_LAST = 2000
"""Letters of what it said."""
_QUIET = {
    "ROUNDHOUSE_NETWORK_OFFLINE": "true",
    "ROUNDHOUSE_MODELS_OTHER_PROGRAMS": "false",
    "ROUNDHOUSE_GATEWAY_HOST": "127.0.0.1",
    "ROUNDHOUSE_MODELS_FOLDERS": "",
    "PYINSTALLER_RESET_ENVIRONMENT": "1",
}
"""It reaches nobody, is reached by nobody else, looks at nobody's models, and does not take itself for a part of us."""


def rehearse(program: Path, version: str, off: Event) -> None:
    """Start a new version's service once. Raises EnvironmentFault (update_does_not_run), or Stopped when `off`."""
    with tempfile.TemporaryDirectory(prefix="roundhouse-update-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        with (home / "said").open("w+b") as output:
            try:
                child = subprocess.Popen(
                    [str(program), "-P", "-m", "app.gateway"],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=child_environment({**_QUIET, "ROUNDHOUSE_HOME": str(home)}),
                )
            except OSError as error:
                raise _does_not_run_fault(version, str(error)) from error
            try:
                reported_port = _wait_for_port_file(child, home / "state" / "gateway.json", off)
            finally:
                _end_process(child)
            if reported_port is None or reported_port.version != version:
                output.seek(0)
                last_output = output.read().decode("utf-8", "replace")[-_LAST:]
                raise _does_not_run_fault(
                    version, last_output or f"It announced itself as {reported_port and reported_port.version}."
                )


def _wait_for_port_file(child: "subprocess.Popen[bytes]", port_file: Path, off: Event) -> PortFile | None:
    """Wait until it says where it is; None when it ended, or took too long."""
    deadline = time.monotonic() + WITHIN_S
    while child.poll() is None and time.monotonic() < deadline:
        try:
            return msgspec.json.decode(port_file.read_bytes(), type=PortFile)
        except (OSError, msgspec.MsgspecError):
            if off.wait(_POLL_S):
                raise DownloadStopped from None
    return None


def _end_process(child: "subprocess.Popen[bytes]") -> None:
    child.terminate()
    try:
        child.wait(_END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _does_not_run_fault(version: str, output: str) -> EnvironmentFault:
    return EnvironmentFault(
        f"Version {version} does not run on this computer, so nothing was changed.",
        hint="The current version stays in use. Its notes may say what it needs.",
        code="update_does_not_run",
        detail=output.strip(),
    )


# Installers that are the system's, not ours: called only after a person asked, and told what came of it.
#
# Debian's packages go to apt with an administrator's password (polkit asks for it), or are opened as a double-click
# would. Tried with stand-ins for pkexec and xdg-open; Windows' and macOS' were never run.

_INSTALLER_POLL_S = 0.1

_NOT_ALLOWED = frozenset({126, 127})
"""What pkexec exits with when nobody could be asked, or somebody said no."""


def install_package(package: Path, off: Event) -> bool:
    """Hand a Debian package to the system. Returns whether it is installed now, or only opened for somebody to install.

    Raises EnvironmentFault (update_by_hand) with the command that does it, where the system cannot ask.
    """
    apt, pkexec = find_program("apt-get"), find_program("pkexec")
    if apt and pkexec and _can_ask():
        _run_installer([pkexec, apt, "install", "--yes", "--", str(package)], package, off)
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
            output, _ = child.communicate(timeout=_INSTALLER_POLL_S)
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


_UNPACKED_TIMES = 3
"""277 MB out of 110 MB."""
StageReporter = Callable[[str], object]
FinalAction = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateResult:
    """What is left when a way is through. The service does `final_action` as its last, when everything is closed."""

    final_action: FinalAction | None = None
    goes_on: bool = False
    """Whether the service starts again after it, as whatever lies in its place then."""
    instruction: str = ""
    """What a person has to do now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTask:
    """One update under way: which copy, the checked file, its version, how to say what is done, and whether to stop."""

    installation: AppInstallation
    file: Path
    version: str
    report_stage: StageReporter = field(default=lambda _stage: None)
    stop_requested: Event = field(default_factory=Event)

    @property
    def place(self) -> Path:
        """What is replaced."""
        return self.installation.place


class UpdateMethod(Protocol):
    """See above. `ends_service`: whether it takes the service down, so that answers in progress come first."""

    ends_service: bool

    def check_place(self, place: Path, size: int) -> None:
        """Raise StorageFault where it cannot be."""

    def prepare_update(self, work: UpdateTask) -> None:
        """Make ready. Raises what can be wrong with it, and Stopped."""

    def finish_update(self, work: UpdateTask) -> UpdateResult:
        """Replace."""


class _ExternalUpdate:
    """What is not replaced by us needs nothing made ready."""

    ends_service = False

    def check_place(self, place: Path, size: int) -> None:
        """Let whoever replaces it look."""

    def prepare_update(self, work: UpdateTask) -> None:
        """Do nothing."""


class _FolderUpdate:
    """A folder of the person's own: unpacked beside, tried out, exchanged by the service as it ends."""

    ends_service = True

    def check_place(self, place: Path, size: int) -> None:
        exchange.check_replaceable(place)
        check_room(place.parent, size * _UNPACKED_TIMES)

    def prepare_update(self, work: UpdateTask) -> None:
        ready = exchange.next_of(work.place)
        try:
            work.report_stage("Unpacking")
            exchange.remove_path(ready)
            ready.mkdir(mode=0o755)
            unpack_archive(work.file, ready)
            sync_tree(ready)
            _check_version(ready, work.version)
            work.report_stage("Testing it")
            rehearse(program_inside(ready), work.version, work.stop_requested)
        except OSError as error:
            shutil.rmtree(ready, ignore_errors=True)
            raise write_fault("the update", error, action="unpacked") from error
        except BaseException:
            shutil.rmtree(ready, ignore_errors=True)
            raise

    def finish_update(self, work: UpdateTask) -> UpdateResult:
        return UpdateResult(final_action=lambda: exchange.put_in_place(work.place), goes_on=True)


class _AppImageUpdate:
    """An AppImage: a copy is made beside it, and takes its name. What runs goes on from the old one."""

    ends_service = False

    def check_place(self, place: Path, size: int) -> None:
        exchange.check_replaceable(place)
        check_room(place.parent, size)

    def prepare_update(self, work: UpdateTask) -> None:
        ready = exchange.next_of(work.place)
        try:
            with work.file.open("rb") as source, ready.open("wb") as target:
                shutil.copyfileobj(source, target)
                target.flush()
                os.fsync(target.fileno())
            ready.chmod(0o755)
        except OSError as error:
            ready.unlink(missing_ok=True)
            raise write_fault("the update", error) from error

    def finish_update(self, work: UpdateTask) -> UpdateResult:
        exchange.put_in_place(work.place)
        sync_folder(work.place.parent)
        return UpdateResult(instruction="Quit Roundhouse and open it again to use it.")


class _PackageUpdate(_ExternalUpdate):
    """Debian's: apt replaces everything while we run, so the service starts anew right after."""

    ends_service = True

    def finish_update(self, work: UpdateTask) -> UpdateResult:
        work.report_stage("Waiting for the system's installer")
        if install_package(work.file, work.stop_requested):
            return UpdateResult(goes_on=True)
        return UpdateResult(
            instruction="The system's installer is open: install it there, then quit Roundhouse and open it again."
        )


class _SetupUpdate(_ExternalUpdate):
    """Windows' installer: it can replace nothing that runs, so the service ends first."""

    ends_service = True

    def finish_update(self, work: UpdateTask) -> UpdateResult:
        return UpdateResult(
            final_action=lambda: start_setup(work.file),
            instruction="The installer opens: close this window for it.",
        )


class _DiskImageUpdate(_ExternalUpdate):
    """A disk image on macOS: shown, and the rest is dragging."""

    def finish_update(self, work: UpdateTask) -> UpdateResult:
        open_image(work.file)
        return UpdateResult(instruction="Quit Roundhouse, drag the new one to Applications, and open it again.")


UPDATE_METHODS: dict[InstallationKind, UpdateMethod] = {
    InstallationKind.ARCHIVE: _FolderUpdate(),
    InstallationKind.APPIMAGE: _AppImageUpdate(),
    InstallationKind.DEB: _PackageUpdate(),
    InstallationKind.EXE: _SetupUpdate(),
    InstallationKind.DMG: _DiskImageUpdate(),
}
"""The other kinds are updated by the command that installed them."""
_REVERSIBLE = frozenset({InstallationKind.ARCHIVE, InstallationKind.APPIMAGE})


def previous_version(installation: AppInstallation) -> str:
    """Return the version that can be gone back to, "before" where it has no name; empty without one."""
    previous = previous_path(installation.place)
    if installation.kind not in _REVERSIBLE or not previous.exists():
        return ""
    note = read_note(previous)
    return note.version if note and note.version else "before"


def roll_back(installation: AppInstallation) -> UpdateResult:
    """Return how the version before is used again. Raises Conflict without one, StorageFault."""
    if not previous_version(installation):
        raise Conflict("There is no previous version to go back to.", code="no_previous")
    exchange.check_replaceable(installation.place)
    if installation.kind is InstallationKind.APPIMAGE:
        exchange.go_back(installation.place)
        return UpdateResult(instruction="Quit Roundhouse and open it again to use it.")
    return UpdateResult(final_action=lambda: exchange.go_back(installation.place), goes_on=True)


def _check_version(folder: Path, version: str) -> None:
    """Raise UpdateRefused for a folder that is not what its manifest says."""
    note = read_note(folder)
    if note is None or note.version != version or note.kind is not InstallationKind.ARCHIVE:
        description = f"version {note.version}" if note else "no Roundhouse"
        raise UpdateRefused(
            f"The archive holds {description}, not version {version} as it should: it was refused.",
            code="update_damaged",
        )
