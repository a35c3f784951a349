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

from app.config.installation import Installation, note_of, previous_of
from app.config.programs import program_in
from app.core.errors import Conflict, StorageFault
from app.core.updates import InstallationKind
from app.engine_store.archives import unpack
from app.engine_store.durable import sync_folder, sync_tree
from app.updates import exchange, installers
from app.updates.fetching import check_room
from app.updates.manifest import UpdateRefused
from app.updates.rehearsal import rehearse

_UNPACKED_TIMES = 3
"""277 MB out of 110 MB."""
Said = Callable[[str], object]
Deed = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What is left when a way is through. `last_deed` is done by the service as its last, when everything is closed."""

    last_deed: Deed | None = None
    goes_on: bool = False
    """Whether the service starts again after it, as whatever lies in its place then."""
    said: str = ""
    """What a person has to do now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One update under way: which copy, the checked file, its version, how to say what is done, and whether to stop."""

    installation: Installation
    file: Path
    version: str
    say: Said = field(default=lambda _stage: None)
    off: Event = field(default_factory=Event)

    @property
    def place(self) -> Path:
        """What is replaced."""
        return self.installation.place


class Way(Protocol):
    """See above. `ends_service`: whether it takes the service down, so that answers in progress come first."""

    ends_service: bool

    def check(self, place: Path, size: int) -> None:
        """Raise StorageFault where it cannot be."""

    def prepare(self, work: Work) -> None:
        """Make ready. Raises what can be wrong with it, and Stopped."""

    def finish(self, work: Work) -> Ending:
        """Replace."""


class _HandedOver:
    """What is not replaced by us needs nothing made ready."""

    ends_service = False

    def check(self, place: Path, size: int) -> None:
        """Let whoever replaces it look."""

    def prepare(self, work: Work) -> None:
        """Do nothing."""


class _Folder:
    """A folder of the person's own: unpacked beside, tried out, exchanged by the service as it ends."""

    ends_service = True

    def check(self, place: Path, size: int) -> None:
        exchange.check_replaceable(place)
        check_room(place.parent, size * _UNPACKED_TIMES)

    def prepare(self, work: Work) -> None:
        ready = exchange.next_of(work.place)
        try:
            work.say("Unpacking")
            exchange.remove(ready)
            ready.mkdir(mode=0o755)
            unpack(work.file, ready)
            sync_tree(ready)
            _check_version(ready, work.version)
            work.say("Testing it")
            rehearse(program_in(ready), work.version, work.off)
        except OSError as error:
            shutil.rmtree(ready, ignore_errors=True)
            raise StorageFault(f"The update cannot be unpacked: {error.strerror or error}.") from error
        except BaseException:
            shutil.rmtree(ready, ignore_errors=True)
            raise

    def finish(self, work: Work) -> Ending:
        return Ending(last_deed=lambda: exchange.put_in_place(work.place), goes_on=True)


class _Image:
    """An AppImage: a copy is made beside it, and takes its name. What runs goes on from the old one."""

    ends_service = False

    def check(self, place: Path, size: int) -> None:
        exchange.check_replaceable(place)
        check_room(place.parent, size)

    def prepare(self, work: Work) -> None:
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

    def finish(self, work: Work) -> Ending:
        exchange.put_in_place(work.place)
        sync_folder(work.place.parent)
        return Ending(said="Quit Roundhouse and open it again to use it.")


class _Package(_HandedOver):
    """Debian's: apt replaces everything while we run, so the service starts anew right after."""

    ends_service = True

    def finish(self, work: Work) -> Ending:
        work.say("Waiting for the system's installer")
        if installers.install_package(work.file, work.off):
            return Ending(goes_on=True)
        return Ending(said="The system's installer is open: install it there, then quit Roundhouse and open it again.")


class _Setup(_HandedOver):
    """Windows' installer: it can replace nothing that runs, so the service ends first."""

    ends_service = True

    def finish(self, work: Work) -> Ending:
        return Ending(
            last_deed=lambda: installers.start_setup(work.file), said="The installer opens: close this window for it."
        )


class _DiskImage(_HandedOver):
    """A disk image on macOS: shown, and the rest is dragging."""

    def finish(self, work: Work) -> Ending:
        installers.open_image(work.file)
        return Ending(said="Quit Roundhouse, drag the new one to Applications, and open it again.")


WAYS: dict[InstallationKind, Way] = {
    InstallationKind.ARCHIVE: _Folder(),
    InstallationKind.APPIMAGE: _Image(),
    InstallationKind.DEB: _Package(),
    InstallationKind.EXE: _Setup(),
    InstallationKind.DMG: _DiskImage(),
}
"""The other kinds are updated by the command that installed them."""
_KEPT = frozenset({InstallationKind.ARCHIVE, InstallationKind.APPIMAGE})


def previous_version(installation: Installation) -> str:
    """Return the version that can be gone back to, "before" where it has no name; empty without one."""
    previous = previous_of(installation.place)
    if installation.kind not in _KEPT or not previous.exists():
        return ""
    noted = note_of(previous)
    return noted.version if noted and noted.version else "before"


def way_back(installation: Installation) -> Ending:
    """Return how the version before is used again. Raises Conflict without one, StorageFault."""
    if not previous_version(installation):
        raise Conflict("There is no previous version to go back to.", code="no_previous")
    exchange.check_replaceable(installation.place)
    if installation.kind is InstallationKind.APPIMAGE:
        exchange.go_back(installation.place)
        return Ending(said="Quit Roundhouse and open it again to use it.")
    return Ending(last_deed=lambda: exchange.go_back(installation.place), goes_on=True)


def _check_version(folder: Path, version: str) -> None:
    """Raise UpdateRefused for a folder that is not what its manifest says."""
    noted = note_of(folder)
    if noted is None or noted.version != version or noted.kind is not InstallationKind.ARCHIVE:
        found = f"version {noted.version}" if noted else "no Roundhouse"
        raise UpdateRefused(
            f"The archive holds {found}, not version {version} as it should: it was refused.", code="update_damaged"
        )
