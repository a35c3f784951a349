"""How much a model is to think before it answers, in the words that every dialect and the chats share."""

from enum import StrEnum


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
