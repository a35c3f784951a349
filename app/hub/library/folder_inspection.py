"""Model folders to facts: those of OpenVINO, ONNX Runtime GenAI and Hugging Face, read again once a file changed.

What is no model of ours (another kind of network, pickled weights) is left out of the list; what is one and is damaged
is listed with its problem.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from app.core.capabilities import SINGLE, Capability, in_order
from app.core.errors import UserError
from app.core.model_facts import ModelFacts
from app.core.models import ModelInfo
from app.hub.library.candidates import Candidate
from app.hub.library.header_index import FolderRecord, FolderStamp

_CORRUPT = frozenset({"model_corrupt", "model_not_found", "model_unreadable"})


class FolderInspector:
    """Reads folders and remembers them. Not thread-safe: its library holds a lock."""

    def __init__(self) -> None:
        self._inspections: dict[Path, tuple[FolderStamp, ModelInfo | None]] = {}
        self.has_new = False
        """Whether anything was read since it was last kept."""

    def recall_folders(self, folder_records: Mapping[str, FolderRecord]) -> None:
        """Remember what was read before the last restart."""
        self._inspections = {
            Path(path): (read.stamp, read.model) for path, read in folder_records.items()
        } | self._inspections

    def export_folders(self) -> dict[str, FolderRecord]:
        """Return what is to be kept over the next restart."""
        return {str(path): FolderRecord(stamp, model) for path, (stamp, model) in self._inspections.items()}

    def describe_folder(self, candidate: Candidate) -> ModelInfo | None:
        """Return the model, with its problem if it has one; None for a folder that holds none of ours."""
        stamp = _folder_stamp(candidate.first)
        known_folder = self._inspections.get(candidate.first)
        if known_folder is None or known_folder[0] != stamp:
            known_folder = (stamp, _describe_folder(candidate, stamp))
            self._inspections[candidate.first], self.has_new = known_folder, True
        return known_folder[1]

    def is_as_it_was(self, path: Path) -> bool:
        """Whether a folder that was read is still the same."""
        known_folder = self._inspections.get(path)
        return known_folder is not None and known_folder[0] == _folder_stamp(path)

    def keep_only(self, folders: Iterable[Path]) -> None:
        """Forget folders that are no longer there."""
        present = frozenset(folders)
        self._inspections = {path: known_folder for path, known_folder in self._inspections.items() if path in present}


def _describe_folder(candidate: Candidate, stamp: FolderStamp) -> ModelInfo | None:
    from app.hub.facts import read_facts  # noqa: PLC0415 -- the gateway starts without it

    modified_at = max((changed_ns for _, _, changed_ns in stamp), default=0) / 1e9
    try:
        facts = read_facts(candidate.first)
    except UserError as error:
        if error.code not in _CORRUPT:
            return None
        return ModelInfo(
            name=candidate.stem,
            title=candidate.stem,
            path=str(candidate.first),
            format=candidate.format,
            size_bytes=sum(size for _, size, _ in stamp),
            problem=str(error),
            modified_at=modified_at,
            store=candidate.store,
        )
    return _build_model(candidate, facts, modified_at)


def _build_model(candidate: Candidate, facts: ModelFacts, modified_at: float) -> ModelInfo:
    capabilities = in_order(map(Capability, facts.capabilities))
    return ModelInfo(
        name=candidate.stem,
        title=candidate.stem,
        path=str(candidate.first),
        format=facts.format,
        size_bytes=facts.file_bytes,
        architecture=facts.architecture,
        quantization=facts.quantization,
        parameters=facts.parameters or None,
        trained_context=facts.trained_context,
        embeds=Capability.EMBEDDING in capabilities,
        chats=SINGLE.isdisjoint(capabilities) and capabilities != [Capability.TRANSCRIPTION],
        capabilities=capabilities,
        modified_at=modified_at,
        store=candidate.store,
    )


def _folder_stamp(folder: Path) -> FolderStamp:
    try:
        with os.scandir(folder) as entries:
            sorted_entries = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return ()
    return tuple(stamp for entry in sorted_entries if (stamp := _stamp_of(entry)) is not None)


def _stamp_of(entry: "os.DirEntry[str]") -> tuple[str, int, int] | None:
    try:
        status = entry.stat()
    except OSError:  # a link to a blob that is still being fetched
        return (entry.name, -1, 0)
    return (entry.name, status.st_size, status.st_mtime_ns)
