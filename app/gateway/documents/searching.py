"""Passages for a question: by its words, by what it means where a model embeds, in the order of a reranker if any."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence

from aiohttp import web
from msgspec.structs import replace

from app.core.documents import LONGEST_QUERY, Passage, PassageResults, SearchMeans
from app.core.errors import RoundhouseError
from app.documents.index import DocumentIndex, IndexFigures
from app.documents.vectors import quantise
from app.gateway.documents.collections import Collections
from app.gateway.documents.records import CollectionRecord

log = logging.getLogger(__name__)

_RERANKED = 24
"""Passages that a reranker is given: each takes as long as a short prompt."""
NO_EMBEDDING_MODEL = (
    "No embedding model is on this computer, so passages are found by their words only. "
    "`roundhouse search --best embedding` shows those that suit it."
)
_NOT_COMPLETE = "What passages mean is still being worked out; the others are found by their words only."
_MODEL_FAILED = "Passages were found by their words only, since the embedding model could not be asked: {reason}"
_RERANKER_FAILED = "The reranker could not be asked: {reason}"


class PassageSearch:
    """Searches collections."""

    def __init__(self, collections: Collections) -> None:
        self._collections, self._models = collections, collections.models

    async def search(
        self, records: Sequence[CollectionRecord], question: str, *, count: int, files: Sequence[str] | None = None
    ) -> PassageResults:
        """Return the best passages of these collections. Raises StorageFault."""
        indexes = {record.id: self._collections.index_of(record.id) for record in records}
        return await self._search_all(indexes, question, count=count, files=files)

    async def search_index(self, index: DocumentIndex, question: str, *, count: int) -> PassageResults:
        """Return the best passages of one index that is no collection's. Raises StorageFault."""
        return await self._search_all({"": index}, question, count=count, files=None)

    async def _search_all(
        self, indexes: Mapping[str, DocumentIndex], question: str, *, count: int, files: Sequence[str] | None
    ) -> PassageResults:
        began = time.perf_counter()
        question = question[:LONGEST_QUERY].strip()
        notes: list[str] = []
        reranker = await self._models.find_reranker()
        most = max(count, _RERANKED) if reranker else count
        hits: list[Passage] = []
        for collection, index in indexes.items():
            vector = await self._question_vector(index, question, notes)
            hits += await asyncio.to_thread(_read_index, index, collection, question, vector, (most, files))
        passages = sorted(hits, key=lambda item: -item.score)[:most]
        means = [mean for mean, is_so in _means_of(passages).items() if is_so]
        if reranker and passages:
            try:
                passages = await self._rerank(reranker, question, passages)
                means.append(SearchMeans.RERANKER)
            except RoundhouseError as error:
                notes.append(_RERANKER_FAILED.format(reason=error.body.text))
        return PassageResults(
            passages=passages[:count],
            means=means,
            note=" ".join(dict.fromkeys(notes)),
            seconds=time.perf_counter() - began,
        )

    async def _question_vector(self, index: DocumentIndex, question: str, notes: list[str]) -> bytes:
        """Return the vector of a question for one index; nothing where there is none, and why in `notes`."""
        figures = await asyncio.to_thread(_figures_of, index)
        model = await self._models.find_embedder(figures.model)
        if model is None:
            notes.append(NO_EMBEDDING_MODEL)
            return b""
        if figures.embedded < figures.passages or figures.model != model.identity:
            notes.append(_NOT_COMPLETE)
        if not figures.embedded or figures.model != model.identity:
            return b""
        try:
            return quantise(await self._models.embed_question(model.name, question))
        except (RoundhouseError, ValueError) as error:
            reason = error.body.text if isinstance(error, RoundhouseError) else str(error)
            notes.append(_MODEL_FAILED.format(reason=reason))
            return b""

    async def _rerank(self, model: str, question: str, passages: Sequence[Passage]) -> list[Passage]:
        texts = [f"{item.heading}\n{item.text}" if item.heading else item.text for item in passages]
        scores = await self._models.rerank(model, question, texts)
        ranked_passages = sorted(zip(scores, passages, strict=True), key=lambda pair: -pair[0])
        return [replace(passage, score=score) for score, passage in ranked_passages]


def _figures_of(index: DocumentIndex) -> IndexFigures:
    with index.read() as reader:
        return reader.figures()


def _read_index(
    index: DocumentIndex, collection: str, question: str, vector: bytes, limits: tuple[int, Sequence[str] | None]
) -> list[Passage]:
    count, files = limits
    with index.read() as reader:
        return reader.search(collection, question, vector, count=count, files=files)


def _means_of(passages: Sequence[Passage]) -> dict[SearchMeans, bool]:
    return {
        SearchMeans.WORDS: any(passage.word_rank for passage in passages),
        SearchMeans.MEANING: any(passage.meaning_rank for passage in passages),
    }


PASSAGES = web.AppKey("passages", PassageSearch)
