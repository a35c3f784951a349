"""Models of a hub as every program sees them: what is found, and what each variant would be on this machine.

Bytes are bytes, contexts tokens, rates tokens per second; an unknown figure is None.

Where a file of the hub's cache is from, told by the place it lies at.
"""

import re
from enum import StrEnum
from typing import Annotated, NamedTuple, Protocol

import msgspec

from app.core.advice import Advice, FitVerdict, Rate, fit_verdict
from app.core.licences import CommercialUse
from app.core.models import CompanionKind


class HubVariant(msgspec.Struct, frozen=True, kw_only=True):
    """One way to have a model, before a byte of it is fetched."""

    quantization: str
    format: str
    revision: str = ""
    """The branch it lies on, where the repository keeps one for each."""
    size_bytes: int
    """Exact, as the hub says, without the projector."""
    files: int
    projector_bytes: int = 0
    projector: str = ""
    """The file that lets it see, which comes along; empty where there is none."""
    quality: str = ""
    """What this quantisation costs, in words."""
    engine: str = ""
    """Id of the engine that would run it; empty where none here or to be had reads it."""
    engine_name: str = ""
    fits: bool | None = None
    memory_bytes: int | None = None
    """What it takes in all at `context`."""
    context: int | None = None
    largest_context: int | None = None
    decode: Rate | None = None
    is_recommended: bool = False
    reason: str = ""
    """Why it is recommended, or why it cannot be run."""
    is_here: bool = False

    @property
    def verdict(self) -> FitVerdict | None:
        """Whether it can be run here; None where nobody knows."""
        return None if self.fits is None else fit_verdict(fits=self.fits, decode=self.decode)


class HubCompanion(msgspec.Struct, frozen=True, kw_only=True):
    """A file that goes with a model and comes only where it is asked for: a draft or a LoRA adapter."""

    kind: CompanionKind
    path: str
    size_bytes: int
    is_here: bool = False


class HubModel(msgspec.Struct, frozen=True, kw_only=True):
    """One revision of a repository, with what it offers to this machine."""

    repository: str
    revision: str
    commit: str
    page: str
    """Its address for people."""
    variants: list[HubVariant]
    companions: list[HubCompanion] = []
    architecture: str = ""
    parameters: int | None = None
    active_parameters: int | None = None
    trained_context: int | None = None
    capabilities: list[str] = []
    licence: str = ""
    base_models: list[str] = []
    gated: bool = False
    needs_remote_code: bool = False
    downloads: int = 0
    likes: int = 0
    modified: str = ""
    as_of: float = 0.0
    """When the hub said so, in Unix seconds."""
    gate: str = ""
    """What has to be done before it can be fetched, and where; empty where nothing has."""
    note: str = ""
    """What could not be found out, and why."""


class HubSort(StrEnum):
    """What comes first."""

    DOWNLOADS = "downloads"
    LIKES = "likes"
    RECENT = "recent"
    TRENDING = "trending"


class HubTask(StrEnum):
    """What a model is for."""

    CHAT = "chat"
    VISION = "vision"
    EMBEDDING = "embedding"
    RERANK = "rerank"


_Word = Annotated[str, msgspec.Meta(max_length=96)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class HubQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What to look for on the hub. What is empty or None does not matter."""

    text: Annotated[str, msgspec.Meta(max_length=200)] = ""
    task: HubTask | None = None
    format: _Word = ""
    """An `engines.api.ModelFormat` value."""
    publisher: _Word = ""
    licence: _Word = ""
    """As the hub writes it: "apache-2.0"."""
    sort: HubSort = HubSort.DOWNLOADS
    min_parameters: _Count | None = None
    max_parameters: _Count | None = None
    days: Annotated[int, msgspec.Meta(ge=1, le=36_500)] | None = None
    """Changed within so many days."""
    gated: bool | None = None
    page: Annotated[str, msgspec.Meta(max_length=2000)] = ""
    """`HubResults.next` of the page before."""


class HubSearchHit(msgspec.Struct, frozen=True, kw_only=True):
    """One repository of a search. What it takes is estimated from its parameters; `HubModel` has the exact figures."""

    repository: str
    formats: list[str]
    quantizations: list[str] = []
    parameters: int | None = None
    trained_context: int | None = None
    architecture: str = ""
    task: str = ""
    licence: str = ""
    gated: bool = False
    needs_remote_code: bool = False
    downloads: int = 0
    likes: int = 0
    modified: str = ""
    problem: str = ""
    """Why nothing of it can be run."""
    is_here: bool = False


class HubCard(msgspec.Struct, frozen=True, kw_only=True):
    """One model with all the repositories that hold it in some form, the most downloaded first."""

    base: str
    """The repository it was made from, or its own."""
    title: str
    repositories: list[HubSearchHit]
    parameters: int | None = None
    active_parameters: int | None = None
    """Read for one token, where these are not all."""
    fits: bool | None = None
    """In the usual quantisation, on this machine."""
    memory_bytes: int | None = None
    download_bytes: int | None = None
    largest_context: int | None = None
    decode: Rate | None = None
    quantization: str = ""
    """The quantisation these figures are for."""
    format: str = ""
    engine_name: str = ""
    basis: str = ""
    """What the figures rest on, in a sentence: all of them are estimates until one repository is looked at."""
    downloads: int = 0
    unchecked: bool = False
    """Nobody verified that its repositories exist: the catalogue alone names them."""

    @property
    def verdict(self) -> FitVerdict | None:
        """Whether it can be run here; None where nobody knows."""
        return None if self.fits is None else fit_verdict(fits=self.fits, decode=self.decode)


class HubResults(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a search."""

    cards: list[HubCard]
    as_of: float
    """When the hub said so, in Unix seconds."""
    next: str = ""
    """Ask with this as `page` for what comes after; empty at the end."""
    note: str = ""
    """Why this is older than it might be."""


class HubUse(StrEnum):
    """What a person wants a model for."""

    CHAT = "chat"
    CODING = "coding"
    VISION = "vision"
    REASONING = "reasoning"
    EMBEDDING = "embedding"
    RERANK = "rerank"
    AUTOCOMPLETE = "autocomplete"
    """Completes code as somebody types it."""


class HubPick(msgspec.Struct, frozen=True, kw_only=True):
    """A model of the catalogue, judged for this machine."""

    name: str
    """What people call it: "Qwen3 8B"."""
    pull: str
    """What `roundhouse pull` takes: "qwen3:8b"."""
    repository: str
    use: HubUse
    card: HubCard
    quality: int = 0
    """Its place among the models of this use, in this quantisation: the higher, the better its answers."""
    is_quality_derived: bool = False
    """Whether that follows from another size of the same series, for want of published figures."""
    is_best: bool = False
    is_recommended: bool = False
    """Whether it runs well here: it fits, leaves room for a conversation, and writes fast enough."""
    is_fast: bool = False
    """Whether it stands beside the best because it writes much faster."""
    needs: str = ""
    """What has to be done before an engine here loads it: "Needs a newer llama.cpp: update it (33 MB) first"."""
    is_new: bool = False
    """Whether the catalogue did not have it when somebody last looked."""
    is_here: bool = False
    """Whether something of one of its repositories was fetched."""
    installed: str = ""
    """The installed model that these figures are for; empty where none of its forms is here and fits."""
    reason: str = ""
    family: str = ""
    good_for: list[str] = []
    licence: str = ""
    commercial: CommercialUse = CommercialUse.ASK
    released: str = ""
    """Year and month, "2025-04"."""
    draft_repositories: list[str] = []
    """Those of its repositories that carry the model's own head for drafting, as far as somebody said so."""


class CatalogueQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which models of the catalogue to list: those for a use or, with a text, those whose names have its words."""

    use: HubUse = HubUse.CHAT
    text: Annotated[str, msgspec.Meta(max_length=200)] = ""


class MachineAdvice(Advice, frozen=True, kw_only=True):
    """Plans, and where no model was named the models that run well on the machine, the best first: that is planned."""

    recommended: list[HubPick] = []  # noqa: RUF012 -- a Struct, by way of Advice
    note: str = ""
    """Why none is recommended, and what to do about it."""


class CatalogueInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The catalogue in force: its date and how many models it names."""

    issued: str
    models: int


class TokenPlace(StrEnum):
    """Where the hub's token is from; the first that has one counts."""

    ENVIRONMENT = "environment"
    KEYRING = "keyring"
    FILE = "file"
    """Of our own, where the system has no keyring."""
    HUGGING_FACE = "hugging_face"
    """What `hf auth login` wrote."""


class HubTokenState(msgspec.Struct, frozen=True, kw_only=True):
    """Whether there is a token. The token itself is never told."""

    place: TokenPlace | None
    said: str
    """The same in a sentence."""


class SetHubToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for a token to be kept."""

    token: str


_FOLDER = re.compile(r"models--(?P<owner>[^/\\]+?)--(?P<name>[^/\\]+)")


class HasParts(Protocol):
    """A path."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Its folders, and its name last."""


class Origin(NamedTuple):
    """Where a file of the hub's cache is from; `path` is within the repository, "." for its root."""

    repository: str
    commit: str
    path: str


def origin_of(path: HasParts) -> Origin | None:
    """Return what a place in the hub's cache says of itself; None for any other place."""
    parts = path.parts
    for at, part in enumerate(parts[:-2]):
        folder = _FOLDER.fullmatch(part)
        if folder is not None and parts[at + 1] == "snapshots":
            rest = "/".join(parts[at + 3 :]) or "."
            return Origin(f"{folder['owner']}/{folder['name']}", parts[at + 2], rest)
    return None
