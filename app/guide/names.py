"""Names in a question: of models, programs and engines. Each is found in all the ways people write it.

`qwen3:8b`, "Qwen3 8B" and "qwen 3 8b" are the same letters and digits, so a name is compared by these alone.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from app.guide.words import is_light, normal_word

_PART = re.compile(r"[^\W_]+(?:\.\d+)?", re.UNICODE)
_MOST_PARTS = 7
"""Words of one name."""
_REPOSITORY = re.compile(r"(?<!/)\b[\w-]+/[\w.-]+(?::[\w.]+)?")
_NAME_WORD = re.compile(r"[\w.-]+")
_SIZE = re.compile(r"(?<![\d.])\d+(?:\.\d+)?[bm](?!\w)", re.IGNORECASE)
_ACTIVE = re.compile(r"[- ]a\d+(?:\.\d+)?b(?!\w)", re.IGNORECASE)
"""How many parameters are active, behind the size: "30b-a3b"."""
_JOINTS = frozenset({" ", ":"})
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
            known_name = self._names.get(letters_of(question[start:end]))
            if known_name is not None and (
                question[start].isupper() or not is_light(normal_word(question[start:end].casefold()))
            ):
                return NameMatch(*known_name, start, end), count
        return None, 1


def _unknown_models(question: str) -> list[NameMatch]:
    match = _REPOSITORY.search(question)
    span = _find_sized_name(question) if match is None else match.span()
    return [] if span is None else [NameMatch("model", question[slice(*span)], *span)]


def _find_sized_name(question: str) -> tuple[int, int] | None:
    """Return where a name stands that ends in a size: a model's, also when nobody here knows it ("newmodel 9b")."""
    before: re.Match[str] | None = None
    for word in _NAME_WORD.finditer(question):
        size = _SIZE.search(word.group())
        if size is not None:
            is_alone = size.start() == 0
            name = before if is_alone else word
            is_joined = before is not None and question[before.end() : word.start()] in _JOINTS
            if name is not None and name.group()[0].isalpha() and (is_joined or not is_alone):
                end = word.start() + size.end()
                active = _ACTIVE.match(question, end)
                return name.start(), active.end() if active else end
        before = word
    return None


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
