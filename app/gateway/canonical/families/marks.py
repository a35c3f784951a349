"""Marks in text that is still being written: what may be the beginning of one is not let go of.

Reasoning stands between marks at the beginning of an answer or not at all: a mark further on is something that is
talked about. The mark that ends a turn stands at the very end.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec


def first_mark(text: str, marks: Iterable[str]) -> tuple[int, str] | None:
    """Return where the first mark stands, and which it is."""
    marks_found = [(at, mark) for mark in marks if (at := text.find(mark)) >= 0]
    return min(marks_found) if marks_found else None


def partial_mark_length(text: str, marks: Iterable[str]) -> int:
    """Return how many characters at the end of a text may be the beginning of a mark."""
    return max((_overlap(text, mark) for mark in marks), default=0)


def _overlap(text: str, mark: str) -> int:
    """Return the longest end of the text that a mark begins with; mostly it holds not even its first letter."""
    at = text.find(mark[0], max(0, len(text) - len(mark) + 1))
    while at >= 0:
        if mark.startswith(text[at:]):
            return len(text) - at
        at = text.find(mark[0], at + 1)
    return 0


class TurnEndStripper:
    """Drops the mark that ends a turn, where an engine writes it into the text: only at the very end of an answer."""

    def __init__(self, marks: tuple[str, ...]) -> None:
        self._marks = marks
        self._letters = {mark[0] for mark in marks}
        self._kept_text = ""

    def feed(self, text: str) -> str:
        """Return what is surely said."""
        if not self._kept_text and not any(letter in text for letter in self._letters):
            return text
        text = self._kept_text + text
        whole = max((len(mark) for mark in self._marks if text.endswith(mark)), default=0)
        cut = len(text) - max(whole, partial_mark_length(text, self._marks))
        self._kept_text = text[cut:]
        return text[:cut]

    def end(self) -> str:
        """Return what was held back and is no mark."""
        kept_text, self._kept_text = self._kept_text, ""
        return "" if kept_text in self._marks else kept_text


CHANNEL_MARKS = ("<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|return|>", "<|call|>")
"""Of gpt-oss's channels."""
ENDS_OF_TURN = (
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eot|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "</s>",
    "<end_of_turn>",
    "<eos>",
    "<turn|>",
    "<|END_OF_TURN_TOKEN|>",
    "<｜end▁of▁sentence｜>",
    "<|user|>",
    "<|observation|>",
    "[e~[",
)
"""Of the families known here. None of them is the end of another."""


class ReasoningStyle(msgspec.Struct, frozen=True, kw_only=True):
    """How a family marks reasoning. `dropped` are marks around the answer itself; `ended_by` end it and go on."""

    opens: tuple[str, ...] = ("<think>",)
    closes: tuple[str, ...] = ("</think>",)
    dropped: tuple[str, ...] = ()
    ended_by: tuple[str, ...] = ()


class TextSpan(NamedTuple):
    """A piece of an answer."""

    text: str
    is_thought: bool = False


class ReasoningSplitter:
    """Splits one answer. `is_open` if the prompt itself opened the reasoning."""

    def __init__(self, style: ReasoningStyle, *, is_open: bool = False) -> None:
        self._style = style
        self._rest = ""
        self._is_inside = is_open
        self._may_begin = True
        self._space = ""
        """Before reasoning closes: dropped if it does."""
        self._after = False
        """Reasoning has just closed: the empty lines before the answer are nobody's."""

    def feed(self, text: str) -> Sequence[TextSpan]:
        """Return what is surely said, and what it is."""
        self._rest += text
        spans: list[TextSpan] = []
        while self._rest and self._step(spans):
            pass
        return spans

    def end(self) -> Sequence[TextSpan]:
        """Return what was held back."""
        rest, self._rest = self._rest, ""
        if self._is_inside:
            rest = rest.rstrip() and self._space + rest.rstrip()
        return [TextSpan(rest, self._is_inside)] if rest else []

    def _step(self, spans: list[TextSpan]) -> bool:
        """Take one stretch off the rest; return whether another may be there."""
        if self._may_begin:
            return self._begin()
        return self._take_thought(spans) if self._is_inside else self._take_answer(spans)

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

    def _take_thought(self, spans: list[TextSpan]) -> bool:
        style = self._style
        mark_found = first_mark(self._rest, (*style.closes, *style.ended_by))
        if mark_found is None:
            self._add_thought(
                spans, len(self._rest) - partial_mark_length(self._rest, (*style.closes, *style.ended_by))
            )
            return False
        at, mark = mark_found
        thought = (self._space + self._rest[:at]).rstrip()
        if thought:
            spans.append(TextSpan(thought, is_thought=True))
        self._space = ""
        self._rest = self._rest[at + (len(mark) if mark in style.closes else 0) :]
        self._is_inside, self._after = False, True
        return bool(self._rest)

    def _add_thought(self, spans: list[TextSpan], cut: int) -> None:
        text = self._space + self._rest[:cut]
        kept_length = len(text.rstrip())
        if kept_length:
            spans.append(TextSpan(text[:kept_length], is_thought=True))
        self._space, self._rest = text[kept_length:], self._rest[cut:]

    def _take_answer(self, spans: list[TextSpan]) -> bool:
        if self._after:
            self._rest = self._rest.lstrip()
            if not self._rest:
                return False
        mark_found = first_mark(self._rest, self._style.dropped)
        cut = mark_found[0] if mark_found else len(self._rest) - partial_mark_length(self._rest, self._style.dropped)
        if cut:
            self._after = False
            spans.append(TextSpan(self._rest[:cut]))
        self._rest = self._rest[cut + (len(mark_found[1]) if mark_found else 0) :]
        return mark_found is not None
