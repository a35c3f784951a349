"""Whether engines are confined here, and what that does and does not keep them from: what `doctor` and lists show."""

import msgspec


class ConfinementPart(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that engines are kept from, or are not, and why, in a sentence."""

    name: str
    """"files", "network", "programs" or "processes"."""
    is_held: bool
    sentence: str


class ConfinementReport(msgspec.Struct, frozen=True, kw_only=True):
    """What this computer offers, and what of it is used. Not confined: an engine may do all that its user may."""

    is_confined: bool
    sentence: str
    parts: list[ConfinementPart] = []
    """Empty where nothing is held."""


class EngineConfinementState(msgspec.Struct, frozen=True, kw_only=True):
    """Whether one engine is confined when it is next loaded, and what that comes to, in a sentence."""

    is_confined: bool
    sentence: str
