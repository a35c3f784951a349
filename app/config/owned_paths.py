"""Everything Roundhouse keeps on this computer, as `roundhouse uninstall` lists it: what it is and where it lies.

Folders that carry our name are ours with all that is in them. In folders that somebody chose (`ROUNDHOUSE_HOME`) only
what we are known to write is, and nothing at all where Roundhouse never ran (`Paths.marker_file`).

Three kinds leave at three times. What is made again by itself goes with every uninstall; what a person made goes with
`--purge`; models, which are large and may be wanted elsewhere, only when said so. What is shared with other programs is
named and never touched.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from app.config.paths import Paths


class OwnedPathKind(StrEnum):
    """When something leaves."""

    MADE = "made"
    """With every uninstall: the programs make it again."""
    KEPT = "kept"
    """With `--purge`: settings and conversations."""
    MODELS = "models"
    """When the person says so."""
    SHARED = "shared"
    """Never: other programs use it too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedPath:
    """One file or folder that is there."""

    what: str
    path: Path
    kind: OwnedPathKind

    @property
    def size_bytes(self) -> int:
        """What it takes on the disk. Reads folders."""
        if self.path.is_symlink() or not self.path.is_dir():
            return _file_size(self.path)
        return sum(_file_size(Path(folder) / name) for folder, _, names in os.walk(self.path) for name in names)


def list_owned_paths(paths: Paths) -> list[OwnedPath]:
    """Return what is there now, the largest units that leave together. Looks at the disk."""
    return [
        candidate for candidate in _candidate_paths(paths) if candidate.path.exists() or candidate.path.is_symlink()
    ]


def _candidate_paths(paths: Paths) -> Iterator[OwnedPath]:
    data = paths.data
    models = {paths.models, data / "hub", data / "blobs", data / "created"}
    made_paths = {
        data / "engines": "installed engines",
        paths.hub_answers: "what the hub said about models",
        paths.updates: "downloaded updates",
        paths.attachment_indexes: "indexes of files of conversations",
        paths.warm_prompts: "prompts that engines have read",
        paths.manual_index: "the index of the manual",
    }
    foreign = set(list_foreign_paths(paths))
    for path in _whole_or_parts(paths.state, foreign):
        yield OwnedPath(what="state of the running service", path=path, kind=OwnedPathKind.MADE)
    for path in _whole_or_parts(paths.logs, foreign):
        yield OwnedPath(what="logs", path=path, kind=OwnedPathKind.MADE)
    for path, what in made_paths.items():
        yield OwnedPath(what=what, path=path, kind=OwnedPathKind.MADE)
    for path in _whole_or_parts(paths.config, foreign):
        yield OwnedPath(what="settings, keys, and the window's layout", path=path, kind=OwnedPathKind.KEPT)
    for path in sorted(_list_entries(data) - models - made_paths.keys() - foreign):
        yield OwnedPath(what=_NAMES.get(path.name, "our own data"), path=path, kind=OwnedPathKind.KEPT)
    for path in sorted(models):
        yield OwnedPath(what="models", path=path, kind=OwnedPathKind.MODELS)
    if paths.shared_hub is not None:
        yield OwnedPath(
            what="models from the hub, shared with its programs", path=paths.shared_hub, kind=OwnedPathKind.SHARED
        )


def list_foreign_paths(paths: Paths) -> list[Path]:
    """Return what lies in folders that somebody chose for us and is none of what we are known to write there."""
    if paths.is_in_own_folders:
        return []
    return sorted(
        entry
        for folder, patterns in (
            (paths.config, _CONFIG),
            (paths.data, _DATA),
            (paths.state, _STATE),
            (paths.logs, _LOGS),
        )
        for entry in _list_entries(folder)
        if not any(fnmatchcase(entry.name, pattern) for pattern in patterns)
    )


def was_used(paths: Paths) -> bool:
    """Whether Roundhouse ever kept its things in these folders."""
    return paths.is_in_own_folders or paths.marker_file.exists()


def _whole_or_parts(folder: Path, foreign: set[Path]) -> list[Path]:
    """Return the folder, or its entries where some are not ours."""
    entries = _list_entries(folder)
    return sorted(entries - foreign) if entries & foreign else [folder]


_CONFIG = (
    "settings.toml*",
    "models.toml*",
    "profiles.toml*",
    "keys.json*",
    "hub-token.json*",
    "trace-headers.json*",
    "machine-identity.*",
    "machines.json*",
    "machines-former.json*",
    "update-keys.txt",
    "tunnel.*",
    "mcp*.json*",
    "window*",
)
_DATA = (
    *("roundhouse.db*", "downloads.json*", "models.json*", "memory-bandwidth.json*", "headers.bin*", ".roundhouse"),
    *("engines", "engine-homes", "hub-answers", "updates", "models", "hub", "blobs", "created", "connect", "attached"),
    *("mcp-homes", "agent-homes", "agent-sessions"),
    *("collections", "endpoint-files", "attachment-indexes", "manual-index", "kept-prompts"),
    "attachments*",
)
_STATE = (
    "gateway.*",
    "window.*",
    "engines",
    "scratch",
    "trials",
    "calibration.gguf",
    "template-verdicts.json*",
    "draft-trials.json*",
    "profile.json*",
)
_LOGS = ("gateway*.json*", "gateway-start.log*", "engine-*.log*")
"""What we write, as patterns of names: nobody else's files in these folders are touched."""
_NAMES = {
    ".roundhouse": "the mark that these folders are Roundhouse's",
    "attachments": "files of conversations",
    "roundhouse.db": "conversations and usage",
    "connect": "the settings files of tools from before they were connected",
    "mcp-homes": "what servers of tools keep",
    "agent-homes": "what coding agents keep",
    "agent-sessions": "sessions with coding agents",
    "endpoint-files": "files that programs uploaded at the endpoint",
    "collections": "collections of documents: their indexes, and files that programs gave them",
    "downloads.json": "the list of downloads",
    "models.json": "the list of models",
    "roundhouse.db-shm": "conversations and usage",
    "roundhouse.db-wal": "conversations and usage",
    "memory-bandwidth.json": "this machine's measured speed",
    "headers.bin": "what model files say about themselves",
}


def _list_entries(folder: Path) -> set[Path]:
    with suppress(OSError):
        return set(folder.iterdir())
    return set()


def _file_size(path: Path) -> int:
    with suppress(OSError):
        return path.lstat().st_size
    return 0


def remove_owned_path(item: OwnedPath) -> None:
    """Remove a file or folder; a link is removed, never what it leads to. Raises OSError, also for another drive."""
    if item.path.is_dir() and not item.path.is_symlink():
        _check_one_drive(item.path)
        shutil.rmtree(item.path)
    else:
        item.path.unlink(missing_ok=True)


def _check_one_drive(folder: Path) -> None:
    """Raise OSError for a folder that is another drive than what it lies in, or has one mounted inside."""
    drive = folder.parent.stat().st_dev
    for place, _, _ in os.walk(folder):
        if Path(place).lstat().st_dev != drive:
            raise OSError(errno.EXDEV, f"{place} is another drive, and is left as it is")


def remove_empty_folders(paths: Paths) -> None:
    """Remove the folders of ours that hold nothing any more, and the empty ones that we made them in."""
    for folder in (paths.data, paths.config, paths.state, paths.logs):
        for candidate in (folder, folder.parent):
            if candidate.name.casefold() in _OURS or candidate == folder:
                with suppress(OSError):
                    candidate.rmdir()


_OURS = ("roundhouse",)
"""~/.local/state/roundhouse holds `run` and `log`; with ROUNDHOUSE_HOME the person's own folder stays."""
