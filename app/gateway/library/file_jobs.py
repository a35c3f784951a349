"""What takes a while with models' files: one check or search at a time, told while it goes on, and called off at once.

Removals, and the space that equal files were made to share, are kept for as long as the gateway runs, so that they can
be undone.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from aiohttp import web

from app.config.paths import Home
from app.core.engines import EngineState
from app.core.errors import Conflict, NotFound, UserError
from app.core.events import LibraryJobChanged, ModelsChanged
from app.core.library import DiskUse, Duplicate, FolderKind, JobKind, LibraryJob, Removal
from app.core.models import NO_PROJECTOR, ModelInfo
from app.gateway.jobs import BackgroundJob, JobRules, job_id
from app.gateway.loading.launch import model_folders
from app.gateway.services import SERVICES, Services
from app.hub.disk import duplicates, removal, trash_contents, verification
from app.hub.disk.duplicates import FileCopy
from app.hub.disk.trash import Trash
from app.hub.disk.trash_contents import TrashEntry, find_in_trash
from app.hub.disk.usage import SearchFolder, disk_use
from app.hub.disk.verification import ReadProgress
from app.hub.download.wire import DownloadStopped
from app.hub.library.stores import find_stores

_KEPT = 64
_IDLE = frozenset({EngineState.STOPPED, EngineState.FAILED})
Work = Callable[[ReadProgress, Callable[..., None]], None]
"""Reads, saying how far it is; and says what it found."""


class _DuplicateGroup(NamedTuple):
    duplicate: Duplicate
    kept: FileCopy
    free: list[FileCopy]


class DuplicateReclaimer:
    """What the last search found, and what was shared since and can be taken apart again."""

    def __init__(self) -> None:
        self._groups: list[_DuplicateGroup] = []
        self._shared_files: list[duplicates.SharedFile] = []

    def plan_search(self, groups: Sequence[Sequence[FileCopy]], *, reclaim: bool) -> Work:
        """Return what finds equal files among those of equal size, and with `reclaim` lets them share at once."""

        def work(report: ReadProgress, publish: Callable[..., None]) -> None:
            self._groups, freed_bytes = [], 0
            for group in groups:
                for digest, copies in duplicates.find_equal(group, report):
                    duplicate_group = _DuplicateGroup(*duplicates.describe_duplicate(digest, copies))
                    self._groups.append(duplicate_group)
                    freed_bytes += self._share_copies(duplicate_group) if reclaim else 0
                    publish(
                        duplicates=[group_found.duplicate for group_found in self._groups],
                        reclaimed_bytes=freed_bytes,
                        can_undo=self._can_undo,
                    )
            if reclaim:
                self._groups = []

        return work

    def plan_reclaim(self, hashes: Iterable[str]) -> tuple[int, Work]:
        """Return how much can be freed, and what does it: for all that was found, or for contents of these hashes.

        Raises NotFound (not_found_before) for a hash that the last search did not come to.
        """
        wanted_hashes = frozenset(hashes)
        chosen_groups = [
            group for group in self._groups if not wanted_hashes or group.duplicate.sha256 in wanted_hashes
        ]
        if not chosen_groups or wanted_hashes - {group.duplicate.sha256 for group in chosen_groups}:
            raise NotFound(
                "No such duplicate files were found.", hint="Search for duplicates first.", code="not_found_before"
            )

        def work(report: ReadProgress, publish: Callable[..., None]) -> None:
            freed_bytes = 0
            for group in chosen_groups:
                report(group.kept.path, group.duplicate.reclaims_bytes)
                freed_bytes += self._share_copies(group)
                self._groups.remove(group)
                groups_left = [other_group.duplicate for other_group in self._groups]
                publish(reclaimed_bytes=freed_bytes, duplicates=groups_left, can_undo=self._can_undo)

        return sum(group.duplicate.reclaims_bytes for group in chosen_groups), work

    def plan_separation(self) -> tuple[int, Work]:
        """Return how much is to be copied, and what does it: each file that was shared has space of its own again.

        Raises NotFound (nothing_reclaimed), StorageFault (disk_full).
        """
        self._shared_files = [shared_copy for shared_copy in self._shared_files if shared_copy.is_as_it_was()]
        if not self._shared_files:
            raise NotFound(
                "No files have been made to share disk space since Roundhouse started.", code="nothing_reclaimed"
            )
        duplicates.check_room(self._shared_files)

        def work(report: ReadProgress, publish: Callable[..., None]) -> None:
            taken_bytes = 0
            while self._shared_files:
                if duplicates.separate_copy(self._shared_files[-1], report):
                    taken_bytes += self._shared_files[-1].size
                self._shared_files.pop()
                publish(reclaimed_bytes=-taken_bytes, can_undo=self._can_undo)

        return sum(shared_copy.size for shared_copy in self._shared_files), work

    @property
    def _can_undo(self) -> bool:
        return bool(self._shared_files)

    def _share_copies(self, group: _DuplicateGroup) -> int:
        shared_copies = [
            shared_copy for copy in group.free if (shared_copy := duplicates.share_space(group.kept, copy)) is not None
        ]
        self._shared_files += [shared_copy for shared_copy in shared_copies if not shared_copy.is_clone]
        return sum(shared_copy.size for shared_copy in shared_copies)


class FileJobs:
    """Belongs to the event loop; the reading is done in a thread."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.job = BackgroundJob(
            JobRules(
                publish=self._publish,
                end=lambda job, error: msgspec.structs.replace(job, is_done=True, error=error, file=""),
                conflict=_conflict,
                cancelled="It was called off.",
            )
        )
        self._removals: dict[str, tuple[Removal, removal.RemovalUndo, Path | None]] = {}
        self._reclaimer = DuplicateReclaimer()
        self.trash = Trash(_home_trash(services.home))

    async def verify(self, name: str) -> LibraryJob:
        """Begin to check a model's files. Raises NotFound, BadRequest, or Conflict while another job runs."""
        model = await asyncio.to_thread(self._services.library.find_model, name)
        files = await asyncio.to_thread(verification.files_of, model)

        def work(report: ReadProgress, publish: Callable[..., None]) -> None:
            checks = []
            for file_check in verification.check_files(files, report):
                checks.append(file_check)
                publish(checks=list(checks))

        total = await asyncio.to_thread(lambda: sum(file.stat().st_size for file in files if file.exists()))
        return self._start(LibraryJob(id=job_id(), kind=JobKind.VERIFY, model=model.name, total_bytes=total), work)

    async def find_duplicates(self, *, reclaim: bool) -> LibraryJob:
        """Begin to look for contents that are here more than once. Raises Conflict while another job runs."""
        models = await asyncio.to_thread(self._services.library.list_models)
        groups = await asyncio.to_thread(duplicates.find_suspects, models)

        work = self._reclaimer.plan_search(groups, reclaim=reclaim)
        total = sum(copy.size for group in groups for copy in group)
        return self._start(LibraryJob(id=job_id(), kind=JobKind.DUPLICATES, total_bytes=total), work)

    async def reclaim(self, hashes: list[str]) -> LibraryJob:
        """Begin to let files share their space that the last search found. Raises NotFound, Conflict."""
        self.job.check_idle()
        total, work = self._reclaimer.plan_reclaim(hashes)
        return self._start(LibraryJob(id=job_id(), kind=JobKind.RECLAIM, total_bytes=total), work)

    async def separate(self) -> LibraryJob:
        """Begin to copy apart what was made to share its space. Raises NotFound, StorageFault (disk_full), Conflict."""
        self.job.check_idle()
        total, work = await asyncio.to_thread(self._reclaimer.plan_separation)
        return self._start(LibraryJob(id=job_id(), kind=JobKind.SEPARATE, total_bytes=total, can_undo=True), work)

    async def read_disk_use(self) -> DiskUse:
        """Return what models take of the disks."""
        return await asyncio.to_thread(_disk_use, self._services, self.trash)

    async def empty_trash(self, digests: list[str]) -> LibraryJob:
        """Begin to delete models in the trash for good that `DiskUse` named. Raises Conflict as `_in_trash`."""
        self.job.check_idle()
        entries, total = await asyncio.to_thread(_in_trash, self._services, self.trash, digests)

        def work(report: ReadProgress, publish: Callable[..., None]) -> None:
            trash_contents.delete_entries(self.trash, entries, report, publish)

        return self._start(LibraryJob(id=job_id(), kind=JobKind.EMPTY, total_bytes=total), work)

    async def plan_removal(self, name: str) -> Removal:
        """Return what removing a model takes away. Raises NotFound, or Conflict where it is not ours to remove."""
        return (await asyncio.to_thread(self._plan_removal, name))[1]

    async def remove(self, name: str, *, for_good: bool) -> Removal:
        """Remove a model's files. Raises as `plan`, Conflict while it is loaded, StorageFault (no_trash)."""
        model, plan = await asyncio.to_thread(self._plan_removal, name)
        self._check_unused(model, plan)
        trash = None if for_good else self.trash
        registered_name, undo = await asyncio.to_thread(self._remove, model, trash)
        removal = msgspec.structs.replace(plan, goes_to_trash=not for_good)
        if trash is not None and trash.can_restore:
            removal = msgspec.structs.replace(removal, id=job_id())
            self._removals[removal.id] = (removal, undo, registered_name)
            while len(self._removals) > _KEPT:
                del self._removals[next(iter(self._removals))]
        self._services.events.publish(ModelsChanged())
        return removal

    async def undo(self, removal_id: str) -> ModelInfo:
        """Bring back what was removed since the gateway started.

        Raises NotFound, also once a file is no longer in the trash (not_in_trash), and StorageFault.
        """
        if removal_id not in self._removals:
            raise NotFound(
                "There has been no such removal since Roundhouse started.", hint="Check the trash.", code="not_removed"
            )
        model_removal, undo, registered_name = self._removals[removal_id]
        await asyncio.to_thread(removal.restore_files, undo, self.trash)
        del self._removals[removal_id]
        library = self._services.library
        if registered_name is not None:
            await asyncio.to_thread(library.register_path, registered_name)
        self._services.events.publish(ModelsChanged())
        return await asyncio.to_thread(library.find_model, model_removal.model)

    async def close(self) -> None:
        """End what goes on."""
        await self.job.cancel()
        await self.job.wait()

    def _plan_removal(self, name: str) -> tuple[ModelInfo, Removal]:
        library = self._services.library
        model = library.find_model(name)
        aliases = self._services.settings.get_list("models.aliases")
        return model, removal.plan_removal(
            model, library.list_models(), aliases=aliases, chosen_projectors=self._projectors_in_use()
        )

    def _projectors_in_use(self) -> dict[str, str]:
        """Return the projectors that were set for models, by the names those run under."""
        every = self._services.model_settings.all_settings().items()
        return {name: own.projector for name, own in every if own.projector not in {None, NO_PROJECTOR}}

    def _check_unused(self, model: ModelInfo, plan: Removal) -> None:
        names = {model.name, *plan.made_models}
        loaded_models = [
            status.model for status in self._services.supervisor.list_statuses() if status.state not in _IDLE
        ]
        if names & set(loaded_models):
            raise Conflict(f"{model.name} is loaded.", hint=f"Unload it first: roundhouse unload {model.name}")

    def _remove(self, model: ModelInfo, trash: Trash | None) -> tuple[Path | None, removal.RemovalUndo]:
        others = removal.OtherModels.from_models(model, self._services.library.list_models(), self._projectors_in_use())
        undo = removal.remove_files(removal.collect_files(model, others), trash)
        registered_name = None
        with contextlib.suppress(UserError):  # it was found in a folder, and is no longer
            self._services.library.forget_model(model.name)
            registered_name = Path(model.path)
        return registered_name, undo

    def _start(self, job: LibraryJob, work: Work) -> LibraryJob:
        return self.job.start(job, lambda: self._run(work))

    async def _run(self, work: Work) -> None:
        job = self.job

        def report(file: Path, more: int) -> None:
            if job.off.is_set():
                raise DownloadStopped
            job.hand_over(lambda: self._report_progress(str(file), more))

        def publish(**changes: object) -> None:
            job.hand_over(lambda: job.tell(**changes))

        await asyncio.to_thread(work, report, publish)

    def _report_progress(self, file: str, more: int) -> None:
        now = self.job.now
        say = self.job.move if file == now.file else self.job.tell
        say(file=file, done_bytes=min(now.done_bytes + more, now.total_bytes))

    def _publish(self, job: LibraryJob) -> None:
        self._services.events.publish(LibraryJobChanged(job=job))
        if job.is_done and (job.reclaimed_bytes or job.deleted_files):
            self._services.events.publish(ModelsChanged())


LIBRARY = web.AppKey("library", FileJobs)


def add_library(app: web.Application) -> None:
    """Give the application what works on models' files."""
    app[LIBRARY] = FileJobs(app[SERVICES])
    app.on_shutdown.append(lambda app: app[LIBRARY].close())


def _conflict(job: LibraryJob) -> Conflict:
    return Conflict(
        f"A job of the library goes on ({job.kind}).", hint="Wait for it, or call it off.", code="library_job_running"
    )


def _home_trash(home: Home) -> Path:
    return (home.variable_folders.get("XDG_DATA_HOME") or home.folder / ".local/share") / "Trash"


def _disk_use(services: Services, trash: Trash) -> DiskUse:
    """Return what lies where. Blocks; call it from a thread."""
    return disk_use(services.library.list_models(), list(_list_folders(services)), trash)


def _in_trash(services: Services, trash: Trash, digests: Sequence[str]) -> tuple[list[TrashEntry], int]:
    """Return the models in the trash that digests stand for, and what is free without them. Blocks.

    Raises Conflict where the trash is not ours to empty, or is no longer what the digests stood for (trash_changed).
    """
    trash.check_ours()
    trash_contents = [find_in_trash(trash, Path(drive.path)) for drive in _disk_use(services, trash).drives]
    trashed_models = {
        item.contents.digest: (item.entries, item.contents.size_bytes)
        for item in trash_contents
        if item.contents is not None
    }
    if not digests or not trashed_models.keys() >= set(digests):
        raise Conflict(
            "The models in the trash have changed.",
            hint="Check them again with roundhouse disk.",
            code="trash_changed",
        )
    chosen_models = [trashed_models[digest] for digest in dict.fromkeys(digests)]
    return [entry for entries, _ in chosen_models for entry in entries], sum(size for _, size in chosen_models)


def _list_folders(services: Services) -> Iterator[SearchFolder]:
    paths = services.paths
    known_folders = {
        paths.models: (FolderKind.OWN, "Roundhouse's folder"),
        paths.hub_cache: (FolderKind.HUB, "Hugging Face cache"),
    }
    folders = list(dict.fromkeys(model_folders(paths, services.settings)))
    names = Counter(folder.name for folder in folders)
    for folder in folders:
        yield SearchFolder(
            folder,
            *known_folders.get(folder, (FolderKind.NAMED, _folder_title(folder, is_only=names[folder.name] == 1))),
        )
    if services.settings.get_flag("models.other_programs"):
        yield from (SearchFolder(store.folder, FolderKind.OTHER, store.title) for store in find_stores(services.home))


def _folder_title(folder: Path, *, is_only: bool) -> str:
    """Return what a folder is called: half of all model folders are called "models"."""
    parts = folder.parts[-1:] if is_only else folder.parts[-2:]
    return str(Path(*parts))
