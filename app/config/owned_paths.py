"""Everything Roundhouse keeps on this computer, as `roundhouse uninstall` lists it: what it is and where it lies.

Three kinds leave at three times. What is made again by itself goes with every uninstall; what a person made goes with
`--purge`; models, which are large and may be wanted elsewhere, only when said so. What is shared with other programs is
named and never touched.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
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
    for path, what in (
        (paths.state, "state of the running service"),
        (paths.logs, "logs"),
        (data / "engines", "installed engines"),
        (paths.hub_answers, "what the hub said about models"),
        (paths.updates, "downloaded updates"),
    ):
        yield OwnedPath(what=what, path=path, kind=OwnedPathKind.MADE)
    yield OwnedPath(what="settings, keys, and the window's layout", path=paths.config, kind=OwnedPathKind.KEPT)
    for path in sorted(_list_entries(data) - models - {data / "engines", paths.hub_answers, paths.updates}):
        yield OwnedPath(what=_NAMES.get(path.name, "our own data"), path=path, kind=OwnedPathKind.KEPT)
    for path in sorted(models):
        yield OwnedPath(what="models", path=path, kind=OwnedPathKind.MODELS)
    if paths.shared_hub is not None:
        yield OwnedPath(
            what="models from the hub, shared with its programs", path=paths.shared_hub, kind=OwnedPathKind.SHARED
        )


_NAMES = {
    "roundhouse.db": "conversations and usage",
    "connect": "the settings files of tools from before they were connected",
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
    """Remove a file or folder; a link is removed, never what it leads to. Raises OSError."""
    if item.path.is_dir() and not item.path.is_symlink():
        shutil.rmtree(item.path)
    else:
        item.path.unlink(missing_ok=True)


def remove_empty_folders(paths: Paths) -> None:
    """Remove the folders of ours that hold nothing any more, and the empty ones that we made them in."""
    for folder in (paths.data, paths.config, paths.state, paths.logs):
        for candidate in (folder, folder.parent):
            if candidate.name.casefold() in _OURS or candidate == folder:
                with suppress(OSError):
                    candidate.rmdir()


_OURS = ("roundhouse",)
"""~/.local/state/roundhouse holds `run` and `log`; with ROUNDHOUSE_HOME the person's own folder stays."""
