"""What the gateway knows of newer versions of Roundhouse, and what this window asked it to do about them.

One for the whole window: the rail has its sign, the settings page its card. A window that asked for another version
opens again as that version once its service runs; a window that did not says that there is one.
"""

from functools import partial

from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal

from app import __version__
from app.core.errors import ErrorBody
from app.core.events import Event, UpdateJobChanged, UpdatesChanged
from app.core.updates import InstallUpdate, Release, SkipUpdate, UpdateJob, UpdateState
from app.gui.net.api import GatewayApi
from app.gui.shell.contract import Shell

_CANCELLED = "cancelled"


class Updates(QObject):
    """The owner of the state; views show it."""

    changed = Signal()

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(shell)
        self._api, self._shell = api, shell
        self.state: UpdateState | None = None
        self.error: ErrorBody | None = None
        self.is_looking = False
        self.is_newest = False
        """Whether somebody looked since, and there was nothing newer."""
        self._asked: str = ""
        """The job that this window asked for."""
        shell.connected.connect(self.read)
        shell.happened.connect(self._take)
        if shell.is_connected:
            self.read()

    @property
    def job(self) -> UpdateJob | None:
        """What is being done, or was done last."""
        return self.state.job if self.state else None

    @property
    def is_busy(self) -> bool:
        """Whether an installation goes on."""
        return self.job is not None and not self.job.is_done

    @property
    def release(self) -> Release | None:
        """What is newer, unless it was skipped."""
        found = self.state.release if self.state else None
        return found if found is not None and not found.is_skipped else None

    @property
    def has_gone_ahead(self) -> bool:
        """Whether the service is of another version than this window."""
        return self.state is not None and self.state.version != __version__

    def read(self) -> None:
        """Ask the gateway what it knows; it asks nobody."""
        self._api.get("/update", UpdateState, self._known)

    def look(self) -> None:
        """Have the gateway ask whether there is something newer."""
        if self.is_looking:
            return
        self.is_looking, self.is_newest, self.error = True, False, None
        self.changed.emit()
        self._api.post("/update/check", None, kind=UpdateState, then=self._looked, failed=self._failed)

    def install(self, *, now: bool = False) -> None:
        """Install what is newer; with `now` without waiting for answers in progress."""
        version = self.job.version if self.is_busy and self.job else self.release.version if self.release else ""
        self._begin("/update/install", InstallUpdate(version=version, now=now))

    def go_back(self) -> None:
        """Use the version before again."""
        self._begin("/update/rollback", None)

    def cancel(self) -> None:
        """Call the installation off."""
        self._api.delete("/update/job", lambda: None, self._failed)

    def skip(self) -> None:
        """Say no more of the version that is newer now; Undo says it again."""
        if self.release is not None:
            version = self.release.version
            self._skip(version)
            self._shell.toast(f"Version {version} is skipped.", partial(self._skip, ""))

    def dismiss(self) -> None:
        """Say no more about what went wrong."""
        self.error = None
        self.changed.emit()

    def _skip(self, version: str) -> None:
        body = SkipUpdate(version=version)
        self._api.post("/update/skip", body, kind=UpdateState, then=self._known, failed=self._failed)

    def _begin(self, path: str, body: object) -> None:
        self.error = None
        self._api.post(path, body, kind=UpdateJob, then=self._begun, failed=self._failed)

    def _begun(self, job: UpdateJob) -> None:
        self._asked = job.id
        if self.job is None or self.job.id != job.id:  # the answer may come after the events
            self._put(job)

    def _known(self, state: UpdateState) -> None:
        self.state = state
        if state.failure is not None:
            self.error, self._asked = state.failure, ""
        self.changed.emit()
        if self._asked and self.has_gone_ahead:
            self._shell.reopen_asked.emit()

    def _looked(self, state: UpdateState) -> None:
        self.is_looking, self.is_newest = False, state.release is None
        self._known(state)

    def _failed(self, error: ErrorBody) -> None:
        self.is_looking, self.error = False, error
        self.changed.emit()

    def _take(self, event: Event) -> None:
        if isinstance(event, UpdatesChanged):
            self.read()
        elif isinstance(event, UpdateJobChanged):
            self._put(event.job)

    def _put(self, job: UpdateJob) -> None:
        if self.state is None:
            return
        self.state = replace(self.state, job=job)
        if job.is_done and job.error is not None:
            self._asked = ""
            self.error = job.error if job.error.code != _CANCELLED else None
        self.changed.emit()
