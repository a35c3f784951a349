"""Taking a model's files away: what belongs to it and to nobody else, and the way back.

In the hub's cache a model's content is a blob and its names are links in snapshots; what another snapshot still needs
stays. A projector goes with the last model it belongs to. Files of other programs' stores are never touched: those
programs would look for them.
"""

import contextlib
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from app.core.errors import Conflict, NotFound, StorageFault
from app.core.hub import origin_of
from app.core.library import Removal
from app.core.models import ModelInfo
from app.hub.disk.trash import FileStamp, Trash, stamp_of
from app.hub.library.candidates import candidate_for
from app.hub.library.companions import models_with, projectors_beside, why_no_projector


class RemovableFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files of one model: `contents` hold bytes, `links` lead to them; `tidied` are folders that may be empty."""

    contents: list[Path]
    links: list[Path] = []
    tidied: list[Path] = []
    left: list[str] = []
    projectors: list[str] = []
    """What those of the files are called that let it see."""

    @property
    def frees_bytes(self) -> int:
        """What is free once they are gone: what has a further name elsewhere stays on the disk."""
        statuses = [file.lstat() for file in self.contents]
        return sum(status.st_size for status in statuses if status.st_nlink == 1 and stat.S_ISREG(status.st_mode))


class OtherModels(msgspec.Struct, frozen=True, kw_only=True):
    """The models beside one that is to go: what each is called by its path, and who was given which projector."""

    names: dict[str, str] = {}
    chosen: dict[str, str] = {}

    @classmethod
    def from_models(cls, model: ModelInfo, models: Iterable[ModelInfo], projectors: Mapping[str, str]) -> "OtherModels":
        """Return them, of all models here and the projectors that are set, by the names that models run under."""
        others = [other for other in models if other.path != model.path]
        running_models = {other.runs_as: other.name for other in others}
        return cls(
            names={os.path.realpath(other.path): other.name for other in others},
            chosen={path: running_models[name] for name, path in projectors.items() if name in running_models},
        )

    def users_of(self, projector: Path, own: Iterable[Path]) -> list[str]:
        """Return who but a model of these files needs a projector, in words. Raises OSError."""
        beside = models_with(projector) - {candidate_for(file).first for file in own}
        place = os.path.realpath(projector)
        chosen_names = {name for path, name in self.chosen.items() if os.path.realpath(path) == place}
        return sorted({self.names.get(os.path.realpath(file), file.stem) for file in beside} | chosen_names)


_ALONE = OtherModels()


class _ProjectorSplit(NamedTuple):
    """Projectors that go with a model, and what is said of those that do not."""

    going: list[Path]
    left: list[str]


class FileInTrash(msgspec.Struct, frozen=True):
    """A file in the trash: where it is, where it was, and what tells it from another of its name."""

    place: Path
    original: Path
    stamp: FileStamp | None


class RemovalUndo(msgspec.Struct, frozen=True, kw_only=True):
    """What brings a removed model back."""

    kept: list[FileInTrash]
    links: list[tuple[Path, str]]
    notes: list[tuple[Path, str]]
    """Small files that named what is gone, and what they said."""


def check_removable(model: ModelInfo) -> None:
    """Raise Conflict for a model whose files are not ours to remove, with where that is done."""
    if model.is_builtin:
        raise Conflict("The Guide is part of Roundhouse and cannot be removed.")
    if model.attached:
        raise Conflict(f"{model.name} runs elsewhere.", hint=f"Remove it from the list: roundhouse detach {model.name}")
    if model.store:
        raise Conflict(f"{model.name} belongs to {model.store}.", hint=f"Remove it in {model.store}.")
    if model.preset is not None and model.preset.base:
        raise Conflict(
            f"{model.name} is another name for the weights of {model.preset.base}.",
            hint="Remove that model, or only this name.",
        )


def collect_files(model: ModelInfo, others: OtherModels = _ALONE) -> RemovableFiles:
    """Return the files of a model. Raises Conflict as `check_removable`, StorageFault if they cannot be looked at."""
    check_removable(model)
    path = Path(model.path)
    try:
        origin = origin_of(path)
        if origin is not None:
            repository = path.parents[len(Path(origin.path).parts)].parent
            return _files_in_cache(repository, path, others)
        return _plain_files(path, others)
    except OSError as error:
        raise StorageFault(f"{model.name} cannot be examined: {error.strerror or error}.") from error


def plan_removal(
    model: ModelInfo, models: Sequence[ModelInfo], *, aliases: Iterable[str], chosen_projectors: Mapping[str, str]
) -> Removal:
    """Return what removing a model takes away, and whom it concerns. Raises as `collect_files`.

    `chosen` is as for `OtherModels.from_models`.
    """
    model_files = collect_files(model, OtherModels.from_models(model, models, chosen_projectors))
    return Removal(
        model=model.name,
        files=[str(file) for file in (*model_files.contents, *model_files.links)],
        projectors=model_files.projectors,
        frees_bytes=model_files.frees_bytes,
        made_models=[other.name for other in models if other.path == model.path and other.name != model.name],
        aliases=[alias for alias in aliases if alias.rpartition("=")[2].strip().casefold() == model.name.casefold()],
        left=model_files.left,
    )


def remove_files(model_files: RemovableFiles, trash: Trash | None) -> RemovalUndo:
    """Take the files away, to the trash or for good; return the way back. Raises StorageFault, and has undone it."""
    undo = RemovalUndo(kept=[], links=[], notes=[])
    try:
        for link in model_files.links:
            undo.links.append((link, str(link.readlink())))
            link.unlink()
        for file in model_files.contents:
            if trash is None:
                file.unlink()
            elif (trash_path := trash.put_file(file)) is not None:
                undo.kept.append(FileInTrash(trash_path, file, stamp_of(trash_path)))
        for folder in model_files.tidied:
            _remove_if_empty(folder, undo)
    except (OSError, StorageFault) as error:
        with contextlib.suppress(OSError, NotFound, StorageFault):
            restore_files(undo, trash or Trash(Path()))
        if isinstance(error, StorageFault):
            raise
        raise StorageFault(f"The files could not be removed: {error.strerror or error}.") from error
    return undo


def restore_files(undo: RemovalUndo, trash: Trash) -> None:
    """Bring everything back. Raises NotFound (not_in_trash) or StorageFault, and leaves in the trash what is there.

    Nothing is half brought back: that all can be is looked at first.
    """
    with trash.lock:
        _check_restorable(undo)
        for entry in undo.kept:
            trash.restore_file(entry.place, entry.original)
    try:
        for link, target in undo.links:
            link.parent.mkdir(parents=True, exist_ok=True)
            if not os.path.lexists(link):
                link.symlink_to(target)
        for file, content in undo.notes:
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content, encoding="utf-8")
    except OSError as error:
        raise StorageFault(f"Not everything could be restored: {error.strerror or error}.") from error


def _check_restorable(undo: RemovalUndo) -> None:
    names = [entry.original.name for entry in undo.kept if stamp_of(entry.place) != entry.stamp]
    if names:
        rest = f"The other {len(undo.kept) - len(names)} files were restored." if len(names) < len(undo.kept) else ""
        raise NotFound(
            f"Nothing was restored: {', '.join(names)} {'are' if len(names) > 1 else 'is'} no longer in the trash.",
            hint=f"The model can be downloaded again. {rest}".strip(),
            code="not_in_trash",
        )
    for entry in undo.kept:
        if os.path.lexists(entry.original):
            raise StorageFault(
                f"Nothing was restored: there is now another {entry.original.name}.",
                hint=f"Move {entry.original} elsewhere first.",
            )


def _plain_files(path: Path, others: OtherModels) -> RemovableFiles:
    """Return the files of a model in a folder of its own, or of one file and its further parts."""
    if not path.is_dir():
        parts = _own_files(path)
        split = _split_projectors(projectors_beside(path), parts, others)
        return RemovableFiles(
            contents=[*parts, *split.going],
            left=split.left,
            projectors=[file.name for file in split.going],
        )
    files = _own_files(path)
    rest = sorted(file.name for file in path.iterdir() if file not in files)
    left_notes = [f"{', '.join(rest)} in {path.name} stays: it is not part of this model."] if rest else []
    return RemovableFiles(contents=files, tidied=[path], left=left_notes)


def _files_in_cache(repository: Path, path: Path, others: OtherModels) -> RemovableFiles:
    """Return a model's blobs, the links to them, and what other snapshots need of them.

    A link that leads out of the repository is only a name: what it leads to is somebody else's, and stays.
    """
    own = repository.resolve()
    links = _own_files(path)
    own_targets = {link.resolve() for link in links}
    all_links = [name for name in (repository / "snapshots").rglob("*") if name.is_symlink()]
    split = _ProjectorSplit([], [])
    if not path.is_dir():  # the same file in several snapshots is the same model, and is listed once
        links = sorted({*links, *(link for link in all_links if link.resolve() in own_targets)})
        split = _split_projectors(_projectors_in_cache(links, all_links), links, others)
    going_paths = [*links, *split.going]
    needed_targets = {link.resolve() for link in all_links if link not in going_paths}
    contents = sorted(
        file for file in {name.resolve() for name in going_paths} - needed_targets if file.is_relative_to(own)
    )
    shared_count = len(own_targets & needed_targets)
    left_notes = (
        [f"{shared_count} of its files stay: other versions in the hub's cache need them."] if shared_count else []
    )
    return RemovableFiles(
        contents=[file for file in contents if file.is_file()],
        links=[link for link in going_paths if link.is_symlink()],
        tidied=sorted(
            {parent for item in going_paths for parent in _folders_within(item, repository)},
            key=lambda item: -len(item.parts),
        ),
        left=[*left_notes, *split.left],
        projectors=sorted({item.name for item in split.going if item.resolve() in contents}),
    )


def _projectors_in_cache(links: Iterable[Path], all_links: Iterable[Path]) -> list[Path]:
    """Return the projectors beside a cached model, under all names that they have in the repository."""
    beside = {file for link in links for file in projectors_beside(link)}
    contents = {file.resolve() for file in beside}
    return sorted({*beside, *(link for link in all_links if link.resolve() in contents)})


def _split_projectors(projectors: Iterable[Path], own: Sequence[Path], others: OtherModels) -> _ProjectorSplit:
    """Tell projectors that only a model of these files needs from those that others need too."""
    going_projectors, kept_projectors = [], {}
    for file in projectors:
        if why_no_projector(file):
            continue
        if users := others.users_of(file, own):
            kept_projectors[file.name] = (
                f"{file.name} stays: {' and '.join(users)} {'needs' if len(users) == 1 else 'need'} it."
            )
        else:
            going_projectors.append(file)
    return _ProjectorSplit(going_projectors, list(kept_projectors.values()))


def _own_files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.is_file() and file.suffix.lower() != ".gguf")
    return [part for part in candidate_for(path).parts if os.path.lexists(part)]


def _folders_within(link: Path, repository: Path) -> Sequence[Path]:
    """Return the folders from a link's own up to its snapshot."""
    depth = len(link.relative_to(repository).parts) - 2
    return link.parents[:depth]


def _remove_if_empty(folder: Path, undo: RemovalUndo) -> None:
    """Remove a folder that nothing is left in, and the branch that named it, where it was a snapshot."""
    if any(folder.iterdir()):
        return
    folder.rmdir()
    if folder.parent.name == "snapshots":
        for reference in (folder.parent.parent / "refs").rglob("*"):
            if reference.is_file() and (content := reference.read_text(encoding="utf-8")).strip() == folder.name:
                undo.notes.append((reference, content))
                reference.unlink()
