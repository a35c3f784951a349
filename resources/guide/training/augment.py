"""Vary a question without changing what it asks for.

A model of this size learns words by heart unless it meets each question in many
shapes. Every variation draws from the generator it is handed, so one seed gives
one corpus.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from topics import HERE

if TYPE_CHECKING:
    from random import Random

KEYBOARD_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
SHORTEST_TYPO = 4  # letters; a mistyped shorter word is another word
FEWEST_WORDS = 3  # in a shorter question every word counts


@dataclass(frozen=True)
class Rates:
    """How often each variation happens: per question, or per word where said."""

    frame: float = 0.3
    synonym_per_match: float = 0.25
    keywords: float = 0.12
    shuffle: float = 0.05
    drop_per_word: float = 0.06
    typo_per_word: float = 0.025
    before: float = 0.2
    after: float = 0.15
    bare: float = 0.45


@dataclass(frozen=True)
class Wording:
    """The interchangeable words and phrases of `wording.toml`."""

    frames: dict[str, tuple[str, ...]]
    synonyms: dict[str, tuple[str, ...]]
    before: tuple[str, ...]
    after: tuple[str, ...]
    fillers: frozenset[str]
    systems: tuple[str, ...]
    tools: tuple[str, ...]
    strangers: tuple[str, ...]


def load_wording() -> Wording:
    """Read the word lists that lie beside this file."""
    table = tomllib.loads((HERE / "wording.toml").read_text(encoding="utf-8"))
    return Wording(
        frames=_alternatives(table["frames"]),
        synonyms=_alternatives(table["synonyms"]),
        before=tuple(table["before"]),
        after=tuple(table["after"]),
        fillers=frozenset(table["fillers"]),
        systems=tuple(table["systems"]),
        tools=tuple(table["tools"]),
        strangers=tuple(table["strangers"]),
    )


class Variator:
    """Draws variations of questions at the given rates."""

    def __init__(self, wording: Wording, rates: Rates) -> None:
        self._wording = wording
        self._rates = rates
        ordered = sorted(wording.synonyms, key=len, reverse=True)
        self._synonym = re.compile(rf"(?<![\w'])(?:{'|'.join(map(re.escape, ordered))})(?![\w'])")
        self._openings = sorted(wording.frames, key=len, reverse=True)

    def vary(self, question: str, rng: Random) -> str:
        """Return one variation, in lower case as the chat template hands it on."""
        text = self._reframe(question.lower().strip(), rng)
        text = self._swap_synonyms(text, rng)
        text = self._rework_words(text, rng)
        if rng.random() < self._rates.bare:
            text = text.rstrip("?.! ").replace(",", "")
        if rng.random() < self._rates.before:
            text = f"{rng.choice(self._wording.before)} {text}"
        if rng.random() < self._rates.after:
            text = _append(text, rng.choice(self._wording.after))
        return text

    def _reframe(self, text: str, rng: Random) -> str:
        if rng.random() >= self._rates.frame:
            return text
        for opening in self._openings:
            if text.startswith(opening + " "):
                return rng.choice(self._wording.frames[opening]) + text[len(opening) :]
        return text

    def _swap_synonyms(self, text: str, rng: Random) -> str:
        def swap(match: re.Match[str]) -> str:
            if rng.random() >= self._rates.synonym_per_match:
                return match[0]
            return rng.choice(self._wording.synonyms[match[0]])

        return self._synonym.sub(swap, text)

    def _rework_words(self, text: str, rng: Random) -> str:
        words = text.split()
        if rng.random() < self._rates.keywords:
            words = [word for word in words if word.strip("?,.") not in self._wording.fillers] or words
            if rng.random() < self._rates.shuffle / self._rates.keywords:
                rng.shuffle(words)
        if len(words) >= FEWEST_WORDS:
            words = [word for word in words if rng.random() >= self._drop_rate(word)] or words
        return " ".join(_mistype(word, rng) if rng.random() < self._rates.typo_per_word else word for word in words)

    def _drop_rate(self, word: str) -> float:
        plain = word.strip("?,.")
        return self._rates.drop_per_word * (2.0 if plain in self._wording.fillers else 0.5)


def _append(text: str, suffix: str) -> str:
    if suffix[0].isalnum():
        return f"{text.rstrip('?')} {suffix}"
    return text.rstrip("?.!") + suffix


def _mistype(word: str, rng: Random) -> str:
    if len(word) < SHORTEST_TYPO or not word.isascii() or not word.isalpha():
        return word
    at = rng.randrange(1, len(word) - 1)
    start, letter, rest = word[:at], word[at], word[at + 1 :]
    match rng.randrange(4):
        case 0:
            return start + rest
        case 1:
            return start + rest[0] + letter + rest[1:]
        case 2:
            return start + letter + letter + rest
        case _:
            return start + _neighbour(letter, rng) + rest


def _neighbour(letter: str, rng: Random) -> str:
    for row in KEYBOARD_ROWS:
        place = row.find(letter)
        if place >= 0:
            return row[max(0, min(len(row) - 1, place + rng.choice((-1, 1))))]
    return letter


def _alternatives(groups: list[list[str]]) -> dict[str, tuple[str, ...]]:
    table: dict[str, tuple[str, ...]] = {}
    for group in groups:
        for phrase in group:
            others = tuple(other for other in group if other != phrase)
            table[phrase] = table.get(phrase, ()) + others
    return table
