"""How a copy of each kind is replaced. A way makes ready without changing anything, and then replaces in one step.

    check    may this person replace it at all? before a byte is fetched
    prepare  unpack, try out: takes a while, can be called off, changes nothing that is used
    finish   replace it, or hand it to whoever does; what is left to do comes back

Blocks; call everything from a thread.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Protocol

from app.config.installation import AppInstallation, previous_path, read_note
from app.config.programs import program_inside
from app.core.errors import Conflict, StorageFault
from app.core.updates import InstallationKind
from app.engine_store.archives import unpack_archive
from app.engine_store.durable import sync_folder, sync_tree
from app.updates import exchange, installers
from app.updates.fetching import check_room
from app.updates.manifest import UpdateRefused
from app.updates.rehearsal import rehearse

_UNPACKED_TIMES = 3
"""277 MB out of 110 MB."""
StageReporter = Callable[[str], object]
FinalAction = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateResult:
    """What is left when a way is through. `final_action` is done by the service as its last, when everything is closed."""

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
            raise StorageFault(f"The update cannot be unpacked: {error.strerror or error}.") from error
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
            raise StorageFault(f"The update cannot be written: {error.strerror or error}.") from error

    def finish_update(self, work: UpdateTask) -> UpdateResult:
        exchange.put_in_place(work.place)
        sync_folder(work.place.parent)
        return UpdateResult(instruction="Quit Roundhouse and open it again to use it.")


class _PackageUpdate(_ExternalUpdate):
    """Debian's: apt replaces everything while we run, so the service starts anew right after."""

    ends_service = True

    def finish_update(self, work: UpdateTask) -> UpdateResult:
        work.report_stage("Waiting for the system's installer")
        if installers.install_package(work.file, work.stop_requested):
            return UpdateResult(goes_on=True)
        return UpdateResult(
            instruction="The system's installer is open: install it there, then quit Roundhouse and open it again."
        )


class _SetupUpdate(_ExternalUpdate):
    """Windows' installer: it can replace nothing that runs, so the service ends first."""

    ends_service = True

    def finish_update(self, work: UpdateTask) -> UpdateResult:
        return UpdateResult(
            final_action=lambda: installers.start_setup(work.file),
            instruction="The installer opens: close this window for it.",
        )


class _DiskImageUpdate(_ExternalUpdate):
    """A disk image on macOS: shown, and the rest is dragging."""

    def finish_update(self, work: UpdateTask) -> UpdateResult:
        installers.open_image(work.file)
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
