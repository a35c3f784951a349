"""Updates of Roundhouse itself: how this copy was installed, what is on offer, and what is being done about it."""

from enum import StrEnum

import msgspec

from app.core.errors import ErrorBody


class InstallationKind(StrEnum):
    """How a copy came to its computer, which decides how a newer one gets there.

    deb        dpkg's: the system's own installer replaces it
    tar.xz     a folder of the person's own: replaced by ours, and the one before is kept
    appimage   one file: replaced by ours, and the one before is kept
    exe        an installer's on Windows: the new installer replaces it
    dmg        an application on macOS: dragged out of the new image by hand
    wheel      a package in an environment: pip, pipx or uv replaces it
    source     a checkout: git does
    """

    DEB = "deb"
    ARCHIVE = "tar.xz"
    APPIMAGE = "appimage"
    EXE = "exe"
    DMG = "dmg"
    WHEEL = "wheel"
    SOURCE = "source"


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """A newer version, as its signed manifest has it. `notes` are Markdown."""

    version: str
    released: str
    """A day: "2026-12-01"."""
    notes: str = ""
    size_bytes: int = 0
    """Of the file for this installation; 0 where it is updated by a command."""
    is_skipped: bool = False
    problem: str = ""
    """Why it cannot be installed here, in a sentence; empty when it can."""


class UpdateJob(msgspec.Struct, frozen=True, kw_only=True):
    """An installation of a version, or the way back to the one before: going on, or over. There is one at a time."""

    id: str
    verb: str
    """"install" or "rollback"."""
    version: str
    stage: str = ""
    """What it does now, in words."""
    done_bytes: int = 0
    total_bytes: int = 0
    """0 while nothing is being fetched."""
    waits_for: int = 0
    """Answers in progress that it lets end first."""
    is_done: bool = False
    said: str = ""
    """What is to be done by hand now that it is done; empty when nothing is."""
    error: ErrorBody | None = None


class UpdateState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about updates of this copy."""

    version: str
    kind: InstallationKind
    place: str
    command: str = ""
    """What updates it, where Roundhouse cannot do it by itself."""
    unavailable: str = ""
    """Why nothing can be looked for, in a sentence; empty when it can."""
    checked_at: float | None = None
    """When a manifest was last fetched and found good, Unix seconds."""
    release: Release | None = None
    """What is newer; None when nothing is known to be."""
    previous: str = ""
    """The version kept to go back to."""
    failure: ErrorBody | None = None
    """Why the last installation came to nothing after the service had ended for it."""
    job: UpdateJob | None = None


class InstallUpdate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for a version to be installed: the one that was shown. With `now`, answers in progress are cut off."""

    version: str
    now: bool = False


class SkipUpdate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask not to be told of a version again; with an empty one, to be told of all again."""

    version: str
