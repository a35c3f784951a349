"""How often the passage with the answer is among the first: by words, with an embedding model, with a reranker.

There are two sets, of questions that were written by hand: about texts in the public domain, and about this project's
own guide and reference, most of those in other words than the documents have. A question counts if the phrases that
answer it stand in the first passages.

    ROUNDHOUSE_BENCH_MODELS=FOLDER python -m tests.bench retrieval

The models are `.gguf` files of a folder, of which one embeds, and one may rank; without them, words only. Everything is
embedded before anything is asked by meaning.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from app.client.http import GatewayClient
from app.config.programs import module_command
from app.core.api import SettingInfo
from app.core.documents import Collection, CollectionStage, NewCollection, PassageQuery, PassageResults, SearchMeans
from tests.bench.figures import BenchFigure, at_least, at_most, not_measured, without_target
from tests.bench.retrieval_questions import SETS, QuestionKind, QuestionSet, RecallQuestion
from tests.gateway.admin.real_gateway import run_gateway
from tests.ports import free_port

MODELS = "ROUNDHOUSE_BENCH_MODELS"
"""The variable with the folder of models."""
FIRST = (1, 3, 8, 16)
"""Passages; a chat is given some 20 to 40."""
_MOST = FIRST[-1]
LEAST_BY_WORDS = 0.3
"""Of the questions, the share whose answer is among the first 16 passages by words; many are worded otherwise."""
_QUERY_MS = 50.0
_WAIT_S = 1800.0


class RecallRow(NamedTuple):
    """What a way of searching found: at which place the answer to each question was complete, and how long it took."""

    name: str
    questions: QuestionSet
    ranks: tuple[int, ...]
    median_ms: float

    def recall(self, count: int, kind: QuestionKind | None = None) -> float:
        """Return the share of the questions, or of those of a kind, that the first passages answer."""
        ranked_questions = zip(self.questions.questions, self.ranks, strict=True)
        ranks = [rank for question, rank in ranked_questions if kind in (None, question.kind)]
        return sum(rank <= count for rank in ranks) / len(ranks)


def measure() -> Sequence[BenchFigure]:
    """Return the recall of each way of searching that there are models for."""
    models = os.environ.get(MODELS, "")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for file in sorted(Path(models).glob("*.gguf")) if models else []:
            (home / "data" / "models").mkdir(parents=True, exist_ok=True)
            (home / "data" / "models" / file.name).symlink_to(file)
        with run_gateway(home, free_port(), argv=module_command("app.gateway")) as gateway:
            rows = measure_gateway(gateway.client)
    figures = [figure for row in rows for figure in _describe(row)]
    if len(rows) == len(SETS):
        figures.append(not_measured("retrieval by meaning", "", f"{MODELS} names no folder with an embedding model"))
    return [*figures, at_most("retrieval words: a query, median", rows[0].median_ms, _QUERY_MS, "ms")]


def measure_gateway(client: GatewayClient) -> list[RecallRow]:
    """Return the recall by words, then by meaning, then reranked, as far as the gateway has models."""
    _set(client, embedding_model="none", reranker="none")
    collections = [_add(client, questions) for questions in SETS]
    rows = [_search_all(client, "words", questions) for questions in SETS]
    _set(client, embedding_model="")
    for collection in collections:
        current = _wait(client, client.post(f"/collections/{collection.id}/index", None, Collection))
        assert current.embedded in (0, current.passages), f"not all is embedded: {current.problem}"
        if not current.embedded:
            return rows
    rows += [_search_all(client, "words and meaning", questions) for questions in SETS]
    _set(client, reranker="")
    return [*rows, *(_search_all(client, "reranked", questions) for questions in SETS)] if _ranks(client) else rows


def has_answers(texts: Sequence[str], question: RecallQuestion) -> bool:
    """Tell whether passages, their blanks made single ones, hold all that answers a question."""
    return all(any(answer in text for text in texts) for answer in question.answers)


def _describe(row: RecallRow) -> list[BenchFigure]:
    name = f"retrieval {row.questions.name}, {row.name}"
    least = LEAST_BY_WORDS
    figures = [
        without_target(
            f"{name}: answers among the first {', '.join(map(str, FIRST))} of {len(row.ranks)} questions",
            ", ".join(f"{row.recall(count):.2f}" for count in FIRST),
        )
    ]
    for kind in QuestionKind:
        if any(question.kind is kind for question in row.questions.questions):
            shares = ", ".join(f"{row.recall(count, kind):.2f}" for count in FIRST)
            count = sum(question.kind is kind for question in row.questions.questions)
            figures.append(without_target(f"{name}: of the {count} in {kind.value}", shares))
    return [
        *figures,
        at_least(f"{name}: answers among the first {_MOST}", row.recall(_MOST), least),
        without_target(f"{name}: a query, median", f"{row.median_ms:.0f} ms"),
    ]


def _add(client: GatewayClient, questions: QuestionSet) -> Collection:
    new = NewCollection(name=questions.name, folders=list(map(str, questions.folders)))
    return _wait(client, client.post("/collections", new, Collection))


def _search_all(client: GatewayClient, name: str, questions: QuestionSet) -> RecallRow:
    ranks, times = [], []
    for question in questions.questions:
        query = PassageQuery(text=question.text, collections=[questions.name], limit=FIRST[-1])
        began = time.perf_counter()
        passages = client.post("/collections/search", query, PassageResults, timeout_s=_WAIT_S).passages
        times.append(time.perf_counter() - began)
        texts = [" ".join(passage.text.split()) for passage in passages]
        complete = (rank for rank in range(1, len(texts) + 1) if has_answers(texts[:rank], question))
        ranks.append(next(complete, FIRST[-1] + 1))
    return RecallRow(name, questions, tuple(ranks), statistics.median(times) * 1e3)


def _ranks(client: GatewayClient) -> bool:
    query = PassageQuery(text="model", collections=[SETS[0].name])
    means = client.post("/collections/search", query, PassageResults, timeout_s=_WAIT_S).means
    return SearchMeans.RERANKER in means


def _set(client: GatewayClient, **values: str) -> None:
    changes = {f"documents.{name}": value for name, value in values.items()}
    client.patch("/settings", changes, list[SettingInfo])


def _wait(client: GatewayClient, collection: Collection) -> Collection:
    deadline = time.monotonic() + _WAIT_S
    while collection.stage is not CollectionStage.READY or collection.looked_at is None:
        assert time.monotonic() < deadline, "the collection was not read in time"
        time.sleep(0.1)
        collection = client.get(f"/collections/{collection.id}", Collection)
    return collection
