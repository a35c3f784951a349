"""How much a model is to think before it answers, in the words that every dialect and the chats share."""

from enum import StrEnum

import msgspec


class ThinkingLevel(StrEnum):
    """How much to think before answering. `DEFAULT` leaves it to the model; `ON` says yes and not how much."""

    DEFAULT = "default"
    OFF = "off"
    ON = "on"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    MAX = "max"


class ThinkingDefault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How much a model thinks for a request that does not say. None: nobody says."""

    level: ThinkingLevel | None = None
    budget: int | None = None
    """Tokens after which thinking is ended, by engines that can."""

    def fill_gaps_from(self, other: "ThinkingDefault") -> "ThinkingDefault":
        """Return this one, with the other's values where it has none."""
        return ThinkingDefault(
            level=other.level if self.level is None else self.level,
            budget=other.budget if self.budget is None else self.budget,
        )
