"""Whether the hub has other content than lies here, under the names of a model that came from it.

Both sides name content by its hash: the hub in its list of files, its cache here in the names of blobs.
"""

import contextlib
import re
from pathlib import Path

from msgspec.structs import replace

from app.core.library import Freshness, ModelUpdate
from app.core.models import ModelInfo
from app.core.origins import Origin
from app.hub.disk.verification import files_of
from app.hub.library.candidates import split_stem
from app.hub.repositories.repository import RepoFile, Repository
from app.hub.repositories.variants import quantization_of

_HASH = re.compile(r"[0-9a-f]{64}|[0-9a-f]{40}")


def initial_update(model: ModelInfo, origin: Origin, note: str = "") -> ModelUpdate:
    """Return what is known before the hub was asked."""
    path = Path(model.path)
    return ModelUpdate(
        model=model.name,
        repository=origin.repository,
        revision=_find_branch(_snapshot_folder(path, origin)),
        quantization="" if path.is_dir() else quantization_of(split_stem(path.name)) or model.quantization,
        state=Freshness.UNKNOWN,
        note=note,
    )


def compare_with_hub(model: ModelInfo, origin: Origin, there: Repository) -> ModelUpdate:
    """Return how what is here compares with a revision of its repository."""
    snapshot = _snapshot_folder(Path(model.path), origin)
    known = replace(initial_update(model, origin), modified=there.modified)
    pairs = [(file, there.find_file(file.relative_to(snapshot).as_posix())) for file in files_of(model)]
    matched_pairs = [(file, hub_file) for file, hub_file in pairs if hub_file is not None]
    if not matched_pairs:
        return replace(known, state=Freshness.GONE, note="The hub no longer has these files.")
    others = [hub_file for file, hub_file in matched_pairs if _is_other(file, hub_file)]
    if others:
        size = sum(hub_file.size for hub_file in others)
        return replace(known, state=Freshness.NEWER, files=[hub_file.path for hub_file in others], download_bytes=size)
    if not all(_HASH.fullmatch(file.resolve().name) for file, _ in matched_pairs):
        return replace(known, note="Only its size could be compared, which is the same.")
    return replace(known, state=Freshness.CURRENT)


def _is_other(file: Path, there: RepoFile) -> bool:
    file_name = file.resolve().name
    if there.etag and _HASH.fullmatch(file_name) and len(file_name) == len(there.etag):
        return file_name != there.etag
    return file.stat().st_size != there.size


def _snapshot_folder(path: Path, origin: Origin) -> Path:
    return path if path.is_dir() else path.parents[len(Path(origin.path).parts) - 1]


def _find_branch(snapshot: Path) -> str:
    """Return the branch that points to a snapshot; the default one for a snapshot that a branch has moved on from."""
    references = snapshot.parent.parent / "refs"
    for reference in sorted(references.rglob("*")):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if reference.is_file() and reference.read_text(encoding="ascii").strip() == snapshot.name:
                return reference.relative_to(references).as_posix()
    return "main"
