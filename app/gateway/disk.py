"""What models take of the disks: the folders that are looked through, and who lies in them."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from app.core.disk import DiskUse, FolderKind
from app.gateway.launch import model_folders
from app.gateway.services import Services
from app.hub.disk import Looked, disk_use
from app.hub.stores import stores
from app.hub.trash import Trash


def used(services: Services, trash: Trash) -> DiskUse:
    """Return what lies where. Blocks; call it from a thread."""
    return disk_use(services.library.models(), list(_looked(services)), trash)


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
