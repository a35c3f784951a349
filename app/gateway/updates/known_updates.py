"""What the service knows of newer versions: what was described and signed, what of it is newer, what fits this copy.

Whatever is read back from the disk is checked again: its signature, its time, whether it is still newer.
"""

import datetime as dt
import time
from collections.abc import Sequence
from pathlib import Path

from app import __version__
from app.config.installation import Installation
from app.config.store import Settings
from app.core.errors import Conflict
from app.core.updates import Release, UpdateJob, UpdateState
from app.engine_store.host import this_host
from app.updates.fetching import fetch_manifest
from app.updates.manifest import (
    File,
    Manifest,
    Signed,
    UpdateRefused,
    check_current,
    check_no_downgrade,
    is_final,
    order,
    trusted_keys,
    verified,
)
from app.updates.memory import Kept, Seen, UpdateMemory

NO_KEY = "This copy trusts no key for updates yet: no version of Roundhouse was ever released."


class Known:
    """Blocks; call it from a thread."""

    def __init__(
        self, settings: Settings, memory: UpdateMemory, installation: Installation, keys_files: Sequence[Path]
    ) -> None:
        self._settings, self._keys_files = settings, keys_files
        self.memory, self.installation = memory, installation

    @property
    def url(self) -> str:
        """Where the newest version of the channel is described."""
        return f"{self._settings.text('updates.url').rstrip('/')}/{self._channel}.json"

    @property
    def unavailable(self) -> str:
        """Why nothing can be looked for; empty when it can."""
        return "" if self._keys() else NO_KEY

    def look(self) -> None:
        """Ask what the newest version is. Raises UpdateRefused, or what the network raises."""
        self.take(fetch_manifest(self.url))

    def take(self, signed: Signed) -> None:
        """Remember a description that holds. Raises UpdateRefused."""
        manifest = verified(signed, self._keys())
        check_current(manifest, self._channel, _now())
        kept = self.memory.kept()
        seen = kept.seen.get(manifest.channel)
        if seen is not None:
            check_no_downgrade(manifest, seen.version, seen.issued)
        if is_final(__version__):  # who tried a beta may go back to the channel of the stable ones
            check_no_downgrade(manifest, __version__)
        news = {manifest.channel: Seen(version=manifest.version, issued=manifest.issued)}
        self.memory.change(seen={**kept.seen, **news}, signed=signed, checked_at=time.time(), failure=None)

    def newer(self) -> Manifest | None:
        """Return the description of what is newer than this copy; None without."""
        signed = self.memory.kept().signed
        if signed is None:
            return None
        try:
            manifest = verified(signed, self._keys())
            check_current(manifest, self._channel, _now())
        except UpdateRefused:
            return None
        return manifest if order(manifest.version) > order(__version__) else None

    def wanted(self, version: str) -> Manifest:
        """Return the description of the version that was shown. Raises Conflict (no_update)."""
        manifest = self.newer()
        if manifest is None or manifest.version != version:
            raise Conflict(
                f"There is no version {version[:40]!r} to install.",
                hint="Look for updates first: roundhouse update --check",
                code="no_update",
            )
        return manifest

    def file(self, manifest: Manifest) -> File:
        """Return what updates this copy. Raises Conflict (update_by_hand)."""
        found = self._file(manifest)
        if found is None:
            command = self.installation.command
            raise Conflict(
                self._problem(manifest) or "This copy is updated by the command that installed it.",
                hint=f"In a terminal: {command}" if command else "Install it as the first time.",
                code="update_by_hand",
            )
        return found

    def state(self, job: UpdateJob | None) -> UpdateState:
        """Return everything, with what is being done."""
        from app.updates.ways import previous_version  # noqa: PLC0415 -- start-up must not pay for the installers

        kept, found = self.memory.kept(), self.installation
        return UpdateState(
            version=__version__,
            kind=found.kind,
            place=str(found.place),
            command=found.command,
            unavailable=self.unavailable,
            checked_at=kept.checked_at,
            release=self._release(kept),
            previous=previous_version(found),
            failure=kept.failure,
            job=job,
        )

    @property
    def _channel(self) -> str:
        return self._settings.text("updates.channel")

    def _keys(self) -> tuple[bytes, ...]:
        return trusted_keys(*self._keys_files)

    def _file(self, manifest: Manifest) -> File | None:
        host = this_host({})
        return manifest.file(self.installation.kind, host.platform, host.architecture)

    def _problem(self, manifest: Manifest) -> str:
        """Return why a version cannot get here at all; empty where it can, if only by a command."""
        if self.installation.command or self._file(manifest) is not None:
            return ""
        host = this_host({})
        like_this = f"({self.installation.kind}, {host.platform}, {host.architecture})"
        return f"Version {manifest.version} has no file for a copy like this one {like_this}."

    def _release(self, kept: Kept) -> Release | None:
        manifest = self.newer()
        if manifest is None:
            return None
        file = self._file(manifest)
        return Release(
            version=manifest.version,
            released=f"{manifest.issued:%Y-%m-%d}",
            notes=manifest.notes,
            size_bytes=file.size if file else 0,
            is_skipped=manifest.version == kept.skipped,
            problem=self._problem(manifest),
        )


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
