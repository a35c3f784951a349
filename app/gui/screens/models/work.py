"""What the gateway does with models' files in the background, as the page shows it: how far, what came of it."""

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.core import words
from app.core.disk import EmptyTrash
from app.core.errors import ErrorBody
from app.core.events import Event, LibraryJobChanged
from app.core.library import Duplicate, FindDuplicates, JobKind, LibraryJob, ReclaimDuplicates
from app.gui.net.api import GatewayApi
from app.gui.shell.contract import Shell

_TITLES = {
    JobKind.VERIFY: "Checking {model}",
    JobKind.DUPLICATES: "Looking for duplicate files",
    JobKind.RECLAIM: "Letting duplicate files share disk space",
    JobKind.SEPARATE: "Giving files their own copies again",
    JobKind.EMPTY: "Deleting removed models from the trash",
}
CANCELLED = "cancelled"


class LibraryWork(QObject):
    """The job that runs or ran last, and the equal files that are known. `said` is a sentence with a way back."""

    changed = Signal()
    ended = Signal()
    """Something was done to files: what was read of the disks is no longer so."""
    said = Signal(str, object)
    failed = Signal(object)

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(shell)
        self._api = api
        self.job: LibraryJob | None = None
        self.duplicates: Sequence[Duplicate] = ()
        self.was_searched = False
        self._own: set[str] = set()
        """Jobs that were asked for here and are not over."""
        shell.connected.connect(self.read)
        shell.happened.connect(self.take)
        if shell.is_connected:
            self.read()

    @property
    def is_busy(self) -> bool:
        """Whether a job goes on."""
        return self.job is not None and not self.job.is_done

    @property
    def reclaims_bytes(self) -> int:
        """What sharing would free, to the byte."""
        return sum(one.reclaims_bytes for one in self.duplicates)

    def read(self) -> None:
        """Ask what goes on."""
        self._api.get("/library/job", LibraryJob | None, self._take_last, lambda _error: None)  # type: ignore[arg-type]  # a union is no type

    def search(self) -> None:
        """Find duplicate files."""
        self._begin("/library/duplicates", FindDuplicates())

    def reclaim(self, hashes: Sequence[str] = ()) -> None:
        """Let equal files share their space: all that were found, or contents of these hashes."""
        self._begin("/library/reclaim", ReclaimDuplicates(sha256=list(hashes)))

    def separate(self) -> None:
        """Copy apart what was made to share its space."""
        self._begin("/library/separate", None)

    def empty_trash(self, digest: str) -> None:
        """Delete for good what of a drive's trash were models: what was there when its figures were read."""

        def refused(error: ErrorBody) -> None:
            self.ended.emit()  # something else is there by now: the figures are to be read anew
            self.failed.emit(error)

        body = EmptyTrash(digests=[digest])
        self._api.post("/library/empty-trash", body, kind=LibraryJob, then=self._begun, failed=refused)

    def cancel(self) -> None:
        """Call the job off; the event says that it has ended."""
        self._api.delete("/library/job", lambda: None, self.failed.emit)

    def take(self, event: Event) -> None:
        """Act on an event of the gateway."""
        if isinstance(event, LibraryJobChanged):
            self._take(event.job)

    def _begin(self, path: str, body: object) -> None:
        self._api.post(path, body, kind=LibraryJob, then=self._begun, failed=self.failed.emit)

    def _begun(self, job: LibraryJob) -> None:
        self._own.add(job.id)
        if self.job is None or self.job.id != job.id:  # its end may have come before this answer
            self._take(job)
        elif self.job.is_done:
            self._tell_end(self.job)

    def _take_last(self, job: LibraryJob | None) -> None:
        if job is not None:
            self._take(job)

    def _take(self, job: LibraryJob) -> None:
        self.job = job
        if job.kind in {JobKind.DUPLICATES, JobKind.RECLAIM}:
            self.duplicates = job.duplicates
            self.was_searched = job.kind is JobKind.RECLAIM or (job.is_done and job.error is None)
        self.changed.emit()
        if job.is_done:
            self._tell_end(job)

    def _tell_end(self, job: LibraryJob) -> None:
        if job.kind in {JobKind.RECLAIM, JobKind.SEPARATE, JobKind.EMPTY}:
            self.ended.emit()
        if job.id not in self._own:
            return
        self._own.discard(job.id)
        if job.error is not None and job.error.code != CANCELLED:
            self.failed.emit(job.error)
        elif job.kind is JobKind.RECLAIM:
            self.said.emit(freed(job), self.separate if job.can_undo else None)
        elif job.kind is JobKind.SEPARATE:
            self.said.emit(f"The files have their own copies again: {words.size(-job.reclaimed_bytes)}.", None)
        elif job.kind is JobKind.EMPTY:
            self.said.emit(emptied(job), None)


def title(job: LibraryJob) -> str:
    """Return what a job does."""
    return _TITLES[job.kind].format(model=job.model)


def progress(job: LibraryJob) -> str:
    """Return how far a job is, and on which file."""
    told = f"{words.size(job.done_bytes)} of {words.size(job.total_bytes)}"
    return f"{told} · {Path(job.file).name}" if job.file else told


def fraction(job: LibraryJob) -> float | None:
    """Return how much of a job is done, 0 to 1."""
    return job.done_bytes / job.total_bytes if job.total_bytes else None


def freed(job: LibraryJob) -> str:
    """Return what came of sharing."""
    if not job.reclaimed_bytes:
        return "Nothing was freed: the files changed since they were read."
    return f"{words.size(job.reclaimed_bytes)} freed. Every model keeps its name and location."


def emptied(job: LibraryJob) -> str:
    """Return what came of deleting models in the trash, also where that was called off."""
    if job.error is not None and not job.deleted_files:
        return job.error.sentence
    return words.emptied(job.deleted_files, job.reclaimed_bytes)


def offer(found: Sequence[Duplicate]) -> str:
    """Return what sharing would do, to the byte."""
    files, total = sum(len(one.reclaimable) for one in found), sum(one.reclaims_bytes for one in found)
    if not found:
        return "No duplicate files were found."
    if not files:
        return "These files are identical, but none of them can share disk space with another."
    each = "1 file can share" if files == 1 else f"{files} files can share"
    return f"{each} disk space with another, which frees {total:,} bytes. Every model keeps its name and location."


def name(one: Duplicate) -> str:
    """Return whose the equal files are."""
    return " · ".join(one.models)


def copies(one: Duplicate) -> str:
    """Return how often a content is here."""
    return f"{words.size(one.size_bytes)}, {len(one.paths)} times"


def places(one: Duplicate) -> list[str]:
    """Return where its copies are, and what would become of each."""
    kept, *_ = one.paths
    return [f"{kept}: kept.", *(f"{path}: shares that space." for path in one.reclaimable), *one.notes]
