"""From files to facts: read each part's header once, and say what is wrong with those that cannot be used."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from app.core.capabilities import SINGLE, Capability
from app.core.errors import RoundhouseError, UserError
from app.core.models import ModelInfo
from app.hub.gguf.listing import GgufFacts, read_gguf
from app.hub.library import naming
from app.hub.library.candidates import Candidate
from app.hub.library.folder_inspection import FolderInspector
from app.hub.library.header_index import HeaderIndex, Read, Stamp

FORMAT = "gguf"


class _Seen(NamedTuple):
    """A model as it was described, and what it was described from."""

    candidate: Candidate
    stamps: tuple[Stamp, ...]
    model: ModelInfo | None


class Inspector:
    """Reads headers and remembers them, failures included. Not thread-safe: its library holds a lock.

    `index` is where they are kept over restarts.
    """

    def __init__(self, index: HeaderIndex | None = None) -> None:
        self._index = index or HeaderIndex(None)
        self._known: dict[Path, tuple[Stamp, GgufFacts | UserError]] = {}
        self._seen: dict[Path, _Seen] = {}
        self._folders = FolderInspector()
        self._has_new = False

    def facts(self, candidate: Candidate) -> GgufFacts:
        """Return what the first part's header says. Raises NotFound or BadRequest."""
        return self._read(candidate.first, _stamp(candidate.first))

    def describe(self, candidate: Candidate) -> ModelInfo | None:
        """Return the model, with its problem if it has one; None for files and folders that are no models.

        What is as it was is the same value as before.
        """
        if candidate.is_folder:
            return self._folders.describe(candidate)
        stamps = tuple(map(_stamp, candidate.parts))
        seen = self._seen.get(candidate.first)
        if seen is None or seen.stamps != stamps or seen.candidate != candidate:
            seen = _Seen(candidate, stamps, self._described(candidate, stamps))
            self._seen[candidate.first] = seen
        return seen.model

    def companion(self, candidate: Candidate) -> GgufFacts | None:
        """Return what a file says that goes with a model and is none; None for models and what cannot be read."""
        try:
            facts = self.facts(candidate)
        except UserError:
            return None
        return None if naming.is_model_kind(facts.kind, facts.architecture) else facts

    def is_as_it_was(self, path: Path) -> bool:
        """Whether a file that was read is still the same one. May be asked from any thread."""
        known = self._known.get(path)
        if known is None:
            return self._folders.is_as_it_was(path)
        return known[0] == _stamp(path)

    def recall(self) -> None:
        """Remember what was read before the last restart."""
        kept = self._index.read()
        known = {Path(path): (read.stamp, read.facts) for path, read in kept.files.items()}
        self._known = {**known, **self._known}
        self._folders.recall(kept.folders)

    def keep_only(self, files: Iterable[Path]) -> None:
        """Forget files that are no longer there; parts of a split model go with their folder."""
        there = frozenset(files)
        folders = frozenset(file.parent for file in there)
        self._folders.keep_only(there)
        self._seen = {path: seen for path, seen in self._seen.items() if path in there}
        self._known = {path: known for path, known in self._known.items() if path in there or path.parent in folders}

    def keep(self) -> None:
        """Keep what was read over the next restart, if anything was read anew."""
        if self._has_new or self._folders.has_new:
            self._has_new = self._folders.has_new = False
            known = self._known.items()
            files = {str(path): Read(at, facts) for path, (at, facts) in known if isinstance(facts, GgufFacts)}
            self._index.write(files, self._folders.kept())

    def _described(self, candidate: Candidate, stamps: tuple[Stamp, ...]) -> ModelInfo | None:
        try:
            facts = [self._read(part, stamp) for part, stamp in zip(candidate.parts, stamps, strict=True)]
        except UserError as error:
            return _broken(candidate, stamps, _first_problem(candidate, error))
        if not naming.is_model_kind(facts[0].kind, facts[0].architecture):
            return None
        return _described(candidate, stamps, facts)

    def _read(self, path: Path, stamp: Stamp) -> GgufFacts:
        known = self._known.get(path)
        if known is None or known[0] != stamp:
            known = (stamp, _read_or_error(path))
            self._known[path], self._has_new = known, True
        if isinstance(known[1], RoundhouseError):
            raise known[1]
        return known[1]


def _read_or_error(path: Path) -> GgufFacts | UserError:
    try:
        return read_gguf(path)
    except UserError as error:
        return error


def _stamp(path: Path) -> Stamp:
    try:
        status = os.stat(path)  # noqa: PTH116 -- thousands of times; `Path.stat` takes twice as long
    except OSError:
        return (-1, -1)
    return (status.st_size, status.st_mtime_ns)


def _first_problem(candidate: Candidate, error: UserError) -> str:
    missing = [number for number, part in enumerate(candidate.parts, start=1) if not part.exists()]
    if not missing:
        return str(error)
    if not candidate.first.parent.exists():
        return "Its folder is unavailable: connect its drive."
    if len(candidate.parts) == 1:
        return "The file is no longer there."
    return f"Part {missing[0]} of {len(candidate.parts)} is missing."


def _broken(candidate: Candidate, stamps: Sequence[Stamp], problem: str) -> ModelInfo:
    return ModelInfo(
        name=candidate.stem,
        title=candidate.stem,
        path=str(candidate.first),
        format=FORMAT,
        size_bytes=_size(stamps),
        problem=problem,
        modified_at=_modified_at(stamps),
        store=candidate.store,
    )


def _described(candidate: Candidate, stamps: Sequence[Stamp], facts: Sequence[GgufFacts]) -> ModelInfo:
    first = facts[0]
    return ModelInfo(
        name=candidate.stem,
        title=first.name or candidate.stem,
        path=str(candidate.first),
        format=FORMAT,
        size_bytes=_size(stamps),
        architecture=first.architecture,
        quantization=first.quantization,
        parameters=sum(part.parameters for part in facts) or None,
        trained_context=first.trained_context,
        embeds=Capability.EMBEDDING in first.capabilities,
        chats=SINGLE.isdisjoint(first.capabilities),
        capabilities=first.capabilities,
        problem=_problem(facts),
        modified_at=_modified_at(stamps),
        store=candidate.store,
    )


def _problem(facts: Sequence[GgufFacts]) -> str:
    missing = sum(part.missing_bytes for part in facts)
    if missing:
        whole = sum(part.file_bytes for part in facts) + missing
        percent = 100 * (whole - missing) // whole
        return f"The download is incomplete: {percent} % of the file is there."
    if not any(part.tensor_count for part in facts):
        return "The file contains a vocabulary but no weights."
    return ""


def _size(stamps: Iterable[Stamp]) -> int:
    return sum(max(0, size) for size, _ in stamps)


def _modified_at(stamps: Iterable[Stamp]) -> float:
    return max(0, *(changed for _, changed in stamps)) / 1e9
