"""How often the passage with the answer is among the first: by words, with an embedding model, with a reranker.

The documents are this project's own guide and reference; the questions were written by hand, most of them in other
words than the documents have. A question counts if the phrase that answers it stands in one of the first passages.

    ROUNDHOUSE_BENCH_MODELS=FOLDER python -m tests.bench retrieval

The models are `.gguf` files of a folder, of which one embeds, and one may rank; without them, words only.
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
from app.core.documents import Collection, CollectionStage, NewCollection, PassageQuery, PassageResults
from tests.bench.figures import BenchFigure, at_least, at_most, not_measured
from tests.bench.programs import ROOT
from tests.bench.retrieval_questions import QUESTIONS
from tests.gateway.admin.real_gateway import running
from tests.ports import free_port

MODELS = "ROUNDHOUSE_BENCH_MODELS"
"""The variable with the folder of models."""
FIRST = (1, 3, 8)
LEAST_BY_WORDS = 0.3
"""Of the questions, the share whose answer is among the first eight passages by words; most are worded otherwise."""
_QUERY_MS = 50.0
_WAIT_S = 900.0


class RecallRow(NamedTuple):
    """What a way of searching found: the share of questions answered by the first, three and eight passages."""

    name: str
    recalls: tuple[float, ...]
    median_ms: float


def measure() -> Sequence[BenchFigure]:
    """Return the recall of each way of searching that there are models for."""
    models = os.environ.get(MODELS, "")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for file in sorted(Path(models).glob("*.gguf")) if models else []:
            (home / "data" / "models").mkdir(parents=True, exist_ok=True)
            (home / "data" / "models" / file.name).symlink_to(file)
        with running(home, free_port(), argv=module_command("app.gateway")) as gateway:
            rows = measure_gateway(gateway.client)
    figures = [
        at_least(f"retrieval {row.name}: answers among the first {count} of {len(QUESTIONS)}", recall, least)
        for row in rows
        for count, recall in zip(FIRST, row.recalls, strict=True)
        for least in [LEAST_BY_WORDS if count == FIRST[-1] else 0.0]
    ]
    if len(rows) == 1:
        figures.append(not_measured("retrieval by meaning", "", f"{MODELS} names no folder with an embedding model"))
    return [*figures, at_most("retrieval words: a query, median", rows[0].median_ms, _QUERY_MS, "ms")]


def measure_gateway(client: GatewayClient) -> list[RecallRow]:
    """Return the recall by words, then by meaning, then reranked, as far as the gateway has models."""
    _set(client, embedding_model="none", reranker="none")
    new = NewCollection(name="docs", folders=[str(ROOT / "docs" / "guide"), str(ROOT / "docs" / "reference")])
    collection = _wait(client, client.post("/collections", new, Collection))
    rows = [_search_all(client, "words")]
    _set(client, embedding_model="", reranker="none")
    collection = _wait(client, client.post(f"/collections/{collection.id}/index", None, Collection))
    if collection.embedded:
        rows.append(_search_all(client, "words and meaning"))
    _set(client, embedding_model="", reranker="")
    reranked = _search_all(client, "reranked")
    return [*rows, reranked] if _ranks(client) else rows


def _search_all(client: GatewayClient, name: str) -> RecallRow:
    ranks, times = [], []
    for question, answer in QUESTIONS:
        query = PassageQuery(text=question, collections=["docs"], limit=FIRST[-1])
        began = time.perf_counter()
        passages = client.post("/collections/search", query, PassageResults, timeout_s=_WAIT_S).passages
        times.append(time.perf_counter() - began)
        texts = [" ".join(passage.text.split()) for passage in passages]
        ranks.append(next((rank for rank, text in enumerate(texts, 1) if answer in text), FIRST[-1] + 1))
    recalls = tuple(sum(rank <= count for rank in ranks) / len(ranks) for count in FIRST)
    return RecallRow(name, recalls, statistics.median(times) * 1e3)


def _ranks(client: GatewayClient) -> bool:
    query = PassageQuery(text="model", collections=["docs"])
    means = client.post("/collections/search", query, PassageResults, timeout_s=_WAIT_S).means
    return "reranker" in means


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
