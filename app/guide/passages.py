"""How well a passage of the manual answers a question: by how much of what the question says is in it.

Words that are rare in the manual count more; one that is nowhere in it counts most of all, which keeps out questions
about other things. Words of the headings and of the chapter's name count as those of the text do, and a little besides.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from app.core.documents import Passage
from app.guide.words import content_words, is_light, is_other_product, near_word

LEAST_SCORE = 1.15
"""A passage below is about something else; chosen on strangers_open.toml of tests/data/guide."""
LEAST_WORDS = 2
"""Of a question, unless its only one is rare: a word by itself is in many passages that are about other things."""
_RARE_SHARE = 0.02
"""Of the passages: a word in no more is rare."""
_HEADING_BONUS = 0.5
"""What it is worth that all of a question is in the headings: a passage that only has its words is about all sorts."""
_UNKNOWN_COUNT = 0.3
"""In how many passages a word that is in none is taken to be, as for phrasings."""


def key_words(text: str) -> set[str]:
    """Return what tells what a text is about: its words without those of everyday talk."""
    return {word for word in content_words(text) if " " not in word and not is_light(word)}


class PassageScorer:
    """Knows how rare each word is in the manual."""

    def __init__(self, texts: Iterable[str]) -> None:
        counts: Counter[str] = Counter()
        total = 0
        for text in texts:
            counts.update(key_words(text))
            total += 1
        self._counts, self._total = counts, total

    def choose(self, question: str, passages: Sequence[Passage]) -> Passage | None:
        """Return the passage that answers a question; None where none does well enough."""
        words = {word if word in self._counts else near_word(word, self._counts) for word in key_words(question)}
        if not self._says_enough(words):
            return None
        best = max(passages, key=lambda passage: self._score(words, passage), default=None)
        return best if best is not None and self._score(words, best) >= LEAST_SCORE else None

    def _says_enough(self, words: set[str]) -> bool:
        if any(is_other_product(word) and word not in self._counts for word in words):
            return False
        return len(words) >= LEAST_WORDS or any(0 < self._counts[word] <= _RARE_SHARE * self._total for word in words)

    def _score(self, words: set[str], passage: Passage) -> float:
        heading = key_words(f"{passage.path.rpartition('/')[2].removesuffix('.md')} {passage.heading}")
        text = key_words(passage.text) | heading
        weights = {word: math.log(1 + self._total / (self._counts[word] or _UNKNOWN_COUNT)) ** 2 for word in words}
        whole = sum(weights.values())
        covered_share = sum(weights[word] for word in words & text) / whole
        return covered_share + _HEADING_BONUS * sum(weights[word] for word in words & heading) / whole
