"""What models take of the disks: the folders that are looked through, who lies in them, and who is in the trash."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.core.disk import DiskUse, FolderKind
from app.core.errors import Conflict
from app.gateway.loading.launch import model_folders
from app.gateway.services import Services
from app.hub.disk.trash import Trash
from app.hub.disk.trashed import Entry, found_on
from app.hub.disk.usage import Looked, disk_use
from app.hub.library.stores import stores


def used(services: Services, trash: Trash) -> DiskUse:
    """Return what lies where. Blocks; call it from a thread."""
    return disk_use(services.library.models(), list(_looked(services)), trash)


def in_trash(services: Services, trash: Trash, digests: Sequence[str]) -> tuple[list[Entry], int]:
    """Return the models in the trash that digests stand for, and what is free without them. Blocks.

    Raises Conflict where the trash is not ours to empty, or is no longer what the digests stood for (trash_changed).
    """
    trash.check_ours()
    folders = [one.path for one in _looked(services)]
    found = [found_on(trash, Path(drive.path), folders) for drive in used(services, trash).drives]
    known = {one.told.digest: (one.entries, one.told.size_bytes) for one in found if one.told is not None}
    if not digests or not known.keys() >= set(digests):
        raise Conflict(
            "The models in the trash are no longer those that were named.",
            hint="Look again at what there is: roundhouse disk.",
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
        yield Looked(folder, *known.get(folder, (FolderKind.NAMED, _title(folder, is_only=names[folder.name] == 1))))
    if services.settings.flag("models.other_programs"):
        yield from (Looked(store.folder, FolderKind.OTHER, store.title) for store in stores(services.home))


def _title(folder: Path, *, is_only: bool) -> str:
    """Return what a folder is called: half of all model folders are called "models"."""
    parts = folder.parts[-1:] if is_only else folder.parts[-2:]
    return str(Path(*parts))
