"""Prompts kept ready for the next time: which there are, where, and what of them was used."""

from enum import StrEnum

import msgspec


class SealKeyState(StrEnum):
    """Whether the system's keyring has the key that seals prompts on the disk."""

    NOT_ASKED = "not_asked"
    """Nothing was to be kept yet, so nobody has opened it."""
    HOLDS_KEY = "holds_key"
    REFUSED = "refused"
    """There is none, or it is locked: prompts are kept in memory only, until Roundhouse ends."""


class WarmPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt that an engine need not read again. Its words are not told."""

    id: str
    model: str
    engine: str
    key: str
    """Of the access key whose requests may use it; empty for requests without one."""
    is_chat: bool
    """Whether it is of a chat in the window; those are apart from programs."""
    tokens: int
    place: str
    """"disk" or "memory"."""
    size_bytes: int
    saves_s: float
    """How long its engine took to read as many tokens."""
    created_at: float
    used_at: float


class WarmPromptModel(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the prompts of a model that is loaded now are kept; `reason` says why not."""

    model: str
    engine: str
    is_kept: bool
    reason: str = ""


class WarmPrompts(msgspec.Struct, frozen=True, kw_only=True):
    """All that is kept. A limit of 0 keeps nothing there."""

    prompts: list[WarmPrompt]
    disk_bytes: int
    disk_limit_bytes: int
    memory_bytes: int
    memory_limit_bytes: int
    keyring: SealKeyState
    models: list[WarmPromptModel]
