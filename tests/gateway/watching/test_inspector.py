"""The inspector: what it keeps of a request on its way, who it tells, and how it ends one."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from app.core.api import PREFIX, SettingInfo
from app.core.events import Event, RequestChanged, RequestsForgotten
from app.core.requests import Peer, RequestDetail, RequestInfo, RequestState, Usage
from app.gateway.entry.middleware import client_product
from app.gateway.exchange.observer import BODY_BYTES
from tests.gateway.admin.conftest import LAST, Api, Pen, chunk
from tests.gateway.played import Gateway
from tests.patience import PATIENCE_S, until

S = RequestState


@pytest.fixture
def pen(gateway: Gateway) -> Pen:
    new_pen = Pen()
    gateway.upstream.play = new_pen.play
    return new_pen


@pytest.fixture
def api(gateway: Gateway) -> Api:
    return Api(gateway)


@asynccontextmanager
async def ask_gateway(gateway: Gateway, **fields: object) -> AsyncIterator[aiohttp.ClientResponse]:
    body = {"model": "guide", "stream": True, **fields}
    headers = {"User-Agent": "aider/0.86 (linux) httpx/1"}
    async with gateway.http.post(f"{gateway.url}/v1/chat/completions", json=body, headers=headers) as reply:
        yield reply


async def list_requests(api: Api, query: str = "") -> list[RequestInfo]:
    return await api.call("GET", f"/requests{query}", list[RequestInfo])


async def only(api: Api) -> RequestInfo:
    (request,) = await list_requests(api)
    return request


async def reaches(api: Api, state: RequestState) -> RequestInfo:
    async def is_so() -> bool:
        return [request.state for request in await list_requests(api)] == [state]

    await until(is_so)
    return await only(api)


async def test_a_stream_is_followed_from_the_queue_to_its_end(gateway: Gateway, api: Api, pen: Pen) -> None:
    gateway.supervisor.may_load.clear()
    async with asyncio.TaskGroup() as tasks:

        async def ask() -> bytes:
            async with ask_gateway(gateway) as reply:
                return await reply.read()

        task = tasks.create_task(ask())
        assert (await reaches(api, S.QUEUED)).prefill_s is None
        gateway.supervisor.may_load.set()
        assert (await reaches(api, S.PREFILL)).ttft_s is None
        pen.write(chunk("One"))
        assert (await reaches(api, S.DECODING)).completion_tokens is None
        pen.write(chunk(" two"), LAST)
        pen.end()
    assert task.result().endswith(b"[DONE]\n\n")
    finished_request = await reaches(api, S.DONE)
    assert (finished_request.client, finished_request.peer, finished_request.dialect, finished_request.route) == (
        "aider",
        Peer.THIS_COMPUTER,
        "openai",
        "chat",
    )
    assert (
        finished_request.model,
        finished_request.engine,
        finished_request.status,
        finished_request.outcome,
        finished_request.error,
    ) == ("guide", "llama.cpp", 200, "ok", "")
    assert (finished_request.prompt_tokens, finished_request.cached_tokens, finished_request.completion_tokens) == (
        10,
        2,
        3,
    )
    spans = (finished_request.queue_s, finished_request.load_s, finished_request.prefill_s, finished_request.decode_s)
    assert all(span is not None and span >= 0 for span in spans)
    assert sum(span or 0 for span in spans) == pytest.approx(finished_request.total_s, abs=0.2)


async def test_an_answer_in_one_piece_has_its_times_from_the_engine(gateway: Gateway, api: Api) -> None:
    timings = {"cache_n": 4, "prompt_n": 6, "prompt_ms": 1.0, "predicted_n": 3, "predicted_ms": 0.5}

    async def play(_request: Any) -> aiohttp.web.Response:  # noqa: ANN401 -- the play's signature
        return aiohttp.web.json_response({"choices": [], "timings": timings})

    gateway.upstream.play = play
    assert (await gateway.chat())[0] == 200
    finished_request = await only(api)
    assert (finished_request.prompt_tokens, finished_request.cached_tokens, finished_request.completion_tokens) == (
        10,
        4,
        3,
    )
    assert finished_request.tokens_per_s == pytest.approx(6000)
    assert finished_request.decode_s == pytest.approx(0.0005)
    assert finished_request.ttft_s is None


async def test_stopping_a_stream_ends_it_with_the_dialects_error_and_the_engines_work(
    gateway: Gateway, api: Api, pen: Pen
) -> None:
    pen.write(chunk("One"))
    async with ask_gateway(gateway) as reply:
        await reply.content.readany()
        running_request = await reaches(api, S.DECODING)
        await api.call("POST", f"/requests/{running_request.id}/cancel", RequestInfo)
        rest = await reply.read()
    await asyncio.wait_for(gateway.upstream.disconnect.wait(), PATIENCE_S)
    error = json.loads(rest.strip().split(b"data: ")[-1])["error"]
    assert error["code"] == "request_stopped"
    ended_request = await reaches(api, S.CANCELLED)
    assert (ended_request.outcome, ended_request.error) == ("stopped", "This request was stopped in Roundhouse.")
    again = await api.call("POST", f"/requests/{running_request.id}/cancel", RequestInfo)
    assert again == ended_request


@pytest.mark.parametrize("is_loaded", [True, False], ids=["in the prompt", "in the queue"])
async def test_stopping_before_the_first_byte_answers_in_the_dialect(
    gateway: Gateway, api: Api, *, is_loaded: bool
) -> None:
    async def play(_request: Any) -> aiohttp.web.Response:  # noqa: ANN401 -- the play's signature
        await asyncio.Event().wait()
        raise AssertionError

    gateway.upstream.play = play
    if not is_loaded:
        gateway.supervisor.may_load.clear()
    task = asyncio.ensure_future(gateway.chat(stream=True))
    running_request = await reaches(api, S.PREFILL if is_loaded else S.QUEUED)
    if is_loaded:
        await gateway.upstream.arrival.wait()
    await api.call("POST", f"/requests/{running_request.id}/cancel", RequestInfo)
    status, body = await task
    assert (status, body["error"]["code"]) == (499, "request_stopped")
    if is_loaded:
        await asyncio.wait_for(gateway.upstream.disconnect.wait(), PATIENCE_S)
    assert (gateway.supervisor.waiter_count, gateway.supervisor.in_flight) == (0, 0)
    assert (await reaches(api, S.CANCELLED)).status == 499


async def test_a_client_that_goes_away_is_not_somebody_who_stopped_it(gateway: Gateway, api: Api, pen: Pen) -> None:
    pen.write(chunk("One"))
    async with ask_gateway(gateway) as reply:
        await reply.content.readany()
    ended_request = await reaches(api, S.CANCELLED)
    assert (ended_request.outcome, ended_request.error) == ("client_gone", "")


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/nothing"])
async def test_what_was_refused_before_it_was_understood_is_there_with_its_reason(
    gateway: Gateway, api: Api, path: str
) -> None:
    async with gateway.http.post(gateway.url + path, json={"model": "nobody"}) as reply:
        assert reply.status == 404
    request = await only(api)
    assert (request.state, request.outcome, request.status, request.path) == (S.FAILED, "refused", 404, path)
    assert "no" in request.error
    assert request.model == ""


async def test_an_engine_that_dies_midway_is_said_to_have_failed(
    gateway: Gateway, api: Api, pen: Pen, caplog: pytest.LogCaptureFixture
) -> None:
    pen.write(chunk("One"))
    pen.drop()
    async with ask_gateway(gateway) as reply:
        await reply.read()
    request = await reaches(api, S.FAILED)
    assert (request.outcome, request.status) == ("engine_failed", 200)
    assert request.error == "The engine cut off its answer."
    caplog.clear()


async def test_no_more_are_kept_than_was_set_and_running_ones_always(gateway: Gateway, api: Api, pen: Pen) -> None:
    gateway.services.settings.change_values({"inspector.requests": 10})
    pen.write(chunk("One"))
    async with ask_gateway(gateway) as reply:
        await reply.content.readany()
        for _ in range(15):
            await gateway.chat(model="nobody")
        requests = await list_requests(api)
        assert len(requests) == 10
        assert requests[-1].state is S.DECODING
        assert len(await list_requests(api, "?limit=3")) == 3
        assert [request.model for request in await list_requests(api, "?model=guide")] == ["guide"]
        assert len(await list_requests(api, "?outcome=refused")) == 9
        await api.raw("DELETE", "/requests")
        assert [request.state for request in await list_requests(api)] == [S.DECODING]


@pytest.mark.parametrize("query", ["?limit=0", "?limit=x", "?limit=10001"])
async def test_a_wrong_limit_is_refused(api: Api, query: str) -> None:
    assert await api.expect_refusal("GET", f"/requests{query}") == (400, "invalid_value")


async def test_an_unknown_request_is_not_found(api: Api) -> None:
    assert await api.expect_refusal("GET", "/requests/req_none") == (404, "request_not_found")
    assert await api.expect_refusal("POST", "/requests/req_none/cancel") == (404, "request_not_found")


async def test_words_are_kept_only_when_wanted_and_go_when_they_are_not(gateway: Gateway, api: Api, pen: Pen) -> None:
    async def ask() -> RequestDetail:
        pen.write(chunk("One" * BODY_BYTES), LAST)
        pen.end()
        async with ask_gateway(gateway, note="secret") as reply:
            await reply.read()
        newest = (await list_requests(api))[0]
        return await api.call("GET", f"/requests/{newest.id}", RequestDetail)

    async def keep(*, value: bool) -> None:
        await api.call("PATCH", "/settings", list[SettingInfo], {"inspector.bodies": value})

    without = await ask()
    assert (without.has_bodies, without.asked, without.answered) == (False, "", "")
    await keep(value=True)
    held_request = await ask()
    assert held_request.has_bodies
    assert "secret" in held_request.asked
    assert len(held_request.answered) == BODY_BYTES == held_request.cut_at_bytes
    await keep(value=False)
    assert (await api.call("GET", f"/requests/{held_request.request.id}", RequestDetail)).asked == ""


async def test_a_refusals_words_are_kept_too(gateway: Gateway, api: Api) -> None:
    gateway.services.settings.change_values({"inspector.bodies": True})
    await gateway.chat(model="nobody")
    request = await only(api)
    detail = await api.call("GET", f"/requests/{request.id}", RequestDetail)
    assert "nobody" in detail.asked
    assert "model_not_found" in detail.answered


async def test_a_listener_hears_of_a_request_from_its_beginning_to_its_end(
    gateway: Gateway, api: Api, pen: Pen
) -> None:
    seen_states: list[RequestState] = []
    async with api.events("/events", Event) as events:
        async with asyncio.TaskGroup() as tasks:

            async def ask() -> None:
                async with ask_gateway(gateway) as reply:
                    await reply.read()

            tasks.create_task(ask())
            async for event in events:
                if isinstance(event, RequestChanged):
                    seen_states.append(event.request.state)
                    if event.request.state is S.PREFILL and len(seen_states) == 1:
                        pen.write(chunk("One"))
                    if event.request.state is S.DECODING:
                        pen.write(LAST)
                        pen.end()
                    if event.request.is_over:
                        break
        await api.raw("DELETE", "/requests")
        async for event in events:
            if isinstance(event, RequestsForgotten):
                break
    assert list(dict.fromkeys(seen_states)) == [S.PREFILL, S.DECODING, S.DONE]


async def test_usage_is_summed_by_client_and_kept(gateway: Gateway, api: Api, pen: Pen) -> None:
    pen.write(chunk("One"), LAST)
    pen.end()
    async with ask_gateway(gateway) as reply:
        await reply.read()
    await gateway.chat(model="nobody")
    usage_list = await api.call("GET", "/usage", Usage)
    assert usage_list.today == usage_list.week
    rows = {row.client: row for row in usage_list.today}
    assert (rows["aider"].requests, rows["aider"].prompt_tokens, rows["aider"].completion_tokens) == (1, 10, 3)
    assert sum(row.failed for row in usage_list.today) == 1


async def test_metrics_tell_where_time_goes_and_what_waits(gateway: Gateway, api: Api, pen: Pen) -> None:
    pen.write(chunk("One"), LAST)
    pen.end()
    async with ask_gateway(gateway) as reply:
        await reply.read()
    gateway.supervisor.may_load.clear()
    waiting_question = asyncio.ensure_future(gateway.chat(stream=True))
    await until(lambda: gateway.supervisor.waiter_count == 1)
    async with gateway.http.get(f"{gateway.url}/metrics") as reply:
        text = await reply.text()
    of_model = '{route="chat",model="guide"}'
    for name in ("queue_seconds", "prefill_seconds", "decode_seconds", "e2e_seconds", "prompt_tokens"):
        assert f"roundhouse_{name}_count{of_model} 1\n" in text
    assert f"roundhouse_prompt_tokens_sum{of_model} 10\n" in text
    assert 'roundhouse_requests_waiting{model="guide"} 1\n' in text
    assert 'roundhouse_requests_running{model="guide"} 0\n' in text
    waiting_question.cancel()


async def test_what_asks_no_model_anything_is_not_followed(gateway: Gateway, api: Api) -> None:
    for path in ("/v1/models", "/health", "/metrics", f"{PREFIX}/status"):
        async with gateway.http.get(gateway.url + path) as reply:
            await reply.read()
    assert await list_requests(api) == []


@pytest.mark.parametrize(
    ("user_agent", "client"),
    [
        ("claude-cli/2.1.329 (external, cli)", "claude-cli"),
        ("OpenAI/Python 3.52.0", "OpenAI/Python"),
        ("AsyncOpenAI/JS 5.1", "AsyncOpenAI/JS"),
        ("ollama-python/0.5.1 (x86_64 linux) Python/3.11", "ollama-python"),
        (
            "Mozilla/5.0 (X11) AppleWebKit/537.36 (KHTML, like Gecko) Code/1.99.0 Chrome/132 Electron/34 Safari/537.36",
            "Code",
        ),
        ("Mozilla/5.0 (X11; Linux) Gecko/20100101 Firefox/140.0", "browser"),
        ("curl/8.5.0", "curl"),
        ("ai-sdk/openai-compatible/3.0.37 ai-sdk/provider-utils/4.0.5 runtime/node.js/24", "ai-sdk/openai-compatible"),
        ("ai-sdk/openai-compatible/v4", "ai-sdk/openai-compatible"),
        ("", "unknown"),
        ("(only a comment)", "unknown"),
        ("x" * 500, "x" * 60),
    ],
)
def test_the_product_is_found_in_a_user_agent(user_agent: str, client: str) -> None:
    assert client_product(user_agent).name == client


@pytest.mark.parametrize(
    ("user_agent", "version"),
    [
        ("claude-cli/2.1.329 (external, cli)", "2.1.329"),
        ("OpenAI/Python 3.52.0", "3.52.0"),
        ("ai-sdk/openai-compatible/3.0.37 ai-sdk/provider-utils/4.0.5", "3.0.37"),
        ("ai-sdk/openai-compatible/v4", "v4"),
        ("Mozilla/5.0 (X11) Code/1.99.0 Chrome/132 Electron/34", "1.99.0"),
        ("Mozilla/5.0 (X11; Linux) Gecko/20100101 Firefox/140.0", ""),
        ("undici", ""),
        ("node a", ""),
        ("a/" + "1" * 500, "1" * 60),
    ],
)
def test_the_version_stands_beside_it(user_agent: str, version: str) -> None:
    assert client_product(user_agent).version == version


async def test_an_upgrade_is_no_new_client(gateway: Gateway, api: Api) -> None:
    for version in ("3.0.36", "3.0.37"):
        headers = {"User-Agent": f"ai-sdk/openai-compatible/{version}"}
        async with gateway.http.post(f"{gateway.url}/v1/chat/completions", json={}, headers=headers) as reply:
            await reply.read()
    requests = await list_requests(api)
    assert {request.client for request in requests} == {"ai-sdk/openai-compatible"}
    assert {request.client_version for request in requests} == {"3.0.36", "3.0.37"}


STREAMS = [
    ("/api/chat", {"messages": [{"role": "user", "content": "Hm?"}]}, "ollama"),
    ("/api/v1/chat", {"input": "Hm?", "stream": True}, "lmstudio"),
    ("/v1/responses", {"input": "Hm?", "stream": True}, "openai"),
    ("/v1/messages", {"max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "Hm?"}]}, "anthropic"),
]


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream[2])
async def test_every_dialect_is_followed_and_says_in_its_own_words_that_it_was_stopped(
    gateway: Gateway, api: Api, pen: Pen, stream: tuple[str, dict[str, object], str]
) -> None:
    path, body, dialect = stream
    pen.write(chunk("One"))
    async with gateway.http.post(gateway.url + path, json={"model": "guide", **body}) as reply:
        await reply.content.readany()
        running_request = await reaches(api, S.DECODING)
        await api.call("POST", f"/requests/{running_request.id}/cancel", RequestInfo)
        rest = await reply.read()
    await asyncio.wait_for(gateway.upstream.disconnect.wait(), PATIENCE_S)
    tail = rest.replace(b"event: chat.end", b"").split(b'data: {"type":"chat.end"')[
        0
    ]  # LM Studio's streams end with it
    assert b"stopped in Roundhouse" in tail.strip().splitlines()[-1]
    ended_request = await reaches(api, S.CANCELLED)
    assert (ended_request.dialect, ended_request.outcome) == (dialect, "stopped")
