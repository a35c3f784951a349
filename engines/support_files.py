"""Reads from an engine's own files which models it loads (`engines.api.support`). Blocks: a library has 100 MB."""

import importlib.util
import mmap
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from engines.api.options import EngineInstallation
from engines.api.support import EngineSupport, NameKind, NameSource
from engines.worker_launch import own_python

_AROUND = 1 << 20
"""Bytes of a library before and after an anchor: its short strings lie together."""
_STRING = re.compile(rb"[a-z0-9][A-Za-z0-9_.-]{1,39}$")
_LONGEST = 200
_MAX_TEXT = 2 << 20
_MOST_FILES = 4000
_NO_NAMES = frozenset({"__init__", "__pycache__", "base"})


def read_support(sources: Sequence[NameSource], installation: EngineInstallation) -> EngineSupport | None:
    """Return what a version loads; None where its files do not say."""
    names = {kind: frozenset(_names_of(sources, kind, installation)) for kind in NameKind}
    if not (names[NameKind.GGUF] or names[NameKind.MODEL_TYPE] or names[NameKind.CLASS]):
        return None
    return EngineSupport(
        version=installation.version,
        gguf=names[NameKind.GGUF],
        model_types=frozenset(name.casefold().replace("-", "_") for name in names[NameKind.MODEL_TYPE]),
        classes=names[NameKind.CLASS],
        quantizations=names[NameKind.QUANTIZATION],
    )


def _names_of(sources: Sequence[NameSource], kind: NameKind, installation: EngineInstallation) -> Iterator[str]:
    for source in sources:
        if source.kind is kind:
            for folder in _package_folders(source.package, installation):
                yield from _read_names(source, folder)


def _package_folders(package: str, installation: EngineInstallation) -> list[Path]:
    """Return where a package of the engine lies; for a program, where it and its libraries do."""
    if installation.executable is not None:
        near = installation.executable.resolve().parent
        return [near, near.parent / "lib"]
    if installation.python is None:
        return []
    environment = installation.python.parent.parent
    places = chain(environment.glob("lib/python3*/site-packages"), environment.glob("Lib/site-packages"))
    folders = [place / package for place in places if (place / package).is_dir()]
    return folders or (_own_folders(package) if installation.python == own_python() else [])


def _own_folders(package: str) -> list[Path]:
    """Return where a package lies that came with this program; it is not imported."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return []
    return [Path(place) for place in spec.submodule_search_locations or ()] if spec is not None else []


def _read_names(source: NameSource, folder: Path) -> Iterator[str]:
    files = sorted(folder.glob(source.files))[:_MOST_FILES]
    if source.anchors:
        for file in {file.resolve() for file in files if file.is_file()}:
            yield from _library_names(file, source.anchors)
    elif source.pattern:
        yield from chain.from_iterable(_names_in_text(source, file) for file in files if file.is_file())
    else:
        yield from (file.stem for file in files if file.stem not in _NO_NAMES)


def _names_in_text(source: NameSource, file: Path) -> Iterator[str]:
    try:
        with file.open(encoding="utf-8", errors="replace") as stream:
            text = stream.read(_MAX_TEXT)
    except OSError:
        return
    regions: Iterable[str] = (
        (match[0] for match in re.finditer(source.region, text, re.MULTILINE | re.DOTALL)) if source.region else (text,)
    )
    for region in regions:
        yield from re.findall(source.pattern, region, re.MULTILINE)


def _library_names(file: Path, anchors: Sequence[str]) -> set[str]:
    try:
        with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return set(_strings_around(content, anchors))
    except (OSError, ValueError):  # ValueError: an empty file cannot be mapped
        return set()


def _strings_around(content: mmap.mmap, anchors: Sequence[str]) -> Iterator[str]:
    for anchor in anchors:
        at = content.find(b"\0%b\0" % anchor.encode())
        if at >= 0:
            part = content[max(0, at - _AROUND) : at + _AROUND]
            strings = (text for text in part.split(b"\0") if 1 < len(text) <= _LONGEST)
            yield from (match[0].decode() for text in strings if (match := _STRING.search(text)))
