"""Tell reasoning from the answer, as it is written.

Reasoning stands at the beginning of an answer or not at all: a mark further on is something that is talked about.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from app.gateway.canonical.families.marks import earliest, held


class Style(msgspec.Struct, frozen=True, kw_only=True):
    """How a family marks reasoning. `dropped` are marks around the answer itself; `ended_by` end it and go on."""

    opens: tuple[str, ...] = ("<think>",)
    closes: tuple[str, ...] = ("</think>",)
    dropped: tuple[str, ...] = ()
    ended_by: tuple[str, ...] = ()


class Said(NamedTuple):
    """A piece of an answer."""

    text: str
    is_thought: bool = False


class Thoughts:
    """Splits one answer. `is_open` if the prompt itself opened the reasoning."""

    def __init__(self, style: Style, *, is_open: bool = False) -> None:
        self._style = style
        self._rest = ""
        self._is_inside = is_open
        self._may_begin = True
        self._space = ""
        """Before reasoning closes: dropped if it does."""
        self._after = False
        """Reasoning has just closed: the empty lines before the answer are nobody's."""

    def feed(self, text: str) -> Sequence[Said]:
        """Return what is surely said, and what it is."""
        self._rest += text
        said: list[Said] = []
        while self._rest and self._step(said):
            pass
        return said

    def end(self) -> Sequence[Said]:
        """Return what was held back."""
        rest, self._rest = self._rest, ""
        if self._is_inside:
            rest = rest.rstrip() and self._space + rest.rstrip()
        return [Said(rest, self._is_inside)] if rest else []

    def _step(self, said: list[Said]) -> bool:
        """Take one stretch off the rest; return whether another may be there."""
        if self._may_begin:
            return self._begin()
        return self._think(said) if self._is_inside else self._answer(said)

    def _begin(self) -> bool:
        """See what the answer, or the reasoning that the prompt opened, begins with."""
        text, style = self._rest.lstrip(), self._style
        marks = (*style.opens, *style.closes) if not self._is_inside else style.opens
        for mark in marks:
            if text.startswith(mark):
                self._rest = text[len(mark) :].lstrip()
                self._is_inside = mark in style.opens
                self._after = not self._is_inside
                return bool(self._rest)
        if not text or any(mark.startswith(text) for mark in marks):
            return False
        self._rest = text if self._is_inside else self._rest
        self._may_begin = False
        return True

    def _think(self, said: list[Said]) -> bool:
        style = self._style
        found = earliest(self._rest, (*style.closes, *style.ended_by))
        if found is None:
            self._tell(said, len(self._rest) - held(self._rest, (*style.closes, *style.ended_by)))
            return False
        at, mark = found
        thought = (self._space + self._rest[:at]).rstrip()
        if thought:
            said.append(Said(thought, is_thought=True))
        self._space = ""
        self._rest = self._rest[at + (len(mark) if mark in style.closes else 0) :]
        self._is_inside, self._after = False, True
        return bool(self._rest)

    def _tell(self, said: list[Said], cut: int) -> None:
        text = self._space + self._rest[:cut]
        kept = len(text.rstrip())
        if kept:
            said.append(Said(text[:kept], is_thought=True))
        self._space, self._rest = text[kept:], self._rest[cut:]

    def _answer(self, said: list[Said]) -> bool:
        if self._after:
            self._rest = self._rest.lstrip()
            if not self._rest:
                return False
        found = earliest(self._rest, self._style.dropped)
        cut = found[0] if found else len(self._rest) - held(self._rest, self._style.dropped)
        if cut:
            self._after = False
            said.append(Said(self._rest[:cut]))
        self._rest = self._rest[cut + (len(found[1]) if found else 0) :]
        return found is not None
