"""Taking a model's files away: what belongs to it and to nobody else, and the way back.

In the hub's cache a model's content is a blob and its names are links in snapshots; what another snapshot still needs
stays. Files of other programs' stores are never touched: those programs would look for them.
"""

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from app.core.errors import Conflict, StorageFault
from app.core.library import Removal
from app.core.models import ModelInfo
from app.hub.candidates import candidate_for
from app.hub.pulled import origin_of
from app.hub.trash import Trash


class Belongings(msgspec.Struct, frozen=True, kw_only=True):
    """The files of one model: `contents` hold bytes, `links` lead to them; `tidied` are folders that may be empty."""

    contents: list[Path]
    links: list[Path] = []
    tidied: list[Path] = []
    left: list[str] = []

    @property
    def frees_bytes(self) -> int:
        """What is free once they are gone: what has a further name elsewhere stays on the disk."""
        return sum(status.st_size for file in self.contents if (status := file.stat()).st_nlink == 1)


class Undo(msgspec.Struct, frozen=True, kw_only=True):
    """What brings a removed model back."""

    kept: list[tuple[Path, Path]]
    """Where a file is in the trash, and where it was."""
    links: list[tuple[Path, str]]
    notes: list[tuple[Path, str]]
    """Small files that named what is gone, and what they said."""


def check_removable(model: ModelInfo) -> None:
    """Raise Conflict for a model whose files are not ours to remove, with where that is done."""
    if model.is_builtin:
        raise Conflict("The Guide is part of Roundhouse and cannot be removed.")
    if model.attached:
        raise Conflict(f"{model.name} runs elsewhere.", hint=f"Take it off the list: roundhouse detach {model.name}")
    if model.store:
        raise Conflict(f"{model.name} is kept by {model.store}.", hint=f"Remove it in {model.store}.")
    if model.preset is not None and model.preset.base:
        raise Conflict(
            f"{model.name} is a name for the weights of {model.preset.base}.", hint="Remove that, or forget the name."
        )


def belongings(model: ModelInfo) -> Belongings:
    """Return the files of a model. Raises Conflict as `check_removable`, StorageFault if they cannot be looked at."""
    check_removable(model)
    path = Path(model.path)
    try:
        origin = origin_of(path)
        if origin is not None:
            repository = path.parents[len(Path(origin.path).parts)].parent
            return _cached(repository, path)
        return _plain(path)
    except OSError as error:
        raise StorageFault(f"{model.name} cannot be looked at: {error.strerror or error}.") from error


def planned(model: ModelInfo, models: Iterable[ModelInfo], aliases: Iterable[str]) -> Removal:
    """Return what removing a model takes away, and whom it concerns. Raises as `belongings`."""
    found = belongings(model)
    return Removal(
        model=model.name,
        files=[str(file) for file in (*found.contents, *found.links)],
        frees_bytes=found.frees_bytes,
        made_models=[one.name for one in models if one.path == model.path and one.name != model.name],
        aliases=[alias for alias in aliases if alias.rpartition("=")[2].strip().casefold() == model.name.casefold()],
        left=found.left,
    )


def remove(found: Belongings, trash: Trash | None) -> Undo:
    """Take the files away, to the trash or for good; return the way back. Raises StorageFault, and has undone it."""
    undo = Undo(kept=[], links=[], notes=[])
    try:
        for link in found.links:
            undo.links.append((link, str(link.readlink())))
            link.unlink()
        for file in found.contents:
            if trash is None:
                file.unlink()
            elif (kept := trash.put(file)) is not None:
                undo.kept.append((kept, file))
        for folder in found.tidied:
            _tidy(folder, undo)
    except (OSError, StorageFault) as error:
        with contextlib.suppress(OSError, StorageFault):
            restore(undo, trash or Trash(Path()))
        if isinstance(error, StorageFault):
            raise
        raise StorageFault(f"The files could not be removed: {error.strerror or error}.") from error
    return undo


def restore(undo: Undo, trash: Trash) -> None:
    """Bring everything back. Raises StorageFault, and leaves in the trash what could not be."""
    for kept, original in undo.kept:
        trash.restore(kept, original)
    try:
        for link, target in undo.links:
            link.parent.mkdir(parents=True, exist_ok=True)
            if not os.path.lexists(link):
                link.symlink_to(target)
        for file, said in undo.notes:
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(said, encoding="utf-8")
    except OSError as error:
        raise StorageFault(f"Not all could be brought back: {error.strerror or error}.") from error


def _plain(path: Path) -> Belongings:
    """Return the files of a model in a folder of its own, or of one file and its further parts."""
    if not path.is_dir():
        return Belongings(contents=[part for part in candidate_for(path).parts if os.path.lexists(part)])
    files = sorted(file for file in path.iterdir() if file.is_file() and file.suffix.lower() != ".gguf")
    others = sorted(file.name for file in path.iterdir() if file not in files)
    left = [f"{', '.join(others)} in {path.name} stays: it is not part of this model."] if others else []
    return Belongings(contents=files, tidied=[path], left=left)


def _cached(repository: Path, path: Path) -> Belongings:
    """Return a model's blobs, the links to them, and what other snapshots need of them."""
    links = _names(path)
    wanted = {link.resolve() for link in links}
    all_links = [name for name in (repository / "snapshots").rglob("*") if name.is_symlink()]
    if not path.is_dir():  # the same file in several snapshots is the same model, and is listed once
        links = sorted({*links, *(link for link in all_links if link.resolve() in wanted)})
    needed = {link.resolve() for link in all_links if link not in links}
    contents = sorted(wanted - needed)
    shared = len(wanted & needed)
    return Belongings(
        contents=[file for file in contents if file.is_file()],
        links=[link for link in links if link.is_symlink()],
        tidied=sorted(
            {parent for link in links for parent in _within(link, repository)}, key=lambda one: -len(one.parts)
        ),
        left=[f"{shared} of its files stay: other versions in the hub's cache need them."] if shared else [],
    )


def _names(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.is_file() and file.suffix.lower() != ".gguf")
    return [part for part in candidate_for(path).parts if os.path.lexists(part)]


def _within(link: Path, repository: Path) -> Sequence[Path]:
    """Return the folders from a link's own up to its snapshot."""
    depth = len(link.relative_to(repository).parts) - 2
    return link.parents[:depth]


def _tidy(folder: Path, undo: Undo) -> None:
    """Remove a folder that nothing is left in, and the branch that named it, where it was a snapshot."""
    if any(folder.iterdir()):
        return
    folder.rmdir()
    if folder.parent.name == "snapshots":
        for reference in (folder.parent.parent / "refs").rglob("*"):
            if reference.is_file() and (said := reference.read_text(encoding="utf-8")).strip() == folder.name:
                undo.notes.append((reference, said))
                reference.unlink()
