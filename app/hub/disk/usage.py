"""What models take of the disks: each file once, however many names it has, under the folder it was found in.

Blocks that a file system shares between files of their own (clones) cannot be told from outside and count twice.
"""

import contextlib
import os
import shutil
import stat
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from app.core.library import DiskUse, Drive, Folder, FolderKind, ModelHolding
from app.core.models import ModelInfo
from app.hub.disk.trash import Trash
from app.hub.disk.trash_contents import find_in_trash
from app.hub.disk.verification import files_of

ELSEWHERE = "Single files"
"""Where models are that were imported one by one."""
_AWAY = "It is missing: its drive is not connected, or it was moved. Its models are listed again once it is back."
_NO_FOLDER = "It is a file, not a folder."
_CLOSED = "This account has no permission to read it."
_CLOSED_ON_A_MAC = (
    "Roundhouse has no permission to read it. Allow it in System Settings, Privacy & Security, Files and Folders."
)


class SearchFolder(NamedTuple):
    """A folder that is looked through, before anything is known of it."""

    path: Path
    kind: FolderKind
    title: str


class _DiskFile(NamedTuple):
    """One content on a disk: however many names it has, it is there once."""

    device: int
    inode: int
    size: int


def disk_use(models: Iterable[ModelInfo], folders: Sequence[SearchFolder], trash: Trash) -> DiskUse:
    """Return what lies where. Blocks: a `stat` for each file."""
    here = [model for model in models if not (model.attached or model.is_builtin or _is_made(model))]
    files = {model.name: list(_list_files(model)) for model in here}
    users = Counter(file for own in files.values() for file in set(own))
    drives = _Drives(trash)
    holdings = [_build_holding(model, files[model.name], users, folders, drives) for model in here]
    all_files = {file for own in files.values() for file in own}
    return DiskUse(
        drives=drives.list_drives(folders, all_files),
        folders=[_build_folder(folder, holdings) for folder in folders],
        holdings=sorted(holdings, key=lambda folder: (-folder.size_bytes, folder.title.casefold())),
        saved_bytes=sum(file.size * (count - 1) for file, count in users.items()),
    )


def problem_of(folder: Path) -> str:
    """Return why a folder cannot be looked through, in a sentence; empty if it can."""
    try:
        with os.scandir(folder) as entries:
            next(entries, None)
    except FileNotFoundError:
        return _AWAY
    except NotADirectoryError:
        return _NO_FOLDER
    except PermissionError:
        return _CLOSED_ON_A_MAC if sys.platform == "darwin" else _CLOSED
    except OSError as error:
        return f"It cannot be read: {error.strerror or error}."
    return ""


def _is_made(model: ModelInfo) -> bool:
    return model.preset is not None and bool(model.preset.base)


def _list_files(model: ModelInfo) -> Iterator[_DiskFile]:
    with contextlib.suppress(OSError):
        for path in files_of(model):
            with contextlib.suppress(OSError):
                status = path.stat()
                if stat.S_ISREG(status.st_mode):
                    yield _DiskFile(status.st_dev, status.st_ino, status.st_size)


def _build_holding(
    model: ModelInfo,
    files: list[_DiskFile],
    users: Counter[_DiskFile],
    folders: Sequence[SearchFolder],
    drives: "_Drives",
) -> ModelHolding:
    own, around = set(files), _innermost_folder(Path(model.path), folders)
    return ModelHolding(
        model=model.name,
        title=model.title,
        place=around.title if around else model.store or ELSEWHERE,
        folder=str(around.path) if around else "",
        drive=drives.drive_of(Path(model.path), files),
        size_bytes=sum(file.size for file in own),
        shared_bytes=sum(file.size for file in own if users[file] > 1),
    )


def _innermost_folder(path: Path, folders: Sequence[SearchFolder]) -> SearchFolder | None:
    """Return the innermost folder a model lies in."""
    around = [folder for folder in folders if path.is_relative_to(folder.path)]
    return max(around, key=lambda folder: len(folder.path.parts), default=None)


def _build_folder(search_folder: SearchFolder, holdings: Iterable[ModelHolding]) -> Folder:
    inside = [held_model for held_model in holdings if held_model.folder == str(search_folder.path)]
    return Folder(
        path=str(search_folder.path),
        kind=search_folder.kind,
        title=search_folder.title,
        models=len(inside),
        size_bytes=sum(held_model.size_bytes for held_model in inside),
        problem=problem_of(search_folder.path)
        if inside or search_folder.kind is FolderKind.NAMED or search_folder.path.exists()
        else "",
    )


class _Drives:
    """The disks, by their device numbers, each found once."""

    def __init__(self, trash: Trash) -> None:
        self._trash = trash
        self._tops: dict[int, Path] = {}

    def drive_of(self, path: Path, files: Sequence[_DiskFile]) -> str:
        """Return where the disk of a model begins; empty if none of its files is there."""
        if not files:
            return ""
        return str(self._find_top(path.resolve(), files[0].device))

    def list_drives(self, folders: Iterable[SearchFolder], all_files: Iterable[_DiskFile]) -> list[Drive]:
        """Return every disk that has models, or a folder for them."""
        for folder in folders:
            with contextlib.suppress(OSError):
                self._find_top(folder.path.resolve(), folder.path.stat().st_dev)
        sizes: dict[int, int] = defaultdict(int)
        for file in all_files:
            sizes[file.device] += file.size
        return sorted(
            (self._build_drive(top, sizes[device]) for device, top in self._tops.items()),
            key=lambda drive: (-drive.models_bytes, drive.path),
        )

    def _find_top(self, path: Path, device: int) -> Path:
        if device not in self._tops:
            top = path
            with contextlib.suppress(OSError):
                while top.parent != top and top.parent.stat().st_dev == device:
                    top = top.parent
            self._tops[device] = top
        return self._tops[device]

    def _build_drive(self, top: Path, models_bytes: int) -> Drive:
        try:
            usage = shutil.disk_usage(top)
        except OSError:
            return Drive(path=str(top), models_bytes=models_bytes)
        return Drive(
            path=str(top),
            total_bytes=usage.total,
            free_bytes=usage.free,
            models_bytes=models_bytes,
            trash_bytes=self._trash.size_on(top),
            trashed=find_in_trash(self._trash, top).contents,
        )
