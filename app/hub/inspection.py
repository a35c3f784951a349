"""From files to facts: read each part's header once, and say what is wrong with those that cannot be used."""

from collections.abc import Iterable
from pathlib import Path

from app.core.errors import RoundhouseError, UserError
from app.core.models import ModelInfo
from app.hub import naming
from app.hub.candidates import Candidate
from app.hub.folder_inspection import FolderInspector
from app.hub.gguf import GgufFacts, read_gguf

FORMAT = "gguf"
_Stamp = tuple[int, int]
"""Size and time of change of a file: when both are as before, so is the header."""


class Inspector:
    """Reads headers and remembers them, failures included. Not thread-safe: its library holds a lock."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[_Stamp, GgufFacts | UserError]] = {}
        self._folders = FolderInspector()

    def facts(self, candidate: Candidate) -> GgufFacts:
        """Return what the first part's header says. Raises NotFound or BadRequest."""
        return self._read(candidate.first)

    def describe(self, candidate: Candidate) -> ModelInfo | None:
        """Return the model, with its problem if it has one; None for files and folders that are no models."""
        if candidate.is_folder:
            return self._folders.describe(candidate)
        try:
            facts = [self._read(part) for part in candidate.parts]
        except UserError as error:
            return _broken(candidate, _first_problem(candidate, error))
        if not naming.is_model_kind(facts[0].kind, facts[0].architecture):
            return None
        return _described(candidate, facts)

    def is_as_it_was(self, path: Path) -> bool:
        """Whether a file that was read is still the same one."""
        known = self._known.get(path)
        if known is None:
            return self._folders.is_as_it_was(path)
        return known[0] == _stamp(path)

    def keep_only(self, files: Iterable[Path]) -> None:
        """Forget files that are no longer there; parts of a split model go with their folder."""
        there = list(files)
        folders = {file.parent for file in there}
        self._folders.keep_only(there)
        self._known = {path: known for path, known in self._known.items() if path.parent in folders}

    def _read(self, path: Path) -> GgufFacts:
        stamp = _stamp(path)
        known = self._known.get(path)
        if known is None or known[0] != stamp:
            known = (stamp, _read_or_error(path))
            self._known[path] = known
        if isinstance(known[1], RoundhouseError):
            raise known[1]
        return known[1]


def _read_or_error(path: Path) -> GgufFacts | UserError:
    try:
        return read_gguf(path)
    except UserError as error:
        return error


def _stamp(path: Path) -> _Stamp:
    try:
        status = path.stat()
    except OSError:
        return (-1, -1)
    return (status.st_size, status.st_mtime_ns)


def _first_problem(candidate: Candidate, error: UserError) -> str:
    missing = [number for number, part in enumerate(candidate.parts, start=1) if not part.exists()]
    if not missing:
        return str(error)
    if len(candidate.parts) == 1:
        return "The file is no longer there."
    return f"Part {missing[0]} of {len(candidate.parts)} is missing."


def _broken(candidate: Candidate, problem: str) -> ModelInfo:
    return ModelInfo(
        name=candidate.stem,
        title=candidate.stem,
        path=str(candidate.first),
        format=FORMAT,
        size_bytes=_size(candidate),
        problem=problem,
        modified_at=_modified_at(candidate),
        store=candidate.store,
    )


def _described(candidate: Candidate, facts: list[GgufFacts]) -> ModelInfo:
    first = facts[0]
    return ModelInfo(
        name=candidate.stem,
        title=first.name or candidate.stem,
        path=str(candidate.first),
        format=FORMAT,
        size_bytes=_size(candidate),
        architecture=first.architecture,
        quantization=first.quantization,
        parameters=sum(part.parameters for part in facts) or None,
        trained_context=first.trained_context,
        embeds=first.embeds,
        chats=not (first.embeds or first.reranks),
        problem=_problem(facts),
        modified_at=_modified_at(candidate),
        store=candidate.store,
    )


def _problem(facts: list[GgufFacts]) -> str:
    missing = sum(part.missing_bytes for part in facts)
    if missing:
        whole = sum(part.file_bytes for part in facts) + missing
        percent = 100 * (whole - missing) // whole
        return f"The download is incomplete: {percent} % of the file is there."
    if not any(part.tensor_count for part in facts):
        return "The file holds a vocabulary and no weights."
    return ""


def _size(candidate: Candidate) -> int:
    return sum(max(0, _stamp(part)[0]) for part in candidate.parts)


def _modified_at(candidate: Candidate) -> float:
    return max(0, *(_stamp(part)[1] for part in candidate.parts)) / 1e9
