"""Finds words in a conversation: every place, in reading order, and which of them the reader is at.

Messages that cannot have the words are left unread. The others are looked through a few milliseconds at a time, so that
a conversation of thousands of messages holds nobody up; places that are known are shown meanwhile.
"""

import re
from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import NamedTuple

from PySide6.QtCore import QObject, QTimer, Signal

from app.gui.markdown.pieces import wide_length
from app.gui.screens.chat.transcript.box import MatchMark
from app.gui.screens.chat.transcript.document import TranscriptDocument

_SLICE_S = 0.008
"""Of looking, before what waits has its turn: half a frame."""
MOST_MATCHES = 10_000


class TextMatch(NamedTuple):
    """One place: the turn, its box, and from where to where in the box's text."""

    turn: int
    box: int
    start: int
    end: int


class TranscriptFinder(QObject):
    """What is looked for in a document. `changed`: more places are known, or the reader is at another."""

    changed = Signal()

    def __init__(self, document: TranscriptDocument, parent: QObject) -> None:
        super().__init__(parent)
        self.terms: tuple[str, ...] = ()
        self.matches: list[TextMatch] = []
        self.current = -1
        """Which of them the reader is at; -1 while none is known."""
        self._document = document
        self._start = 0
        self._turns: Iterator[int] | None = None
        self._pause = QTimer(self, singleShot=True, interval=0)
        self._pause.timeout.connect(self._look_further)

    @property
    def is_looking(self) -> bool:
        """Whether there are messages that were not looked through."""
        return self._turns is not None

    @property
    def match(self) -> TextMatch | None:
        """The place where the reader is."""
        return self.matches[self.current] if 0 <= self.current < len(self.matches) else None

    def find(self, terms: Sequence[str], *, start: int = 0) -> None:
        """Look for any of some words, beginning with the turn `start`; nothing to look for ends it."""
        self.terms = tuple(term for term in terms if term.strip())
        self.matches, self.current, self._start = [], -1, start
        self._document.marks = {}
        self._turns = self._turns_to_read() if self.terms else None
        self._look_further()

    def refresh(self) -> None:
        """Look again after the conversation changed; the reader stays at the same place."""
        if self.terms:
            self.find(self.terms, start=self.match.turn if self.match else self._start)

    def step(self, by: int) -> None:
        """Go to another place, round the end."""
        if self.matches:
            self.current = (self.current + by) % len(self.matches)
            self._mark()
            self.changed.emit()

    def _turns_to_read(self) -> Iterator[int]:
        """Yield the turns that may have the words, from the first on that the reader wants."""
        words = [[word.casefold() for word in term.split()] for term in self.terms]
        count = len(self._document.turns)
        for at in range(count):
            index = (self._start + at) % count
            text = self._document.turns[index].text.casefold()
            if any(all(word in text for word in term) for term in words):
                yield index

    def _look_further(self) -> None:
        began, before = perf_counter(), len(self.matches)
        at = self.match
        while self._turns is not None and perf_counter() - began < _SLICE_S:
            index = next(self._turns, None)
            if index is None or len(self.matches) >= MOST_MATCHES:
                self._turns = None
                break
            self.matches += matches_in(self._document, index, self.terms)
        if len(self.matches) != before:
            first = at or self.matches[0]
            self.matches.sort()
            self.current = self.matches.index(first)
            self._mark()
        if self._turns is not None:
            self._pause.start()
        self.changed.emit()

    def _mark(self) -> None:
        marks: dict[tuple[int, int], list[MatchMark]] = {}
        for at, match in enumerate(self.matches):
            mark = MatchMark(match.start, match.end, at == self.current)
            marks.setdefault((match.turn, match.box), []).append(mark)
        self._document.marks = {place: tuple(places) for place, places in marks.items()}


def matches_in(document: TranscriptDocument, index: int, terms: Sequence[str]) -> list[TextMatch]:
    """Return where a turn has the words, as it is read: across the marks of bold or code, not across paragraphs."""
    turn = document.turns[index]
    turn.build_boxes()
    pattern = re.compile("|".join(r"\s+".join(map(re.escape, term.split())) for term in terms), re.IGNORECASE)
    matches: list[TextMatch] = []
    for box in range(turn.body_box, len(turn.boxes)):
        text = turn.boxes[box].text
        for match in pattern.finditer(text):
            start = wide_length(text[: match.start()])
            matches.append(TextMatch(index, box, start, start + wide_length(match.group())))
    return matches
