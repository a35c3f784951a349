"""Downloads of models as every program sees them."""

from enum import StrEnum
from typing import Annotated

import msgspec

from app.core.errors import ErrorBody


class DownloadState(StrEnum):
    """Where a download is in its life.

    queued   waits its turn
    running  bytes come
    paused   a person stopped it; what came is kept
    failed   it cannot go on by itself: `error` says why; what came is kept
    done     every file is there, whole and right
    """

    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    FAILED = "failed"
    DONE = "done"


class Download(msgspec.Struct, frozen=True, kw_only=True):
    """Files of one commit of a repository on their way here. Sizes are bytes; an unknown figure is None."""

    id: str
    title: str
    """What a person asked for: "org/model-GGUF:Q4_K_M"."""
    repository: str
    revision: str
    commit: str
    files: list[str]
    model: str = ""
    """What was typed to get it: "qwen3:8b"."""
    quantization: str = ""
    reason: str = ""
    """Why these files, where Roundhouse chose them."""
    state: DownloadState = DownloadState.QUEUED
    total_bytes: int = 0
    present_bytes: int = 0
    bytes_per_s: float | None = None
    eta_s: float | None = None
    file: str = ""
    """The file that comes now."""
    machine: str = ""
    """The paired computer that bytes came from last; empty: the hub."""
    folder: str = ""
    """Where the files are, once all have come."""
    error: ErrorBody | None = None
    could_have: list[str] = []
    """Drafts and LoRA adapters of the repository that do not come along."""
    note: str = ""
    """What went otherwise than usual, and needs nobody: a sentence."""
    added_at: float = 0.0
    """Unix seconds."""
    ended_at: float | None = None

    @property
    def is_companion(self) -> bool:
        """Whether it is a single file that goes with a model, and nothing to chat with."""
        return [self.title] == [f"{self.repository}/{file}" for file in self.files]


class Pull(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for a model of a hub: a repository, an address, or a name with a tag.

    Without a quantisation, there or here, it is the one that suits this machine; a name of the catalogue is taken in
    the format that does.
    """

    model: str
    quantization: str = ""
    format: Annotated[str, msgspec.Meta(max_length=32)] = ""
    """An `engines.api.ModelFormat` value in place of the one that suits this machine."""
    projector: bool = True
    """Whether the file that lets it see comes along, where there is one."""
    anyway: bool = False
    """Also where no engine that is here loads it."""
    companions: Annotated[list[str], msgspec.Meta(max_length=16)] = []
    """Further files of the repository, by path: a draft, LoRA adapters."""


class MoveDownload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for another place in the queue; 0 is the next to begin."""

    position: int
