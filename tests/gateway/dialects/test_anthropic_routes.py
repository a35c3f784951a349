"""Anthropic's routes on a socket, in front of a played engine."""

import asyncio
import io
import json
from typing import Any, cast

import anthropic
import pytest
from aiohttp import web

from app.core.errors import EngineFailed, Unavailable
from app.gateway.dialects.anthropic.answers import encode_event
from tests.gateway.played import KEY, Gateway, Play
from tests.patience import PATIENCE_S, until

ASKED: dict[str, Any] = {"model": "guide", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
REPLY = {
    "id": "chatcmpl-1",
    "type": "message",
    "role": "assistant",
    "content": [{"type": "text", "text": "Hello"}],
    "model": "guide",
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"cache_read_input_tokens": 4, "input_tokens": 3, "output_tokens": 2},
}
START = encode_event(
    "message_start", {"type": "message_start", "message": {**REPLY, "content": [], "stop_reason": None}}
)
BLOCK = encode_event(
    "content_block_start",
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
)


def answers(body: object, status: int = 200) -> Play:
    async def play(_request: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status)

    return play


def streams(*chunks: bytes, hangs: bool = False) -> Play:
    """Play an engine that sends these chunks and then breaks off, or never goes on."""

    async def play(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if hangs:
            await asyncio.Event().wait()
        assert request.transport is not None
        request.transport.abort()
        return response

    return play


async def post(gateway: Gateway, body: object = None, **options: Any) -> tuple[int, Any]:  # noqa: ANN401 -- any JSON
    content = {"data": io.BytesIO(body)} if isinstance(body, bytes) else {"json": ASKED if body is None else body}
    async with gateway.http.post(f"{gateway.url}/v1/messages", **content, **options) as reply:
        assert reply.headers["request-id"].startswith("req_")
        return reply.status, await reply.json(content_type=None)


async def test_an_answer_is_mended_and_counted(gateway: Gateway) -> None:
    gateway.upstream.play = answers(REPLY)
    status, body = await post(gateway, headers={"x-api-key": "sk-ant-mine", "anthropic-version": "2023-06-01"})
    assert (status, body["content"], body["id"][:4]) == (200, REPLY["content"], "msg_")
    assert gateway.upstream.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert "sk-ant-mine" not in str(gateway.upstream.headers)
    lines = gateway.services.metrics.format_exposition([]).splitlines()
    assert 'roundhouse_requests_total{route="messages",model="guide",outcome="ok"} 1' in lines
    assert 'roundhouse_tokens_total{model="guide",kind="prompt"} 7' in lines
    assert 'roundhouse_tokens_total{model="guide",kind="completion"} 2' in lines


@pytest.mark.parametrize(
    ("body", "status", "kind", "words"),
    [
        ({**ASKED, "model": "gpt-9"}, 404, "not_found_error", "`roundhouse alias gpt-9 MODEL`"),
        ({**ASKED, "max_tokens": None}, 400, "invalid_request_error", "max_tokens"),
        ({**ASKED, "model": "org/embed:q8"}, 400, "invalid_request_error", "does not write text"),
        (b"{", 400, "invalid_request_error", "not valid JSON"),
        (b'{"a":"' + b"x" * 1_100_000 + b'"}', 413, "request_too_large", "MiB"),
    ],
)
async def test_mistakes_are_refused_in_anthropics_shape(
    gateway: Gateway, body: object, status: int, kind: str, words: str
) -> None:
    reply_status, document = await post(gateway, body)
    assert (reply_status, document["type"], document["error"]["type"]) == (status, "error", kind)
    assert words in document["error"]["message"]
    assert document["request_id"].startswith("req_")


@pytest.mark.parametrize("path", ["/v1/messages/batches", "/v1/complete"])
async def test_what_is_not_there_is_said_in_anthropics_shape(gateway: Gateway, path: str) -> None:
    headers = {"anthropic-version": "2023-06-01"}
    async with gateway.http.post(gateway.url + path, json={}, headers=headers) as reply:
        assert (reply.status, (await reply.json())["error"]["type"]) == (404, "not_found_error")


async def test_foreign_pages_are_refused_in_anthropics_shape(gateway: Gateway) -> None:
    status, document = await post(gateway, headers={"Origin": "https://evil.example"})
    assert (status, document["error"]["type"]) == (403, "permission_error")


async def test_not_now_is_overloaded(gateway: Gateway) -> None:
    gateway.supervisor.refuse_with = cast("Any", Unavailable("Too many wait."))
    status, document = await post(gateway)
    assert (status, document["error"]) == (529, {"type": "overloaded_error", "message": "Too many wait."})


async def test_an_engine_that_cannot_start_is_an_api_error(gateway: Gateway) -> None:
    gateway.supervisor.refuse_with = EngineFailed("It does not fit.", code="out_of_memory")
    status, document = await post(gateway)
    assert (status, document["error"]) == (502, {"type": "api_error", "message": "It does not fit."})


@pytest.mark.parametrize("pieces", [START + BLOCK, START + BLOCK[:30]])
async def test_an_engine_that_dies_ends_the_stream_with_an_error_event(gateway: Gateway, pieces: bytes) -> None:
    gateway.supervisor.death = EngineFailed("The engine crashed.", code="crashed")
    gateway.upstream.play = streams(pieces)
    async with gateway.http.post(f"{gateway.url}/v1/messages", json={**ASKED, "stream": True}) as reply:
        last = (await reply.read()).decode().strip().split("\n\n")[-1]
    name, data = last.split("\n")
    assert name == "event: error"
    assert json.loads(data.removeprefix("data: "))["error"] == {"type": "api_error", "message": "The engine crashed."}


async def test_anthropics_client_raises_what_the_engine_died_of(gateway: Gateway) -> None:
    gateway.supervisor.death = EngineFailed("The engine crashed.", code="crashed")
    gateway.upstream.play = streams(START + BLOCK)
    async with anthropic.AsyncAnthropic(base_url=gateway.url, api_key="any", max_retries=0) as client:
        with pytest.raises(anthropic.APIStatusError, match="The engine crashed"):
            async with client.messages.stream(**ASKED) as stream:
                await stream.until_done()


@pytest.mark.parametrize("pieces", [(), (START,)])
async def test_a_client_that_goes_away_stops_the_engine(gateway: Gateway, pieces: tuple[bytes, ...]) -> None:
    gateway.upstream.play = streams(*pieces, hangs=True)
    question = asyncio.create_task(post(gateway, {**ASKED, "stream": True}))
    await gateway.upstream.arrival.wait()
    question.cancel()
    async with asyncio.timeout(PATIENCE_S):
        await gateway.upstream.disconnect.wait()
    await until(lambda: gateway.supervisor.in_flight == 0)


async def test_a_name_that_stands_for_a_model_reaches_it(gateway: Gateway) -> None:
    gateway.upstream.play = answers(REPLY)
    assert (await post(gateway, {**ASKED, "model": "claude-haiku-4-5-20251001"}))[0] == 200
    assert json.loads(gateway.upstream.bodies[0])["model"] == "guide"
    gateway.services.settings.change_values({"models.aliases": ["gpt-*=guide"]})
    assert (await post(gateway, {**ASKED, "model": "gpt-5"}))[0] == 200
    assert (await post(gateway, {**ASKED, "model": "claude-opus-4-8"}))[0] == 404


async def test_tokens_are_counted_by_the_engine(gateway: Gateway) -> None:
    gateway.upstream.play = answers({"input_tokens": 21})
    body = {"model": "guide", "messages": ASKED["messages"]}
    async with gateway.http.post(f"{gateway.url}/v1/messages/count_tokens", json=body) as reply:
        assert (reply.status, await reply.json()) == (200, {"input_tokens": 21})


async def test_the_list_of_models_is_for_whoever_asks(gateway: Gateway) -> None:
    async def listing(query: str = "", **headers: str) -> Any:  # noqa: ANN401 -- any JSON
        async with gateway.http.get(f"{gateway.url}/v1/models{query}", headers=headers) as reply:
            return await reply.json()

    version = {"anthropic-version": "2023-06-01"}
    assert (await listing())["object"] == "list"
    page = await listing("?limit=1", **version)
    assert (page["has_more"], page["first_id"], page["last_id"]) == (True, "guide", "guide")
    assert page["data"][0] == {
        "id": "guide",
        "display_name": "Guide",
        "created_at": "2023-11-14T22:13:20Z",
        "max_input_tokens": 2048,
        "max_tokens": 2048,
        "capabilities": None,
        "lifecycle": "active",
        "type": "model",
    }
    rest = await listing("?after_id=guide", **version)
    assert ([model["id"] for model in rest["data"]], rest["has_more"]) == (["org/embed:q8"], False)
    before = await listing("?before_id=org/embed:q8", **version)
    assert [model["id"] for model in before["data"]] == ["guide"]
    assert (await listing("?after_id=none", **version))["error"]["type"] == "invalid_request_error"
    assert (await listing("?limit=0", **version))["error"]["type"] == "invalid_request_error"
    assert (await listing("/org/embed:q8", **version))["id"] == "org/embed:q8"
    assert (await listing("/none", **version))["error"]["type"] == "not_found_error"
