"""Draw questions that have nothing to do with Roundhouse.

The Guide declines these, each kind in its own words. They are built from patterns,
numbers and invented words, so that the model declines a kind of question instead of
giving the answer of the nearest phrase it knows.
"""

from __future__ import annotations

import re
import string
import tomllib
from typing import TYPE_CHECKING

from topics import HERE

if TYPE_CHECKING:
    from random import Random

UNKNOWN_ID = "unknown"  # the topic for whatever fits no other
BLANK = re.compile(r"\{(\w+)\}")
FIRST_YEAR, LAST_YEAR = 1000, 2030


class OffTopic:
    """The patterns and words of `offtopic.toml`."""

    def __init__(self) -> None:
        table = tomllib.loads((HERE / "offtopic.toml").read_text(encoding="utf-8"))
        self._patterns: dict[str, list[str]] = table["patterns"]
        self._words: dict[str, list[str]] = table["words"]
        self._syllables: list[str] = table["syllables"]

    @property
    def topic_ids(self) -> tuple[str, ...]:
        """Return the topics that have patterns."""
        return tuple(self._patterns)

    def question(self, topic_id: str, rng: Random) -> str:
        """Return one question for the topic, in lower case."""
        pattern = rng.choice(self._patterns[topic_id])
        return BLANK.sub(lambda blank: self._word(blank[1], rng), pattern).lower()

    def _word(self, kind: str, rng: Random) -> str:
        if kind == "number":
            return str(rng.randrange(10 ** rng.randrange(1, 5)))
        if kind == "small":
            return str(rng.randrange(2, 60))
        if kind == "year":
            return str(rng.randrange(FIRST_YEAR, LAST_YEAR))
        if kind == "nonsense":
            return "".join(rng.choice(self._syllables) for _ in range(rng.randrange(2, 5)))
        if kind == "letters":
            return "".join(rng.choice(string.ascii_lowercase) for _ in range(rng.randrange(3, 9)))
        return rng.choice(self._words[kind])
