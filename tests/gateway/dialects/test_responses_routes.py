"""The Responses API in front of an engine the test plays: what reaches it, what comes back, what is kept."""

import asyncio
import json
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from app.core.api import PREFIX
from app.core.errors import EngineFailed
from app.gateway.exchange import client_stream
from app.supervisor.policy import LeaseOptions
from tests.gateway.dialects.test_ollama_generation import (
    DONE,
    END,
    body_seen,
    dies,
    event,
    refuses,
    says,
    streams,
    waits,
)
from tests.gateway.played import Gateway, Play
from tests.patience import PATIENCE_S, until

ASKED: dict[str, Any] = {"model": "guide", "input": "Hi"}
TOO_LONG = {"code": 400, "message": "m", "type": "exceed_context_size_error", "n_prompt_tokens": 900, "n_ctx": 400}
LOOK = {"type": "function", "name": "look", "parameters": {"type": "object"}}


@pytest.fixture(autouse=True)
def engine(gateway: Gateway) -> None:
    """Unless a test says otherwise, the engine says Hello."""
    gateway.upstream.play = streams(says("Hel"), says("lo"), END)


async def call(gateway: Gateway, method: str, path: str, body: object = None) -> tuple[int, Any]:
    async with gateway.http.request(method, f"{gateway.url}/v1/responses{path}", json=body) as reply:
        return reply.status, await reply.json(content_type=None)


async def create_response(gateway: Gateway, **fields: object) -> dict[str, Any]:
    status, response = await call(gateway, "POST", "", {**ASKED, **fields})
    assert status == 200, response
    response_body: dict[str, Any] = response
    return response_body


async def events(gateway: Gateway, **fields: object) -> AsyncIterator[dict[str, Any]]:
    async with gateway.http.post(f"{gateway.url}/v1/responses", json={**ASKED, "stream": True, **fields}) as reply:
        assert (reply.status, reply.content_type) == (200, "text/event-stream")
        async for line in reply.content:
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))


def text_of(response: dict[str, Any]) -> str:
    return "".join(part["text"] for item in response["output"] for part in item.get("content", ()))


async def expect_count(gateway: Gateway, outcome: str, model: str = "guide") -> None:
    line = f'roundhouse_requests_total{{route="responses",model="{model}",outcome="{outcome}"}} 1'
    await until(lambda: line in gateway.services.metrics.format_exposition([]).splitlines())


async def test_an_answer_is_the_same_streamed_and_at_once(gateway: Gateway) -> None:
    whole = await create_response(gateway)
    *_, last = [item async for item in events(gateway)]
    assert (last["type"], text_of(whole), text_of(last["response"])) == ("response.completed", "Hello", "Hello")
    assert whole.keys() == last["response"].keys()
    usage = {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9}
    assert {key: whole["usage"][key] for key in usage} == usage
    assert body_seen(gateway)["messages"] == [{"role": "user", "content": "Hi"}]
    assert 'roundhouse_tokens_total{model="guide",kind="prompt"} 14' in gateway.services.metrics.format_exposition([])


async def test_the_first_token_does_not_wait_for_the_second(gateway: Gateway) -> None:
    gateway.upstream.play = streams(says("a"), then=waits)
    stream = events(gateway)
    async with asyncio.timeout(PATIENCE_S):
        async for item in stream:
            if item["type"] == "response.output_text.delta":
                break
    assert item["delta"] == "a"


async def test_a_conversation_goes_on_with_an_answer_by_its_id(gateway: Gateway) -> None:
    first = await create_response(gateway, instructions="Be brief.", input=[{"role": "user", "content": "One?"}])
    *_, last = [item async for item in events(gateway, input="Two?", previous_response_id=first["id"])]
    assert last["response"]["previous_response_id"] == first["id"]
    await create_response(gateway, input="Three?", previous_response_id=last["response"]["id"])
    assert body_seen(gateway)["messages"] == [
        {"role": "user", "content": "One?"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Two?"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Three?"},
    ]


async def test_a_round_with_a_tool_by_id(gateway: Gateway) -> None:
    asks = {"index": 0, "id": "c1", "function": {"name": "look", "arguments": '{"at": 1}'}}
    gateway.upstream.play = streams(event(choices=[{"delta": {"tool_calls": [asks]}}]), END)
    first = await create_response(gateway, tools=[LOOK])
    assert [item["type"] for item in first["output"]] == ["function_call"]
    gateway.upstream.play = streams(says("Seen."), END)
    output = {"type": "function_call_output", "call_id": "c1", "output": "a cat"}
    await create_response(gateway, input=[output], tools=[LOOK], previous_response_id=first["id"])
    _, call_message, result = body_seen(gateway)["messages"]
    assert call_message["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"at": 1}'}
    assert (result["role"], result["tool_call_id"], result["content"]) == ("tool", "c1", "a cat")


async def test_items_are_referred_to_by_their_ids(gateway: Gateway) -> None:
    first = await create_response(gateway)
    reference = {"type": "item_reference", "id": first["output"][0]["id"]}
    await create_response(
        gateway, input=[{"role": "user", "content": "Hi"}, reference, {"role": "user", "content": "And?"}]
    )
    assert [turn["content"] for turn in body_seen(gateway)["messages"]] == ["Hi", "Hello", "And?"]
    status, refusal = await call(gateway, "POST", "", {**ASKED, "input": [{"type": "item_reference", "id": "msg_0"}]})
    assert (status, refusal["error"]["code"]) == (400, "item_not_found")


async def test_a_kept_response_is_shown_listed_and_deleted(gateway: Gateway) -> None:
    new_response = await create_response(gateway, metadata={"a": "b"})
    path = f"/{new_response['id']}"
    assert await call(gateway, "GET", path) == (200, new_response)
    status, page = await call(gateway, "GET", f"{path}/input_items?limit=5&order=asc")
    assert (status, page["has_more"], page["object"]) == (200, False, "list")
    assert page["data"][0]["content"] == [{"type": "input_text", "text": "Hi"}]
    assert page["first_id"] == page["last_id"] == page["data"][0]["id"]
    assert (await call(gateway, "GET", f"{path}?stream=true"))[1]["error"]["code"] == "unsupported_parameter"
    assert (await call(gateway, "GET", f"{path}/input_items?limit=0"))[0] == 400
    status, refusal = await call(gateway, "POST", f"{path}/cancel")
    assert (status, refusal["error"]["code"]) == (400, "response_not_running")
    assert await call(gateway, "DELETE", path) == (
        200,
        {"id": new_response["id"], "object": "response", "deleted": True},
    )
    for method, more in (("GET", ""), ("DELETE", ""), ("GET", "/input_items"), ("POST", "/cancel")):
        status, refusal = await call(gateway, method, path + more)
        assert (status, refusal["error"]["code"]) == (404, "response_not_found")


async def test_what_is_not_to_be_kept_is_not(gateway: Gateway) -> None:
    new_response = await create_response(gateway, store=False)
    assert new_response["store"] is False
    assert (await call(gateway, "GET", f"/{new_response['id']}"))[0] == 404
    status, refusal = await call(gateway, "POST", "", {**ASKED, "previous_response_id": new_response["id"]})
    assert (status, refusal["error"]["code"]) == (400, "previous_response_not_found")
    assert refusal["error"]["param"] == "previous_response_id"
    gateway.services.settings.change_values({"responses.kept": 0})
    new_response = await create_response(gateway)
    assert new_response["store"] is False
    assert (await call(gateway, "GET", f"/{new_response['id']}"))[0] == 404


async def test_no_more_are_kept_than_the_setting_says(gateway: Gateway) -> None:
    gateway.services.settings.change_values({"responses.kept": 2})
    response_ids = [(await create_response(gateway))["id"] for _ in range(3)]
    assert [(await call(gateway, "GET", f"/{name}"))[0] for name in response_ids] == [404, 200, 200]


async def test_keeping_fewer_forgets_at_once(gateway: Gateway) -> None:
    response_ids = [(await create_response(gateway))["id"] for _ in range(2)]
    async with gateway.http.patch(
        f"{gateway.url}{PREFIX}/settings", json={"responses.kept": 1}, headers={"Authorization": "Bearer token"}
    ) as reply:
        assert reply.status == 200
    assert [(await call(gateway, "GET", f"/{name}"))[0] for name in response_ids] == [404, 200]


@pytest.mark.parametrize("streams_it", [True, False])
@pytest.mark.parametrize("has_begun", [True, False])
async def test_a_client_that_leaves_stops_the_engines_work(
    gateway: Gateway, *, streams_it: bool, has_begun: bool
) -> None:
    async def silent(_request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    gateway.upstream.play = streams(says("a"), then=waits) if has_begun else silent
    document = {**ASKED, "stream": streams_it}
    question = asyncio.create_task(gateway.http.post(f"{gateway.url}/v1/responses", json=document))
    async with asyncio.timeout(PATIENCE_S):
        await gateway.upstream.arrival.wait()
        if has_begun and streams_it:
            (await question).close()
        question.cancel()
        await gateway.upstream.disconnect.wait()
    await asyncio.gather(question, return_exceptions=True)
    await until(lambda: gateway.supervisor.in_flight == 0)
    await expect_count(gateway, "client_gone")


async def test_a_response_being_made_is_seen_and_cancelled_by_its_id(gateway: Gateway) -> None:
    gateway.upstream.play = streams(says("half"), then=waits)
    stream = events(gateway)
    seen_events = [await anext(stream) for _ in range(5)]
    name = seen_events[0]["response"]["id"]
    status, stored_response = await call(gateway, "GET", f"/{name}")
    assert (status, stored_response["status"], text_of(stored_response)) == (200, "in_progress", "half")
    status, ended_response = await call(gateway, "POST", f"/{name}/cancel")
    assert (status, ended_response["status"], text_of(ended_response)) == (200, "cancelled", "half")
    *_, last = [item async for item in stream]
    assert (last["type"], last["response"]["status"]) == ("response.failed", "cancelled")
    assert "stopped in Roundhouse" in last["response"]["error"]["message"]
    async with asyncio.timeout(PATIENCE_S):
        await gateway.upstream.disconnect.wait()
    assert (await call(gateway, "GET", f"/{name}"))[1]["status"] == "cancelled"
    await expect_count(gateway, "stopped")


async def test_a_response_is_cancelled_while_its_model_loads(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_stream, "QUIET_S", 0.05)
    gateway.supervisor.may_load.clear()
    stream = events(gateway)
    name = (await anext(stream))["response"]["id"]
    status, ended_response = await call(gateway, "POST", f"/{name}/cancel")
    assert (status, ended_response["status"], ended_response["output"]) == (200, "cancelled", [])
    assert (await call(gateway, "GET", f"/{name}"))[1]["status"] == "cancelled"
    await until(lambda: gateway.supervisor.waiter_count == 0)
    *_, last = [item async for item in stream]
    assert (last["type"], last["response"]["status"]) == ("response.failed", "cancelled")


async def test_a_slow_load_sends_the_head_and_signs_of_life_and_an_error_then_is_an_event(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_stream, "QUIET_S", 0.02)
    monkeypatch.setattr(client_stream, "EVERY_S", 0.02)
    gateway.supervisor.may_load.clear()
    gateway.supervisor.refuse_with = EngineFailed("There is too little memory.", code="out_of_memory")
    document = {**ASKED, "stream": True}
    async with asyncio.timeout(PATIENCE_S), gateway.http.post(f"{gateway.url}/v1/responses", json=document) as reply:
        data = b""
        while b": still loading\n\n" not in data:
            data += await reply.content.readany()
        gateway.supervisor.may_load.set()
        data += await reply.read()
    assert data.startswith(b"event: response.created\n")
    last = json.loads(data.strip().split(b"data: ")[-1])
    assert (last["type"], last["response"]["error"]["code"]) == ("response.failed", "server_error")
    assert "too little memory" in last["response"]["error"]["message"]
    await expect_count(gateway, "engine_failed")


async def test_a_load_that_fails_at_once_has_a_status_of_its_own(gateway: Gateway) -> None:
    gateway.supervisor.refuse_with = EngineFailed("There is too little memory.", code="out_of_memory")
    for stream in (True, False):
        status, refusal = await call(gateway, "POST", "", {**ASKED, "stream": stream})
        assert (status, refusal["error"]["code"]) == (502, "out_of_memory")


async def test_an_engine_that_dies_ends_the_stream_as_failed(gateway: Gateway) -> None:
    gateway.supervisor.death = EngineFailed("The engine crashed.", code="crashed")
    gateway.upstream.play = streams(says("half"), then=dies)
    *_, last = [item async for item in events(gateway)]
    response = last["response"]
    assert (last["type"], response["status"], text_of(response)) == ("response.failed", "failed", "half")
    assert response["error"] == {"code": "server_error", "message": "The engine crashed."}
    assert (await call(gateway, "GET", f"/{response['id']}"))[1] == response
    await expect_count(gateway, "engine_failed")
    status, refusal = await call(gateway, "POST", "", ASKED)
    assert (status, refusal["error"]["message"]) == (502, "The engine crashed.")


@pytest.mark.parametrize("last_words", [b"", event(error={"code": 500, "message": "no", "type": "server_error"})])
async def test_a_stream_that_ends_badly_is_not_taken_for_whole(gateway: Gateway, last_words: bytes) -> None:
    gateway.upstream.play = streams(says("half"), last_words)
    *_, last = [item async for item in events(gateway)]
    assert last["type"] == "response.failed"


async def test_an_answer_cut_at_its_limit_is_incomplete(gateway: Gateway) -> None:
    end = event(choices=[{"delta": {}, "finish_reason": "length"}])
    gateway.upstream.play = streams(says("a"), end, DONE)
    cut_response = await create_response(gateway, max_output_tokens=1)
    assert (cut_response["status"], cut_response["incomplete_details"]) == (
        "incomplete",
        {"reason": "max_output_tokens"},
    )
    assert cut_response["usage"] is None
    assert body_seen(gateway)["max_tokens"] == 1


async def test_a_prompt_too_long_is_refused_with_both_counts(gateway: Gateway) -> None:
    gateway.upstream.play = refuses(400, {"error": TOO_LONG})
    for stream in (True, False):
        status, refusal = await call(gateway, "POST", "", {**ASKED, "stream": stream})
        assert (status, refusal["error"]["code"]) == (400, "context_length_exceeded")
        assert refusal["error"]["message"].endswith("context length is 400 tokens, and your input has 900.")
        assert refusal["error"]["param"] == "input"


def holds(messages: int) -> Play:
    """Play an engine whose context holds so many messages."""
    answers, refusal = streams(says("Hello"), END), refuses(400, {"error": TOO_LONG})

    async def play(request: web.Request) -> web.StreamResponse:
        sent_messages = json.loads(await request.read())["messages"]
        return await (refusal if len(sent_messages) > messages else answers)(request)

    return play


async def test_what_does_not_fit_is_left_out_where_that_is_wanted_and_said(gateway: Gateway) -> None:
    gateway.upstream.play = holds(4)
    talk = [{"role": role, "content": f"{role} {at} " + "x" * 40} for at in range(5) for role in ("user", "assistant")]
    given_fields = {"instructions": "Be brief.", "input": [*talk, {"role": "user", "content": "So?"}]}
    new_response = await create_response(gateway, truncation="auto", **given_fields)
    messages = body_seen(gateway)["messages"]
    assert (messages[0]["content"], messages[-1]["content"], messages[1]["role"]) == ("Be brief.", "So?", "user")
    assert new_response["roundhouse"] == {"dropped_messages": 12 - len(messages)}
    *_, last = [item async for item in events(gateway, truncation="auto", **given_fields)]
    assert last["response"]["roundhouse"] == new_response["roundhouse"]
    gateway.upstream.play = holds(0)
    status, refusal = await call(gateway, "POST", "", {**ASKED, "truncation": "auto", **given_fields})
    assert (status, refusal["error"]["code"]) == (400, "context_length_exceeded")


async def test_tokens_are_counted_as_the_engine_would_read_them(gateway: Gateway) -> None:
    async def play(request: web.Request) -> web.StreamResponse:
        body = json.loads(gateway.upstream.bodies[-1])
        if request.path == "/apply-template":
            return web.json_response({"prompt": f"<user>{body['messages'][0]['content']}"})
        assert (request.path, body["content"], body["add_special"]) == ("/tokenize", "<user>Hi", True)
        return web.json_response({"tokens": [1, 2, 3]})

    gateway.upstream.play = play
    counts = (200, {"object": "response.input_tokens", "input_tokens": 3})
    assert await call(gateway, "POST", "/input_tokens", ASKED) == counts
    assert gateway.supervisor.terms == [LeaseOptions(takes_slot=False)] * 2
    assert await call(gateway, "POST", "/input_tokens", {"input": "Hi"}) == counts
    assert (await call(gateway, "POST", "/input_tokens", {"model": "gpt-9", "input": "Hi"}))[0] == 404
    status, refusal = await call(gateway, "POST", "/input_tokens", {"model": "org/embed:q8", "input": "Hi"})
    assert (status, refusal["error"]["code"]) == (400, "model_cannot")
    gateway.upstream.play = refuses(200, {"prompt": 7})
    assert (await call(gateway, "POST", "/input_tokens", ASKED))[1]["error"]["code"] == "engine_nonsense"


async def test_how_long_the_model_is_kept_and_its_context_go_with_the_lease(gateway: Gateway) -> None:
    await create_response(gateway, ttl=60, options={"num_ctx": 300})
    await create_response(gateway, keep_alive=-1)
    assert gateway.supervisor.terms == [LeaseOptions(keep_s=60.0, context=300), LeaseOptions(keep_s=math.inf)]


async def test_a_name_that_stands_for_a_model_reaches_it(gateway: Gateway) -> None:
    gateway.services.settings.change_values({"models.aliases": ["gpt-*=guide"]})
    assert (await create_response(gateway, model="gpt-6-codex"))["model"] == "guide"


async def test_an_engine_that_had_gone_is_asked_once_more(gateway: Gateway) -> None:
    gateway.supervisor.base_urls = ["http://127.0.0.1:9"]
    assert text_of(await create_response(gateway)) == "Hello"
    assert len(gateway.supervisor.load_requests) == 2


def picture(address: str) -> bytes:
    content = [{"type": "input_image", "image_url": address}]
    return json.dumps({"model": "guide", "input": [{"role": "user", "content": content}]}).encode()


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "invalid_json"),
        (b"{", 400, "invalid_json"),
        (b'{"model": "guide"}', 400, "input_required"),
        (b'{"model": "gpt-9", "input": "Hi"}', 404, "model_not_found"),
        (b'{"model": "org/embed:q8", "input": "Hi"}', 400, "model_cannot"),
        (b'{"model": "guide", "input": 7}', 400, "invalid_value"),
        (b'{"model": "guide", "input": "Hi", "background": true}', 400, "unsupported_parameter"),
        (b'{"model": "guide", "input": "Hi", "previous_response_id": "resp_0"}', 400, "previous_response_not_found"),
        (b'{"model": "guide", "input": "Hi", "tools": [7]}', 400, "invalid_tools"),
        (b'{"model": "guide", "input": "Hi", "max_output_tokens": "many"}', 400, "invalid_value"),
        (picture("http://192.168.0.1/"), 400, "invalid_value"),
        (picture("data:image/png;base64,AA=="), 400, "unsupported_content"),
    ],
)
async def test_a_bad_request_is_refused_in_openais_shape(gateway: Gateway, body: bytes, status: int, code: str) -> None:
    async with gateway.http.post(f"{gateway.url}/v1/responses", data=body) as reply:
        refusal = await reply.json()
    assert (reply.status, refusal["error"]["code"]) == (status, code)
    assert refusal["error"].keys() == {"message", "type", "param", "code"}
    assert gateway.upstream.bodies == []
    await expect_count(gateway, "refused", model="")
