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
from app.hub.disk.verifying import files_of
from app.hub.library.candidates import split_stem
from app.hub.repositories.repository import RepoFile, Repository
from app.hub.repositories.variants import quantization_of

_HASH = re.compile(r"[0-9a-f]{64}|[0-9a-f]{40}")


def asked(model: ModelInfo, origin: Origin, note: str = "") -> ModelUpdate:
    """Return what is known before the hub was asked."""
    path = Path(model.path)
    return ModelUpdate(
        model=model.name,
        repository=origin.repository,
        revision=_branch(_snapshot(path, origin)),
        quantization="" if path.is_dir() else quantization_of(split_stem(path.name)) or model.quantization,
        state=Freshness.UNKNOWN,
        note=note,
    )


def compared(model: ModelInfo, origin: Origin, there: Repository) -> ModelUpdate:
    """Return how what is here compares with a revision of its repository."""
    snapshot = _snapshot(Path(model.path), origin)
    known = replace(asked(model, origin), modified=there.modified)
    pairs = [(file, there.file(file.relative_to(snapshot).as_posix())) for file in files_of(model)]
    found = [(file, one) for file, one in pairs if one is not None]
    if not found:
        return replace(known, state=Freshness.GONE, note="The hub no longer has these files.")
    others = [one for file, one in found if _is_other(file, one)]
    if others:
        size = sum(one.size for one in others)
        return replace(known, state=Freshness.NEWER, files=[one.path for one in others], download_bytes=size)
    if not all(_HASH.fullmatch(file.resolve().name) for file, _ in found):
        return replace(known, note="Only its size could be compared, which is the same.")
    return replace(known, state=Freshness.CURRENT)


def _is_other(file: Path, there: RepoFile) -> bool:
    named = file.resolve().name
    if there.etag and _HASH.fullmatch(named) and len(named) == len(there.etag):
        return named != there.etag
    return file.stat().st_size != there.size


def _snapshot(path: Path, origin: Origin) -> Path:
    return path if path.is_dir() else path.parents[len(Path(origin.path).parts) - 1]


def _branch(snapshot: Path) -> str:
    """Return the branch that points to a snapshot; the default one for a snapshot that a branch has moved on from."""
    references = snapshot.parent.parent / "refs"
    for reference in sorted(references.rglob("*")):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if reference.is_file() and reference.read_text(encoding="ascii").strip() == snapshot.name:
                return reference.relative_to(references).as_posix()
    return "main"
