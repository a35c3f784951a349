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

from app.config.home import Home
from app.core.disk import DiskUse, FolderKind
from app.core.engines import EngineState
from app.core.errors import Conflict, NotFound, UserError
from app.core.events import LibraryJobChanged, ModelsChanged
from app.core.library import Duplicate, JobKind, LibraryJob, Removal
from app.core.models import NO_PROJECTOR, ModelInfo
from app.gateway.jobs import BackgroundJob, JobRules, job_id
from app.gateway.loading.launch import model_folders
from app.gateway.services import SERVICES, Services
from app.hub.disk import duplicates, removal, sharing, trashed, verifying
from app.hub.disk.duplicates import Copy
from app.hub.disk.reading import Said
from app.hub.disk.trash import Trash
from app.hub.disk.trashed import Entry, found_on
from app.hub.disk.usage import Looked, disk_use
from app.hub.download.wire import Stopped
from app.hub.library.stores import stores

_KEPT = 64
_IDLE = frozenset({EngineState.STOPPED, EngineState.FAILED})
Work = Callable[[Said, Callable[..., None]], None]
"""Reads, saying how far it is; and says what it found."""


class _Copies(NamedTuple):
    told: Duplicate
    kept: Copy
    free: list[Copy]


class Reclaiming:
    """What the last search found, and what was shared since and can be taken apart again."""

    def __init__(self) -> None:
        self._found: list[_Copies] = []
        self._shared: list[sharing.Shared] = []

    def search(self, groups: Sequence[Sequence[Copy]], *, reclaim: bool) -> Work:
        """Return what finds equal files among those of equal size, and with `reclaim` lets them share at once."""

        def work(said: Said, found: Callable[..., None]) -> None:
            self._found, freed = [], 0
            for group in groups:
                for digest, copies in duplicates.equal(group, said):
                    one = _Copies(*duplicates.described(digest, copies))
                    self._found.append(one)
                    freed += self._share(one) if reclaim else 0
                    found(duplicates=[known.told for known in self._found], reclaimed_bytes=freed, can_undo=self._can)
            if reclaim:
                self._found = []

        return work

    def reclaim(self, hashes: Iterable[str]) -> tuple[int, Work]:
        """Return how much can be freed, and what does it: for all that was found, or for contents of these hashes.

        Raises NotFound (not_found_before) for a hash that the last search did not come to.
        """
        wanted = frozenset(hashes)
        chosen = [one for one in self._found if not wanted or one.told.sha256 in wanted]
        if not chosen or wanted - {one.told.sha256 for one in chosen}:
            raise NotFound(
                "No such duplicate files were found.", hint="Search for duplicates first.", code="not_found_before"
            )

        def work(said: Said, found: Callable[..., None]) -> None:
            freed = 0
            for one in chosen:
                said(one.kept.path, one.told.reclaims_bytes)
                freed += self._share(one)
                self._found.remove(one)
                left = [known.told for known in self._found]
                found(reclaimed_bytes=freed, duplicates=left, can_undo=self._can)

        return sum(one.told.reclaims_bytes for one in chosen), work

    def separate(self) -> tuple[int, Work]:
        """Return how much is to be copied, and what does it: each file that was shared has space of its own again.

        Raises NotFound (nothing_reclaimed), StorageFault (disk_full).
        """
        self._shared = [one for one in self._shared if one.is_as_it_was()]
        if not self._shared:
            raise NotFound(
                "No files have been made to share disk space since Roundhouse started.", code="nothing_reclaimed"
            )
        sharing.check_room(self._shared)

        def work(said: Said, found: Callable[..., None]) -> None:
            taken = 0
            while self._shared:
                if sharing.separate(self._shared[-1], said):
                    taken += self._shared[-1].size
                self._shared.pop()
                found(reclaimed_bytes=-taken, can_undo=self._can)

        return sum(one.size for one in self._shared), work

    @property
    def _can(self) -> bool:
        return bool(self._shared)

    def _share(self, one: _Copies) -> int:
        done = [shared for copy in one.free if (shared := sharing.share(one.kept, copy)) is not None]
        self._shared += [shared for shared in done if not shared.is_clone]
        return sum(shared.size for shared in done)


class LibraryWork:
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
        self._removed: dict[str, tuple[Removal, removal.Undo, Path | None]] = {}
        self._reclaiming = Reclaiming()
        self.trash = Trash(_home_trash(services.home))

    async def verify(self, name: str) -> LibraryJob:
        """Begin to check a model's files. Raises NotFound, BadRequest, or Conflict while another job runs."""
        model = await asyncio.to_thread(self._services.library.find, name)
        files = await asyncio.to_thread(verifying.files_of, model)

        def work(said: Said, found: Callable[..., None]) -> None:
            checks = []
            for one in verifying.check(files, said):
                checks.append(one)
                found(checks=list(checks))

        total = await asyncio.to_thread(lambda: sum(file.stat().st_size for file in files if file.exists()))
        return self._start(LibraryJob(id=job_id(), kind=JobKind.VERIFY, model=model.name, total_bytes=total), work)

    async def find_duplicates(self, *, reclaim: bool) -> LibraryJob:
        """Begin to look for contents that are here more than once. Raises Conflict while another job runs."""
        models = await asyncio.to_thread(self._services.library.models)
        groups = await asyncio.to_thread(duplicates.suspects, models)

        work = self._reclaiming.search(groups, reclaim=reclaim)
        total = sum(copy.size for group in groups for copy in group)
        return self._start(LibraryJob(id=job_id(), kind=JobKind.DUPLICATES, total_bytes=total), work)

    async def reclaim(self, hashes: list[str]) -> LibraryJob:
        """Begin to let files share their space that the last search found. Raises NotFound, Conflict."""
        self.job.check_idle()
        total, work = self._reclaiming.reclaim(hashes)
        return self._start(LibraryJob(id=job_id(), kind=JobKind.RECLAIM, total_bytes=total), work)

    async def separate(self) -> LibraryJob:
        """Begin to copy apart what was made to share its space. Raises NotFound, StorageFault (disk_full), Conflict."""
        self.job.check_idle()
        total, work = await asyncio.to_thread(self._reclaiming.separate)
        return self._start(LibraryJob(id=job_id(), kind=JobKind.SEPARATE, total_bytes=total, can_undo=True), work)

    async def disk(self) -> DiskUse:
        """Return what models take of the disks."""
        return await asyncio.to_thread(_disk_use, self._services, self.trash)

    async def empty_trash(self, digests: list[str]) -> LibraryJob:
        """Begin to delete models in the trash for good that `DiskUse` named. Raises Conflict as `_in_trash`."""
        self.job.check_idle()
        entries, total = await asyncio.to_thread(_in_trash, self._services, self.trash, digests)

        def work(said: Said, found: Callable[..., None]) -> None:
            trashed.delete(self.trash, entries, said, found)

        return self._start(LibraryJob(id=job_id(), kind=JobKind.EMPTY, total_bytes=total), work)

    async def plan(self, name: str) -> Removal:
        """Return what removing a model takes away. Raises NotFound, or Conflict where it is not ours to remove."""
        return (await asyncio.to_thread(self._planned, name))[1]

    async def remove(self, name: str, *, for_good: bool) -> Removal:
        """Remove a model's files. Raises as `plan`, Conflict while it is loaded, StorageFault (no_trash)."""
        model, plan = await asyncio.to_thread(self._planned, name)
        self._check_unused(model, plan)
        trash = None if for_good else self.trash
        registered, undo = await asyncio.to_thread(self._remove, model, trash)
        done = msgspec.structs.replace(plan, goes_to_trash=not for_good)
        if trash is not None and trash.can_restore:
            done = msgspec.structs.replace(done, id=job_id())
            self._removed[done.id] = (done, undo, registered)
            while len(self._removed) > _KEPT:
                del self._removed[next(iter(self._removed))]
        self._services.events.publish(ModelsChanged())
        return done

    async def undo(self, removed: str) -> ModelInfo:
        """Bring back what was removed since the gateway started.

        Raises NotFound, also once a file is no longer in the trash (not_in_trash), and StorageFault.
        """
        if removed not in self._removed:
            raise NotFound(
                "There has been no such removal since Roundhouse started.", hint="Check the trash.", code="not_removed"
            )
        done, undo, registered = self._removed[removed]
        await asyncio.to_thread(removal.restore, undo, self.trash)
        del self._removed[removed]
        library = self._services.library
        if registered is not None:
            await asyncio.to_thread(library.register, registered)
        self._services.events.publish(ModelsChanged())
        return await asyncio.to_thread(library.find, done.model)

    async def close(self) -> None:
        """End what goes on."""
        await self.job.cancel()
        await self.job.wait()

    def _planned(self, name: str) -> tuple[ModelInfo, Removal]:
        library = self._services.library
        model = library.find(name)
        aliases = self._services.settings.items("models.aliases")
        return model, removal.planned(model, library.models(), aliases=aliases, chosen=self._chosen())

    def _chosen(self) -> dict[str, str]:
        """Return the projectors that were set for models, by the names those run under."""
        every = self._services.tuning.all().items()
        return {name: own.projector for name, own in every if own.projector not in {None, NO_PROJECTOR}}

    def _check_unused(self, model: ModelInfo, plan: Removal) -> None:
        names = {model.name, *plan.made_models}
        loaded = [one.model for one in self._services.supervisor.statuses() if one.state not in _IDLE]
        if names & set(loaded):
            raise Conflict(f"{model.name} is loaded.", hint=f"Unload it first: roundhouse unload {model.name}")

    def _remove(self, model: ModelInfo, trash: Trash | None) -> tuple[Path | None, removal.Undo]:
        others = removal.Others.of(model, self._services.library.models(), self._chosen())
        undo = removal.remove(removal.belongings(model, others), trash)
        registered = None
        with contextlib.suppress(UserError):  # it was found in a folder, and is no longer
            self._services.library.forget(model.name)
            registered = Path(model.path)
        return registered, undo

    def _start(self, job: LibraryJob, work: Work) -> LibraryJob:
        return self.job.start(job, lambda: self._run(work))

    async def _run(self, work: Work) -> None:
        job = self.job

        def said(file: Path, more: int) -> None:
            if job.off.is_set():
                raise Stopped
            job.hand_over(lambda: self._progress(str(file), more))

        def found(**changes: object) -> None:
            job.hand_over(lambda: job.tell(**changes))

        await asyncio.to_thread(work, said, found)

    def _progress(self, file: str, more: int) -> None:
        now = self.job.now
        say = self.job.move if file == now.file else self.job.tell
        say(file=file, done_bytes=min(now.done_bytes + more, now.total_bytes))

    def _publish(self, job: LibraryJob) -> None:
        self._services.events.publish(LibraryJobChanged(job=job))
        if job.is_done and (job.reclaimed_bytes or job.deleted_files):
            self._services.events.publish(ModelsChanged())


LIBRARY = web.AppKey("library", LibraryWork)


def add_library(app: web.Application) -> None:
    """Give the application what works on models' files."""
    app[LIBRARY] = LibraryWork(app[SERVICES])
    app.on_shutdown.append(lambda app: app[LIBRARY].close())


def _conflict(job: LibraryJob) -> Conflict:
    return Conflict(
        f"A job of the library goes on ({job.kind}).", hint="Wait for it, or call it off.", code="library_job_running"
    )


def _home_trash(home: Home) -> Path:
    return (home.named.get("XDG_DATA_HOME") or home.folder / ".local/share") / "Trash"


def _disk_use(services: Services, trash: Trash) -> DiskUse:
    """Return what lies where. Blocks; call it from a thread."""
    return disk_use(services.library.models(), list(_looked(services)), trash)


def _in_trash(services: Services, trash: Trash, digests: Sequence[str]) -> tuple[list[Entry], int]:
    """Return the models in the trash that digests stand for, and what is free without them. Blocks.

    Raises Conflict where the trash is not ours to empty, or is no longer what the digests stood for (trash_changed).
    """
    trash.check_ours()
    folders = [one.path for one in _looked(services)]
    found = [found_on(trash, Path(drive.path), folders) for drive in _disk_use(services, trash).drives]
    known = {one.told.digest: (one.entries, one.told.size_bytes) for one in found if one.told is not None}
    if not digests or not known.keys() >= set(digests):
        raise Conflict(
            "The models in the trash have changed.",
            hint="Check them again with roundhouse disk.",
            code="trash_changed",
        )
    chosen = [known[digest] for digest in dict.fromkeys(digests)]
    return [entry for entries, _ in chosen for entry in entries], sum(size for _, size in chosen)


def _looked(services: Services) -> Iterator[Looked]:
    paths = services.paths
    known = {
        paths.models: (FolderKind.OWN, "Roundhouse's folder"),
        paths.hub_cache: (FolderKind.HUB, "Hugging Face cache"),
    }
    folders = list(dict.fromkeys(model_folders(paths, services.settings)))
    names = Counter(folder.name for folder in folders)
    for folder in folders:
        yield Looked(
            folder, *known.get(folder, (FolderKind.NAMED, _folder_title(folder, is_only=names[folder.name] == 1)))
        )
    if services.settings.flag("models.other_programs"):
        yield from (Looked(store.folder, FolderKind.OTHER, store.title) for store in stores(services.home))


def _folder_title(folder: Path, *, is_only: bool) -> str:
    """Return what a folder is called: half of all model folders are called "models"."""
    parts = folder.parts[-1:] if is_only else folder.parts[-2:]
    return str(Path(*parts))
