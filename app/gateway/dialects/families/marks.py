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
    for size in range(min(len(mark) - 1, len(text)), 0, -1):
        if text.endswith(mark[:size]):
            return size
    return 0


class Endings:
    """Drops the mark that ends a turn, where an engine writes it into the text: only at the very end of an answer."""

    def __init__(self, marks: tuple[str, ...]) -> None:
        self._marks = marks
        self._kept = ""

    def feed(self, text: str) -> str:
        """Return what is surely said."""
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
