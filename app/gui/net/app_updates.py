"""What the gateway knows of newer versions of Roundhouse, and what this window asked it to do about them.

One for the whole window: the rail has its sign, the settings page its card. A window that asked for another version
opens again as that version once its service runs; a window that did not says that there is one.
"""

from functools import partial

from msgspec.structs import replace

from app import __version__
from app.core.errors import ErrorBody
from app.core.events import Event, UpdateJobChanged, UpdatesChanged
from app.core.translation import tr
from app.core.updates import InstallUpdate, Release, SkipUpdate, UpdateJob, UpdateState
from app.gui.net.api import GatewayApi
from app.gui.net.remote import RemoteStore
from app.gui.shell.contract import Shell

_CANCELLED = "cancelled"


class UpdateStore(RemoteStore[UpdateState]):
    """The owner of the state; views show it."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, "/update", UpdateState)
        self._shell = shell
        self.refusal: ErrorBody | None = None
        """Why what was asked for last was not done."""
        self.is_looking = False
        self.is_newest = False
        """Whether somebody looked since, and there was nothing newer."""
        self._job_id: str = ""
        """The job that this window asked for."""

    @property
    def job(self) -> UpdateJob | None:
        """What is being done, or was done last."""
        return self.value.job if self.value else None

    @property
    def is_busy(self) -> bool:
        """Whether an installation goes on."""
        return self.job is not None and not self.job.is_done

    @property
    def release(self) -> Release | None:
        """What is newer, unless it was skipped."""
        release = self.value.release if self.value else None
        return release if release is not None and not release.is_skipped else None

    @property
    def has_gone_ahead(self) -> bool:
        """Whether the service is of another version than this window."""
        return self.value is not None and self.value.version != __version__

    def look(self) -> None:
        """Have the gateway ask whether there is something newer."""
        if self.is_looking:
            return
        self.is_looking, self.is_newest, self.refusal = True, False, None
        self.changed.emit()
        self.api.post("/update/check", None, kind=UpdateState, then=self._take_state, on_error=self._show_error)

    def install(self, *, now: bool = False) -> None:
        """Install what is newer; with `now` without waiting for answers in progress."""
        version = self.job.version if self.is_busy and self.job else self.release.version if self.release else ""
        self._begin("/update/install", InstallUpdate(version=version, now=now))

    def go_back(self) -> None:
        """Use the version before again."""
        self._begin("/update/rollback", None)

    def cancel(self) -> None:
        """Call the installation off."""
        self.api.delete("/update/job", lambda: None, self._show_error)

    def skip(self) -> None:
        """Say no more of the version that is newer now; Undo says it again."""
        if self.release is not None:
            version = self.release.version
            self._skip(version)
            self._shell.show_toast(tr("Version {version} will be skipped.", version=version), partial(self._skip, ""))

    def dismiss(self) -> None:
        """Say no more about what went wrong."""
        self.refusal = None
        self.changed.emit()

    def _skip(self, version: str) -> None:
        body = SkipUpdate(version=version)
        self.api.post("/update/skip", body, kind=UpdateState, then=self.replace, on_error=self._show_error)

    def _begin(self, path: str, body: object) -> None:
        self.refusal = None
        self.api.post(path, body, kind=UpdateJob, then=self._track_job, on_error=self._show_error)

    def _track_job(self, job: UpdateJob) -> None:
        self._job_id = job.id
        if self.job is None or self.job.id != job.id:  # the answer may come after the events
            self._put(job)

    def replace(self, value: UpdateState) -> None:
        """Take a state as the present one; where the version that was asked for runs by now, open again as that."""
        if value.failure is not None:
            self.refusal, self._job_id = value.failure, ""
        super().replace(value)
        if self._job_id and self.has_gone_ahead:
            self._shell.reopen_requested.emit()

    def is_outdated_by(self, event: Event) -> bool:
        """Tell whether the gateway knows something else by now."""
        return isinstance(event, UpdatesChanged)

    def apply(self, event: Event) -> None:
        """Show how far an installation has come."""
        if isinstance(event, UpdateJobChanged):
            self._put(event.job)

    def _take_state(self, state: UpdateState) -> None:
        self.is_looking, self.is_newest = False, state.release is None
        self.replace(state)

    def _show_error(self, error: ErrorBody) -> None:
        self.is_looking, self.refusal = False, error
        self.changed.emit()

    def _put(self, job: UpdateJob) -> None:
        if self.value is None:
            return
        self.value = replace(self.value, job=job)
        if job.is_done and job.error is not None:
            self._job_id = ""
            self.refusal = job.error if job.error.code != _CANCELLED else None
        self.changed.emit()
