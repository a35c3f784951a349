"""From what people call a model to its facts: one of the library, a file or folder, a well-known name, a repository."""

import asyncio
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from app.core.errors import BadRequest, NotFound
from app.core.model_facts import ModelFacts
from app.hub.library import Library

_KEPT = 64
USUAL_QUANTIZATION = "Q4_K_M"
"""What a well-known name without a quantisation is taken to mean: the usual balance of size and quality."""
_Stamp = tuple[str, int, int]


class FactsReader:
    """Reads headers once per file and change. Its methods read disks, so they run in a thread."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._known: OrderedDict[_Stamp, ModelFacts] = OrderedDict()

    async def find(self, name: str) -> ModelFacts:
        """Return the facts of what `name` means. Raises NotFound (model_not_found) or BadRequest."""
        return await asyncio.to_thread(self._find, name.strip())

    async def of_file(self, path: Path) -> ModelFacts:
        """Return the facts of a model file or folder. Raises NotFound or BadRequest."""
        return await asyncio.to_thread(self._read, path)

    def _find(self, name: str) -> ModelFacts:
        if not name:
            raise BadRequest("No model is named.", hint="Name a model, a file or a folder.", code="model_required")
        path = Path(name).expanduser()
        if path.is_absolute() and path.exists():
            return self._read(path)
        return self._in_library(name) or _shaped(name) or _in_repository(name)

    def is_here(self, name: str) -> bool:
        """Whether `name` means a file of this machine."""
        path = Path(name).expanduser()
        return (path.is_absolute() and path.exists()) or self._in_library(name) is not None

    def _in_library(self, name: str) -> ModelFacts | None:
        try:
            return self._read(Path(self._library.find(name).path))
        except NotFound:
            return None

    def _read(self, path: Path) -> ModelFacts:
        from app.hub.facts import read_facts  # noqa: PLC0415 -- the gateway starts without it

        stamp = _stamp(path)
        if stamp not in self._known:
            self._known[stamp] = read_facts(path)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(stamp)
        return self._known[stamp]


NATIVE_QUANTIZATION = {"gpt-oss": "MXFP4"}
"""Architectures published in one quantisation only, which everybody runs as it is."""


class Known(NamedTuple):
    """A well-known model, the quantisation that was named with it, and the one it was published in, if only in one."""

    name: str
    quantization: str
    native: str = ""


def well_known(text: str) -> Known | None:
    """Return the model whose shape we know by that name."""
    from app.hub.shapes import find, split_name  # noqa: PLC0415 -- the gateway starts without it

    name, quantization = split_name(text)
    shape = find(name)
    return None if shape is None else Known(name, quantization, NATIVE_QUANTIZATION.get(shape.architecture, ""))


def _shaped(text: str) -> ModelFacts | None:
    from app.hub.shapes import shape_facts  # noqa: PLC0415 -- as above

    known = well_known(text)
    return shape_facts(known.name, known.quantization or known.native or USUAL_QUANTIZATION) if known else None


def _in_repository(name: str) -> ModelFacts:
    from app.hub.facts.remote import read_remote_facts  # noqa: PLC0415 -- as above

    if "/" not in name:
        raise NotFound(
            f"No model is known as {name!r}.",
            hint="`roundhouse list` shows those here; a file, a model folder or a repository can be named too.",
            code="model_not_found",
        )
    return read_remote_facts(name)


def _stamp(path: Path) -> _Stamp:
    """Return what changes when a file or folder does: its place, its size and its time."""
    try:
        status = path.stat()
    except OSError:
        return (str(path), 0, 0)
    return (str(path), status.st_size, status.st_mtime_ns)
