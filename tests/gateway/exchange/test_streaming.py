"""Streams: untouched, never silently cut, and stopped at the engine as soon as nobody reads them."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncGenerator, Callable

import openai
import pytest
from aiohttp import web

from app.core.errors import EngineFailed
from app.gateway.exchange.framing import ChunkedBody
from app.gateway.exchange.upstream import EngineAnswer, StuckChecks
from tests.gateway.played import Gateway, Play
from tests.patience import PATIENCE_S, until

DONE = b"data: [DONE]\n\n"
ASKED = {"model": "guide", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}


def event(text: str) -> bytes:
    chunk = {"id": "1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": text}}]}
    return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"


def streams(*chunks: bytes, then: Callable[[web.Request], None] | None = None) -> Play:
    """Play an engine that sends these chunks, each in a packet of its own, and then does something."""

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


def waits(_request: web.Request) -> None:
    """Generate for ever."""


def dies(request: web.Request) -> None:
    """Break the connection as a killed process does."""
    assert request.transport is not None
    request.transport.abort()


async def stream_pieces(gateway: Gateway) -> AsyncGenerator[bytes, None]:
    async with gateway.http.post(f"{gateway.url}/v1/chat/completions", json=ASKED) as reply:
        assert reply.status == 200
        assert reply.headers["Content-Type"].startswith("text/event-stream")
        async for chunk in reply.content.iter_any():
            yield chunk


def error_of(last_event: bytes) -> dict[str, object]:
    error: dict[str, object] = json.loads(last_event.removeprefix(b"data: "))["error"]
    return error


async def metric(gateway: Gateway, line: str) -> None:
    """Wait until the metrics have this line."""
    await until(lambda: line in gateway.services.metrics.format_exposition([]).splitlines())


async def test_bytes_arrive_as_they_were_even_when_an_emoji_is_split(gateway: Gateway) -> None:
    whole = b": ping\n\n" + event("Zug \U0001f682 fährt") + event("e\u0301\U0001f469\u200d\U0001f680") + DONE
    gateway.upstream.play = streams(*(whole[at : at + 3] for at in range(0, len(whole), 3)))
    assert b"".join([chunk async for chunk in stream_pieces(gateway)]) == whole
    await metric(gateway, 'roundhouse_requests_total{route="chat",model="guide",outcome="ok"} 1')
    await metric(gateway, 'roundhouse_ttft_seconds_count{route="chat",model="guide"} 1')


def frame(payload: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(payload), payload)


END_OF_FRAMES = b"0\r\n\r\n"


async def pass_frames(gateway: Gateway, *packets: bytes, version: str = "1.1") -> bytes:
    """Return what follows the head of a client's answer, framed as it is, when an engine writes these packets."""

    async def play(request: web.Request) -> web.StreamResponse:
        transport = request.transport
        assert transport is not None
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        for packet in (head, *packets):
            transport.write(packet)
            await asyncio.sleep(0.01)
        transport.close()
        return web.Response()

    gateway.upstream.play = play
    host, _, port = gateway.url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    body = json.dumps(ASKED)
    lines = f"Host: localhost\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    writer.write(f"POST /v1/chat/completions HTTP/{version}\r\n{lines}".encode())
    async with asyncio.timeout(PATIENCE_S):
        answer = await reader.read()
    writer.close()
    assert answer.startswith(f"HTTP/{version} 200 OK\r\n".encode())
    return answer.partition(b"\r\n\r\n")[2]


async def test_whole_chunks_pass_in_their_frames_and_are_counted(gateway: Gateway) -> None:
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1234}}\n\n'
    pieces = [event(word) for word in ("a", "b", "c")] + [usage, DONE]
    assert (
        await pass_frames(gateway, *map(frame, pieces), END_OF_FRAMES) == b"".join(map(frame, pieces)) + END_OF_FRAMES
    )
    await metric(gateway, 'roundhouse_tokens_total{model="guide",kind="completion"} 1234')
    await metric(gateway, 'roundhouse_requests_total{route="chat",model="guide",outcome="ok"} 1')


async def test_frames_however_they_are_cut_are_whole_for_the_client(gateway: Gateway) -> None:
    pieces = [event("a"), event("b") + event("c"), event("d")[:20], event("d")[20:], frame(event("e")), b"\n", DONE]
    data = b"".join(map(frame, pieces)) + END_OF_FRAMES
    for size in (1 << 20, 301, 97):
        packets = [data[at : at + size] for at in range(0, len(data), size)]
        body = ChunkedBody()
        assert body.feed(await pass_frames(gateway, *packets)) == b"".join(pieces)
        assert body.is_over


async def test_frames_with_something_to_mend_are_mended(gateway: Gateway) -> None:
    reasoning = b'data: {"choices":[{"index":0,"delta":{"reasoning_content":"so"}}]}\n\n'
    too_long = b'data: {"error":{"code":400,"message":"the request exceeds the available context size",'
    too_long += b'"type":"exceed_context_size_error","n_prompt_tokens":900,"n_ctx":512}}\n\n'
    packets = [frame(event("a")), frame(event("b")), frame(reasoning), frame(too_long), END_OF_FRAMES]
    received_frames = await pass_frames(gateway, *packets)
    assert b'"reasoning_content":"so","reasoning":"so"' in received_frames
    assert b"maximum context length is 512 tokens" in received_frames


async def test_a_client_that_knows_no_chunks_gets_none(gateway: Gateway) -> None:
    pieces = [event("a"), event("b"), DONE]
    assert await pass_frames(gateway, *map(frame, pieces), END_OF_FRAMES, version="1.0") == b"".join(pieces)


async def test_the_first_token_does_not_wait_for_the_second(gateway: Gateway) -> None:
    gateway.upstream.play = streams(event("a"), then=waits)
    stream = stream_pieces(gateway)
    async with asyncio.timeout(PATIENCE_S):
        assert await anext(stream) == event("a")
    await stream.aclose()


async def connections_for(gateway: Gateway, *documents: dict[str, object]) -> list[object]:
    """Return where at the gateway each request to the engine came from, asked one after the other."""
    came: list[object] = []

    async def play(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        came.append(request.transport.get_extra_info("peername"))
        if "stream" in await request.json():
            return await streams(event("a"), DONE)(request)
        return web.json_response({"object": "chat.completion", "choices": []})

    gateway.upstream.play = play
    for body in documents:
        async with gateway.http.post(f"{gateway.url}/v1/chat/completions", json=body) as reply:
            assert reply.status == 200
            await reply.read()
    return came


async def test_an_engine_that_ends_connections_after_a_stream_is_not_asked_over_one(gateway: Gateway) -> None:
    assert gateway.services.adapters["llama.cpp"].descriptor.closes_after_stream
    assert len(set(await connections_for(gateway, ASKED, ASKED, ASKED))) == 3


async def test_connections_are_used_again_after_whole_answers(gateway: Gateway) -> None:
    quiet = {"model": ASKED["model"], "messages": ASKED["messages"]}
    assert len(set(await connections_for(gateway, quiet, quiet, quiet))) == 1


@pytest.mark.parametrize("data", [event("half an answer"), event("x") + event("y")[:30]])
async def test_an_engine_that_dies_ends_the_stream_with_an_error(gateway: Gateway, data: bytes) -> None:
    gateway.supervisor.death = EngineFailed("The engine crashed.", code="crashed")
    gateway.upstream.play = streams(data, then=dies)
    received_bytes = b"".join([chunk async for chunk in stream_pieces(gateway)])
    assert received_bytes.startswith(data)
    assert error_of(received_bytes.removesuffix(b"\n\n").rpartition(b"\n\n")[2]) == {
        "message": "The engine crashed.",
        "type": "server_error",
        "param": None,
        "code": "crashed",
    }
    await metric(gateway, 'roundhouse_requests_total{route="chat",model="guide",outcome="engine_failed"} 1')


async def test_a_stream_that_just_stops_is_not_taken_for_whole(gateway: Gateway) -> None:
    gateway.upstream.play = streams(event("half"))
    received_bytes = b"".join([chunk async for chunk in stream_pieces(gateway)])
    assert error_of(received_bytes.split(b"\n\n")[1])["code"] == "engine_broke_off"


async def test_comments_are_no_sign_that_the_engine_is_at_work(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A router writes them in place of a replica that is frozen."""
    checks: list[StuckChecks] = []
    watch_answer = StuckChecks.watch_answer

    def watch(self: StuckChecks, answer: EngineAnswer) -> None:
        checks.append(self)
        watch_answer(self, answer)

    monkeypatch.setattr(StuckChecks, "watch_answer", watch)
    gateway.upstream.play = streams(event("a"), *[b": keepalive\n\n"] * 40, then=waits)
    body, since = b"", 0.0
    async with asyncio.timeout(PATIENCE_S):
        async for chunk in stream_pieces(gateway):
            body += chunk
            since = since or time.perf_counter()
            if chunk.endswith(b": keepalive\n\n") and body.count(b": keepalive") == 40:
                (observation,) = checks[0].list_silent("guide", since)
                observation.break_off(EngineFailed("Nothing more comes.", code="engine_broke_off"))
    assert body.startswith(event("a"))
    assert b'"engine_broke_off"' in body


async def test_an_error_event_of_the_engine_is_passed_on_alone(gateway: Gateway) -> None:
    piece = b'data: {"error":{"code":500,"message":"no"}}\n\n'
    gateway.upstream.play = streams(piece)
    assert b"".join([chunk async for chunk in stream_pieces(gateway)]) == piece


async def test_openais_client_raises_what_the_engine_died_of(gateway: Gateway) -> None:
    gateway.supervisor.death = EngineFailed("The engine crashed.", code="crashed")
    gateway.upstream.play = streams(event("half"), then=dies)
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="any", max_retries=0) as client:
        stream = await client.chat.completions.create(
            model="guide", messages=[{"role": "user", "content": "Hi"}], stream=True
        )
        with pytest.raises(openai.APIError, match="The engine crashed"):
            async for _ in stream:
                pass


async def test_a_whole_answer_cut_off_is_a_502(gateway: Gateway) -> None:
    async def play(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "100"})
        await response.prepare(request)
        await response.write(b'{"half":')
        dies(request)
        return response

    gateway.upstream.play = play
    gateway.supervisor.death = EngineFailed("The engine crashed.", code="crashed")
    status, body = await gateway.chat()
    assert (status, body["error"]["code"]) == (502, "crashed")


async def test_the_client_leaving_a_stream_stops_the_engine(gateway: Gateway) -> None:
    gateway.upstream.play = streams(event("a"), then=waits)
    async with gateway.http.post(f"{gateway.url}/v1/chat/completions", json=ASKED) as reply:
        await reply.content.readany()
        assert gateway.supervisor.in_flight == 1
        reply.close()
    await asyncio.wait_for(gateway.upstream.disconnect.wait(), PATIENCE_S)
    await metric(gateway, 'roundhouse_requests_total{route="chat",model="guide",outcome="client_gone"} 1')
    assert gateway.supervisor.in_flight == 0


async def test_the_client_leaving_before_the_first_byte_stops_the_engine(gateway: Gateway) -> None:
    async def prefill(_request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    gateway.upstream.play = prefill
    question = asyncio.create_task(gateway.chat(stream=True))
    await asyncio.wait_for(gateway.upstream.arrival.wait(), PATIENCE_S)
    question.cancel()
    await asyncio.wait_for(gateway.upstream.disconnect.wait(), PATIENCE_S)


async def test_the_client_leaving_while_the_model_loads_never_reaches_the_engine(gateway: Gateway) -> None:
    gateway.supervisor.may_load.clear()
    question = asyncio.create_task(gateway.chat())
    await until(lambda: gateway.supervisor.waiter_count == 1)
    question.cancel()
    await until(lambda: gateway.supervisor.waiter_count == 0)
    gateway.supervisor.may_load.set()
    await metric(gateway, 'roundhouse_requests_total{route="chat",model="guide",outcome="client_gone"} 1')
    assert gateway.upstream.bodies == []


def _nobody_listens() -> str:
    with socket.socket() as taken_socket:
        taken_socket.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken_socket.getsockname()[1]}"


async def test_an_engine_that_died_while_idle_is_asked_again_after_its_restart(gateway: Gateway) -> None:
    gateway.upstream.play = streams(event("a"), DONE)
    gateway.supervisor.base_urls = [_nobody_listens()]
    assert b"".join([chunk async for chunk in stream_pieces(gateway)]) == event("a") + DONE
    assert len(gateway.supervisor.load_requests) == 2


async def test_an_engine_that_stays_away_is_a_502(gateway: Gateway) -> None:
    gateway.supervisor.base_urls = [_nobody_listens(), _nobody_listens()]
    status, body = await gateway.chat()
    assert (status, body["error"]["type"]) == (502, "server_error")


async def test_a_request_that_kills_the_engine_is_not_repeated(gateway: Gateway) -> None:
    async def play(request: web.Request) -> web.StreamResponse:
        dies(request)
        return web.Response()

    gateway.upstream.play = play
    gateway.supervisor.death = EngineFailed("The engine crashed.", code="crashed")
    status, body = await gateway.chat()
    assert (status, body["error"]["code"], len(gateway.upstream.bodies)) == (502, "crashed", 1)


async def test_a_connection_a_living_engine_dropped_is_made_again(gateway: Gateway) -> None:
    async def play(request: web.Request) -> web.StreamResponse:
        if len(gateway.upstream.bodies) == 1:
            dies(request)
        return web.json_response({})

    gateway.upstream.play = play
    status, _ = await gateway.chat()
    assert (status, len(gateway.upstream.bodies)) == (200, 2)


async def test_connections_the_engine_closes_while_idle_cost_no_request(gateway: Gateway) -> None:
    """llama-server says nothing when it closes one: the next request finds out when it has already been sent."""
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        for reply_bytes in (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", b""):
            await reader.readuntil(b"}]}")
            writer.write(reply_bytes)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        gateway.supervisor.base_urls = [f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"] * 9
        messages = [{"role": "user", "content": "Hi"}]
        assert [(await gateway.chat(messages=messages))[0] for _ in range(4)] == [200] * 4
    assert connections == 4


async def test_streams_do_not_wait_for_each_other(gateway: Gateway) -> None:
    gateway.upstream.play = streams(event("a"), then=waits)
    open_streams = [stream_pieces(gateway) for _ in range(16)]
    async with asyncio.timeout(PATIENCE_S):
        assert await asyncio.gather(*(anext(stream) for stream in open_streams)) == [event("a")] * 16
    for stream in open_streams:
        await stream.aclose()


SEVERAL = {"model": "guide", "messages": ASKED["messages"], "n": 2}


async def test_several_answers_in_one_piece_are_put_together_from_a_stream(gateway: Gateway) -> None:
    counts = b'data: {"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":1,"total_tokens":5}}\n\n'
    gateway.upstream.play = streams(event("a"), counts, event("b").replace(b'"index": 0', b'"index": 1'), counts, DONE)
    async with gateway.http.post(f"{gateway.url}/v1/chat/completions", json=SEVERAL) as reply:
        assert (reply.status, reply.content_type) == (200, "application/json")
        answer = await reply.json()
    assert [choice["message"]["content"] for choice in answer["choices"]] == ["a", "b"]
    assert (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == (4, 2)
    body = json.loads(gateway.upstream.bodies[0])
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    await metric(gateway, 'roundhouse_tokens_total{model="guide",kind="completion"} 2')


async def test_several_answers_that_break_off_are_no_answer(gateway: Gateway) -> None:
    gateway.upstream.play = streams(event("a"))
    async with gateway.http.post(f"{gateway.url}/v1/chat/completions", json=SEVERAL) as reply:
        assert (reply.status, (await reply.json())["error"]["code"]) == (502, "engine_broke_off")
