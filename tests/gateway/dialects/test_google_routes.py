"""Google's routes on a socket, in front of a played engine: shapes, errors, streams that are cut, keys."""

import json
from typing import Any

import pytest
from aiohttp import web

from app.core.errors import EngineFailed
from app.core.keys import NewKey, Scope
from tests.gateway.exchange.test_streaming import DONE, dies, event, streams
from tests.gateway.played import Gateway, Play

USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": USAGE}
FINISH = b"data: " + json.dumps(END).encode() + b"\n\n"
HELLO = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
SDK = {"x-goog-api-client": "google-genai-sdk/3.6.1 gl-python/3.11"}
BASES = pytest.mark.parametrize("base", ["/v1beta/models/guide", "/v1/models/guide"])


@pytest.fixture(autouse=True)
def answers(gateway: Gateway) -> None:
    gateway.upstream.play = streams(event("Hel"), event("lo"), FINISH, DONE)


async def post(gateway: Gateway, path: str, document: object, **headers: str) -> tuple[int, str]:
    async with gateway.http.post(f"{gateway.url}{path}", json=document, headers=headers) as reply:
        return reply.status, await reply.text()


async def get(gateway: Gateway, path: str) -> tuple[int, Any]:
    async with gateway.http.get(f"{gateway.url}{path}", headers=SDK) as reply:
        return reply.status, await reply.json()


def refuses(status: int, message: str) -> Play:
    async def play(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"code": status, "message": message, "type": "x"}}, status=status)

    return play


@BASES
async def test_a_whole_answer(gateway: Gateway, base: str) -> None:
    status, body = await post(gateway, f"{base}:generateContent", HELLO)
    reply = json.loads(body)
    assert status == 200
    assert reply["candidates"] == [
        {"content": {"parts": [{"text": "Hello"}], "role": "model"}, "finishReason": "STOP", "index": 0}
    ]
    assert (reply["modelVersion"], reply["usageMetadata"]["totalTokenCount"]) == ("guide", 10)


@BASES
async def test_streams_come_as_events_or_as_an_array(gateway: Gateway, base: str) -> None:
    _, events = await post(gateway, f"{base}:streamGenerateContent?alt=sse", HELLO)
    _, array = await post(gateway, f"{base}:streamGenerateContent", HELLO)
    pieces = [json.loads(line.removeprefix("data: ")) for line in events.split("\r\n\r\n") if line]
    for stream in (pieces, json.loads(array)):
        texts = [piece["candidates"][0]["content"]["parts"][0]["text"] for piece in stream]
        assert "".join(texts) == "Hello"
        assert stream[-1]["candidates"][0]["finishReason"] == "STOP"


async def test_what_the_engine_is_sent(gateway: Gateway) -> None:
    config = {"maxOutputTokens": 5, "temperature": 0.5, "topK": 40, "stopSequences": ["."]}
    await post(gateway, "/v1beta/models/guide:generateContent", {**HELLO, "generationConfig": config})
    body = json.loads(gateway.upstream.bodies[-1])
    assert body["messages"] == [{"role": "user", "content": "Hi"}]
    assert (body["max_tokens"], body["temperature"], body["top_k"], body["stop"]) == (5, 0.5, 40, ["."])


async def test_a_stream_that_the_engine_cuts_ends_with_an_error(gateway: Gateway) -> None:
    gateway.upstream.play = streams(event("Hel"), then=dies)
    status, body = await post(gateway, "/v1beta/models/guide:streamGenerateContent?alt=sse", HELLO)
    *_, last = [json.loads(line.removeprefix("data: ")) for line in body.split("\r\n\r\n") if line]
    assert status == 200
    assert last["error"]["status"] in {"INTERNAL", "UNAVAILABLE"}


async def test_errors_have_googles_shape(gateway: Gateway) -> None:
    for document, status, word in (
        ({"contents": []}, 400, "INVALID_ARGUMENT"),
        ({**HELLO, "cachedContent": "x"}, 400, "INVALID_ARGUMENT"),
        ([], 400, "INVALID_ARGUMENT"),
    ):
        reply_status, body = await post(gateway, "/v1beta/models/guide:generateContent", document)
        error = json.loads(body)["error"]
        assert (reply_status, error["code"], error["status"]) == (status, status, word)
        assert error["message"]
    reply_status, body = await post(gateway, "/v1beta/models/gpt-9:generateContent", HELLO)
    assert (reply_status, json.loads(body)["error"]["status"]) == (404, "NOT_FOUND")
    reply_status, body = await post(gateway, "/v1beta/models/guide:paint", HELLO)
    assert (reply_status, json.loads(body)["error"]["code"]) == (405, 405)


async def test_a_prompt_that_does_not_fit_is_told_in_googles_words(gateway: Gateway) -> None:
    words = "This model's maximum context length is 4096 tokens. However, your messages resulted in 9000 tokens."
    gateway.upstream.play = refuses(400, words)
    for verb in ("generateContent", "streamGenerateContent"):
        status, body = await post(gateway, f"/v1beta/models/guide:{verb}", HELLO)
        message = json.loads(body)["error"]["message"]
        assert (status, message) == (
            400,
            "The input token count (9000) exceeds the maximum number of tokens allowed (4096).",
        )


async def test_an_engine_that_fails_to_start_is_unavailable(gateway: Gateway) -> None:
    gateway.supervisor.refuse_with = EngineFailed("It does not fit.", code="out_of_memory")
    status, body = await post(gateway, "/v1beta/models/guide:generateContent", HELLO)
    assert status >= 500
    assert json.loads(body)["error"]["code"] == status


@pytest.mark.parametrize("version", ["v1", "v1beta"])
async def test_models_are_listed_page_by_page(gateway: Gateway, version: str) -> None:
    _, all_models = await get(gateway, f"/{version}/models")
    assert [model["name"] for model in all_models["models"]] == ["models/guide", "models/org/embed:q8"]
    assert "nextPageToken" not in all_models
    _, first = await get(gateway, f"/{version}/models?pageSize=1")
    _, second = await get(gateway, f"/{version}/models?pageSize=1&pageToken={first['nextPageToken']}")
    assert [*first["models"], *second["models"]] == all_models["models"]
    assert "nextPageToken" not in second
    _, guide = await get(gateway, f"/{version}/models/guide")
    assert guide == all_models["models"][0]
    for query in ("pageSize=0", "pageToken=nobody", "pageSize=x"):
        status, refusal = await get(gateway, f"/{version}/models?{query}")
        assert (status, refusal["error"]["status"]) == (400, "INVALID_ARGUMENT")


async def test_openais_list_stays_openais(gateway: Gateway) -> None:
    async with gateway.http.get(f"{gateway.url}/v1/models") as reply:
        assert (await reply.json())["object"] == "list"


async def test_embeddings_one_and_many(gateway: Gateway) -> None:
    async def play(request: web.Request) -> web.StreamResponse:
        texts = (await request.json())["input"]
        rows = [{"embedding": [3.0, 4.0, float(len(text))], "index": at} for at, text in enumerate(texts)]
        return web.json_response({"data": rows[::-1], "usage": {"prompt_tokens": 2}})

    gateway.upstream.play = play
    base, ask = "/v1beta/models/org/embed:q8", {"content": {"parts": [{"text": "ab"}]}}
    _, body = await post(gateway, f"{base}:embedContent", ask)
    assert json.loads(body) == {"embedding": {"values": [3.0, 4.0, 2.0]}}
    shorter = {"content": {"parts": [{"text": "abc"}]}, "outputDimensionality": 2}
    _, body = await post(gateway, f"{base}:batchEmbedContents", {"requests": [ask, shorter]})
    assert json.loads(body) == {"embeddings": [{"values": [3.0, 4.0, 2.0]}, {"values": [0.6, 0.8]}]}
    wrong: list[dict[str, Any]] = [{"requests": []}, {"requests": [{**ask, "outputDimensionality": 9}]}]
    for document in wrong:
        status, body = await post(gateway, f"{base}:batchEmbedContents", document)
        assert (status, json.loads(body)["error"]["status"]) == (400, "INVALID_ARGUMENT")


async def test_a_model_that_embeds_does_not_write(gateway: Gateway) -> None:
    status, body = await post(gateway, "/v1beta/models/org/embed:q8:generateContent", HELLO)
    assert status == 400
    assert "does not write" in json.loads(body)["error"]["message"]


async def test_tokens_are_counted_or_estimated(gateway: Gateway) -> None:
    async def play(request: web.Request) -> web.StreamResponse:
        if "template" in request.path:
            return web.json_response({"prompt": "Hi"})
        return web.json_response({"tokens": [1, 2, 3]})

    gateway.upstream.play = play
    status, body = await post(gateway, "/v1beta/models/guide:countTokens", HELLO)
    assert (status, json.loads(body)) == (200, {"totalTokens": 3})


async def test_a_key_in_googles_header_lets_in(gateway: Gateway) -> None:
    key = gateway.services.keys.make_key(NewKey(name="asks", scopes=[Scope.INFERENCE])).key
    gateway.services.settings.change_values({"gateway.require_key": True})
    status, body = await post(gateway, "/v1beta/models/guide:generateContent", HELLO)
    assert (status, json.loads(body)["error"]["status"]) == (401, "UNAUTHENTICATED")
    for value, status in (("wrong", 401), (key, 200)):
        headers = {"x-goog-api-key": value}
        assert (await post(gateway, "/v1beta/models/guide:generateContent", HELLO, **headers))[0] == status
