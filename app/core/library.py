"""What is done with the files of models: removal, checks, duplicates. Sizes are bytes."""

from enum import StrEnum

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
