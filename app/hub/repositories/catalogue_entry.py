"""One model of the catalogue as its file states it: names, shape, what it is good for, and where its weights are."""

import re
from enum import StrEnum

import msgspec

from app.core.hub import HubUse
from app.core.models import ModelSampling
from app.core.thinking import ThinkingDefault
from app.hub.repositories.repository import REPOSITORY

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}(?::[a-z0-9][a-z0-9._-]{0,63})?")
_BRANCH = re.compile(r"[A-Za-z0-9][\w.-]{0,95}")
_RATE_UNIT = "bpw"
_RATE = re.compile(rf"\d\.\d{{1,2}}{_RATE_UNIT}")


class CatalogueAttention(StrEnum):
    """What a model's layers keep of the past. `full_every` says how many of them keep everything."""

    UNKNOWN = ""
    FULL = "full"
    SLIDING = "sliding"
    CHUNKED = "chunked"
    LATENT = "latent"
    """One compressed vector per token (MLA)."""
    SPARSE = "sparse"
    """Compressed or chosen by an indexer."""
    HYBRID_LINEAR = "hybrid-linear"
    """Most layers keep a state in place of keys and values (Gated DeltaNet, KDA)."""
    HYBRID_SSM = "hybrid-ssm"
    HYBRID_CONV = "hybrid-conv"


class CatalogueEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One model. Counts of parameters are those of the checkpoint; a figure of 0 is one that nobody states."""

    title: str
    """"Qwen3 8B": for people."""
    family: str
    names: list[str]
    """What people type, lower case. The first is the usual one; one without a colon is what it means without a tag."""
    base: str
    """Its makers' repository."""
    good_for: list[str] = []
    """Of "chat", "coding", "reasoning", "vision", "tools", "embedding", "rerank", "speech", "autocomplete"."""
    parameters: int = 0
    """Also those that no token multiplies: tables, draft heads, vision towers."""
    active_parameters: int = 0
    """Read for one token; 0 where all are."""
    table_parameters: int = 0
    """Of tables that are looked up (n-grams)."""
    draft_parameters: int = 0
    """Of the head for multi-token prediction."""
    draft_repositories: list[str] = []
    """Those of `repositories` that carry this head, as far as somebody said so."""
    branches: dict[str, dict[str, str]] = {}
    """By repository in ExLlama's formats, the branch of each bit rate: "4.0bpw" on "4.00bpw".

    An empty name is that of a branch that somebody measured and nobody named: the hub is asked which it is. Where there
    are no branches, the usual rates are taken to exist."""
    build_bytes: dict[str, int] = {}
    """Download sizes that somebody measured where they do not follow from the bits: "gguf Q4_K_M"."""
    layers: int = 0
    hidden: int = 0
    vocabulary: int = 0
    experts: int = 0
    """In each layer; stated with `experts_used` and `expert_width`, or not at all."""
    experts_used: int = 0
    expert_width: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    attention: CatalogueAttention = CatalogueAttention.UNKNOWN
    shape_of: str = ""
    """The model that it was made from, where the figures of its layers are that one's: nobody states its own."""
    full_every: int = 0
    """Every so many layers keep all tokens; 0 where unknown, or where all do."""
    window: int = 0
    context: int = 0
    licence: str = ""
    released: str = ""
    """Year and month, "2025-04"."""
    repositories: dict[str, list[str]] = {}
    """By format, the preferred first: "owner/name", or "owner/name@branch"."""
    ranks: dict[str, int] = {}
    """By use: the higher, the better its answers; without one where nobody published what tells."""
    derived: list[str] = []
    """Uses whose rank follows from another size of the same series."""
    sampling: ModelSampling = ModelSampling()
    """What its makers recommend for chat; a file of the model that says otherwise counts before it."""
    sampling_unchecked: bool = False
    """Nobody compared `sampling` with what the makers publish."""
    thinking: ThinkingDefault = ThinkingDefault()
    """How much its makers have it think where a request does not say; empty where they leave it to the template."""
    maker_note: str = ""
    """What its makers say of thinking and of the chat template, in a sentence or two."""
    unchecked: bool = False
    """Nobody verified that its repositories exist."""

    @property
    def name(self) -> str:
        """What `roundhouse pull` takes."""
        return self.names[0]

    @property
    def uses(self) -> list[HubUse]:
        """Return what it can be recommended for."""
        return [use for use in HubUse if use.value in self.good_for]

    def list_rates(self, kind: str) -> list[str]:
        """Return the bit rates that its repositories of a format are known to have, the best first."""
        rates = {rate for place in self.repositories.get(kind, []) for rate in self.branches.get(place, {})}
        return sorted(rates, key=lambda rate: -float(rate.removesuffix(_RATE_UNIT)))

    def list_branches(self, repository: str) -> list[str]:
        """Return the branches of a repository that are known by name."""
        named_branches = (
            known_branches
            for place, known_branches in self.branches.items()
            if place.casefold() == repository.casefold()
        )
        return [branch for known_branches in named_branches for branch in known_branches.values() if branch]

    @property
    def problem(self) -> str:
        """Why it makes no sense; empty where it does."""
        if not self.names or not all(map(_NAME.fullmatch, self.names)) or not self.title.isprintable():
            return "has no name"
        all_names = [name for names in self.repositories.values() for name in names]
        if not all(map(_is_place, [self.base, *all_names])):
            return "has no repository"
        if not self.branches.keys() <= set(all_names) or not all(map(_are_branches, self.branches.values())):
            return "has branches that are none"
        return ""


def _are_branches(branches: dict[str, str]) -> bool:
    return all(_RATE.fullmatch(rate) and (not name or _BRANCH.fullmatch(name)) for rate, name in branches.items())


def _is_place(text: str) -> bool:
    name, at, branch = text.partition("@")
    return bool(REPOSITORY.fullmatch(name)) and (not at or bool(_BRANCH.fullmatch(branch)))
