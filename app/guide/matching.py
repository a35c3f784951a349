"""Which entry a question asks for: by the words it shares with ways of asking, and by what a small network learnt.

A question is compared with every phrasing (cosine of weighted words), and its weight is compared with what an entry's
words cover. A word that no entry knows weighs most of all, which keeps questions about other things out. The network
(`Recogniser`) knows ways of asking that share no word with any phrasing. How like a question is to those about other
things counts against every answer.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from app.guide.entries import EntryKind, GuideEntry
from app.guide.recogniser import Recogniser
from app.guide.words import content_words, is_light, is_other_product, near_word, normal_word

LEAST_SCORE = 0.27
"""A question below is about something else; chosen on the open sets of tests/data/guide, so that most are right."""
_NETWORK_SHARE = 0.4
"""How much the network counts against the words."""
_LIKE_OTHERS_BY_WORDS = 0.5
"""What the words that a question shares with those about other things count against an answer."""
_LEAST_DENIAL = 0.4
"""From where a question is taken to be about what there is not, so that the answer says so."""
_PHRASE_SHARE = 0.5
"""How much the nearest phrasing counts against the words of all of them."""
RULE_BASE = 0.5
"""What it is worth that a question has the words that mean an entry, before the rest of it is looked at."""
RULE_LESS = 0.05
"""What a single word that means an entry counts less than two."""
_UNKNOWN_COUNT = 0.3
"""In how many entries a word that is in none of them is taken to be."""
_EXPLAINING = re.compile(
    r"\W*(?:so\W+)?(?:what(?:.?s)?|why|explain|define|describe|when|which|who|is|are|does|do|tell me"
    r"|how (?:much|many|long|fast|big|good|does|do|is)|difference|\w+ (?:or|vs|versus)|meaning)\b",
    re.IGNORECASE,
)
"""How a question begins that wants something explained."""
_NOT_EXPLAINED = 0.85
"""What an explanation is worth to a question that wants something done."""

_OTHER_SUBJECT = 0.4
"""How like a question about other things one has to be to count as such."""
_OF_OTHERS = 0.6
"""What an answer is worth that has nothing to do with the program or device that the question names."""


class EntryMatch(NamedTuple):
    """An entry, and how well a question asks for it: 0 to 1."""

    entry: GuideEntry
    score: float


class _Rule(NamedTuple):
    entry: int
    groups: tuple[frozenset[str], ...]


class QuestionIndex:
    """All phrasings, to find the nearest of a question."""

    def __init__(self, entries: Sequence[GuideEntry], recogniser: Recogniser | None = None) -> None:
        """Without a `recogniser`, only words count."""
        self._entries, self._recogniser = entries, recogniser
        words = [[content_words(phrase) for phrase in entry.ask] for entry in entries]
        self._vocabulary = [set().union(*phrases) for phrases in words]
        counts: dict[str, int] = defaultdict(int)
        for vocabulary in self._vocabulary:
            for word in vocabulary:
                counts[word] += 1
        self._rarity = {word: math.log(1 + len(entries) / count) for word, count in counts.items()}
        self._unknown = math.log(1 + len(entries) / _UNKNOWN_COUNT)
        self._rules = [
            _Rule(number, tuple(frozenset(map(normal_word, group.split("|"))) for group in rule.split()))
            for number, entry in enumerate(entries)
            for rule in entry.when
        ]
        self._owners: list[int] = []
        """The entry of each phrase."""
        self._by_word: dict[str, list[tuple[int, float]]] = defaultdict(list)
        """The phrases that have a word, with its share of each."""
        for number, phrases in enumerate(words):
            for phrase in phrases:
                self._add_phrase(number, phrase)

    def rank(self, question: str, names: Iterable[str] = ()) -> list[EntryMatch]:
        """Return the entries that a question may ask for, the best first. `names` are the kinds of names it has.

        Those about other things, and about what there is not, stand among them with how like it is to them.
        """
        kinds = set(names)
        by_words = {number: score for number, score in self._score_words(question, kinds).items() if score > 0}
        if not by_words:
            return []
        learnt = self._recogniser.judge(question) if self._recogniser is not None else {}
        others = [number for number, entry in enumerate(self._entries) if is_declined(entry)]
        doubt = _NETWORK_SHARE * math.sqrt(sum(learnt.get(self._entries[number].id, 0.0) for number in others))
        doubt += _LIKE_OTHERS_BY_WORDS * (1 - _NETWORK_SHARE) * max(by_words.get(number, 0.0) for number in others)
        matches = []
        for number, entry in enumerate(self._entries):
            if self._is_meant(number, kinds):
                score = (1 - _NETWORK_SHARE) * by_words.get(number, 0.0)
                score += _NETWORK_SHARE * math.sqrt(learnt.get(entry.id, 0.0))
                matches.append(EntryMatch(entry, score if is_declined(entry) else score - doubt))
        return sorted(matches, key=lambda match: -match.score)

    def _score_words(self, question: str, kinds: set[str]) -> dict[int, float]:
        """Return how well the words of entries fit, by their numbers: 0 to 1."""
        weights = self._weigh(self._repair(content_words(question)))
        norm = math.hypot(*weights.values()) if weights else 0.0
        if not norm:
            return {}
        best = {
            entry: cosine / norm for entry, cosine in self._compare(weights).items() if self._is_meant(entry, kinds)
        }
        whole, wants_doing = norm * norm, not _EXPLAINING.match(question)
        scores = {
            number: (_PHRASE_SHARE * cosine + (1 - _PHRASE_SHARE) * self._weigh_overlap(number, weights) / whole)
            * (_NOT_EXPLAINED if wants_doing and self._entries[number].kind is EntryKind.EXPLANATION else 1.0)
            for number, cosine in best.items()
        }
        for number, score in self._score_rules(weights, kinds):
            scores[number] = max(score, scores.get(number, 0.0))
        others = {word for word in weights if is_other_product(word)}
        is_of_others = others and not any(" " not in word and not is_light(word) for word in weights.keys() - others)
        return {
            number: score * (_OF_OTHERS if is_of_others or others - self._vocabulary[number] else 1.0)
            for number, score in scores.items()
        }

    def recognise(self, question: str, names: Iterable[str] = ()) -> EntryMatch | None:
        """Return what a question asks for; None for one that asks for nothing the Guide knows."""
        return choose_match(self.rank(question, names))

    def _score_rules(self, weights: dict[str, float], kinds: set[str]) -> Iterator[tuple[int, float]]:
        """Yield how well the words fit that mean an entry: what they leave of the question counts against it."""
        words = {word: weight for word, weight in weights.items() if " " not in word}
        whole = sum(weight * weight for weight in words.values())
        for rule in self._rules:
            if not self._is_meant(rule.entry, kinds) or not all(group & words.keys() for group in rule.groups):
                continue
            known_words = frozenset().union(*rule.groups) | self._vocabulary[rule.entry]
            covered_share = sum(weight * weight for word, weight in words.items() if word in known_words) / whole
            yield rule.entry, RULE_BASE + (1 - RULE_BASE) * covered_share - RULE_LESS / len(rule.groups)

    def _add_phrase(self, entry: int, words: dict[str, float]) -> None:
        weights = self._weigh(words)
        norm = math.hypot(*weights.values()) or 1.0
        for word, weight in weights.items():
            self._by_word[word].append((len(self._owners), weight / norm))
        self._owners.append(entry)

    def _weigh(self, words: dict[str, float]) -> dict[str, float]:
        return {word: share * self._rarity.get(word, self._unknown) for word, share in words.items()}

    def _repair(self, words: dict[str, float]) -> dict[str, float]:
        """Return words with slips of the finger put right, without pairs and everyday words that nobody knows."""
        return {
            self._repair_word(word): share
            for word, share in words.items()
            if word in self._rarity or not (" " in word or is_light(word))
        }

    def _repair_word(self, word: str) -> str:
        if word in self._rarity:
            return word
        again = word.removeprefix("re")  # recalibrate, reinstall: done once more
        return again if again in self._rarity else near_word(word, self._rarity)

    def _compare(self, weights: dict[str, float]) -> dict[int, float]:
        """Return by entry how like its nearest phrase is to these words, times how much they weigh."""
        likeness: dict[int, float] = defaultdict(float)
        for word, weight in weights.items():
            for phrase, share in self._by_word.get(word, ()):
                likeness[phrase] += weight * share
        best: dict[int, float] = {}
        for phrase, score in likeness.items():
            entry = self._owners[phrase]
            if score > best.get(entry, 0.0):
                best[entry] = score
        return best

    def _weigh_overlap(self, entry: int, weights: dict[str, float]) -> float:
        vocabulary = self._vocabulary[entry]
        return sum(weight * weight for word, weight in weights.items() if word in vocabulary)

    def _is_meant(self, entry: int, kinds: set[str]) -> bool:
        needs = self._entries[entry].needs
        return not needs or needs in kinds


def is_declined(entry: GuideEntry) -> bool:
    """Tell whether an entry is about something else, or about what there is not."""
    return entry.denies or entry.kind is EntryKind.REFUSAL


def choose_match(matches: Sequence[EntryMatch]) -> EntryMatch | None:
    """Return the best of ranked matches if it is good enough, else that there is no such thing if that is meant."""
    best = next((match for match in matches if not is_declined(match.entry)), None)
    if best is not None and best.score >= LEAST_SCORE:
        return best
    other = next((match for match in matches if is_declined(match.entry)), None)
    return other if other is not None and other.entry.denies and other.score >= _LEAST_DENIAL else None


def is_other_subject(matches: Sequence[EntryMatch]) -> bool:
    """Tell whether a question is most like those about other things, and is not looked for in the manual either."""
    return bool(matches) and matches[0].entry.kind is EntryKind.REFUSAL and matches[0].score >= _OTHER_SUBJECT
