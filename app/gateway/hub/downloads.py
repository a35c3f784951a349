"""The queue of downloads: what runs, what waits, what is kept over a restart. `DownloadQueue` is the one owner.

A download is known by what it fetches: asking again for the same files goes on with the one that is there. What was
running when the gateway ended, however it did, runs again when it starts.
"""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import msgspec
from aiohttp import web

from app.config.environment import hub_endpoint, is_xet_off
from app.config.paths import Paths
from app.config.store import SettingsStore
from app.core.downloads import Download, DownloadState
from app.core.errors import Conflict, EnvironmentFault, ErrorBody, NotFound, RoundhouseError, write_fault
from app.core.events import DownloadChanged, DownloadRemoved, Event, ModelsChanged
from app.gateway.background import Background
from app.gateway.hub.download_child import DownloadChild, DownloadDied
from app.gateway.services import SERVICES
from app.hub.download.cache import RepositoryCache
from app.hub.download.job import (
    DownloadDone,
    DownloadFailed,
    DownloadJob,
    DownloadNote,
    DownloadProgress,
    DownloadStarted,
    MachineSources,
)
from app.hub.library.registry_file import JsonFile
from app.hub.repositories.answers import HubMemory
from app.hub.repositories.repository import RepoFile, Repository

log = logging.getLogger(__name__)

DEATHS = 3
"""A process that ends unexpectedly so often in a row without a byte in between is not started again."""
SMOOTHING_S = 5.0
"""Over how long speed is averaged."""
_S = DownloadState
_OVER = frozenset({_S.DONE, _S.FAILED, _S.PAUSED})
_MB = 1_000_000


class DownloadTarget(NamedTuple):
    """What a download is fetched from and to, as it is set up now."""

    endpoint: str
    cache: Path
    token: str
    bytes_per_s: float
    at_once: int
    xet: bool = False
    """Whether files may come from Xet, which takes the memory of three plain downloads."""


class _QueueEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A download, and what it takes to go on with it."""

    shown: Download
    files: list[RepoFile]


class _QueueContent(msgspec.Struct, frozen=True, kw_only=True):
    version: int = 1
    downloads: list[_QueueEntry]


class DownloadQueue:
    """Every download, in the order of the queue. Belongs to the event loop's thread."""

    def __init__(self, file: Path, target: Callable[[], DownloadTarget], publish: Callable[[Event], None]) -> None:
        self._target, self._publish = target, publish
        self._file = JsonFile(file, _QueueContent, "the list of downloads")
        self._entries: dict[str, _QueueEntry] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._children: dict[str, DownloadChild] = {}
        self._change = asyncio.Condition()
        self._background = Background()
        self._write_lock = threading.Lock()
        self._is_closed = False
        self._sources: dict[str, MachineSources | None] = {}
        self.find_sources: Callable[[], Awaitable[MachineSources | None]] = _find_no_sources
        """Says which paired machines give files out."""

    async def start(self) -> None:
        """Take up what an earlier run left, and go on with what was running or waiting."""
        content = await asyncio.to_thread(self._file.read_value)
        for entry in content.downloads if content else ():
            again = _S.QUEUED if entry.shown.state is _S.RUNNING else entry.shown.state
            self._entries.setdefault(entry.shown.id, _with_changes(entry, state=again, bytes_per_s=None, eta_s=None))
        self._begin_more()

    async def close(self) -> None:
        """End every process; what runs goes on after the next start."""
        self._is_closed = True
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._background.join()
        await asyncio.to_thread(self._write)
        async with self._change:
            self._change.notify_all()

    def all(self) -> list[Download]:
        """Return every download, in the order of the queue."""
        return [entry.shown for entry in self._entries.values()]

    def find(self, download_id: str) -> Download:
        """Return one. Raises NotFound (download_not_found)."""
        return self._find(download_id).shown

    def add(  # noqa: PLR0913 -- what a download says of itself
        self,
        repository: Repository,
        files: Sequence[RepoFile],
        *,
        title: str,
        model: str = "",
        quantization: str = "",
        reason: str = "",
        could_have: Sequence[str] = (),
    ) -> Download:
        """Queue files of a repository, or go on with the download that fetches just these."""
        paths = sorted(file.path for file in files)
        same = (entry for entry in self._entries.values() if _is_same(entry.shown, repository, paths))
        same_download = next(same, None)
        if same_download is not None:
            return (
                same_download.shown
                if same_download.shown.state in {_S.QUEUED, _S.RUNNING}
                else self.resume(same_download.shown.id)
            )
        download = Download(
            id=f"dl_{uuid4().hex[:12]}",
            title=title,
            repository=repository.name,
            revision=repository.revision,
            commit=repository.commit,
            files=paths,
            model=model,
            quantization=quantization,
            reason=reason,
            could_have=list(could_have),
            total_bytes=sum(file.size for file in files),
            added_at=time.time(),
        )
        self._entries[download.id] = _QueueEntry(shown=download, files=list(files))
        return self._change_state(download.id)

    def pause(self, download_id: str) -> Download:
        """Stop one and keep what came. Raises NotFound, or Conflict when it is over."""
        entry = self._find(download_id)
        if entry.shown.state is _S.DONE:
            raise Conflict("This download is finished.", code="download_done")
        self._stop(download_id)
        return self._change_state(download_id, state=_S.PAUSED, bytes_per_s=None, eta_s=None)

    def resume(self, download_id: str) -> Download:
        """Queue one again that was paused, has failed, or is to be looked at once more. Raises NotFound."""
        entry = self._find(download_id)
        if entry.shown.state not in _OVER:
            return entry.shown
        return self._change_state(download_id, state=_S.QUEUED, error=None, ended_at=None)

    def move(self, download_id: str, position: int) -> list[Download]:
        """Give one another place in the queue, 0 being the first. Raises NotFound."""
        entry = self._find(download_id)
        order = [key for key in self._entries if key != download_id]
        order.insert(max(0, position), download_id)
        self._entries = {key: self._entries[key] if key != download_id else entry for key in order}
        self._change_state(download_id)
        return self.all()

    async def remove(self, download_id: str) -> None:
        """Take one off the list. What came of one that is not done is deleted. Raises NotFound."""
        entry = self._find(download_id)
        task = self._stop(download_id)
        del self._entries[download_id]
        self._publish(DownloadRemoved(id=download_id))
        self._save()
        await self._notify_followers()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)
        if entry.shown.state is not _S.DONE:
            await asyncio.to_thread(self._discard, entry)
        self._begin_more()

    async def follow(self, download_id: str) -> AsyncGenerator[Download, None]:
        """Yield a download now and whenever it changes, until it is over or taken off the list."""
        last: Download | None = None
        while (entry := self._entries.get(download_id)) is not None:
            if entry.shown is not last:
                last = entry.shown
                yield last
            if last.state in _OVER or self._is_closed:
                return
            async with self._change:
                if self._entries.get(download_id) is entry and not self._is_closed:
                    await self._change.wait()

    async def wait(self, download_id: str) -> Download:
        """Return a download once it is over. Raises NotFound when it is taken off the list."""
        async with aclosing(self.follow(download_id)) as states:
            async for _state in states:
                pass
        return self.find(download_id)

    def apply_settings(self) -> None:
        """Keep to the settings as they are now."""
        where = self._target()
        for download_id in list(self._tasks)[where.at_once :]:
            self._stop(download_id)
            self._publish_changes(download_id, state=_S.QUEUED, bytes_per_s=None, eta_s=None)
        share = where.bytes_per_s / max(1, len(self._children))
        for child in self._children.values():
            child.limit(share)
        self._begin_more()

    def leave_machine(self, name: str) -> None:
        """Have no download go on from a paired machine that is trusted no longer; it goes on from elsewhere."""
        for download_id in [key for key, sources in self._sources.items() if _names_machine(sources, name)]:
            self._stop(download_id)
            self._publish_changes(download_id, state=_S.QUEUED, bytes_per_s=None, eta_s=None)
        self._begin_more()

    def _find(self, download_id: str) -> _QueueEntry:
        entry = self._entries.get(download_id)
        if entry is None:
            raise NotFound("There is no such download.", code="download_not_found")
        return entry

    def _stop(self, download_id: str) -> asyncio.Task[None] | None:
        task = self._tasks.pop(download_id, None)
        if task is not None:
            task.cancel()
        return task

    def _begin_more(self) -> None:
        free = self._target().at_once - len(self._tasks)
        waiting_ids = [key for key, entry in self._entries.items() if entry.shown.state is _S.QUEUED]
        for download_id in waiting_ids[: max(0, free)] if not self._is_closed else ():
            self._tasks[download_id] = self._background.spawn(self._run(download_id))
            self._change_state(download_id, state=_S.RUNNING)

    async def _run(self, download_id: str) -> None:
        end_report = await self._carry_out(download_id)
        self._tasks.pop(download_id, None)
        if end_report is None or download_id not in self._entries:
            return
        if isinstance(end_report, DownloadDone):
            self._change_state(download_id, **_fields_at_end(self._entries[download_id].shown, end_report))
            self._publish(ModelsChanged())
        else:
            log.warning("A download failed: %s", end_report.sentence, extra={"code": end_report.code})
            self._change_state(
                download_id, state=_S.FAILED, error=end_report, ended_at=time.time(), bytes_per_s=None, eta_s=None
            )

    async def _carry_out(self, download_id: str) -> DownloadDone | ErrorBody | None:
        deaths = 0
        while download_id in self._entries:
            before = self._entries[download_id].shown.present_bytes
            try:
                end_report = await self._one_process(download_id)
                return end_report.error if isinstance(end_report, DownloadFailed) else end_report
            except DownloadDied as death:
                has_moved = self._entries[download_id].shown.present_bytes > before
                deaths = 1 if has_moved else deaths + 1
                if deaths >= DEATHS:
                    return death.body
            except RoundhouseError as error:
                return error.body
            except OSError as error:
                return EnvironmentFault(f"The download could not be started: {error}.").body
        return None

    async def _one_process(self, download_id: str) -> DownloadDone | DownloadFailed:
        sources = self._sources[download_id] = await self.find_sources()
        entry, where = self._entries[download_id], self._target()
        job = DownloadJob(
            endpoint=where.endpoint,
            repository=entry.shown.repository,
            revision=entry.shown.revision,
            commit=entry.shown.commit,
            files=entry.files,
            cache=str(where.cache),
            token=where.token,
            bytes_per_s=where.bytes_per_s / max(1, len(self._tasks)),
            xet=where.xet,
            reserved_bytes=self._still_to_come(before=download_id),
            sources=sources,
        )
        pace = _TransferRate()
        child = DownloadChild(job, lambda report: self._take_report(download_id, report, pace))
        self._children[download_id] = child
        try:
            return await child.run()
        finally:
            self._children.pop(download_id, None)
            self._sources.pop(download_id, None)

    def _still_to_come(self, *, before: str) -> int:
        """Return how much room those will take that began before one."""
        earlier = takewhile(lambda key: key != before, self._tasks)
        downloads = [self._entries[key].shown for key in earlier if key in self._entries]
        return sum(max(0, download.total_bytes - download.present_bytes) for download in downloads)

    def _take_report(
        self, download_id: str, report: DownloadStarted | DownloadProgress | DownloadNote, pace: "_TransferRate"
    ) -> None:
        if download_id not in self._tasks:
            return
        if isinstance(report, DownloadNote):
            log.info("%s", report.sentence)
            self._publish_changes(download_id, note=report.sentence)
            return
        rate = pace.note_reading(report.present_bytes, time.monotonic())
        download = self._entries[download_id].shown
        bytes_left = download.total_bytes - report.present_bytes
        self._publish_changes(
            download_id,
            present_bytes=max(0, report.present_bytes),
            file=report.file if isinstance(report, DownloadProgress) else download.file,
            machine=report.machine if isinstance(report, DownloadProgress) else "",
            note=download.note if isinstance(report, DownloadProgress) else "",  # another process, another try
            bytes_per_s=rate,
            eta_s=bytes_left / rate if rate else None,
        )

    def _change_state(self, download_id: str, **new_values: object) -> Download:
        """Change a download's state: kept over a restart, and a reason to look at the queue."""
        download = self._publish_changes(download_id, **new_values)
        self._save()
        self._begin_more()
        return self._entries[download_id].shown if download_id in self._entries else download

    def _publish_changes(self, download_id: str, **new_values: object) -> Download:
        entry = self._entries[download_id] = _with_changes(self._entries[download_id], **new_values)
        self._publish(DownloadChanged(download=entry.shown))
        self._background.spawn(self._notify_followers())
        return entry.shown

    async def _notify_followers(self) -> None:
        async with self._change:
            self._change.notify_all()

    def _save(self) -> None:
        self._background.spawn(asyncio.to_thread(self._write))

    def _write(self) -> None:
        try:
            with self._write_lock:  # what is written last is what is true last
                self._file.write_value(_QueueContent(downloads=list(self._entries.values())))
        except RoundhouseError as error:  # the downloads go on; the next change tries again
            log.warning("%s", error)

    def _discard(self, entry: _QueueEntry) -> None:
        """Delete what came of a download that nobody wants any more, unless another wants the same file."""
        cache = RepositoryCache(self._target().cache, entry.shown.repository)
        others: Iterable[RepoFile] = (file for other in self._entries.values() for file in other.files)
        etags = {file.etag for file in others}
        try:
            for file in entry.files:
                if file.etag not in etags:
                    cache.part_path(file).unlink(missing_ok=True)
                    cache.part_path(file).with_suffix(".map").unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s", write_fault("what was left of a download", error, action="deleted"))


async def _find_no_sources() -> None:
    """Stand for paired machines where there are none."""


def _names_machine(sources: MachineSources | None, name: str) -> bool:
    return sources is not None and any(machine.name == name for machine in sources.machines)


class _TransferRate:
    """How fast bytes come, averaged over the last seconds."""

    def __init__(self) -> None:
        self._readings: list[tuple[float, int]] = []

    def note_reading(self, present: int, now: float) -> float | None:
        """Note a reading; return bytes per second, None while there is nothing to go by."""
        recent = [(at, count) for at, count in self._readings if now - at <= SMOOTHING_S]
        self._readings = [*(recent or self._readings[-1:]), (now, present)]  # on a slow line, news is rarer than that
        (began, first), (_, last) = self._readings[0], self._readings[-1]
        return max(0.0, (last - first) / (now - began)) if now > began else None


def _with_changes(entry: _QueueEntry, **new_values: object) -> _QueueEntry:
    return msgspec.structs.replace(entry, shown=msgspec.structs.replace(entry.shown, **new_values))


def _fields_at_end(download: Download, end_report: DownloadDone) -> dict[str, object]:
    return {
        "state": _S.DONE,
        "present_bytes": download.total_bytes,
        "folder": end_report.folder,
        "ended_at": time.time(),
        "bytes_per_s": None,
        "eta_s": None,
        "file": "",
    }


def _is_same(download: Download, repository: Repository, files: list[str]) -> bool:
    return (download.repository, download.commit, download.files) == (repository.name, repository.commit, files)


DOWNLOADS = web.AppKey("downloads", DownloadQueue)


def add_downloads(app: web.Application) -> None:
    """Give the application its queue of downloads."""
    services = app[SERVICES]
    app[DOWNLOADS] = DownloadQueue(
        services.paths.downloads_file,
        lambda: download_target(services.settings, services.paths, services.hub),
        services.events.publish,
    )
    app.on_startup.append(_start)
    app.on_shutdown.append(lambda app: app[DOWNLOADS].close())


def download_target(settings: SettingsStore, paths: Paths, hub: HubMemory) -> DownloadTarget:
    """Return from where to where models are fetched, as settings and environment have it now."""
    at_once = settings.get_int("downloads.at_once")
    return DownloadTarget(
        endpoint=hub_endpoint(),
        cache=paths.hub_cache,
        token=hub.token.read_token(),
        bytes_per_s=settings.get_int("downloads.limit_mb_s") * _MB,
        at_once=0 if settings.get_flag("network.offline") else at_once,
        xet=at_once == 1 and settings.get_text("downloads.xet") == "auto" and not is_xet_off(),
    )


async def _start(app: web.Application) -> None:
    await asyncio.to_thread(
        app[SERVICES].hub.token.read_token
    )  # a keyring may take its time; from now on it is remembered
    await app[DOWNLOADS].start()
