"""Updates of Roundhouse itself: looked for when asked, or weekly where a person wants it; installed only when asked.

`KnownRelease` is what was described and signed, what of it is newer, and what fits this copy. Whatever is read back
from the disk is checked again: its signature, its time, whether it is still newer.

One installation at a time goes on in the background: fetch, check, make ready, let answers in progress end, replace.
Until the last step nothing that is used has changed, and all of it can be called off.
"""

import asyncio
import datetime as dt
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from app import __version__
from app.config.programs import AppInstallation, this_installation
from app.config.store import SettingsStore
from app.core.errors import Bug, Conflict, ErrorBody, Offline, RoundhouseError, quote_value
from app.core.events import UpdateJobChanged, UpdatesChanged
from app.core.updates import InstallUpdate, Release, UpdateJob, UpdateState
from app.engine_store.host import this_host
from app.gateway.background import Background
from app.gateway.jobs import BackgroundJob, JobRules, job_id
from app.gateway.services import SERVICES, Services
from app.hub.download.transfer import TransferDeps
from app.hub.download.wire import DownloadStopped, Throttle
from app.updates.fetching import fetch_file, fetch_manifest, remove_other_versions, verify_file
from app.updates.manifest import (
    KEYS_FILE,
    NewestRelease,
    ReleaseFile,
    SignedManifest,
    UpdateManifest,
    UpdateMemory,
    UpdateRecord,
    UpdateRefused,
    check_current,
    check_no_downgrade,
    is_final,
    read_trusted_keys,
    verify_manifest,
    version_order,
)

if TYPE_CHECKING:
    from app.updates.methods import UpdateMethod, UpdateResult

log = logging.getLogger(__name__)

WEEK_S = 7 * 24 * 3600.0
_LOOK_EVERY_S = 3600.0
_WAIT_S = 0.2
_MB = 1_000_000
NO_KEY = "This copy trusts no update key yet: no version of Roundhouse has been released."


class KnownRelease:
    """Blocks; call it from a thread."""

    def __init__(
        self, settings: SettingsStore, memory: UpdateMemory, installation: AppInstallation, keys_files: Sequence[Path]
    ) -> None:
        self._settings, self._keys_files = settings, keys_files
        self.memory, self.installation = memory, installation

    @property
    def url(self) -> str:
        """Where the newest version of the channel is described."""
        return f"{self._settings.get_text('updates.url').rstrip('/')}/{self._channel}.json"

    @property
    def unavailable(self) -> str:
        """Why nothing can be looked for; empty when it can."""
        return "" if self._keys() else NO_KEY

    def look(self) -> None:
        """Ask what the newest version is. Raises UpdateRefused, or what the network raises."""
        self.take(fetch_manifest(self.url))

    def take(self, signed_manifest: SignedManifest) -> None:
        """Remember a description that holds. Raises UpdateRefused."""
        manifest = verify_manifest(signed_manifest, self._keys())
        check_current(manifest, self._channel, _now())
        record = self.memory.read_record()
        seen_version = record.seen.get(manifest.channel)
        if seen_version is not None:
            check_no_downgrade(manifest, seen_version.version, seen_version.issued)
        if is_final(__version__):  # who tried a beta may go back to the channel of the stable ones
            check_no_downgrade(manifest, __version__)
        news = {manifest.channel: NewestRelease(version=manifest.version, issued=manifest.issued)}
        self.memory.change_record(
            seen={**record.seen, **news}, signed=signed_manifest, checked_at=time.time(), failure=None
        )

    def newer(self) -> UpdateManifest | None:
        """Return the description of what is newer than this copy; None without."""
        signed_manifest = self.memory.read_record().signed
        if signed_manifest is None:
            return None
        try:
            manifest = verify_manifest(signed_manifest, self._keys())
            check_current(manifest, self._channel, _now())
        except UpdateRefused:
            return None
        return manifest if version_order(manifest.version) > version_order(__version__) else None

    def find_release(self, version: str) -> UpdateManifest:
        """Return the description of the version that was shown. Raises Conflict (no_update)."""
        manifest = self.newer()
        if manifest is None or manifest.version != version:
            raise Conflict(
                f"There is no version {quote_value(version)} to install.",
                hint="Check for updates first: roundhouse update --check",
                code="no_update",
            )
        return manifest

    def file(self, manifest: UpdateManifest) -> ReleaseFile:
        """Return what updates this copy. Raises Conflict (update_by_hand)."""
        release_file = self._file(manifest)
        if release_file is None:
            command = self.installation.command
            raise Conflict(
                self._problem(manifest) or "This copy is updated with the command that installed it.",
                hint=f"In a terminal: {command}" if command else "Install it the way you did the first time.",
                code="update_by_hand",
            )
        return release_file

    def state(self, job: UpdateJob | None) -> UpdateState:
        """Return everything, with what is being done."""
        from app.updates.methods import previous_version  # noqa: PLC0415 -- start-up must not pay for the installers

        record, installation = self.memory.read_record(), self.installation
        return UpdateState(
            version=__version__,
            kind=installation.kind,
            place=str(installation.place),
            command=installation.command,
            unavailable=self.unavailable,
            checked_at=record.checked_at,
            release=self._release(record),
            previous=previous_version(installation),
            failure=record.failure,
            job=job,
        )

    @property
    def _channel(self) -> str:
        return self._settings.get_text("updates.channel")

    def _keys(self) -> tuple[bytes, ...]:
        return read_trusted_keys(*self._keys_files)

    def _file(self, manifest: UpdateManifest) -> ReleaseFile | None:
        host = this_host({})
        return manifest.find_file(self.installation.kind, host.platform, host.architecture)

    def _problem(self, manifest: UpdateManifest) -> str:
        """Return why a version cannot get here at all; empty where it can, if only by a command."""
        if self.installation.command or self._file(manifest) is not None:
            return ""
        host = this_host({})
        like_this = f"({self.installation.kind}, {host.platform}, {host.architecture})"
        return f"Version {manifest.version} has no file for a copy like this one {like_this}."

    def _release(self, record: UpdateRecord) -> Release | None:
        manifest = self.newer()
        if manifest is None:
            return None
        file = self._file(manifest)
        return Release(
            version=manifest.version,
            released=f"{manifest.issued:%Y-%m-%d}",
            notes=manifest.notes,
            size_bytes=file.size if file else 0,
            is_skipped=manifest.version == record.skipped,
            problem=self._problem(manifest),
        )


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


class Updates:
    """Belongs to the event loop; whatever blocks is done in a thread."""

    def __init__(
        self, services: Services, installation: AppInstallation | None = None, *, keys_file: Path = KEYS_FILE
    ) -> None:
        self._services = services
        keys_files = (keys_file, services.paths.update_keys_file)
        memory = UpdateMemory(services.paths.updates / "known.json")
        self._known_release = KnownRelease(services.settings, memory, installation or this_installation(), keys_files)
        self._is_urgent = False
        self.job = BackgroundJob(
            JobRules(
                publish=lambda job: services.events.publish(UpdateJobChanged(job=job)),
                end=_end_job,
                conflict=_conflict,
                bug=Bug("The update failed because of a mistake in Roundhouse.", hint="Please report this."),
            )
        )

    async def state(self) -> UpdateState:
        """Return everything that is known; asks nobody."""
        return await asyncio.to_thread(self._known_release.state, self.job.last)

    async def check(self) -> UpdateState:
        """Ask what the newest version is. Raises Conflict (offline, no_update_key), UpdateRefused, the network's."""
        self._refuse_blind()
        await asyncio.to_thread(self._known_release.look)
        self._services.events.publish(UpdatesChanged())
        return await self.state()

    async def skip(self, version: str) -> UpdateState:
        """Say no more of a version; of an empty one, say everything again. Raises UpdateRefused for no version."""
        if version:
            version_order(version)
        await asyncio.to_thread(partial(self._known_release.memory.change_record, skipped=version))
        self._services.events.publish(UpdatesChanged())
        return await self.state()

    async def install(self, wish: InstallUpdate) -> UpdateJob:
        """Begin to install what `check` found, or have an installation wait no longer.

        Raises Conflict (offline, no_update, update_by_hand, update_running), UpdateRefused, StorageFault.
        """
        from app.updates.methods import UPDATE_METHODS  # noqa: PLC0415 -- start-up must not pay for the installers

        if self.job.is_busy and wish.now and wish.version == self.job.now.version:
            self._is_urgent = True
            return self.job.now
        self.job.check_idle()
        self._refuse_blind()
        manifest = await asyncio.to_thread(self._known_release.find_release, wish.version)
        file = self._known_release.file(manifest)
        way = UPDATE_METHODS[file.kind]
        await asyncio.to_thread(way.check_place, self._known_release.installation.place, file.size)
        await asyncio.to_thread(partial(self._known_release.memory.change_record, failure=None))
        job = UpdateJob(id=job_id(), verb="install", version=manifest.version, stage="Downloading")
        return self._start(job, lambda: self._install(manifest, file, way), is_urgent=wish.now)

    async def roll_back(self) -> UpdateJob:
        """Begin to go back to the version before. Raises Conflict (no_previous, update_running)."""
        from app.updates.methods import previous_version  # noqa: PLC0415 -- as above

        self.job.check_idle()
        version = await asyncio.to_thread(previous_version, self._known_release.installation)
        if not version:
            raise Conflict("No version before this one is kept here.", code="no_previous")
        job = UpdateJob(id=job_id(), verb="rollback", version=version, stage="Going back")
        return self._start(job, self._go_back, is_urgent=False)

    async def cancel(self) -> None:
        """Call it off and wait until nothing of it is left; harmless when nothing goes on."""
        await self.job.cancel()

    async def close(self) -> None:
        """End what goes on."""
        await self.job.cancel()

    async def look_if_due(self) -> None:
        """Ask, if a person wants that every week and a week is over. What goes wrong is only logged."""
        settings = self._services.settings
        if (
            not settings.get_flag("updates.weekly")
            or settings.get_flag("network.offline")
            or self._known_release.unavailable
        ):
            return
        record = await asyncio.to_thread(self._known_release.memory.read_record)
        if is_due(record.checked_at, time.time()):
            try:
                await self.check()
            except RoundhouseError as error:
                log.warning("Updates could not be looked for: %s", error)

    async def watch(self) -> None:
        """Look every week for as long as the service runs, and throw away what is of no use any more."""
        newer = await asyncio.to_thread(self._known_release.newer)
        await asyncio.to_thread(remove_other_versions, self._services.paths.updates, newer.version if newer else "")
        while True:
            await self.look_if_due()
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _install(self, manifest: UpdateManifest, file: ReleaseFile, way: "UpdateMethod") -> None:
        from app.updates.methods import UpdateTask  # noqa: PLC0415 -- as above

        folder = self._services.paths.updates / manifest.version
        self.job.tell(total_bytes=file.size)
        path = await asyncio.to_thread(fetch_file, self._known_release.url, file, folder, self._means())
        work = UpdateTask(
            installation=self._known_release.installation,
            file=path,
            version=manifest.version,
            report_stage=lambda stage: self._from_thread(stage=stage, total_bytes=0),
            stop_requested=self.job.off,
        )
        await asyncio.to_thread(way.prepare_update, work)
        if way.ends_service:
            await self._let_answers_end()
        await asyncio.to_thread(verify_file, path, file)
        self._settle(await asyncio.to_thread(way.finish_update, work))

    async def _go_back(self) -> None:
        from app.updates.methods import roll_back  # noqa: PLC0415 -- as above

        await self._let_answers_end()
        self._settle(await asyncio.to_thread(roll_back, self._known_release.installation))

    async def _let_answers_end(self) -> None:
        """Wait until nobody is being answered, unless somebody wants it now. Raises DownloadStopped."""
        while not self._is_urgent and (count := self._in_flight()):
            self.job.tell(stage="Waiting for answers to end", waits_for=count, total_bytes=0)
            await asyncio.sleep(_WAIT_S)
            if self.job.off.is_set():
                break
        if self.job.off.is_set():
            raise DownloadStopped
        self.job.tell(stage="Installing", waits_for=0, total_bytes=0)

    def _in_flight(self) -> int:
        return sum(status.in_flight for status in self._services.supervisor.list_statuses())

    def _settle(self, result: "UpdateResult") -> None:
        """Say that it is done; where the service ends for it, end it."""
        self.job.keep(said=result.instruction)
        final_action = result.final_action
        if final_action is not None or result.goes_on:
            afterwards = self._services.afterwards
            afterwards.deed, afterwards.goes_on = (
                partial(self._last, final_action) if final_action else None,
                result.goes_on,
            )
            self._services.stop()

    def _last(self, final_action: Callable[[], object]) -> None:
        """Do what is done when everything is closed, and remember why it failed: whoever comes next says so."""
        try:
            final_action()
        except RoundhouseError as error:
            self._known_release.memory.change_record(failure=error.body)
            raise

    def _start(self, job: UpdateJob, work: Callable[[], Awaitable[None]], *, is_urgent: bool) -> UpdateJob:
        is_begun = self.job.start(job, work)  # refused if somebody else has begun meanwhile
        self._is_urgent = is_urgent
        return is_begun

    def _means(self) -> TransferDeps:
        limit = Throttle(self._services.settings.get_int("downloads.limit_mb_s") * _MB)
        return TransferDeps(progress=self._from_thread, stop=self.job.off, throttle=limit)

    def _from_thread(self, count: int = 0, **changes: object) -> None:
        self.job.hand_over(lambda: self._note_progress(count, changes))

    def _note_progress(self, count: int, changes: dict[str, object]) -> None:
        if self.job.is_busy:
            say = self.job.tell if changes else self.job.move
            say(done_bytes=self.job.now.done_bytes + count, **changes)

    def _refuse_blind(self) -> None:
        if self._services.settings.get_flag("network.offline"):
            raise Offline
        if self._known_release.unavailable:
            raise Conflict(
                self._known_release.unavailable, hint="Update it the way it was installed.", code="no_update_key"
            )


def _end_job(job: UpdateJob, error: ErrorBody | None) -> UpdateJob:
    stage = "Ended" if error else "Done"
    return msgspec.structs.replace(job, stage=stage, is_done=True, error=error, waits_for=0, total_bytes=0)


def _conflict(job: UpdateJob) -> Conflict:
    return Conflict(
        f"Version {job.version} is being installed already.", hint="Wait for it, or call it off.", code="update_running"
    )


def is_due(checked_at: float | None, now: float) -> bool:
    """Tell whether a week is over; a clock that was set back counts as well."""
    return checked_at is None or not 0 <= now - checked_at < WEEK_S


UPDATES = web.AppKey("updates", Updates)


def add_updates(app: web.Application) -> None:
    """Give the application what looks for updates of it, and have it look."""
    app[UPDATES] = Updates(app[SERVICES])
    app.cleanup_ctx.append(_watch_releases)
    app.on_shutdown.append(lambda app: app[UPDATES].close())


async def _watch_releases(app: web.Application) -> AsyncIterator[None]:
    background = Background()
    background.spawn(app[UPDATES].watch())
    yield
    await background.join(cancel=True)
