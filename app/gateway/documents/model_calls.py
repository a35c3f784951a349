"""Vectors of texts, and their order for a question, by models on this computer.

Documents leave it only if the settings name a model that runs elsewhere: the model in use is looked for among those
here.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from app.core.errors import EngineFailed, RoundhouseError
from app.core.models import ModelInfo
from app.documents.prompts import prompts_for
from app.gateway.canonical.events import ContextOverflow
from app.gateway.exchange.engine.answers import decode_reply
from app.gateway.exchange.engine.vectors import encode_embeddings_request, read_vectors
from app.gateway.exchange.own_requests import OwnRequests
from app.gateway.exchange.upstream import EngineAccess
from app.gateway.library.endpoint_routes import with_probes
from app.gateway.loading.launch import resolve_model
from app.gateway.loading.requested_model import ResolvedModel, model_in_use
from app.gateway.services import Services
from engines.api import Route

log = logging.getLogger(__name__)

EMBEDDING_SETTING, RERANKER_SETTING = "documents.embedding_model", "documents.reranker"
NO_MODEL = "none"
"""The value of these settings that uses no model."""
_SHORTEST = 64
"""Characters of a text that a model must take; one that does not is left without a vector, or not asked to rank."""


class _RerankRow(msgspec.Struct, frozen=True):
    index: int
    relevance_score: float | None = None
    score: float | None = None


class _RerankReply(msgspec.Struct, frozen=True):
    results: list[_RerankRow]


class DocumentModel(NamedTuple):
    """A model that does something for documents, and what makes its answers comparable."""

    name: str
    identity: str


class DocumentModels:
    """Asks models on behalf of documents."""

    def __init__(self, services: Services, engines: EngineAccess) -> None:
        self._services, self._requests = services, OwnRequests(services, engines)

    async def find_embedder(self, present: str = "") -> DocumentModel | None:
        """Return the model that embeds: the one set, else that whose vectors are there (`present`), else any here."""
        models = await self._list_able(Route.EMBEDDINGS, EMBEDDING_SETTING)
        present_model = next((model for model in models if _identity_of(model) == present), None)
        chosen_model = present_model or self._in_use(models, Route.EMBEDDINGS)
        return DocumentModel(chosen_model.name, _identity_of(chosen_model)) if chosen_model else None

    async def find_reranker(self) -> str:
        """Return the name of the model that reranks; nothing where there is none."""
        chosen_model = self._in_use(await self._list_able(Route.RERANK, RERANKER_SETTING), Route.RERANK)
        return chosen_model.name if chosen_model else ""

    async def embed_question(self, model: str, text: str) -> list[float]:
        """Return the vector of a question. Raises RoundhouseError."""
        return (await self._embed_cut(model, prompts_for(model).question + text)) or []

    async def embed_passages(self, model: str, texts: Sequence[str]) -> list[list[float] | None]:
        """Return the vectors of passages; None for one that the model does not take. Raises RoundhouseError."""
        prompt = prompts_for(model).passage
        texts = [prompt + text for text in texts]
        try:
            return [*await self._embed(model, texts)]
        except ContextOverflow:
            return [await self._embed_cut(model, text) for text in texts]

    async def rerank(self, model: str, question: str, texts: Sequence[str]) -> list[float]:
        """Return how well each text answers a question: more is better. Raises RoundhouseError.

        Rerankers read question and text together, some of them 512 tokens: longer ones are shortened, all alike.
        """
        longest = max(map(len, (question, *texts)))
        while True:
            try:
                return await self._rerank(model, question[:longest], [text[:longest] for text in texts])
            except ContextOverflow:
                longest //= 2
                if longest < _SHORTEST:
                    raise

    async def _rerank(self, model: str, question: str, texts: Sequence[str]) -> list[float]:
        body: dict[str, object] = {"query": question, "documents": list(texts)}
        answer = await self._fetch(model, Route.RERANK, body)
        is_list = answer.lstrip().startswith(b"[")  # as TEI and SGLang answer
        rows = decode_reply(answer, list[_RerankRow]) if is_list else decode_reply(answer, _RerankReply).results
        scores = dict.fromkeys(range(len(texts)), float("-inf"))
        for row in rows:
            scores[row.index] = row.relevance_score if row.relevance_score is not None else row.score or 0.0
        return [scores[at] for at in range(len(texts))]

    async def _list_able(self, route: Route, setting: str) -> list[ModelInfo]:
        """Return the models that may be asked: the one that is set, else all that are on this computer."""
        name = self._services.settings.get_text(setting)
        if name == NO_MODEL:
            return []
        if name:
            try:
                return [(await resolve_model(self._services, name, route=route)).model]
            except RoundhouseError as error:
                log.info("The model set for documents cannot be used: %s", error)
                return []
        models = await asyncio.to_thread(self._services.library.list_models)
        return [model for model in models if not model.attached]

    def _in_use(self, models: Sequence[ModelInfo], route: Route) -> ModelInfo | None:
        if len(models) == 1 and self._services.settings.get_text(_SETTINGS[route]):
            return models[0]
        return model_in_use(models, self._services.supervisor.list_statuses(), "", route)

    async def _embed_cut(self, model: str, text: str) -> list[float] | None:
        """Return the vector of a text, shortened as often as the model does not take it; None if it never does."""
        while len(text) >= _SHORTEST:
            try:
                return (await self._embed(model, [text]))[0]
            except ContextOverflow:
                text = text[: len(text) // 2]
        return (await self._embed(model, [text]))[0] if text.strip() else None

    async def _embed(self, model: str, texts: Sequence[str]) -> list[list[float]]:
        answer = await self._fetch(model, Route.EMBEDDINGS, texts)
        vectors = [row.embedding for row in read_vectors(answer).data]
        if len(vectors) != len(texts):
            raise EngineFailed("The embedding model answered for other texts.", code="engine_nonsense")
        return vectors

    async def _fetch(self, model: str, route: Route, work: Sequence[str] | dict[str, object]) -> bytes:
        target = await self._resolve(model, route)
        name = target.model.name
        body = (
            msgspec.json.encode({"model": name, **work})
            if isinstance(work, dict)
            else encode_embeddings_request(work, model=name)
        )
        return await self._requests.fetch(target, route, body)

    async def _resolve(self, model: str, route: Route) -> ResolvedModel:
        services = self._services
        resolved_model = await resolve_model(services, model, route=route)
        return await with_probes(services.library, services.shared_work, services.events, resolved_model, route)


_SETTINGS = {Route.EMBEDDINGS: EMBEDDING_SETTING, Route.RERANK: RERANKER_SETTING}


def _identity_of(model: ModelInfo) -> str:
    """Return what changes when a model's vectors do: its name, its size and what it is made of."""
    where = f"at {model.attached}" if model.attached else f"{model.size_bytes} bytes"
    return f"{model.name}, {where}"
