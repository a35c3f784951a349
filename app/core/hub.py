"""Models of a hub as every program sees them: what is found, and what each variant would be on this machine.

Bytes are bytes, contexts tokens, rates tokens per second; an unknown figure is None.
"""

import msgspec

from app.core.advice import Rate


class HubVariant(msgspec.Struct, frozen=True, kw_only=True):
    """One way to have a model, before a byte of it is fetched."""

    quantization: str
    format: str
    size_bytes: int
    """Exact, as the hub says, without the projector."""
    files: int
    projector_bytes: int = 0
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


class HubModel(msgspec.Struct, frozen=True, kw_only=True):
    """One revision of a repository, with what it offers to this machine."""

    repository: str
    revision: str
    commit: str
    page: str
    """Its address for people."""
    variants: list[HubVariant]
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
    note: str = ""
    """What could not be found out, and why."""


class HubFound(msgspec.Struct, frozen=True, kw_only=True):
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
    downloads: int = 0
    likes: int = 0
    modified: str = ""
    is_here: bool = False


class HubCard(msgspec.Struct, frozen=True, kw_only=True):
    """One model with all the repositories that hold it in some form, the most downloaded first."""

    base: str
    """The repository it was made from, or its own."""
    title: str
    repositories: list[HubFound]
    parameters: int | None = None
    fits: bool | None = None
    """In the usual quantisation, on this machine."""
    memory_bytes: int | None = None
    decode: Rate | None = None
    quantization: str = ""
    """The quantisation these three are for."""
    downloads: int = 0
