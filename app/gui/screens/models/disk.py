"""What models take of the disks, as the page shows it: state, and the words and pieces to draw."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from app.core import words
from app.core.events import Event, ModelsChanged, SettingChanged
from app.core.library import DiskUse, Drive, Folder, FolderKind, ModelHolding, TrashContents
from app.core.translation import tr, tr_plural
from app.gui.net.api import GatewayApi
from app.gui.net.remote import RemoteStore
from app.gui.shell.contract import Shell
from app.gui.theme.tokens import PARTS
from app.gui.widgets.bars import BarPart
from app.gui.widgets.treemap import TreemapCell, TreemapGroup

_OTHERS, _TRASH, _TRASHED = "edge", "ink-2", "ink"
_MOST_CELLS = 60
"""Beyond that no part could be told from another: the smallest are one."""
_LEAST_SHARE = 0.004
_PATH = "/library/disk"


class DiskStore(RemoteStore[DiskUse]):
    """Read when it is first looked at, and again when models or folders changed while somebody looks."""

    is_open = False
    """Whether somebody looks."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, _PATH, DiskUse)

    def open(self) -> None:
        """Begin to keep it up to date."""
        self.is_open = True
        self.read()

    def close(self) -> None:
        """Stop asking: nobody looks."""
        self.is_open = False

    def refresh(self) -> None:
        """Read anew if somebody looks."""
        if self.is_open:
            super().refresh()

    def read_anew(self) -> None:
        """Read what another gateway says, if somebody looks."""
        if self.is_open:
            super().read_anew()

    def is_outdated_by(self, event: Event) -> bool:
        """Tell whether there are other models, or others are looked for."""
        is_folders = isinstance(event, SettingChanged) and event.name in {"models.folders", "models.other_programs"}
        return is_folders or isinstance(event, ModelsChanged)

    def look(self, folder: Path, then: Callable[[str], object]) -> None:
        """Ask why a folder cannot be looked through; `then` is told so in a sentence, or nothing where it can be."""

        def take_use(use: DiskUse) -> None:
            self.replace(use)
            then(next((place.problem for place in use.folders if Path(place.path) == folder), ""))

        self.api.get(_PATH, DiskUse, take_use, lambda _error: then(""))


def place_colors(use: DiskUse) -> dict[str, str]:
    """Return a colour for each place, the largest first; from the seventh on they share one."""
    totals: dict[str, int] = defaultdict(int)
    for model_files in use.holdings:
        totals[model_files.place] += model_files.size_bytes
    ordered_places = sorted(totals, key=lambda place: (-totals[place], place))
    return {place: PARTS[min(at, len(PARTS) - 1)] for at, place in enumerate(ordered_places)}


def treemap_groups(use: DiskUse) -> list[TreemapGroup]:
    """Return the models by place; those too small to be seen are one part of their place."""
    by_place: dict[str, list[ModelHolding]] = defaultdict(list)
    for model_files in use.holdings:
        if model_files.size_bytes:
            by_place[model_files.place].append(model_files)
    least = _least_size(use.holdings)
    return [
        TreemapGroup(place, color, _make_cells(by_place[place], least)) for place, color in place_colors(use).items()
    ]


def drive_pieces(drive: Drive, use: DiskUse) -> list[tuple[BarPart, str]]:
    """Return what takes a drive, with words: models by place, its trash, and all else."""
    totals: dict[str, int] = defaultdict(int)
    for model_files in use.holdings:
        totals[model_files.place] += model_files.size_bytes if model_files.drive == drive.path else 0
    scale = drive.models_bytes / sum(totals.values()) if sum(totals.values()) else 0.0  # what is shared counts once
    parts = [
        (BarPart(place, totals[place] * scale, color), f"{place}, {words.format_bytes(round(totals[place] * scale))}")
        for place, color in place_colors(use).items()
        if totals[place]
    ]
    parts += _trash_pieces(drive)
    others = _other_bytes(drive)
    if others:
        text = tr("Other files, {size}", size=words.format_bytes(others))
        parts.append((BarPart(tr("Other files"), others, _OTHERS), text))
    return parts


def trash_offer(trash_contents: TrashContents) -> str:
    """Return what the button says that empties the trash of models."""
    return tr("Delete removed models permanently, {size}", size=words.format_bytes(trash_contents.size_bytes))


def trash_action(trash_contents: TrashContents) -> str:
    """Return what the button says that answers the question."""
    return tr_plural("Delete {count:,} file permanently", "Delete {count:,} files permanently", trash_contents.files)


def trash_warning(drive: Drive, trash_contents: TrashContents) -> str:
    """Return what is asked before models in the trash are deleted."""
    files = words.describe_trash(trash_contents.files, trash_contents.size_bytes)
    if drive.path == "/":
        return tr(
            "{files} will be deleted from the trash on this computer. This cannot be undone. Everything else in the "
            "trash stays.",
            files=files,
        )
    return tr(
        "{files} will be deleted from the trash on {drive}. This cannot be undone. Everything else in the trash stays.",
        files=files,
        drive=drive.path,
    )


def drive_headline(drive: Drive) -> str:
    """Return how much of a drive is free."""
    if drive.total_bytes is None:
        return tr("size unknown")
    return tr(
        "{free} free of {total}",
        free=words.format_bytes(drive.free_bytes),
        total=words.format_bytes(drive.total_bytes),
    )


def drive_name(drive: Drive) -> str:
    """Return what a drive is called: where it begins."""
    return tr("This computer") if drive.path == "/" else drive.path


def disk_summary(use: DiskUse) -> list[tuple[str, str]]:
    """Return the figures that matter, with their names."""
    models = sum(drive.models_bytes for drive in use.drives)
    trash_sizes = [drive.trash_bytes for drive in use.drives if drive.trash_bytes is not None]
    figures = [(words.format_bytes(models), tr("used by models"))]
    if use.saved_bytes:
        figures.append((words.format_bytes(use.saved_bytes), tr("saved by sharing")))
    figures.append((words.format_bytes(sum(trash_sizes)) if trash_sizes else tr("unknown"), tr("in the trash")))
    return figures


def folder_facts(folder: Folder) -> str:
    """Return the quiet line of a folder."""
    if not folder.models:
        return f"{tr('no models')} · {folder.path}"
    count = tr_plural("{count} model", "{count} models", folder.models)
    return f"{count}, {words.format_bytes(folder.size_bytes)} · {folder.path}"


def can_remove(folder: Folder) -> bool:
    """Whether a person named it, and so can take it out again."""
    return folder.kind is FolderKind.NAMED


def _trash_pieces(drive: Drive) -> list[tuple[BarPart, str]]:
    """Return what lies in a drive's trash: models, and whatever else."""
    trashed_bytes = min(drive.trashed.size_bytes, drive.trash_bytes or 0) if drive.trashed else 0
    rest = (drive.trash_bytes or 0) - trashed_bytes
    size, rest_size = words.format_bytes(trashed_bytes), words.format_bytes(rest)
    rest_text = tr("Other trash, {size}", size=rest_size) if trashed_bytes else tr("Trash, {size}", size=rest_size)
    parts = [
        (BarPart(tr("Removed models"), trashed_bytes, _TRASHED), tr("Removed models in the trash, {size}", size=size)),
        (BarPart(tr("Trash"), rest, _TRASH), rest_text),
    ]
    return [(part, text) for part, text in parts if part.amount]


def _least_size(holdings: Sequence[ModelHolding]) -> float:
    """Return the size below which models are too small to be drawn."""
    sizes = sorted((model_files.size_bytes for model_files in holdings), reverse=True)
    limit = sizes[_MOST_CELLS] if len(sizes) > _MOST_CELLS else 0
    return max(limit, sum(sizes) * _LEAST_SHARE)


def _make_cells(holdings: Sequence[ModelHolding], least: float) -> list[TreemapCell]:
    large = [model_files for model_files in holdings if model_files.size_bytes >= least]
    small = [model_files for model_files in holdings if model_files.size_bytes < least]
    cells = [
        TreemapCell(model_files.model, model_files.title, model_files.size_bytes, _size_words(model_files))
        for model_files in large
    ]
    if small:
        total = sum(model_files.size_bytes for model_files in small)
        cells.append(TreemapCell("", tr("{count} smaller", count=len(small)), total, words.format_bytes(total)))
    return sorted(cells, key=lambda cell: -cell.amount)


def _size_words(model_files: ModelHolding) -> str:
    size = words.format_bytes(model_files.size_bytes)
    return tr("{size}, shared", size=size) if model_files.shared_bytes else size


def _other_bytes(drive: Drive) -> int:
    """Return what neither models nor the trash take of a drive."""
    if drive.total_bytes is None or drive.free_bytes is None:
        return 0
    return max(0, drive.total_bytes - drive.free_bytes - drive.models_bytes - (drive.trash_bytes or 0))
