"""Names in a question: of models, programs and engines. Each is found in all the ways people write it.

`qwen3:8b`, "Qwen3 8B" and "qwen 3 8b" are the same letters and digits, so a name is compared by these alone.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

_PART = re.compile(r"[^\W_]+(?:\.\d+)?", re.UNICODE)
_MOST_PARTS = 7
"""Words of one name."""
_REPOSITORY = re.compile(r"\b[\w-]+/[\w.-]+(?::[\w.]+)?")
_SIZED = re.compile(r"\b(?=[a-z])[\w.-]*[a-z][\w.-]*[ :-]?\d+(?:\.\d+)?[bm]\b(?:[- ]a\d+(?:\.\d+)?b)?", re.IGNORECASE)
"""A name that ends in a size is a model's, also when nobody here knows it: "newmodel 9b"."""
_LEAST_LETTERS = 3
_CONTEXT = re.compile(r"\b(\d{1,4})\s?k\b|\b(\d{4,7})\b(?!\s?(?:gb|mb|gib|mib))", re.IGNORECASE)
_K = 1024


class NameMatch(NamedTuple):
    """A name that a question has: its kind, what it is called here, and where it stands."""

    kind: str
    name: str
    start: int
    end: int


class NameTable:
    """Known names, by their letters and digits. The longest one at a place counts."""

    def __init__(self, names: Mapping[str, Mapping[str, str]]) -> None:
        """`names` has, for each kind, ways of writing a name and what it is called here; an earlier kind goes first."""
        self._names: dict[str, tuple[str, str]] = {}
        for kind, ways in names.items():
            for way, name in ways.items():
                key = letters_of(way)
                if len(key) >= _LEAST_LETTERS:
                    self._names.setdefault(key, (kind, name))

    def find_names(self, question: str) -> list[NameMatch]:
        """Return the names in a question, in order, none within another."""
        parts = list(_PART.finditer(question))
        things: list[NameMatch] = []
        at = 0
        while at < len(parts):
            thing, step = self._name_at(question, parts, at)
            if thing is not None:
                things.append(thing)
            at += step
        return things or _unknown_models(question)

    def _name_at(self, question: str, parts: list["re.Match[str]"], at: int) -> tuple[NameMatch | None, int]:
        for count in range(min(_MOST_PARTS, len(parts) - at), 0, -1):
            start, end = parts[at].start(), parts[at + count - 1].end()
            known = self._names.get(letters_of(question[start:end]))
            if known is not None:
                return NameMatch(*known, start, end), count
        return None, 1


def _unknown_models(question: str) -> list[NameMatch]:
    match = _REPOSITORY.search(question) or _SIZED.search(question)
    return [] if match is None else [NameMatch("model", match.group(), match.start(), match.end())]


def hide_names(question: str, things: list[NameMatch]) -> str:
    """Return the question with the kind of each name in its place, as phrasings have them."""
    parts, at = [], 0
    for thing in things:
        parts += [question[at : thing.start], f"{{{thing.kind}}}"]
        at = thing.end
    return "".join([*parts, question[at:]])


def letters_of(name: str) -> str:
    """Return what a name is compared by."""
    return "".join(_PART.findall(name.casefold())).replace(".", "")


def find_context(question: str) -> int | None:
    """Return the tokens of context that a question names, as 32k or 32768."""
    match = _CONTEXT.search(question)
    if match is None:
        return None
    return int(match.group(1)) * _K if match.group(1) else int(match.group(2))
