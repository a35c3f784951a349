"""Requests that name no model: the one in use answers, or the one here that can do what is asked."""

import json
from typing import Any

import pytest
from aiohttp import web

from app.core.capabilities import Capability
from app.core.models import ModelInfo
from tests.gateway.played import Gateway

ASKED = {"messages": [{"role": "user", "content": "Why?"}]}
EMBEDDER = "org/embed:q8"
UNNAMED: list[dict[str, Any]] = [{}, {"model": None}, {"model": ""}]
CHATS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", ASKED),
    ("/v1/completions", {"prompt": "Why?"}),
    ("/v1/messages", {**ASKED, "max_tokens": 5}),
    ("/v1/messages/count_tokens", ASKED),
    ("/v1/responses", {"input": "Why?"}),
    ("/v1/responses/input_tokens", {"input": "Why?"}),
    ("/api/v0/chat/completions", ASKED),
    ("/api/v1/chat", {"input": "Why?"}),
    ("/api/chat", {**ASKED, "stream": False}),
    ("/api/generate", {"prompt": "Why?", "stream": False}),
    ("/tokenize", {"content": "Why?"}),
]
VECTORS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/embeddings", {"input": "a"}),
    ("/api/v0/embeddings", {"input": "a"}),
    ("/api/embed", {"input": "a"}),
    ("/api/embeddings", {"prompt": "a"}),
]
RANKS = {"query": "a", "documents": ["b"]}
RANKER = ModelInfo(
    name="ranker",
    title="Ranker",
    path="r.gguf",
    format="gguf",
    size_bytes=1,
    chats=False,
    capabilities=[Capability.RERANK],
)


@pytest.fixture(autouse=True)
def answers(gateway: Gateway) -> None:
    async def play(request: web.Request) -> web.StreamResponse:
        body = json.loads(gateway.upstream.bodies[-1])
        if body.get("stream") and request.path.startswith("/v1/"):
            last = {"choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]}
            return web.Response(text=f"data: {json.dumps(last)}\n\ndata: [DONE]\n\n", content_type="text/event-stream")
        return web.json_response(
            {
                "model": body.get("model"),
                "choices": [{"message": {"role": "assistant", "content": "ok"}}],
                "data": [{"embedding": [1.0], "index": 0}],
                "usage": {"prompt_tokens": 1, "total_tokens": 1, "input_tokens": 1, "output_tokens": 1},
                "content": "" if request.path == "/infill" else [],
                "tokens": [1, 2],
                "prompt": "Why?",
                "results": [],
                "input_tokens": 2,
            }
        )

    gateway.upstream.play = play


async def post(gateway: Gateway, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    async with gateway.http.post(gateway.url + path, json=body) as reply:
        return reply.status, await reply.json(content_type=None)


def named_to_the_engine(gateway: Gateway) -> str:
    return str(json.loads(gateway.upstream.bodies[-1])["model"])


@pytest.mark.parametrize("model_field", UNNAMED, ids=["absent", "null", "empty"])
@pytest.mark.parametrize(("path", "body"), CHATS, ids=[path for path, _ in CHATS])
async def test_the_model_in_use_answers(
    gateway: Gateway, path: str, body: dict[str, Any], model_field: dict[str, Any]
) -> None:
    status, reply = await post(gateway, path, {**body, **model_field})
    assert status == 200, reply
    assert gateway.supervisor.load_requests[-1].source.name == "guide"
    assert reply.get("model", "guide") == "guide"
    assert reply.get("model_instance_id", "guide") == "guide"


@pytest.mark.parametrize("model_field", UNNAMED, ids=["absent", "null", "empty"])
async def test_ollamas_show_tells_of_it(gateway: Gateway, model_field: dict[str, Any]) -> None:
    copilot = {"User-Agent": "GitHubCopilotChat/1.0"}
    async with gateway.http.post(f"{gateway.url}/api/show", json=model_field, headers=copilot) as reply:
        body = await reply.json()
    assert (reply.status, body["model_info"]["general.basename"]) == (200, "Guide")


@pytest.mark.slow(cases=13)
@pytest.mark.parametrize("model_field", [*UNNAMED, {"model": "auto"}], ids=["absent", "null", "empty", "auto"])
@pytest.mark.parametrize(("path", "body"), VECTORS, ids=[path for path, _ in VECTORS])
async def test_embeddings_are_made_by_a_model_that_makes_them(
    gateway: Gateway, path: str, body: dict[str, Any], model_field: dict[str, Any]
) -> None:
    gateway.supervisor.served_name = EMBEDDER
    status, reply = await post(gateway, path, {**body, **model_field})
    assert status == 200, reply
    assert gateway.supervisor.load_requests[-1].source.name == EMBEDDER
    assert named_to_the_engine(gateway) == EMBEDDER
    assert reply.get("model", EMBEDDER) == EMBEDDER


@pytest.mark.parametrize("model_field", [*UNNAMED, {"model": "auto"}], ids=["absent", "null", "empty", "auto"])
async def test_documents_are_ranked_by_a_model_that_ranks(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, model_field: dict[str, Any]
) -> None:
    status, refusal = await post(gateway, "/v1/rerank", {**RANKS, **model_field})
    assert (status, "No installed model ranks documents." in refusal["error"]["message"]) == (404, True)
    monkeypatch.setattr(gateway.services.library, "_models", [*gateway.services.library.list_models(), RANKER])
    gateway.supervisor.served_name = "ranker"
    assert (await post(gateway, "/v1/rerank", {**RANKS, **model_field}))[0] == 200
    assert (gateway.supervisor.load_requests[-1].source.name, named_to_the_engine(gateway)) == ("ranker", "ranker")


@pytest.mark.parametrize(("path", "body"), VECTORS, ids=[path for path, _ in VECTORS])
@pytest.mark.parametrize("name", ["", "auto", "text-embedding-3-small"])
async def test_that_there_is_none_is_said_in_a_sentence(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any], name: str
) -> None:
    gateway.services.settings.change_values({"models.aliases": ["text-embedding-*=auto"]})
    monkeypatch.setattr(gateway.services.library, "_models", gateway.services.library.list_models()[:1])
    status, refusal = await post(gateway, path, {**body, "model": name})
    assert (status, "No installed model makes embeddings." in json.dumps(refusal)) == (404, True)


async def test_a_completion_with_a_suffix_names_whoever_answered(gateway: Gateway) -> None:
    status, reply = await post(gateway, "/v1/completions", {"prompt": "a", "suffix": "b"})
    assert (status, reply["model"]) == (200, "guide")


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
async def test_an_alias_is_answered_with_the_models_own_name(gateway: Gateway, path: str) -> None:
    _, loaded_reply = await post(gateway, path, {"model": "claude-opus-4-8", "stream": False})
    assert loaded_reply["model"] == "guide"


@pytest.mark.parametrize(("method", "path"), [("POST", "/api/pull"), ("POST", "/api/push"), ("DELETE", "/api/delete")])
@pytest.mark.parametrize("model_field", UNNAMED, ids=["absent", "null", "empty"])
async def test_what_is_fetched_sent_or_deleted_has_to_be_named(
    gateway: Gateway, method: str, path: str, model_field: dict[str, Any]
) -> None:
    async with gateway.http.request(method, gateway.url + path, json=model_field) as reply:
        assert (reply.status, await reply.json()) == (400, {"error": "model is required"})


@pytest.mark.parametrize("engine_name", ["guide", "auto"])
async def test_the_engine_is_always_told_a_name(gateway: Gateway, engine_name: str) -> None:
    """Even one that has the name `auto` for its model: a request that says none must not reach it so."""
    gateway.supervisor.served_name = engine_name
    assert (await post(gateway, "/v1/chat/completions", ASKED))[0] == 200
    assert named_to_the_engine(gateway) == engine_name
