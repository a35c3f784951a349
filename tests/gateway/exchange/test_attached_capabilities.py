"""What an attached endpoint can do beyond chat: asked once, remembered, corrected by a person, or refused."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import ollama
import openai
import pytest
from aiohttp import web

from app.config.private_files import write_private
from app.core.capabilities import Capability
from app.core.errors import BadRequest, NotFound, Unavailable
from app.core.events import EngineChanged
from app.core.models import AttachEndpoint, CorrectAttached
from app.gateway.library import attached_endpoints, endpoint_routes
from app.gateway.library.attached_endpoints import attach, watch_endpoints
from app.hub.library.attached import EndpointKnowledge
from tests.gateway.far import ASKED, Far
from tests.gateway.played import Gateway
from tests.patience import until

VECTOR = [0.6, 0.8]
EMBEDDED = {
    "object": "list",
    "model": "big",
    "data": [{"object": "embedding", "index": 0, "embedding": VECTOR}],
    "usage": {"prompt_tokens": 1, "total_tokens": 1},
}
RANKED = {"object": "list", "model": "big", "results": [{"index": 0, "relevance_score": 0.5}]}
WHOLE = {
    "object": "chat.completion",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Because."}}],
}


class Server:
    """Answers POSTs by path, as one server does; any other path is not there."""

    def __init__(self, far: Far, answers: Mapping[str, Any], *, absent: int = 404) -> None:
        self.far, self.answers, self.absent = far, dict(answers), absent
        far.play = self.play

    async def play(self, request: web.Request) -> web.StreamResponse:
        answer = self.answers.get(request.path)
        if answer is None:
            return web.json_response({"error": {"message": "no such thing"}}, status=self.absent)
        return web.json_response(answer(await request.json()) if callable(answer) else answer)

    def asked_for(self, path: str) -> list[dict[str, Any]]:
        return [body for route, body in self.far.posts if route == path]


async def post_fields(near: Gateway, path: str, **fields: Any) -> tuple[int, Any]:  # noqa: ANN401 -- JSON
    async with near.http.post(near.url + path, json={"model": "distant", **fields}) as reply:
        return reply.status, await reply.json(content_type=None)


def can(near: Gateway) -> list[str]:
    return [*near.services.library.find_model("distant").capabilities]


async def test_embeddings_are_found_out_with_the_first_request_and_asked_for_no_more(near: Gateway, far: Far) -> None:
    server = Server(far, {"/v1/embeddings": EMBEDDED})
    assert can(near) == ["completion", "chat", "tools"]
    for _ in range(2):
        status, answer = await post_fields(near, "/v1/embeddings", input="Hello")
        assert (status, answer["data"][0]["embedding"]) == (200, VECTOR)
    bodies = server.asked_for("/v1/embeddings")
    assert [body["input"] for body in bodies] == ["a", "Hello", "Hello"], "the first is the question"
    assert {body["model"] for body in bodies} == {"big"}
    assert set(far.keys) == {"Bearer sk-far"}
    assert can(near) == ["embedding"], "nobody said that it chats, and embedding models do not"


async def test_many_first_requests_ask_one_question(near: Gateway, far: Far) -> None:
    server = Server(far, {"/v1/embeddings": EMBEDDED})
    answers = await asyncio.gather(*(post_fields(near, "/v1/embeddings", input="Hello") for _ in range(5)))
    assert [status for status, _ in answers] == [200] * 5
    assert [body["input"] for body in server.asked_for("/v1/embeddings")].count("a") == 1


async def test_openais_client_embeds_there_with_its_base64_and_tokens(near: Gateway, far: Far) -> None:
    Server(far, {"/v1/embeddings": EMBEDDED})
    async with openai.AsyncOpenAI(base_url=f"{near.url}/v1", api_key="x", max_retries=0) as api:
        single = await api.embeddings.create(model="distant", input="Hello", encoding_format="float")
        many = await api.embeddings.create(model="distant", input=["Hello"])
        tokens = await api.embeddings.create(model="distant", input=[[1, 2, 3]])
    assert [reply.data[0].embedding for reply in (single, many, tokens)] == [VECTOR] * 3
    assert far.posts[-1][1]["input"] == [[1, 2, 3]]


async def test_ollamas_client_embeds_there_in_both_its_ways(near: Gateway, far: Far) -> None:
    Server(far, {"/v1/embeddings": EMBEDDED})
    api = ollama.AsyncClient(host=near.url)
    assert [*(await api.embed("distant", ["Hello"])).embeddings[0]] == pytest.approx(VECTOR)
    assert (await api.embeddings("distant", "Hello")).embedding == VECTOR
    assert (await api.show("distant")).capabilities == ["embedding"]
    await api._client.aclose()


@pytest.mark.parametrize("path", ["/v1/rerank", "/rerank"])
async def test_a_ranking_is_found_with_or_without_a_version(near: Gateway, far: Far, path: str) -> None:
    server = Server(far, {path: RANKED})
    status, answer = await post_fields(near, "/v1/rerank", query="q", documents=["d"])
    assert (status, answer["results"]) == (200, RANKED["results"])
    assert server.asked_for(path)[-1]["documents"] == ["d"]
    assert can(near) == ["rerank"]


@pytest.mark.parametrize("absent", [400, 404, 405, 422, 501])
async def test_what_it_cannot_do_is_refused_in_a_sentence_and_asked_for_once(
    near: Gateway, far: Far, absent: int
) -> None:
    Server(far, {}, absent=absent)
    for _ in range(2):
        for path, fields, sentence in (
            ("/v1/embeddings", {"input": "x"}, "distant does not make embeddings."),
            ("/v1/rerank", {"query": "q", "documents": ["d"]}, "distant does not rank documents."),
            ("/tokenize", {"content": "x"}, "distant does not count tokens."),
            ("/detokenize", {"tokens": [1]}, "distant does not write tokens out."),
            ("/infill", {"input_prefix": "a", "input_suffix": "b"}, "distant does not fill gaps in a text."),
            ("/apply-template", {"messages": ASKED}, "distant does not show prompts."),
        ):
            status, answer = await post_fields(near, path, **fields)
            assert (status, answer["error"]["code"]) == (400, "model_cannot")
            assert sentence in answer["error"]["message"]
        status, answer = await post_fields(near, "/api/embed", input="x")
        assert (status, answer["error"]) == (400, '"distant" does not support embedding')
        status, answer = await post_fields(near, "/api/generate", prompt="a", suffix="b")
        assert (status, answer["error"]) == (400, '"distant" does not support insert')
    assert len(far.posts) == 7, "embeddings, two of rerank, two of tokenize, infill, apply-template"
    assert can(near) == ["completion", "chat", "tools"]


async def test_what_was_not_there_is_asked_for_again_after_a_while(
    near: Gateway, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(far, {})
    assert (await post_fields(near, "/v1/embeddings", input="x"))[0] == 400
    server.answers["/v1/embeddings"] = EMBEDDED
    assert (await post_fields(near, "/v1/embeddings", input="x"))[0] == 400, "it is still remembered"
    monkeypatch.setattr(endpoint_routes, "AGAIN_S", 0.0)
    assert (await post_fields(near, "/v1/embeddings", input="x"))[0] == 200


@pytest.mark.parametrize("busy", [429, 500, 503])
async def test_what_an_endpoint_does_not_say_is_tried_and_its_own_answer_passed_on(
    near: Gateway, far: Far, busy: int
) -> None:
    Server(far, {}, absent=busy)
    status, answer = await post_fields(near, "/v1/embeddings", input="x")
    assert (status, answer["error"]["message"]) == (busy, "no such thing")
    assert near.services.library.find_attachment(near.services.library.find_model("distant")).known.probes == {}


async def test_an_endpoint_that_hangs_holds_a_request_up_for_a_question_only(
    near: Gateway, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint_routes, "PROBE_S", 0.05)

    async def hang(request: web.Request) -> web.StreamResponse:
        if (await request.json())["input"] == "a":
            await asyncio.Event().wait()
        return web.json_response(EMBEDDED)

    far.play = hang
    assert (await post_fields(near, "/v1/embeddings", input="x"))[0] == 200


async def test_a_llama_servers_tokenizer_template_and_gaps_are_used(near: Gateway, far: Far) -> None:
    server = Server(
        far,
        {
            "/tokenize": {"tokens": [1, 2]},
            "/detokenize": {"content": "Hello"},
            "/apply-template": {"prompt": "<s>Why?"},
            "/infill": {"content": "middle", "stop": True, "tokens_predicted": 1, "tokens_evaluated": 2},
        },
    )
    assert await post_fields(near, "/tokenize", content="Hello", add_special=True) == (200, {"tokens": [1, 2]})
    assert server.asked_for("/tokenize")[-1] == {"model": "big", "content": "Hello", "add_special": True}
    assert await post_fields(near, "/detokenize", tokens=[1]) == (200, {"content": "Hello"})
    assert (await post_fields(near, "/apply-template", messages=ASKED))[1]["prompt"] == "<s>Why?"
    assert (await post_fields(near, "/infill", input_prefix="a", input_suffix="b"))[1]["content"] == "middle"
    assert (await post_fields(near, "/v1/messages/count_tokens", messages=ASKED))[1] == {"input_tokens": 2}
    assert (await post_fields(near, "/v1/responses/input_tokens", input="Why?"))[1]["input_tokens"] == 2
    assert can(near) == ["completion", "chat", "tools", "infill"]


async def test_vllms_tokenizer_is_asked_in_its_own_words(near: Gateway, far: Far) -> None:
    def tokens(body: dict[str, Any]) -> dict[str, Any]:
        return {"count": 1, "max_model_len": 9, "tokens": [7]} if "prompt" in body else {"tokens": []}

    server = Server(far, {"/tokenize": tokens, "/detokenize": {"prompt": "Hello"}})
    assert (await post_fields(near, "/tokenize", content="Hello"))[1]["tokens"] == [7]
    document = server.asked_for("/tokenize")[-1]
    assert document == {"model": "big", "prompt": "Hello", "add_special_tokens": False}
    assert await post_fields(near, "/detokenize", tokens=[7]) == (200, {"content": "Hello"})


async def test_another_roundhouse_counts_by_its_own_route(near: Gateway, far: Far) -> None:
    Server(far, {"/v1/messages/count_tokens": {"input_tokens": 12}})
    assert (await post_fields(near, "/v1/messages/count_tokens", messages=ASKED))[1] == {"input_tokens": 12}


async def test_an_ollama_is_asked_what_each_model_can(near: Gateway, far: Far) -> None:
    names = {
        "all-minilm": {"capabilities": ["embedding"], "model_info": {"bert.context_length": 512}},
        "big": {"capabilities": ["completion", "vision"], "model_info": {}},
    }
    far.pages["/api/version"] = {"version": "0.13.5"}
    far.listing = {"data": [{"id": name} for name in names]}
    server = Server(far, {"/api/show": lambda body: names[body["model"]], "/v1/embeddings": EMBEDDED})
    models = {model.served_as: model for model in await attach(near.services, AttachEndpoint(url=far.url, name="o"))}
    embedder, seer = models["all-minilm"], models["big"]
    assert (embedder.capabilities, embedder.trained_context) == ([Capability.EMBEDDING], 512)
    assert (embedder.chats, embedder.embeds) == (False, True)
    assert seer.capabilities == [Capability.COMPLETION, Capability.CHAT, Capability.VISION]
    assert (await post_fields(near, "/v1/embeddings", model=embedder.name, input="x"))[0] == 200
    assert len(server.asked_for("/v1/embeddings")) == 1, "its card says so, and is believed"
    status, answer = await post_fields(near, "/api/chat", model=seer.name, messages=ASKED, think=True)
    assert (status, answer["error"]) == (400, f'"{seer.name}" does not support thinking')
    status, answer = await post_fields(near, "/v1/chat/completions", model=embedder.name, messages=ASKED)
    assert (status, answer["error"]["code"]) == (400, "model_cannot")


async def test_what_a_person_says_goes_before_the_endpoint(near: Gateway, far: Far) -> None:
    server = Server(far, {"/v1/embeddings": EMBEDDED, "/v1/rerank": RANKED, "/v1/chat/completions": WHOLE})
    stated_capabilities = [Capability.EMBEDDING, Capability.RERANK]
    body = AttachEndpoint(url=far.url, name="distant", key="sk-far", can=stated_capabilities, context=32768)
    (model,) = await attach(near.services, body)
    assert (model.capabilities, model.trained_context, model.chats) == (stated_capabilities, 32768, False)
    assert (await post_fields(near, "/v1/embeddings", input="x"))[0] == 200
    assert len(server.asked_for("/v1/embeddings")) == 1, "nobody asks where a person has said it"
    assert (await post_fields(near, "/v1/rerank", query="q", documents=["d"]))[0] == 200
    assert (await post_fields(near, "/v1/chat/completions", messages=ASKED))[0] == 400
    (again,) = await attach(near.services, AttachEndpoint(url=far.url, name="distant", key="sk-new"))
    assert (again.capabilities, again.trained_context) == (stated_capabilities, 32768), (
        "attached with another key it stays said"
    )


async def correct_capabilities(near: Gateway, **fields: object) -> tuple[int, Any]:
    headers = {"Authorization": "Bearer token"}
    url = f"{near.url}/roundhouse/v1/attached/distant"
    async with near.http.patch(url, json=fields, headers=headers) as reply:
        return reply.status, await reply.json()


async def test_it_can_be_corrected_later_and_taken_back(near: Gateway, far: Far) -> None:
    Server(far, {"/v1/embeddings": EMBEDDED})
    status, model = await correct_capabilities(near, can=["embedding"], context=512)
    assert (status, model["capabilities"], model["trained_context"]) == (200, ["embedding"], 512)
    assert far.keys[-1] == "Bearer sk-far", "the key stays"
    far.listing = {"data": [{"id": "big", "max_model_len": 9999}]}
    assert (await correct_capabilities(near, context=None))[1]["trained_context"] == 9999, "and is asked for anew"
    assert (await correct_capabilities(near, can=None))[1]["capabilities"] == ["completion", "chat", "tools"]
    assert (await correct_capabilities(near, can=[]))[0] == 400
    assert (await correct_capabilities(near, can=["fly"]))[0] == 400
    with pytest.raises(NotFound, match="not attached"):
        await attached_endpoints.correct(near.services.library, near.services.events, "guide", CorrectAttached())


async def test_a_correction_needs_no_endpoint_and_asking_does(near: Gateway, far: Far) -> None:
    far.is_up = False
    assert (await correct_capabilities(near, can=["rerank"]))[1]["capabilities"] == ["rerank"]
    with pytest.raises(Unavailable, match="answers 500"):
        await attached_endpoints.correct(near.services.library, near.services.events, "distant", CorrectAttached())
    far.is_up, far.listing = True, {"data": []}
    with pytest.raises(NotFound, match="no longer lists the model 'big'"):
        await attached_endpoints.correct(near.services.library, near.services.events, "distant", CorrectAttached())
    with pytest.raises(BadRequest, match="at least one capability"):
        await attach(near.services, AttachEndpoint(url=far.url, can=[]))


async def test_a_list_that_changed_is_read_again_when_the_endpoint_is_next_used(near: Gateway, far: Far) -> None:
    watch_task = asyncio.create_task(watch_endpoints(near.services.library, near.services.events))
    await until(lambda: (EngineChanged,) in {each.kinds for each in near.services.events._subscribers})
    server = Server(far, {"/v1/chat/completions": WHOLE})
    assert (await post_fields(near, "/v1/embeddings", input="x"))[0] == 400
    far.listing = {"data": [{"id": "big", "max_model_len": 8192}]}
    server.answers["/v1/embeddings"] = EMBEDDED
    assert (await post_fields(near, "/v1/chat/completions", messages=ASKED))[0] == 200
    library = near.services.library
    await until(lambda: library.find_model("distant").trained_context == 8192)
    assert (await post_fields(near, "/v1/embeddings", input="x"))[0] == 200, "what was asked before counts no more"
    watch_task.cancel()
    await asyncio.gather(watch_task, return_exceptions=True)


async def test_one_that_is_listed_as_before_keeps_what_is_known(near: Gateway, far: Far) -> None:
    Server(far, {"/v1/embeddings": EMBEDDED})
    await post_fields(near, "/v1/embeddings", input="x")
    model = near.services.library.find_model("distant")
    assert not await attached_endpoints.refresh_card(near.services.library, model, only_if_changed=True)
    assert near.services.library.find_attachment(model).known.probes


async def test_a_record_from_before_is_read(near: Gateway) -> None:
    record = Path(near.services.library.find_model("distant").path)
    old = {"name": "distant", "url": "http://127.0.0.1:9/v1", "served_as": "big", "context": 7, "chats": True}
    write_private(record, msgspec.json.encode(old))  # at once: whoever lists models meanwhile never reads half of it
    near.services.library.look_again()
    model = near.services.library.find_model("distant")
    assert model.capabilities == [Capability.COMPLETION, Capability.CHAT, Capability.TOOLS]
    assert near.services.library.find_attachment(model).known == EndpointKnowledge()
