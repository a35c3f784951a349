"""What the gateway does with models' files in the background, as the page shows it: how far, what came of it."""

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.core import words
from app.core.errors import ErrorBody
from app.core.events import Event, LibraryJobChanged
from app.core.library import Duplicate, EmptyTrash, FindDuplicates, JobKind, LibraryJob, ReclaimDuplicates
from app.core.translation import LazyText, tr, tr_plural
from app.gui.net.api import GatewayApi
from app.gui.shell.contract import Shell

_TITLES = {
    JobKind.VERIFY: LazyText("Checking {model}"),
    JobKind.DUPLICATES: LazyText("Looking for duplicate files"),
    JobKind.RECLAIM: LazyText("Letting duplicate files share disk space"),
    JobKind.SEPARATE: LazyText("Giving files their own copies again"),
    JobKind.EMPTY: LazyText("Deleting removed models from the trash"),
}
CANCELLED = "cancelled"


class LibraryJobsModel(QObject):
    """The job that runs or ran last, and the equal files that are known.

    `toast_requested` is a sentence with a way back.
    """

    changed = Signal()
    files_changed = Signal()
    """Something was done to files: what was read of the disks is no longer so."""
    toast_requested = Signal(str, object)
    failed = Signal(object)

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(shell)
        self._api = api
        self.job: LibraryJob | None = None
        self.duplicates: Sequence[Duplicate] = ()
        self.was_searched = False
        self._own: set[str] = set()
        """Jobs that were asked for here and are not over."""
        shell.connected.connect(self.fetch_job)
        shell.event_received.connect(self.handle_event)
        if shell.is_connected:
            self.fetch_job()

    @property
    def is_busy(self) -> bool:
        """Whether a job goes on."""
        return self.job is not None and not self.job.is_done

    @property
    def reclaims_bytes(self) -> int:
        """What sharing would free, to the byte."""
        return sum(duplicate.reclaims_bytes for duplicate in self.duplicates)

    def fetch_job(self) -> None:
        """Ask what goes on."""
        self._api.get("/library/job", LibraryJob | None, self._take_last, lambda _error: None)  # type: ignore[arg-type]  # a union is no type

    def find_duplicates(self) -> None:
        """Find duplicate files."""
        self._start_job("/library/duplicates", FindDuplicates())

    def reclaim_space(self, hashes: Sequence[str] = ()) -> None:
        """Let equal files share their space: all that were found, or contents of these hashes."""
        self._start_job("/library/reclaim", ReclaimDuplicates(sha256=list(hashes)))

    def separate_files(self) -> None:
        """Copy apart what was made to share its space."""
        self._start_job("/library/separate", None)

    def empty_trash(self, digest: str) -> None:
        """Delete removed models from a drive's trash for good: what was there when its figures were read."""

        def handle_error(error: ErrorBody) -> None:
            self.files_changed.emit()  # something else is there by now: the figures are to be read anew
            self.failed.emit(error)

        body = EmptyTrash(digests=[digest])
        self._api.post("/library/empty-trash", body, kind=LibraryJob, then=self._track_job, on_error=handle_error)

    def cancel(self) -> None:
        """Call the job off; the event says that it has ended."""
        self._api.delete("/library/job", lambda: None, self.failed.emit)

    def handle_event(self, event: Event) -> None:
        """Act on an event of the gateway."""
        if isinstance(event, LibraryJobChanged):
            self._set_job(event.job)

    def _start_job(self, path: str, body: object) -> None:
        self._api.post(path, body, kind=LibraryJob, then=self._track_job, on_error=self.failed.emit)

    def _track_job(self, job: LibraryJob) -> None:
        self._own.add(job.id)
        if self.job is None or self.job.id != job.id:  # its end may have come before this answer
            self._set_job(job)
        elif self.job.is_done:
            self._tell_end(self.job)

    def _take_last(self, job: LibraryJob | None) -> None:
        if job is not None:
            self._set_job(job)

    def _set_job(self, job: LibraryJob) -> None:
        self.job = job
        if job.kind in {JobKind.DUPLICATES, JobKind.RECLAIM}:
            self.duplicates = job.duplicates
            self.was_searched = job.kind is JobKind.RECLAIM or (job.is_done and job.error is None)
        self.changed.emit()
        if job.is_done:
            self._tell_end(job)

    def _tell_end(self, job: LibraryJob) -> None:
        if job.kind in {JobKind.RECLAIM, JobKind.SEPARATE, JobKind.EMPTY}:
            self.files_changed.emit()
        if job.id not in self._own:
            return
        self._own.discard(job.id)
        if job.error is not None and job.error.code != CANCELLED:
            self.failed.emit(job.error)
        elif job.kind is JobKind.RECLAIM:
            self.toast_requested.emit(reclaim_sentence(job), self.separate_files if job.can_undo else None)
        elif job.kind is JobKind.SEPARATE:
            self.toast_requested.emit(
                tr("The files have their own copies again: {size}.", size=words.format_bytes(-job.reclaimed_bytes)),
                None,
            )
        elif job.kind is JobKind.EMPTY:
            self.toast_requested.emit(empty_sentence(job), None)


def job_title(job: LibraryJob) -> str:
    """Return what a job does."""
    return _TITLES[job.kind].tr(model=job.model)


def job_progress(job: LibraryJob) -> str:
    """Return how far a job is, and on which file."""
    text = tr("{done} of {total}", done=words.format_bytes(job.done_bytes), total=words.format_bytes(job.total_bytes))
    return f"{text} · {Path(job.file).name}" if job.file else text


def job_fraction(job: LibraryJob) -> float | None:
    """Return how much of a job is done, 0 to 1."""
    return job.done_bytes / job.total_bytes if job.total_bytes else None


def reclaim_sentence(job: LibraryJob) -> str:
    """Return what came of sharing."""
    if not job.reclaimed_bytes:
        return tr("Nothing was freed: the files changed since they were read.")
    return tr("{size} freed. Every model keeps its name and location.", size=words.format_bytes(job.reclaimed_bytes))


def empty_sentence(job: LibraryJob) -> str:
    """Return what came of deleting models in the trash, also where that was called off."""
    if job.error is not None and not job.deleted_files:
        return job.error.sentence
    return words.describe_emptying(job.deleted_files, job.reclaimed_bytes)


def reclaim_offer(duplicates: Sequence[Duplicate]) -> str:
    """Return what sharing would do, to the byte."""
    files, total = (
        sum(len(duplicate.reclaimable) for duplicate in duplicates),
        sum(duplicate.reclaims_bytes for duplicate in duplicates),
    )
    if not duplicates:
        return tr("No duplicate files were found.")
    if not files:
        return tr("These files are identical, but none of them can share disk space with another.")
    return tr_plural(
        "{count} file can share disk space with another, which frees {total:,} bytes. Every model keeps its name and "
        "location.",
        "{count} files can share disk space with another, which frees {total:,} bytes. Every model keeps its name and "
        "location.",
        files,
        total=total,
    )


def duplicate_name(duplicate: Duplicate) -> str:
    """Return whose the equal files are."""
    return " · ".join(duplicate.models)


def copies_text(duplicate: Duplicate) -> str:
    """Return how often a content is here."""
    return tr_plural(
        "{size}, {count} time",
        "{size}, {count} times",
        len(duplicate.paths),
        size=words.format_bytes(duplicate.size_bytes),
    )


def copy_places(duplicate: Duplicate) -> list[str]:
    """Return where its copies are, and what would become of each."""
    first_path, *_ = duplicate.paths
    return [
        tr("{path}: kept.", path=first_path),
        *(tr("{path}: shares that space.", path=path) for path in duplicate.reclaimable),
        *duplicate.notes,
    ]
