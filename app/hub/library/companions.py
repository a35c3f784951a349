"""Files that go with a model: a projector that lets it see, adapters that change it, smaller models that draft for it.

A companion made for another model would end a load minutes later, or answer nonsense: what headers tell is compared
before. Blocks; call it from a thread.
"""

import re
from functools import lru_cache
from pathlib import Path

from app.core.errors import RoundhouseError
from app.core.models import CompanionKind
from app.hub.gguf.header import TOKENS, GgufHeader, read_header, texts_under
from app.hub.library import naming
from app.hub.sources import open_file

ADAPTER = "adapter"
"""`general.type` of a LoRA adapter."""
PROJECTORS = ("bf16", "f16", "q8_0", "f32")
"""Of several projectors the first of these is taken: half precision loses nothing that shows."""
_LORA = re.compile(r"(?:^|[-_.])(?:lora|adapter)(?:$|[-_.])", re.IGNORECASE)
_DRAFT = re.compile(r"(?:^|[-_.])(?:draft|drafter|dflash|mtp|eagle-?\d?|nextn)(?:$|[-_.])", re.IGNORECASE)
_KINDS = ((re.compile("eagle", re.IGNORECASE), "eagle3"), (re.compile("mtp|nextn", re.IGNORECASE), "mtp"))
_SPARE_TOKENS = 128
"""By so many may vocabularies differ in length: they are padded (llama.cpp, speculative.cpp)."""
_FIRST_COMPARED = 5
"""The first tokens are marks, which makers name as they like (as above)."""
_UNCHANGED_NAMES = ("token_embd.weight", "output.weight")
"""Adapters keep these transposed, or for one side only."""


def kind_by_name(path: str) -> CompanionKind | None:
    """Return what a GGUF file's name says it is; None for a model."""
    stem = Path(path).stem
    if "mmproj" in stem.lower():
        return CompanionKind.PROJECTOR
    if _LORA.search(stem):
        return CompanionKind.LORA
    return CompanionKind.DRAFT if _DRAFT.search(stem) else None


def draft_kind(path: Path) -> str:
    """Return the `engines.api.Draft.kind` of a file, told by its name."""
    return next((kind for words, kind in _KINDS if words.search(path.stem)), "model")


def projector_place(path: str) -> tuple[int, str]:
    """Return what projectors are sorted by, the one to take first."""
    name = path.lower()
    order = (number for number, kind in enumerate(PROJECTORS) if re.search(rf"(?<![a-z]){kind}", name))
    return next(order, len(PROJECTORS)), name


def why_no_lora(model: Path, adapter: Path) -> str:
    """Return why an adapter does not go with a GGUF model; empty if it does."""
    mine, theirs = _try_header(model), _try_header(adapter)
    if mine is None or theirs is None:
        return f"{adapter.name if theirs is None else model.name} cannot be read as GGUF."
    if theirs.values.get("general.type") != ADAPTER:
        return f"{adapter.name} is not a LoRA adapter."
    made_for, own = (str(header.values.get("general.architecture", "")) for header in (theirs, mine))
    if made_for != own:
        return f"{adapter.name} was made for {made_for or 'another'} models, and this model is {own}."
    return _why_other_shape(mine, theirs, adapter.name)


def _why_other_shape(mine: GgufHeader, theirs: GgufHeader, name: str) -> str:
    shapes = {tensor.name: tensor.shape for tensor in mine.tensors}
    for tensor in theirs.tensors:
        changed, _, side = tensor.name.rpartition(".")
        at = {"lora_a": 0, "lora_b": 1}.get(side)
        if at is None or changed in _UNCHANGED_NAMES or len(tensor.shape) <= at:
            continue
        shape = shapes.get(changed, ())
        if len(shape) <= at or shape[at] != tensor.shape[at]:
            return f"{name} was made for another model: {changed} has another shape here, or is not there."
    return ""


def why_no_projector(projector: Path) -> str:
    """Return why a file is no projector; empty if it is one."""
    header = _try_header(projector)
    if header is None:
        return f"{projector.name} cannot be read as GGUF."
    kind, architecture = (str(header.values.get(f"general.{key}", "")) for key in ("type", "architecture"))
    return "" if naming.is_projector_kind(kind, architecture) else f"{projector.name} is not a projector."


def why_no_draft(model: Path, draft: Path) -> str:
    """Return why a GGUF file cannot draft for a model; empty if it can. A plain draft needs the same vocabulary."""
    theirs = _try_header(draft)
    if theirs is None:
        return f"{draft.name} cannot be read as GGUF."
    if not naming.is_model_kind(str(theirs.values.get("general.type", "")), ""):
        return f"{draft.name} is not a model, so it cannot be a draft model."
    if draft_kind(draft) != "model":
        return ""
    mine, other = _read_vocabulary(model), _read_vocabulary(draft)
    shared = min(len(mine), len(other))
    if not shared or abs(len(mine) - len(other)) > _SPARE_TOKENS:
        return (
            f"{draft.stem} cannot be its draft model: it has {len(other):,} tokens, and this model has {len(mine):,}."
        )
    if mine[_FIRST_COMPARED:shared] != other[_FIRST_COMPARED:shared]:
        return f"{draft.stem} cannot be its draft model: its tokens differ from this model's."
    return ""


def _try_header(path: Path) -> GgufHeader | None:
    try:
        with open_file(path) as source:
            return read_header(source)
    except RoundhouseError:
        return None


def _read_vocabulary(path: Path) -> list[str]:
    try:
        status = path.stat()
        return _read_tokens(path, (status.st_size, status.st_mtime_ns))
    except (RoundhouseError, OSError):
        return []


@lru_cache(maxsize=8)
def _read_tokens(path: Path, _stamp: tuple[int, int]) -> list[str]:
    with open_file(path) as source:
        return texts_under(source, TOKENS)
