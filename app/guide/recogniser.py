"""A small network that says which entry a question means, beside the words that it shares with phrasings.

It adds up what it learnt of words, pairs of words and pieces of words, and what a table of word vectors says of their
meaning, so that "sluggish" is near "slow". `resources/guide/training/recogniser.py` trains it and writes its file.
"""

import math
import operator
import zlib
from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from app.guide.words import normal_word, split_words

BUCKETS = 1 << 15
"""Of words, pairs and pieces; two that share one are told apart by the others."""
PIECES = (3, 4)
"""Letters of a piece of a word."""
WORD_SHARE, PAIR_SHARE, START_SHARE, PIECE_SHARE = 1.0, 0.6, 0.5, 0.72
KINDS = {"{model}": "model", "{app}": "editor", "{engine}": "engine"}
"""The word whose meaning stands for that of a name."""
_LENGTH_BYTES = 4


class RecogniserHead(msgspec.Struct, frozen=True):
    """What the arrays of the file are about, and how long they are."""

    entries: list[str]
    words: list[str]
    learnt: int
    """Figures of a word, pair or piece."""
    meaning: int
    """Figures of a word's meaning."""
    hidden: int
    scales: list[float]
    """What a step of 8 bits is worth in each of the arrays: learnt, meanings, hidden layer, output."""


class Recogniser:
    """The network, read from its file. Raises ValueError for a file that is not of its form."""

    def __init__(self, content: bytes) -> None:
        start = _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES], "little")
        self._head = head = msgspec.json.decode(content[_LENGTH_BYTES:start], type=RecogniserHead)
        inputs, outputs = head.learnt + head.meaning, len(head.entries)
        sizes = (
            BUCKETS * head.learnt, len(head.words) * head.meaning, head.hidden * inputs, outputs * head.hidden
        )  # fmt: skip
        biases = array("f")
        weights = array("b", content[start : start + sum(sizes)])
        importance = content[start + sum(sizes) : start + sum(sizes) + len(head.words)]
        biases.frombytes(content[start + sum(sizes) + len(head.words) :])
        if len(weights) != sum(sizes) or len(biases) != head.hidden + outputs:
            raise ValueError("the Guide's recogniser is cut off")
        ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
        self._learnt, self._meanings = weights[: ends[0]], weights[ends[0] : ends[1]]
        self._hidden_rows = _rows(weights[ends[1] : ends[2]], inputs, head.scales[2])
        self._output = _rows(weights[ends[2] : ends[3]], head.hidden, head.scales[3])
        self._hidden_biases, self._output_biases = biases[: head.hidden], biases[head.hidden :]
        self._places = {word: number for number, word in enumerate(head.words)}
        self._importance = importance

    def judge(self, question: str) -> dict[str, float]:
        """Return how likely each entry is to be meant, by its id; all together are 1."""
        words = split_words(question)
        values = [*self._add_learnt(words), *self._add_meanings(words)]
        hidden_layer = [
            max(0.0, sum(map(operator.mul, row, values)) + bias)
            for row, bias in zip(self._hidden_rows, self._hidden_biases, strict=True)
        ]
        scores = [
            sum(map(operator.mul, row, hidden_layer)) + bias
            for row, bias in zip(self._output, self._output_biases, strict=True)
        ]
        highest = max(scores)
        shares = [math.exp(score - highest) for score in scores]
        whole = sum(shares)
        return {entry: share / whole for entry, share in zip(self._head.entries, shares, strict=True)}

    def _add_learnt(self, words: Sequence[str]) -> list[float]:
        width, total = self._head.learnt, [0.0] * self._head.learnt
        for bucket, share in list_features(words):
            row = self._learnt[bucket * width : (bucket + 1) * width]
            total = [value + share * step for value, step in zip(total, row, strict=True)]
        return [value * self._head.scales[0] for value in total]

    def _add_meanings(self, words: Sequence[str]) -> list[float]:
        width, total = self._head.meaning, [0.0] * self._head.meaning
        for word in words:
            place = self._places.get(meaning_word(word))
            if place is not None:
                share, row = self._importance[place], self._meanings[place * width : (place + 1) * width]
                total = [value + share * step for value, step in zip(total, row, strict=True)]
        length = math.hypot(*total) or 1.0
        return [value / length * self._head.scales[1] for value in total]


def _rows(weights: "array[int]", width: int, scale: float) -> "list[array[float]]":
    values = array("f", [scale * weight for weight in weights])
    return [values[at : at + width] for at in range(0, len(values), width)]


def read_recogniser(folder: Path) -> Recogniser:
    """Return the recogniser in the Guide's folder. Raises OSError, and ValueError for what is none."""
    return Recogniser((folder / "recogniser.bin").read_bytes())


def meaning_word(word: str) -> str:
    """Return the word of the table of meanings that stands for one of a question."""
    return KINDS.get(word, word.removesuffix("'s").replace("'", ""))


def list_features(words: Sequence[str]) -> list[tuple[int, float]]:
    """Return the buckets of a question's words, pairs and pieces with their shares, whose squares add up to 1."""
    features = [(_bucket(text), share) for text, share in _name_features(words)]
    length = math.hypot(*(share for _, share in features)) or 1.0
    return [(bucket, share / length) for bucket, share in features]


def _name_features(words: Sequence[str]) -> Iterator[tuple[str, float]]:
    normal = [normal_word(word) for word in words]
    yield from ((f"w:{word}", WORD_SHARE) for word in normal)
    yield from ((f"b:{first} {second}", PAIR_SHARE) for first, second in pairwise(normal))
    for word in words:
        if not word.startswith("{"):
            whole = f"^{word}$"
            pieces = [whole[at : at + size] for size in PIECES for at in range(len(whole) - size + 1)]
            yield from ((f"c:{piece}", PIECE_SHARE / math.sqrt(len(pieces))) for piece in pieces)
    if words:
        yield f"s:{' '.join(words[:2])}", START_SHARE


def _bucket(text: str) -> int:
    return zlib.crc32(text.encode()) % BUCKETS
