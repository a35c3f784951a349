"""Finding marks in text that is still being written: what may be the beginning of one is not let go of."""

from collections.abc import Iterable


def earliest(text: str, marks: Iterable[str]) -> tuple[int, str] | None:
    """Return where the first mark stands, and which it is."""
    found = [(at, mark) for mark in marks if (at := text.find(mark)) >= 0]
    return min(found) if found else None


def held(text: str, marks: Iterable[str]) -> int:
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


class Endings:
    """Drops the mark that ends a turn, where an engine writes it into the text: only at the very end of an answer."""

    def __init__(self, marks: tuple[str, ...]) -> None:
        self._marks = marks
        self._letters = {mark[0] for mark in marks}
        self._kept = ""

    def feed(self, text: str) -> str:
        """Return what is surely said."""
        if not self._kept and not any(letter in text for letter in self._letters):
            return text
        text = self._kept + text
        whole = max((len(mark) for mark in self._marks if text.endswith(mark)), default=0)
        cut = len(text) - max(whole, held(text, self._marks))
        self._kept = text[cut:]
        return text[:cut]

    def end(self) -> str:
        """Return what was held back and is no mark."""
        kept, self._kept = self._kept, ""
        return "" if kept in self._marks else kept


ENDS_OF_TURN = (
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
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
