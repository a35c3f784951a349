"""The server of our own workers on a real socket, with a library that does as it is told."""

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import aiohttp
import pytest

from tests.patience import PATIENCE_S, until
from tests.unit.serving.scripted import KEY, Running, Scripted, events, serve_scripted, until_ready

HELLO = {"messages": [{"role": "user", "content": "hello"}]}
CHAT, BARE = "/v1/chat/completions", "/v1/completions"


@pytest.fixture
def backend() -> Scripted:
    return Scripted()


@pytest.fixture
async def server(backend: Scripted, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    async with serve_scripted(backend, monkeypatch) as server:
        yield server


async def stream(server: Running, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    async with server.http.post(server.url + path, json={**body, "stream": True}) as reply:
        assert reply.content_type == "text/event-stream"
        *frames, last = events(await reply.read())
    assert last == "[DONE]"
    return [json.loads(chunk) for chunk in frames]


async def raw(server: Running, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(data)
    answer = await reader.read()
    writer.close()
    return answer


async def test_a_whole_answer_has_text_usage_and_times(server: Running) -> None:
    answer = await server.ask(CHAT, HELLO)
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "héllo 🚂"}
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["prompt_tokens"] == 5
    assert answer["usage"]["completion_tokens"] == 11
    assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}
    assert answer["timings"]["cache_n"] == 2
    assert answer["timings"]["prompt_n"] == 3
    assert answer["timings"]["predicted_n"] == 11


async def test_a_stream_says_who_speaks_and_never_cuts_a_character(server: Running) -> None:
    first, *pieces, last = await stream(server, CHAT, HELLO)
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    texts = [piece["choices"][0]["delta"]["content"] for piece in pieces]
    assert "".join(texts) == "héllo 🚂"
    assert not [text for text in texts if "\ufffd" in text]
    assert last["choices"][0]["finish_reason"] == "stop"
    assert "timings" in last


async def test_a_stream_ends_with_its_usage_when_that_is_asked_for(server: Running) -> None:
    *_, last = await stream(server, BARE, {"prompt": "x", "stream_options": {"include_usage": True}})
    assert last["choices"] == []
    assert last["usage"]["prompt_tokens"] == 2, "a bare prompt gets the model's own first token"


async def test_a_bare_completion_has_text(server: Running) -> None:
    answer = await server.ask(BARE, {"prompt": [104, 105], "max_tokens": 3})
    assert (answer["object"], answer["choices"][0]["text"]) == ("text_completion", "hé")
    assert answer["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("at_once", [1, 4, 7])
async def test_a_stop_ends_the_library_s_work(server: Running, backend: Scripted, at_once: int) -> None:
    backend.at_once = at_once
    answer = await server.ask(CHAT, {**HELLO, "stop": "lo"})
    assert (answer["choices"][0]["message"]["content"], answer["choices"][0]["finish_reason"]) == ("hél", "stop")
    assert answer["usage"]["completion_tokens"] == 6, "what was written after the stop is nobody's"
    assert backend.cancelled_ids == [1]


async def test_figures_of_tokens_are_in_each_route_s_shape(server: Running) -> None:
    chat = await server.ask(CHAT, {**HELLO, "logprobs": True, "top_logprobs": 2, "max_tokens": 1})
    content = chat["choices"][0]["logprobs"]["content"]
    assert content[0] == {
        "token": "h",
        "logprob": -0.5,
        "bytes": [104],
        "top_logprobs": [
            {"token": "h", "logprob": -0.5, "bytes": [104]},
            {"token": "x", "logprob": -2.0, "bytes": [120]},
        ],
    }
    bare = await server.ask(BARE, {"prompt": "x", "logprobs": 1, "max_tokens": 2})
    assert bare["choices"][0]["logprobs"]["token_logprobs"] == [-0.5, -0.5]
    assert bare["choices"][0]["logprobs"]["text_offset"] == [0, 1]


async def test_what_the_work_is_asked_with(server: Running, backend: Scripted) -> None:
    await server.ask(CHAT, {**HELLO, "max_tokens": 999, "seed": 7, "temperature": 0.5})
    (work,) = backend.works
    assert list(work.prompt) == list(b"hello")
    assert work.max_tokens == 64 - 5, "never more than the context has room for"
    assert (work.sampling.seed, work.sampling.temperature, work.sampling.top_p) == (7, 0.5, None)


async def test_a_prompt_that_fills_the_context_is_refused(server: Running) -> None:
    answer = await server.ask(BARE, {"prompt": list(range(64))}, status=400)
    assert (answer["error"]["n_prompt_tokens"], answer["error"]["n_ctx"]) == (64, 64)


async def test_what_the_library_refuses_is_the_client_s_mistake(server: Running) -> None:
    shape = {"type": "json_schema", "json_schema": {"schema": {"type": "nonsense"}}}
    for streams in (False, True):
        body = {**HELLO, "response_format": shape, "stream": streams}
        assert (await server.ask(CHAT, body, status=400))["error"]["message"] == "no such schema"


async def test_requests_wait_for_a_slot_in_the_order_they_came(server: Running, backend: Scripted) -> None:
    backend.may_step = False
    tasks = []
    for count in range(1, 5):
        tasks.append(asyncio.create_task(server.ask(BARE, {"prompt": [count]})))
        await until(partial(_in_flight, server, count))
    assert await server.metric("requests_waiting") == 2
    backend.may_step = True
    answers = await asyncio.gather(*tasks)
    assert {answer["choices"][0]["text"] for answer in answers} == {"héllo 🚂"}
    assert [list(work.prompt) for work in backend.works] == [[1], [2], [3], [4]]


async def _in_flight(server: Running, count: int) -> bool:
    return await server.metric("requests_running") + await server.metric("requests_waiting") == count


async def test_a_client_that_goes_away_before_the_first_word_frees_its_slot(server: Running, backend: Scripted) -> None:
    backend.may_step = False
    task = asyncio.create_task(server.ask(CHAT, HELLO))
    await until(lambda: backend.active_work)
    task.cancel()
    await until(lambda: not backend.active_work)
    assert await server.metric("requests_cancelled_total") == 1


async def test_a_client_that_goes_away_in_the_middle_frees_its_slot(server: Running, backend: Scripted) -> None:
    backend.pauses_at = 3
    async with server.http.post(server.url + BARE, json={"prompt": "x", "stream": True}) as reply:
        assert await reply.content.readany()
        assert backend.active_work
        reply.close()
        await until(lambda: not backend.active_work)


async def test_a_client_that_goes_away_while_it_waits_is_never_started(server: Running, backend: Scripted) -> None:
    backend.may_step = False
    tasks = [asyncio.create_task(server.ask(CHAT, HELLO)) for _ in range(2)]
    await until(lambda: _in_flight(server, 2))  # or any of the three could be the one that waits
    tasks.append(asyncio.create_task(server.ask(CHAT, HELLO)))
    await until(lambda: _in_flight(server, 3))
    tasks[-1].cancel()
    await until(lambda: _in_flight(server, 2))
    backend.may_step = True
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(backend.works) == 2


async def test_a_library_that_fails_tells_its_clients_and_ends_the_worker(server: Running, backend: Scripted) -> None:
    backend.breaks_at = 3
    async with server.http.post(server.url + CHAT, json={**HELLO, "stream": True}) as reply:
        frames = list(events(await reply.read()))
    assert "the device is gone" in json.loads(frames[-1])["error"]["message"]
    with pytest.raises(RuntimeError, match="the device is gone"):
        await server.task


async def test_a_library_that_fails_at_once_gives_a_status(server: Running, backend: Scripted) -> None:
    backend.breaks_at = 0
    answer = await server.ask(CHAT, HELLO, status=500)
    assert "the device is gone" in answer["error"]["message"]


async def test_while_it_loads_it_says_how_far_it_is(backend: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    backend.may_load.clear()
    async with serve_scripted(backend, monkeypatch, waits=False) as server:
        await until(lambda: {"event": "progress", "stage": "Reading weights", "fraction": 0.5} in server.events)
        health = await server.ask("/health", status=503)
        assert (health["stage"], health["fraction"]) == ("Reading weights", 0.5)
        assert (await server.ask(CHAT, HELLO, status=503))["error"]["message"] == "Loading model"
        assert (await server.ask("/v1/models", status=503))["error"]["code"] == 503
        backend.may_load.set()
        await until_ready(server)
        events_by_name = {event["event"]: event for event in server.events}
        assert events_by_name["context"] == {"event": "context", "tokens": 64, "slots": 2}
        assert events_by_name["device"]["name"] == "CPU"


async def test_a_load_that_fails_ends_the_worker(backend: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    backend.load_error = "no such file"
    async with serve_scripted(backend, monkeypatch, waits=False) as server:
        with pytest.raises(RuntimeError, match="no such file"):
            await server.task


async def test_asked_to_stop_it_finishes_what_it_began(server: Running, backend: Scripted) -> None:
    backend.may_step = False
    task = asyncio.create_task(server.ask(CHAT, HELLO))
    await until(lambda: backend.active_work)
    assert await server.ask("/shutdown", {}, status=202) == {"status": "stopping"}
    backend.may_step = True
    assert (await task)["choices"][0]["message"]["content"] == "héllo 🚂"
    await asyncio.wait_for(server.task, PATIENCE_S)


@pytest.mark.parametrize("path", ["/v1/models", CHAT, "/metrics", "/tokenize", "/shutdown", "/nowhere"])
async def test_nothing_but_health_is_told_without_the_key(server: Running, path: str) -> None:
    for credentials in ("", "Bearer", "Bearer wrong", KEY, f"Bearer {KEY}x", "Bearer launch-keyé"):
        headers = {"Authorization": credentials} if credentials else {}
        async with (
            aiohttp.ClientSession() as stranger,
            stranger.post(server.url + path, json={}, headers=headers) as reply,
        ):
            assert reply.status == 401
    async with aiohttp.ClientSession() as stranger, stranger.get(server.url + "/health") as reply:
        assert reply.status == 200


async def test_tokens_text_and_templates_are_told(server: Running) -> None:
    assert await server.ask("/tokenize", {"content": "hi"}) == {"tokens": [104, 105]}
    pieces = await server.ask("/tokenize", {"content": "h", "with_pieces": True, "add_special": True})
    assert pieces == {"tokens": [{"id": 0, "piece": "\x00"}, {"id": 104, "piece": "h"}]}
    assert await server.ask("/detokenize", {"tokens": [104, 105]}) == {"content": "hi"}
    assert await server.ask("/detokenize", {"tokens": []}) == {"content": ""}
    assert (await server.ask("/detokenize", {"tokens": "x"}, status=400))["error"]["param"] == "tokens"
    assert await server.ask("/apply-template", HELLO) == {"prompt": "hello"}
    (model,) = (await server.ask("/v1/models"))["data"]
    assert (model["id"], model["meta"]) == ("tiny", {"n_ctx": 64, "slots": 2})


async def test_tokens_are_counted_as_anthropic_s_clients_ask(server: Running) -> None:
    blocks = [{"type": "text", "text": "ab"}, {"type": "tool_result", "content": [{"type": "text", "text": "c"}]}]
    body = {"system": "sys", "messages": [{"role": "user", "content": "hello"}, {"role": "user", "content": blocks}]}
    assert await server.ask("/v1/messages/count_tokens", body) == {"input_tokens": 11}
    picture = {"messages": [{"role": "user", "content": [{"type": "image"}]}]}
    assert (await server.ask("/v1/messages/count_tokens", picture, status=400))["error"]["code"] == "engine_cannot"


async def test_what_was_done_is_counted(server: Running) -> None:
    await server.ask(CHAT, HELLO)
    page = await server.ask("/metrics")
    assert "roundhouse_worker_generated_tokens_total 11" in page
    assert "roundhouse_worker_kv_cache_usage_ratio 0.25" in page
    assert 'roundhouse_worker_time_to_first_token_seconds_bucket{le="+Inf"} 1' in page
    assert "roundhouse_worker_time_per_output_token_seconds_count 1" in page


async def test_what_is_not_there_is_said_so(server: Running) -> None:
    assert (await server.ask("/v1/embeddings", {}, status=404))["error"]["code"] == "not_found"
    await server.ask("/v1/models", {}, status=405)
    await server.ask(CHAT, status=405)


def head(*lines: str, body: bytes = b"") -> bytes:
    return "\r\n".join((*lines, f"Authorization: Bearer {KEY}", "\r\n")).encode() + body


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 400),
        (b"get / HTTP/1.1\r\n\r\n", 400),
        (b"GET /\x01 HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n a: continued\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"POST / HTTP/1.1\r\nContent-Length: 999999999999999999999999\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nContent-Length: 100000000\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000, 431),
    ],
)
async def test_what_is_no_request_is_answered_and_hung_up_on(server: Running, data: bytes, status: int) -> None:
    assert (await raw(server, data)).startswith(f"HTTP/1.1 {status} ".encode())


async def test_requests_in_a_row_are_answered_in_a_row_on_one_connection(server: Running) -> None:
    request_head = head("GET /v1/models?x=1 HTTP/1.1")
    last = head("GET /health HTTP/1.1", "Connection: close")
    replies = await raw(server, request_head + request_head + last)
    assert replies.count(b"HTTP/1.1 200 OK") == 3
    assert replies.count(b"Connection: keep-alive") == 2


async def test_an_old_client_is_answered_and_hung_up_on(server: Running) -> None:
    assert (await raw(server, head("GET /health HTTP/1.0"))).endswith(b"}")


async def test_a_body_may_come_in_pieces(server: Running) -> None:
    body = json.dumps(HELLO).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    whole = head(f"POST {CHAT} HTTP/1.1", f"Content-Length: {len(body)}", "Connection: close", body=body)
    for start in range(0, len(whole), 40):
        writer.write(whole[start : start + 40])
        await writer.drain()
        await asyncio.sleep(0)
    assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
    writer.close()


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"messages": NaN}', b"\xff"])
async def test_a_body_that_is_no_object_is_refused(server: Running, body: bytes) -> None:
    data = head(f"POST {CHAT} HTTP/1.1", f"Content-Length: {len(body)}", "Connection: close", body=body)
    assert (await raw(server, data)).startswith(b"HTTP/1.1 400 ")


async def test_a_taken_port_is_named_as_the_cause(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    from engines import worker_base  # noqa: PLC0415 -- patched by the fixture
    from engines.serving.server import serve_backend  # noqa: PLC0415 -- as above

    config: dict[str, object] = {"host": "127.0.0.1", "port": server.port, "alias": "x", "context": 8}
    with pytest.raises(RuntimeError, match="couldn't bind HTTP server socket"):
        await asyncio.to_thread(serve_backend, worker_base.WorkerLaunch(config, KEY), Scripted)
