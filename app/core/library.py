"""What is done with the files of models: removal, checks, duplicates; and what they take of the disks. In bytes."""

from enum import StrEnum
from typing import Annotated

import msgspec

from app.core.errors import ErrorBody


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """What removing a model takes away, before it is done and after."""

    id: str = ""
    """Names a removal that was done, to undo it; empty before."""
    model: str
    files: list[str]
    """Files that go; of the hub's cache, the content and the links to it."""
    projectors: list[str] = []
    """What those of them are called that let it see: they go too where no other model here needs them."""
    frees_bytes: int = 0
    """Once the trash is emptied, where they go there."""
    goes_to_trash: bool = True
    made_models: list[str] = []
    """Made of it; they cannot be used without it."""
    aliases: list[str] = []
    """Patterns of `models.aliases` that stand for it."""
    left: list[str] = []
    """What stays, and why, in sentences."""


class RemoveModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for a model's files to be removed: to the trash, or at once with `for_good`."""

    model: str
    for_good: bool = False


class JobKind(StrEnum):
    """What is done in the background: one at a time, since most read whole files.

    verify      a model's files are held against their hashes
    duplicates  equal files are looked for
    reclaim     those that were found share their space from now on
    separate    those that share it are copied apart again
    empty       models in the trash are deleted for good
    """

    VERIFY = "verify"
    DUPLICATES = "duplicates"
    RECLAIM = "reclaim"
    SEPARATE = "separate"
    EMPTY = "empty"


class Verdict(StrEnum):
    """What a check of one file came to.

    right      its content has the hash it should have
    wrong      it has another
    whole      nobody said which hash it should have; it is as long as its header says
    cut_off    it is shorter than its header says, or cannot be read
    """

    RIGHT = "right"
    WRONG = "wrong"
    WHOLE = "whole"
    CUT_OFF = "cut_off"


class FileCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One file that was checked. `note` says against what, or what is wrong."""

    path: str
    verdict: Verdict
    note: str = ""


class Duplicate(msgspec.Struct, frozen=True, kw_only=True):
    """One content that lies on the disk more than once. Names of one file count as one."""

    sha256: str
    size_bytes: int
    paths: list[str]
    """One path of each copy, the one to keep first."""
    models: list[str] = []
    reclaimable: list[str] = []
    """Those of `paths` that could share the space of the first."""
    notes: list[str] = []
    """Why others could not, in sentences."""

    @property
    def reclaims_bytes(self) -> int:
        """What sharing frees."""
        return self.size_bytes * len(self.reclaimable)


class LibraryJob(msgspec.Struct, frozen=True, kw_only=True):
    """Something done with models' files in the background: how far it is, and what it found."""

    id: str
    kind: JobKind
    model: str = ""
    file: str = ""
    """What is read now."""
    done_bytes: int = 0
    total_bytes: int = 0
    is_done: bool = False
    error: ErrorBody | None = None
    checks: list[FileCheck] = []
    duplicates: list[Duplicate] = []
    reclaimed_bytes: int = 0
    """What was freed, where it was asked for; negative for what was taken again."""
    deleted_files: int = 0
    """So many are gone from the trash."""
    can_undo: bool = False
    """Whether files that share their space can be copied apart again. Clones need not be: they part when written."""


class VerifyModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for a model's files to be read and compared with the hashes that are known of them."""

    model: str


class Freshness(StrEnum):
    """How a model from a hub compares with what the hub has now.

    current   the hub has the same
    newer     the hub has other content under the same names
    gone      the hub no longer has it
    unknown   the hub could not be asked, or what is here cannot be compared: `note` says why
    """

    CURRENT = "current"
    NEWER = "newer"
    GONE = "gone"
    UNKNOWN = "unknown"


class ModelUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """One model that came from a hub, beside what the hub has now."""

    model: str
    repository: str
    revision: str
    quantization: str = ""
    state: Freshness
    files: list[str] = []
    """Those that are others now."""
    download_bytes: int = 0
    """What they weigh."""
    modified: str = ""
    """When the hub's was changed last, as it says."""
    note: str = ""


class FindDuplicates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for contents that lie here more than once; with `reclaim`, let copies share their space."""

    reclaim: bool = False


class ReclaimDuplicates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for what the last search found to share its space: all of it, or contents of these hashes."""

    sha256: list[str] = []


class TrashContents(msgspec.Struct, frozen=True, kw_only=True):
    """Models that Roundhouse moved to a drive's trash: what is deleted for good when somebody asks for it."""

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
    """What of that are models that Roundhouse put there; None where there are none, or it cannot be told."""


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


class ModelHolding(msgspec.Struct, frozen=True, kw_only=True):
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
    holdings: list[ModelHolding]
    saved_bytes: int = 0
    """What models that share their space would take more, had each a copy of its own."""
