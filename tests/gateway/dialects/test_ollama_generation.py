"""Ollama's routes in front of an engine the test plays: what reaches it, what comes back, and what ends it."""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
from aiohttp import web

from app.core.errors import EngineFailed
from app.gateway.exchange import client_stream
from app.supervisor.policy import LeaseOptions
from tests.gateway.played import Gateway, Play
from tests.patience import PATIENCE_S, until

CHAT = {"model": "guide", "messages": [{"role": "user", "content": "Hi"}]}
GENERATE = {"model": "guide", "prompt": "Hi"}
DONE = b"data: [DONE]\n\n"


def event(**fields: object) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def says(text: str) -> bytes:
    return event(choices=[{"index": 0, "delta": {"content": text}, "finish_reason": None}])


END = (
    event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
    + event(
        choices=[],
        usage={"prompt_tokens": 7, "completion_tokens": 2},
        timings={"cache_n": 0, "prompt_n": 7, "prompt_ms": 5.0, "predicted_n": 2, "predicted_ms": 8.0},
    )
    + DONE
)


def streams(*chunks: bytes, then: Callable[[web.Request], None] | None = None) -> Play:
    """Play an engine that sends these chunks, and then does something and never ends."""

    async def play(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(0.002)
        if then is not None:
            then(request)
            await asyncio.Event().wait()
        return response

    return play


def refuses(status: int, document: object) -> Play:
    async def play(_request: web.Request) -> web.StreamResponse:
        return web.json_response(document, status=status)

    return play


def waits(_request: web.Request) -> None:
    """Generate for ever."""


def dies(request: web.Request) -> None:
    """Break the connection as a killed process does."""
    assert request.transport is not None
    request.transport.abort()


async def lines(gateway: Gateway, path: str, document: object) -> AsyncIterator[dict[str, Any]]:
    async with gateway.http.post(gateway.url + path, data=json.dumps(document).encode()) as reply:
        assert reply.status == 200
        assert reply.content_type == "application/x-ndjson"
        async for line in reply.content:
            yield json.loads(line)


async def whole(gateway: Gateway, path: str, document: Mapping[str, object]) -> tuple[int, Any]:
    body = json.dumps({"stream": False, **document}).encode()
    async with gateway.http.post(gateway.url + path, data=body) as reply:
        return reply.status, await reply.json()


def body_seen(gateway: Gateway) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(gateway.upstream.bodies[-1])
    return body


async def expect_count(gateway: Gateway, route: str, outcome: str, model: str = "guide") -> None:
    line = f'roundhouse_requests_total{{route="ollama/{route}",model="{model}",outcome="{outcome}"}} 1'
    await until(lambda: line in gateway.services.metrics.format_exposition([]).splitlines())


async def test_a_chat_streams_by_default_and_ends_with_its_counts(gateway: Gateway) -> None:
    gateway.upstream.play = streams(says("Hel"), says("lo"), END)
    *pieces, last = [line async for line in lines(gateway, "/api/chat", CHAT)]
    assert [line["message"]["content"] for line in pieces] == ["Hel", "lo"]
    assert (last["done"], last["done_reason"], last["prompt_eval_count"], last["eval_count"]) == (True, "stop", 7, 2)
    assert (last["prompt_eval_duration"], last["eval_duration"]) == (5_000_000, 8_000_000)
    assert last["total_duration"] > 4_000_000
    assert 0 < last["load_duration"] < last["total_duration"], "there for a loaded model too"
    assert body_seen(gateway)["stream_options"] == {"include_usage": True}
    await expect_count(gateway, "chat", "ok")
    assert 'roundhouse_tokens_total{model="guide",kind="prompt"} 7' in gateway.services.metrics.format_exposition([])


async def test_an_answer_at_once_is_the_same_folded(gateway: Gateway) -> None:
    gateway.upstream.play = streams(says("Hel"), says("lo"), END)
    status, reply = await whole(gateway, "/api/chat", CHAT)
    assert (status, reply["message"], reply["done"]) == (200, {"role": "assistant", "content": "Hello"}, True)
    status, reply = await whole(gateway, "/api/generate", GENERATE)
    assert (status, reply["response"], reply["done_reason"]) == (200, "Hello", "stop")


async def test_the_first_token_does_not_wait_for_the_second(gateway: Gateway) -> None:
    gateway.upstream.play = streams(says("a"), then=waits)
    stream = lines(gateway, "/api/chat", CHAT)
    async with asyncio.timeout(PATIENCE_S):
        assert (await anext(stream))["message"]["content"] == "a"


@pytest.mark.parametrize(
    "document", [{**CHAT, "stream": True}, {**CHAT, "stream": False}, {**GENERATE, "stream": False}]
)
@pytest.mark.parametrize("has_begun", [True, False])
async def test_a_client_that_leaves_stops_the_engines_work(
    gateway: Gateway, document: dict[str, object], *, has_begun: bool
) -> None:
    async def silent(_request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    gateway.upstream.play = streams(says("a"), then=waits) if has_begun else silent
    path = "/api/chat" if "messages" in document else "/api/generate"
    question = asyncio.create_task(gateway.http.post(gateway.url + path, json=document))
    async with asyncio.timeout(PATIENCE_S):
        await gateway.upstream.arrival.wait()
        if has_begun and document["stream"] is True:
            (await question).close()
        question.cancel()
        await gateway.upstream.disconnect.wait()
    await asyncio.gather(question, return_exceptions=True)
    await until(lambda: gateway.supervisor.in_flight == 0)
    await expect_count(gateway, path.removeprefix("/api/"), "client_gone")


async def test_a_client_that_leaves_while_the_model_loads_waits_no_longer(gateway: Gateway) -> None:
    gateway.supervisor.may_load.clear()
    question = asyncio.create_task(gateway.http.post(f"{gateway.url}/api/chat", json=CHAT))
    await until(lambda: gateway.supervisor.waiter_count == 1)
    question.cancel()
    await asyncio.gather(question, return_exceptions=True)
    await until(lambda: gateway.supervisor.waiter_count == 0)


@pytest.mark.parametrize("document", [CHAT, GENERATE], ids=["chat", "generate"])
async def test_a_slow_load_sends_the_head_early_and_an_error_then_is_a_line(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, document: dict[str, object]
) -> None:
    path = "chat" if "messages" in document else "generate"
    monkeypatch.setattr(client_stream, "QUIET_S", 0.05)
    gateway.supervisor.may_load.clear()
    gateway.supervisor.refuse_with = EngineFailed("There is too little memory.", code="out_of_memory")
    async with asyncio.timeout(PATIENCE_S), gateway.http.post(f"{gateway.url}/api/{path}", json=document) as reply:
        assert reply.status == 200, "the head came although nothing is loaded"
        gateway.supervisor.may_load.set()
        assert json.loads(await reply.read()) == {"error": "There is too little memory."}
    await expect_count(gateway, path, "engine_failed")


async def test_a_slow_load_that_succeeds_goes_on_as_ever(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_stream, "QUIET_S", 0.05)
    gateway.supervisor.may_load.clear()
    gateway.upstream.play = streams(says("a"), END)
    async with asyncio.timeout(PATIENCE_S), gateway.http.post(f"{gateway.url}/api/chat", json=CHAT) as reply:
        gateway.supervisor.may_load.set()
        assert len((await reply.read()).splitlines()) == 2


async def test_a_head_comes_long_before_clients_give_up() -> None:
    """Many wait 30 s for the head of an answer, and a line of NDJSON would mean something."""
    assert client_stream.QUIET_S <= 5.0


@pytest.mark.parametrize("document", [CHAT, GENERATE], ids=["chat", "generate"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_an_answer_that_comes_at_once_from_an_engine_without_a_clock_took_time(
    gateway: Gateway, document: dict[str, object], *, stream: bool
) -> None:
    end = event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
    counts = event(choices=[], usage={"prompt_tokens": 7, "completion_tokens": 2})
    gateway.upstream.play = streams(says("a") + end + counts + DONE)
    path = "/api/chat" if "messages" in document else "/api/generate"
    async with gateway.http.post(gateway.url + path, json={**document, "stream": stream}) as reply:
        last = json.loads((await reply.text()).splitlines()[-1])
    assert (last["prompt_eval_count"], last["eval_count"]) == (7, 2)
    for name in ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration"):
        assert 0 < last[name] <= last["total_duration"], name


async def test_a_load_that_fails_at_once_has_a_status_of_its_own(gateway: Gateway) -> None:
    gateway.supervisor.refuse_with = EngineFailed("There is too little memory.", code="out_of_memory")
    for document in (CHAT, {**CHAT, "stream": False}):
        async with gateway.http.post(f"{gateway.url}/api/chat", json=document) as reply:
            assert (reply.status, await reply.json()) == (502, {"error": "There is too little memory."})


async def test_an_engine_that_dies_ends_the_stream_with_an_error_line(gateway: Gateway) -> None:
    gateway.supervisor.death = EngineFailed("The engine crashed.", code="crashed")
    gateway.upstream.play = streams(says("half"), then=dies)
    first, last = [line async for line in lines(gateway, "/api/chat", CHAT)]
    assert (first["message"]["content"], last) == ("half", {"error": "The engine crashed."})
    await expect_count(gateway, "chat", "engine_failed")
    assert await whole(gateway, "/api/chat", CHAT) == (502, {"error": "The engine crashed."})


async def test_a_stream_that_just_stops_is_not_taken_for_whole(gateway: Gateway) -> None:
    gateway.upstream.play = streams(says("half"))
    *_, last = [line async for line in lines(gateway, "/api/generate", GENERATE)]
    assert "cut off" in last["error"]


async def test_an_error_of_the_engine_in_mid_stream_is_the_last_line(gateway: Gateway) -> None:
    gateway.upstream.play = streams(says("a"), event(error={"code": 500, "message": "no", "type": "server_error"}))
    *_, last = [line async for line in lines(gateway, "/api/chat", CHAT)]
    assert last == {"error": "no"}


@pytest.mark.parametrize(
    ("status", "error", "expected_status", "sentence"),
    [
        (400, {"code": 400, "message": "bad grammar"}, 400, "bad grammar"),
        (
            400,
            {"code": 400, "message": "m", "type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 4},
            400,
            "maximum context length is 4 tokens, and the prompt has 9",
        ),
        (503, {"code": 503, "message": "Loading model"}, 503, "Loading model"),
    ],
)
async def test_a_refusal_of_the_engine_keeps_its_status(
    gateway: Gateway, status: int, error: dict[str, object], expected_status: int, sentence: str
) -> None:
    gateway.upstream.play = refuses(status, {"error": error})
    async with gateway.http.post(f"{gateway.url}/api/chat", json=CHAT) as reply:
        assert reply.status == expected_status
        refusal = await reply.json()
    assert list(refusal) == ["error"]
    assert sentence in refusal["error"]
    await expect_count(gateway, "chat", "refused" if expected_status == 400 else "engine_failed")


async def test_an_engine_that_had_gone_is_asked_once_more(gateway: Gateway) -> None:
    gateway.supervisor.base_urls = ["http://127.0.0.1:9"]
    gateway.upstream.play = streams(says("a"), END)
    assert (await whole(gateway, "/api/chat", CHAT))[1]["message"]["content"] == "a"
    assert len(gateway.supervisor.load_requests) == 2


@pytest.mark.parametrize("content_type", ["", "application/x-www-form-urlencoded"])
async def test_bodies_are_read_whatever_their_content_type(gateway: Gateway, content_type: str) -> None:
    gateway.upstream.play = streams(says("a"), END)
    headers = {"Content-Type": content_type} if content_type else {}
    skipped_headers = () if content_type else ("Content-Type",)
    data = json.dumps(CHAT).encode()
    async with gateway.http.post(
        f"{gateway.url}/api/chat", data=data, headers=headers, skip_auto_headers=skipped_headers
    ) as reply:
        assert reply.status == 200


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        (b"", 400, "missing request body"),
        (b"{", 400, "not valid JSON"),
        (b'{"model": 3}', 400, "$.model"),
        (b'{"model": "gpt-9", "messages": []}', 404, "model 'gpt-9' not found"),
        (b'{"model": "guide", "messages": [{"role": "user", "content": 3}]}', 400, "content"),
        (b'{"model": "guide", "messages": [{"role": "x"}]}', 400, "invalid role"),
        (b'{"model": "org/embed:q8", "messages": [{"role": "user"}]}', 400, "does not support completion"),
        (b'{"model": "guide", "messages": [{"role": "user"}], "think": true}', 400, "does not support thinking"),
        (b'{"model": "guide", "messages": [{"role": "user", "images": ["AA=="]}]}', 400, "does not support vision"),
    ],
)
async def test_a_bad_request_is_refused_in_ollamas_shape(
    gateway: Gateway, body: bytes, status: int, sentence: str
) -> None:
    async with gateway.http.post(f"{gateway.url}/api/chat", data=body) as reply:
        refusal = await reply.json()
    assert (reply.status, list(refusal)) == (status, ["error"])
    assert sentence in refusal["error"]
    assert gateway.upstream.bodies == []
    await expect_count(gateway, "chat", "refused", model="")


async def test_keep_alive_and_context_go_with_the_lease(gateway: Gateway) -> None:
    gateway.upstream.play = streams(says("a"), END)
    for keep_alive in ("5m", -1, None):
        await whole(gateway, "/api/chat", {**CHAT, "keep_alive": keep_alive, "options": {"num_ctx": 300}})
    assert gateway.supervisor.terms == [
        LeaseOptions(keep_s=300.0, context=300),
        LeaseOptions(keep_s=math.inf, context=300),
        LeaseOptions(keep_s=None, context=300),
    ]


@pytest.mark.parametrize(("path", "nothing"), [("/api/chat", {"messages": []}), ("/api/generate", {"prompt": ""})])
async def test_asking_for_nothing_loads_or_unloads(gateway: Gateway, path: str, nothing: dict[str, object]) -> None:
    status, load_reply = await whole(gateway, path, {"model": "guide", **nothing, "keep_alive": "1h"})
    assert (status, load_reply["done"], load_reply["done_reason"]) == (200, True, "load")
    assert gateway.supervisor.terms == [LeaseOptions(keep_s=3600.0, takes_slot=False)]
    status, unload_reply = await whole(gateway, path, {"model": "Guide:latest", **nothing, "keep_alive": 0})
    assert (status, unload_reply["done_reason"], unload_reply["model"]) == (200, "unload", "Guide:latest")
    assert gateway.supervisor.let_gone == ["guide"]
    gateway.supervisor.is_pinned = True
    _, stays = await whole(gateway, path, {"model": "guide", **nothing, "keep_alive": 0})
    assert stays["done_reason"] == "load"
    assert gateway.upstream.bodies == []


async def test_options_without_effect_are_named_in_the_log(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    gateway.upstream.play = streams(says("a"), END)
    await whole(gateway, "/api/chat", {**CHAT, "options": {"num_gpu": 1, "warp": 9, "temperature": 0.5, "seed": None}})
    assert "num_gpu, warp" in caplog.text
    body = body_seen(gateway)
    assert body["temperature"] == 0.5
    assert {"seed", "warp", "num_gpu"}.isdisjoint(body)


@pytest.mark.parametrize("environ", [{"ROUNDHOUSE_MODELS_CONTEXT": "512"}])
@pytest.mark.parametrize(
    ("num_ctx", "context"), [(100, 512), (512, 512), (513, 1024), (1025, 2048), (8933, 2048), (131_072, 2048)]
)
async def test_a_context_is_rounded_up_and_never_beyond_what_the_model_was_trained_for(
    gateway: Gateway, num_ctx: int, context: int
) -> None:
    gateway.upstream.play = streams(says("a"), END)
    await whole(gateway, "/api/chat", {**CHAT, "options": {"num_ctx": num_ctx}})
    assert gateway.supervisor.load_requests[-1].options.context == context


async def test_a_raw_prompt_goes_to_the_route_for_prompts(gateway: Gateway) -> None:
    gateway.upstream.play = streams(event(choices=[{"text": "b", "finish_reason": None}]), END)
    _, reply = await whole(gateway, "/api/generate", {**GENERATE, "raw": True, "options": {"num_predict": 3}})
    assert reply["response"] == "b"
    assert body_seen(gateway) | {"model": 0} == {
        "prompt": "Hi",
        "max_tokens": 3,
        "model": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def embeds(*vectors: list[float]) -> Play:
    async def play(_request: web.Request) -> web.StreamResponse:
        data = [{"index": at, "embedding": vector} for at, vector in enumerate(vectors)]
        return web.json_response({"data": data, "usage": {"prompt_tokens": 4}})

    return play


async def test_embeddings(gateway: Gateway) -> None:
    gateway.upstream.play = embeds([3.0, 4.0], [0.0, 2.0])
    status, reply = await whole(gateway, "/api/embed", {"model": "org/embed:q8", "input": ["a", "b"]})
    assert (status, reply["embeddings"], reply["prompt_eval_count"]) == (200, [[0.6, 0.8], [0.0, 1.0]], 4)
    assert 0 < reply["load_duration"] < reply["total_duration"]
    assert body_seen(gateway)["input"] == ["a", "b"]
    _, reply = await whole(gateway, "/api/embed", {"model": "org/embed:q8", "input": "a", "dimensions": 1})
    assert reply["embeddings"][0] == [1.0]
    _, reply = await whole(gateway, "/api/embeddings", {"model": "org/embed:q8", "prompt": "a"})
    assert reply == {"embedding": [3.0, 4.0]}


async def test_nothing_to_embed_loads_the_model(gateway: Gateway) -> None:
    assert (await whole(gateway, "/api/embed", {"model": "org/embed:q8", "input": "", "keep_alive": 60}))[1][
        "embeddings"
    ] == []
    assert gateway.supervisor.terms == [LeaseOptions(keep_s=60.0)]
    assert await whole(gateway, "/api/embeddings", {"model": "org/embed:q8", "prompt": ""}) == (200, {"embedding": []})


@pytest.mark.parametrize(
    ("document", "status", "sentence"),
    [
        ({"model": "guide", "input": "a"}, 400, "does not support embedding"),
        ({"model": "nobody", "input": "a"}, 404, "model 'nobody' not found"),
        ({"model": "org/embed:q8", "input": [1]}, 400, "invalid input type"),
        ({"model": "org/embed:q8", "input": "a", "dimensions": -1}, 400, "dimensions"),
    ],
)
async def test_embeddings_are_refused(
    gateway: Gateway, document: dict[str, object], status: int, sentence: str
) -> None:
    reply_status, refusal = await whole(gateway, "/api/embed", document)
    assert (reply_status, list(refusal)) == (status, ["error"])
    assert sentence in refusal["error"]


async def test_an_input_too_long_to_embed_is_refused_in_ollamas_words(gateway: Gateway) -> None:
    gateway.upstream.play = refuses(
        500, {"error": {"code": 500, "message": "input (9 tokens) is too large to process"}}
    )
    status, refusal = await whole(gateway, "/api/embed", {"model": "org/embed:q8", "input": "a"})
    assert status == 400
    assert refusal["error"].startswith("the input length exceeds the context length")


async def test_an_unknown_model_and_the_models_there_are_are_two_sentences(gateway: Gateway) -> None:
    async with gateway.http.post(f"{gateway.url}/api/chat", json={**CHAT, "model": "gpt-9"}) as reply:
        assert (await reply.json())["error"].startswith("model 'gpt-9' not found. There are guide, ")


async def test_what_does_not_fit_is_left_out_only_where_that_is_asked_for_and_said(gateway: Gateway) -> None:
    error = {"code": 400, "message": "m", "type": "exceed_context_size_error", "n_prompt_tokens": 900, "n_ctx": 400}
    answers, refusal = streams(says("Hello"), END, DONE), refuses(400, {"error": error})

    async def play(request: web.Request) -> web.StreamResponse:
        document = json.loads(await request.read())["messages"]
        return await (refusal if len(document) > 4 else answers)(request)

    gateway.upstream.play = play
    talk = [{"role": role, "content": f"{role} {at} " + "x" * 40} for at in range(5) for role in ("user", "assistant")]
    messages = [{"role": "system", "content": "Be brief."}, *talk, {"role": "user", "content": "So?"}]
    for truncate in (None, False):
        async with gateway.http.post(
            f"{gateway.url}/api/chat", json={**CHAT, "messages": messages, "truncate": truncate}
        ) as reply:
            assert reply.status == 400
            assert "exceeds the context length" in (await reply.json())["error"]
    for stream in (True, False):
        document = {**CHAT, "messages": messages, "truncate": True, "stream": stream}
        async with gateway.http.post(f"{gateway.url}/api/chat", json=document) as reply:
            assert reply.status == 200
            last = json.loads((await reply.read()).splitlines()[-1])
        kept_messages = body_seen(gateway)["messages"]
        assert (kept_messages[0]["content"], kept_messages[-1]["content"], kept_messages[1]["role"]) == (
            "Be brief.",
            "So?",
            "user",
        )
        assert last["dropped_messages"] == 12 - len(kept_messages)
