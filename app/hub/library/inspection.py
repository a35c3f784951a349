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
from app.hub.library.header_index import FileRecord, HeaderIndex, Stamp

FORMAT = "gguf"


class _ModelRecord(NamedTuple):
    """A model as it was described, and what it was described from."""

    candidate: Candidate
    stamps: tuple[Stamp, ...]
    model: ModelInfo | None


class HeaderInspector:
    """Reads headers and remembers them, failures included. Not thread-safe: its library holds a lock.

    `index` is where they are kept over restarts.
    """

    def __init__(self, index: HeaderIndex | None = None) -> None:
        self._index = index or HeaderIndex(None)
        self._inspections: dict[Path, tuple[Stamp, GgufFacts | UserError]] = {}
        self._records: dict[Path, _ModelRecord] = {}
        self._folders = FolderInspector()
        self._has_new = False

    def header_facts(self, candidate: Candidate) -> GgufFacts:
        """Return what the first part's header says. Raises NotFound or BadRequest."""
        return self._read_once(candidate.first, _file_stamp(candidate.first))

    def describe_model(self, candidate: Candidate) -> ModelInfo | None:
        """Return the model, with its problem if it has one; None for files and folders that are no models.

        What is as it was is the same value as before.
        """
        if candidate.is_folder:
            return self._folders.describe_folder(candidate)
        stamps = tuple(map(_file_stamp, candidate.parts))
        record = self._records.get(candidate.first)
        if record is None or record.stamps != stamps or record.candidate != candidate:
            record = _ModelRecord(candidate, stamps, self._describe_files(candidate, stamps))
            self._records[candidate.first] = record
        return record.model

    def companion_facts(self, candidate: Candidate) -> GgufFacts | None:
        """Return what a file says that goes with a model and is none; None for models and what cannot be read."""
        try:
            facts = self.header_facts(candidate)
        except UserError:
            return None
        return None if naming.is_model_kind(facts.kind, facts.architecture) else facts

    def is_as_it_was(self, path: Path) -> bool:
        """Whether a file that was read is still the same one. May be asked from any thread."""
        known_file = self._inspections.get(path)
        if known_file is None:
            return self._folders.is_as_it_was(path)
        return known_file[0] == _file_stamp(path)

    def recall_index(self) -> None:
        """Remember what was read before the last restart."""
        records = self._index.read_index()
        known_files = {Path(path): (read.stamp, read.facts) for path, read in records.files.items()}
        self._inspections = {**known_files, **self._inspections}
        self._folders.recall_folders(records.folders)

    def keep_only(self, files: Iterable[Path]) -> None:
        """Forget files that are no longer there; parts of a split model go with their folder."""
        present = frozenset(files)
        folders = frozenset(file.parent for file in present)
        self._folders.keep_only(present)
        self._records = {path: record for path, record in self._records.items() if path in present}
        self._inspections = {
            path: known_file
            for path, known_file in self._inspections.items()
            if path in present or path.parent in folders
        }

    def store_index(self) -> None:
        """Keep what was read over the next restart, if anything was read anew."""
        if self._has_new or self._folders.has_new:
            self._has_new = self._folders.has_new = False
            known_items = self._inspections.items()
            files = {
                str(path): FileRecord(at, facts) for path, (at, facts) in known_items if isinstance(facts, GgufFacts)
            }
            self._index.write_index(files, self._folders.export_folders())

    def _describe_files(self, candidate: Candidate, stamps: tuple[Stamp, ...]) -> ModelInfo | None:
        try:
            facts = [self._read_once(part, stamp) for part, stamp in zip(candidate.parts, stamps, strict=True)]
        except UserError as error:
            return _unusable_model(candidate, stamps, _first_problem(candidate, error))
        if not naming.is_model_kind(facts[0].kind, facts[0].architecture):
            return None
        return _build_model(candidate, stamps, facts)

    def _read_once(self, path: Path, stamp: Stamp) -> GgufFacts:
        known_file = self._inspections.get(path)
        if known_file is None or known_file[0] != stamp:
            known_file = (stamp, _read_or_error(path))
            self._inspections[path], self._has_new = known_file, True
        if isinstance(known_file[1], RoundhouseError):
            raise known_file[1]
        return known_file[1]


def _read_or_error(path: Path) -> GgufFacts | UserError:
    try:
        return read_gguf(path)
    except UserError as error:
        return error


def _file_stamp(path: Path) -> Stamp:
    try:
        status = os.stat(path)  # noqa: PTH116 -- thousands of times; `Path.stat` takes twice as long
    except OSError:
        return (-1, -1)
    return (status.st_size, status.st_mtime_ns)


def _first_problem(candidate: Candidate, error: UserError) -> str:
    missing_numbers = [number for number, part in enumerate(candidate.parts, start=1) if not part.exists()]
    if not missing_numbers:
        return str(error)
    if not candidate.first.parent.exists():
        return "Its folder is unavailable: connect its drive."
    if len(candidate.parts) == 1:
        return "The file is no longer there."
    return f"Part {missing_numbers[0]} of {len(candidate.parts)} is missing."


def _unusable_model(candidate: Candidate, stamps: Sequence[Stamp], problem: str) -> ModelInfo:
    return ModelInfo(
        name=candidate.stem,
        title=candidate.stem,
        path=str(candidate.first),
        format=FORMAT,
        size_bytes=_total_size(stamps),
        problem=problem,
        modified_at=_newest_mtime(stamps),
        store=candidate.store,
    )


def _build_model(candidate: Candidate, stamps: Sequence[Stamp], facts: Sequence[GgufFacts]) -> ModelInfo:
    first = facts[0]
    return ModelInfo(
        name=candidate.stem,
        title=first.name or candidate.stem,
        path=str(candidate.first),
        format=FORMAT,
        size_bytes=_total_size(stamps),
        architecture=first.architecture,
        quantization=first.quantization,
        parameters=sum(part.parameters for part in facts) or None,
        trained_context=first.trained_context,
        embeds=Capability.EMBEDDING in first.capabilities,
        chats=SINGLE.isdisjoint(first.capabilities),
        capabilities=first.capabilities,
        problem=_find_problem(facts),
        modified_at=_newest_mtime(stamps),
        store=candidate.store,
    )


def _find_problem(facts: Sequence[GgufFacts]) -> str:
    missing_bytes = sum(part.missing_bytes for part in facts)
    if missing_bytes:
        whole = sum(part.file_bytes for part in facts) + missing_bytes
        percent = 100 * (whole - missing_bytes) // whole
        return f"The download is incomplete: {percent} % of the file is there."
    if not any(part.tensor_count for part in facts):
        return "The file contains a vocabulary but no weights."
    return ""


def _total_size(stamps: Iterable[Stamp]) -> int:
    return sum(max(0, size) for size, _ in stamps)


def _newest_mtime(stamps: Iterable[Stamp]) -> float:
    return max(0, *(changed_at for _, changed_at in stamps)) / 1e9
