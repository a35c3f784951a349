"""Which way of cutting texts finds the answer most often: ours in several sizes, and those of chonkie.

Passages of different lengths are compared by what a prompt has room for: an answer counts if its phrase is in the first
passages that have so many characters together.

    ROUNDHOUSE_BENCH_MODELS=FOLDER ROUNDHOUSE_BENCH_CHONKIE=PYTHON python -m tests.bench splitters

The folder has one `.gguf` file, of an embedding model; PYTHON is that of an environment with chonkie.
"""

import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from app.config.programs import module_command
from app.core.documents import DocumentFile, TextChunk
from app.documents.folders import file_id
from app.documents.index import DocumentIndex, EmbeddingModel, IndexReader, IndexWriter
from app.documents.splitting import PassageSizes, split_text
from app.documents.vectors import quantise
from tests.bench.figures import BenchFigure, not_measured, without_target
from tests.bench.programs import ROOT
from tests.bench.retrieval import MODELS, has_answers
from tests.bench.retrieval_questions import SETS, QuestionSet
from tests.gateway.admin.real_gateway import run_gateway
from tests.ports import free_port

CHONKIE = "ROUNDHOUSE_BENCH_CHONKIE"
"""The variable with the Python that has chonkie."""
ROOMS = (2400, 9600)
"""Characters that a prompt has for passages: two and eight of the default's."""
_OWN = ((1200, 300, 150), (600, 150, 100), (1800, 450, 200), (900, 225, 120), (1200, 300, 0), (400, 100, 60))
_THEIRS = tuple(
    (name, size, 0 if name == "recursive" else overlap)
    for name in ("recursive", "sentence", "token")
    for size, overlap in ((1200, 150), (600, 100), (1800, 200))
)
_EMBEDDED = frozenset({"texts"})
"""Sets that are searched by meaning too: embedding takes minutes each time."""
_MOST_PASSAGES = 40
_BATCH = 16
_LEAST_TEXT = 64
_WAIT_S = 900.0
_Split = Callable[[Sequence[Path], Sequence[str]], list[list[TextChunk]]]
_Embedder = Callable[[Sequence[str]], list[list[float]]]


class Splitter(NamedTuple):
    """A way of cutting texts."""

    name: str
    split: _Split


def measure() -> Sequence[BenchFigure]:
    """Return how often each way of cutting finds the answer, by words and by words and meaning."""
    models = sorted(Path(os.environ[MODELS]).glob("*.gguf")) if os.environ.get(MODELS) else []
    if not models:
        return [not_measured("splitters", "", f"{MODELS} names no folder with an embedding model")]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "data" / "models").mkdir(parents=True)
        (home / "data" / "models" / models[0].name).symlink_to(models[0])
        with run_gateway(home, free_port(), argv=module_command("app.gateway")) as gateway:
            embed = _embedder(gateway.port_file.url, models[0].stem)
            return [figure for splitter in _splitters() for figure in _measure_splitter(home, splitter, embed)]


def _splitters() -> Iterator[Splitter]:
    for most, least, overlap in _OWN:
        sizes = PassageSizes(most, least, overlap, min(150, max(overlap, 100)))
        yield Splitter(f"ours, {most}/{overlap}", _own_splitter(sizes))
    if python := os.environ.get(CHONKIE):
        for name, size, overlap in _THEIRS:
            yield Splitter(f"chonkie {name}, {size}/{overlap}", _their_splitter(python, name, size, overlap))


def _own_splitter(sizes: PassageSizes) -> _Split:
    def split(paths: Sequence[Path], texts: Sequence[str]) -> list[list[TextChunk]]:
        return [
            split_text(text, is_marked_up=path.suffix == ".md", sizes=sizes)
            for path, text in zip(paths, texts, strict=True)
        ]

    return split


def _their_splitter(python: str, name: str, size: int, overlap: int) -> _Split:
    def split(_paths: Sequence[Path], texts: Sequence[str]) -> list[list[TextChunk]]:
        program = ROOT / "tests" / "bench" / "chonkie_chunks.py"
        work = json.dumps({"splitter": name, "size": size, "overlap": overlap, "texts": texts})
        output = subprocess.run([python, str(program)], input=work, capture_output=True, text=True, check=True).stdout
        return [[TextChunk(start, end) for start, end in spans] for spans in json.loads(output)]

    return split


def _measure_splitter(home: Path, splitter: Splitter, embed: _Embedder) -> Iterator[BenchFigure]:
    for questions in SETS:
        index = DocumentIndex(home / "index")
        index.remove()
        with index.write() as writer:
            _put_texts(writer, questions, splitter)
            if questions.name in _EMBEDDED:
                _put_vectors(writer, embed)
        with index.read() as reader:
            ways = [("words", [b""] * len(questions.questions))]
            if questions.name in _EMBEDDED:
                ways.append(
                    ("words and meaning", list(map(quantise, embed([item.text for item in questions.questions]))))
                )
            for means, vectors in ways:
                shares = ", ".join(f"{share:.2f}" for share in _shares(reader, questions, vectors))
                name = f"{splitter.name}: {questions.name}, {means}, {reader.figures().passages} passages"
                sys.stderr.write(f"  {name}: {shares}\n")
                yield without_target(name, shares)


def _put_texts(writer: IndexWriter, questions: QuestionSet, splitter: Splitter) -> None:
    paths = sorted(path for folder in questions.folders for path in folder.glob("*.*"))
    texts = [path.read_text("utf-8") for path in paths]
    for path, text, chunks in zip(paths, texts, splitter.split(paths, texts), strict=True):
        writer.put_file(DocumentFile(id=file_id(str(path)), path=str(path), size_bytes=len(text)), text, chunks)


def _put_vectors(writer: IndexWriter, embed: _Embedder) -> None:
    while passages := writer.list_unembedded(_BATCH):
        vectors = embed([passage.text for passage in passages])
        writer.use_model(EmbeddingModel("bench", len(vectors[0])))
        writer.save_vectors(
            {passage.place: quantise(vector) for passage, vector in zip(passages, vectors, strict=True)}
        )


def _shares(reader: IndexReader, questions: QuestionSet, vectors: Sequence[bytes]) -> list[float]:
    texts = []
    for question, vector in zip(questions.questions, vectors, strict=True):
        passages = reader.search("", question.text, vector, count=_MOST_PASSAGES)
        texts.append([" ".join(passage.text.split()) for passage in passages])
    return [
        sum(
            has_answers(_first(passages, room), question)
            for passages, question in zip(texts, questions.questions, strict=True)
        )
        / len(texts)
        for room in ROOMS
    ]


def _first(texts: Sequence[str], room: int) -> list[str]:
    """Return the first passages that fit; at least one."""
    first_models: list[str] = []
    for text in texts:
        room -= len(text)
        if first_models and room < 0:
            break
        first_models.append(text)
    return first_models


def _embedder(url: str, model: str) -> _Embedder:
    def embed(texts: Sequence[str]) -> list[list[float]]:
        body = json.dumps({"model": model, "input": list(texts)}).encode()
        request = urllib.request.Request(f"{url}/v1/embeddings", body, {"Content-Type": "application/json"})  # noqa: S310 -- our own gateway
        try:
            with urllib.request.urlopen(request, timeout=_WAIT_S) as reply:  # noqa: S310 -- our own gateway
                return [row["embedding"] for row in json.load(reply)["data"]]
        except urllib.error.HTTPError:  # one is too long for the model: as in the gateway, it is halved
            if len(texts) > 1:
                return [embed([text])[0] for text in texts]
            if len(texts[0]) < _LEAST_TEXT:
                raise
            return embed([texts[0][: len(texts[0]) // 2]])

    return embed
