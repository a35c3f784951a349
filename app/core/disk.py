"""What models take of the disks they lie on: drives, folders, and what each model holds. Sizes are bytes."""

from enum import StrEnum
from typing import Annotated

import msgspec


class TrashContents(msgspec.Struct, frozen=True, kw_only=True):
    """What of a drive's trash were models: what is deleted for good when somebody asks for it, and nothing else."""

    files: int
    size_bytes: int
    """What is free without them."""
    paths: list[str]
    """Where they lay: files, and whole folders."""
    digest: str
    """Stands for exactly these (`EmptyTrash`)."""


class EmptyTrash(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for models in the trash to be deleted for good: those that these digests of `TrashContents` stand for."""

    digests: Annotated[list[str], msgspec.Meta(max_length=64)]


class Drive(msgspec.Struct, frozen=True, kw_only=True):
    """One disk, and what models hold of it."""

    path: str
    """Where it begins."""
    total_bytes: int | None = None
    free_bytes: int | None = None
    """Free to this person."""
    models_bytes: int = 0
    """What models take: a file that several use counts once."""
    trash_bytes: int | None = None
    """What its trash holds, models and whatever else; None where that cannot be looked into."""
    trashed: TrashContents | None = None
    """What of that were models; None where there are none, or it cannot be told."""


class FolderKind(StrEnum):
    """Why a folder is looked through.

    own     it is Roundhouse's
    hub     it is the hub's cache, which other programs share
    named   a person named it (`models.folders`)
    other   another program keeps its models there
    """

    OWN = "own"
    HUB = "hub"
    NAMED = "named"
    OTHER = "other"


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    """One folder that is looked through."""

    path: str
    kind: FolderKind
    title: str
    """What it is called: "Hugging Face cache", "Ollama", or the folder's own name."""
    models: int = 0
    size_bytes: int = 0
    problem: str = ""
    """Why it cannot be looked through now, in a sentence."""


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """What one model takes."""

    model: str
    title: str
    place: str
    """What the folder it lies in is called."""
    folder: str = ""
    """The path of that folder; empty for a file that was imported by itself."""
    drive: str = ""
    """The path of its drive; empty while that is away."""
    size_bytes: int
    shared_bytes: int = 0
    """What of it another model here uses too: it stays when this one goes."""


class DiskUse(msgspec.Struct, frozen=True, kw_only=True):
    """What lies where. Holdings are in order of their size, the largest first."""

    drives: list[Drive]
    folders: list[Folder]
    holdings: list[Holding]
    saved_bytes: int = 0
    """What models that share their space would take more, had each a copy of its own."""
