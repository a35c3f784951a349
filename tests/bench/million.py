"""What a question costs in a collection of a million passages: time by the clock, time of the processor, memory.

Texts and vectors are made up: 60 words from a vocabulary in which a few are common, 384 numbers in 2,000 clusters. The
index is made first, which takes some minutes and 1.3 GB of disk; `ROUNDHOUSE_BENCH_INDEX=FOLDER` keeps it for the next
time.

    python -m tests.bench million

The clock says what a person waits only where nothing else runs; the processor's time holds on a busy machine too.
"""

import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import psutil

from app.core.documents import DocumentFile, TextChunk
from app.documents.folders import file_id
from app.documents.index import DocumentIndex, EmbeddingModel, IndexReader, IndexWriter
from tests.bench.figures import BenchFigure, at_most, without_target

INDEX = "ROUNDHOUSE_BENCH_INDEX"
"""The variable with the folder that keeps the index."""
PASSAGES = 1_000_000
QUERY_MS, MEMORY_MB = 300.0, 1000.0
_DIMENSIONS, _CLUSTERS = 384, 2_000
_WORDS, _WORDS_OF_PASSAGE, _WORDS_OF_QUESTION = 50_000, 60, 9
_PASSAGES_OF_FILE = 1_000
_QUESTIONS = 40
_COUNT = 8
_MS, _MB = 1e3, 1e6
_MODEL = EmbeddingModel("made up", _DIMENSIONS)


def measure(passages: int = PASSAGES) -> Sequence[BenchFigure]:
    """Return what questions cost."""
    with tempfile.TemporaryDirectory() as folder:
        index = DocumentIndex(Path(os.environ.get(INDEX) or folder))
        made_texts = MadeTexts(random.Random(1))  # noqa: S311 -- made up
        with index.read() as reader:
            is_there = reader.figures().embedded == passages
        if not is_there:
            index.remove()
            with index.write() as writer:
                _fill(writer, made_texts, passages)
        with index.read() as reader:
            walls, processor = _time_questions(reader, made_texts)
            figures = reader.figures()
    name = f"million: a question in {passages:,} passages"
    return [
        at_most(f"{name}, processor, median", statistics.median(processor) * _MS, QUERY_MS, "ms"),
        at_most(f"{name}, processor, most", max(processor) * _MS, QUERY_MS, "ms"),
        at_most(f"{name}, clock, median", statistics.median(walls) * _MS, QUERY_MS, "ms"),
        without_target(f"{name}, clock, most", f"{max(walls) * _MS:.0f} ms"),
        at_most("million: memory, with what the system has of the vectors", _memory_bytes() / _MB, MEMORY_MB, "MB"),
        without_target("million: the index on the disk", f"{figures.size_bytes / _MB:,.0f} MB"),
    ]


class MadeTexts:
    """Texts and vectors that are made up: the same ones every time."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._words = [f"w{number:x}" for number in range(_WORDS)]
        self._weights = list(accumulate(1 / (number + 3) for number in range(_WORDS)))
        """Zipf's law: the most common words are in most passages."""
        self._centres = [chance.randbytes(_DIMENSIONS) for _ in range(_CLUSTERS)]

    def make_text(self, words: int = _WORDS_OF_PASSAGE) -> str:
        """Return so many words."""
        return " ".join(self._chance.choices(self._words, cum_weights=self._weights, k=words))

    def make_vector(self) -> bytes:
        """Return a vector that has half of its numbers from a cluster's centre."""
        half = _DIMENSIONS // 2
        return self._chance.choice(self._centres)[:half] + self._chance.randbytes(half)


def _fill(writer: IndexWriter, made_texts: MadeTexts, passages: int) -> None:
    for number in range(-(-passages // _PASSAGES_OF_FILE)):
        texts = [made_texts.make_text() for _ in range(min(_PASSAGES_OF_FILE, passages - number * _PASSAGES_OF_FILE))]
        path = f"/made/{number:04d}.txt"
        writer.put_file(
            DocumentFile(id=file_id(path), path=path, size_bytes=1), "\n".join(texts), list(_chunks_of(texts))
        )
        if number % 100 == 0:
            sys.stderr.write(f"  {number * _PASSAGES_OF_FILE:,} passages\n")
    writer.use_model(_MODEL)
    while passages_left := writer.list_unembedded(_PASSAGES_OF_FILE):
        writer.save_vectors({passage.place: made_texts.make_vector() for passage in passages_left})


def _chunks_of(texts: Sequence[str]) -> Iterator[TextChunk]:
    at = 0
    for text in texts:
        yield TextChunk(at, at + len(text))
        at += len(text) + 1


def _time_questions(reader: IndexReader, made_texts: MadeTexts) -> tuple[list[float], list[float]]:
    """Return the seconds of each question by the clock and of the processor; the first one, cold, does not count."""
    walls, processor = [], []
    for _ in range(_QUESTIONS + 1):
        question, vector = made_texts.make_text(_WORDS_OF_QUESTION), made_texts.make_vector()
        wall, used_s = time.perf_counter(), time.process_time()
        passages = reader.search("", question, vector, count=_COUNT)
        walls.append(time.perf_counter() - wall)
        processor.append(time.process_time() - used_s)
        assert len(passages) == _COUNT
    return walls[1:], processor[1:]


def _memory_bytes() -> int:
    """Return the most memory that the process had so far, as the system counts it."""
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource  # noqa: PLC0415 -- not on Windows

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
