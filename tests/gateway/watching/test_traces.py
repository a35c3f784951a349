"""Traces of requests: what the collector is told, what the engine is told, and what it costs when nobody listens."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import keyring
import pytest
from aiohttp import web
from keyring.backends import fail

from app.core.connections import ConnectionList
from app.core.events import Event, Notice
from app.core.requests import RequestInfo
from app.core.traces import SetTraceHeaders, TracesState
from app.gateway.services import Services
from app.gateway.watching import trace_exporter
from tests.collector import Collector, TakenSpan, playing_collector, read_spans
from tests.gateway.admin.conftest import LAST, Api, Pen, chunk
from tests.gateway.far import Far
from tests.gateway.played import Gateway, Upstream, serve_gateway
from tests.patience import until
from tests.ports import free_port

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SENTENCE = "The weather in Vienna"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_exporter, "FLUSH_S", 0.01)


@pytest.fixture
def api(gateway: Gateway) -> Api:
    return Api(gateway)


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    async with playing_collector() as collector:
        yield collector


@pytest.fixture
def pen(gateway: Gateway) -> Pen:
    new_pen = Pen()
    gateway.upstream.play = new_pen.play
    return new_pen


async def switch_on(api: Api, url: str, **more: object) -> None:
    await api.call("PATCH", "/settings", list[Any], {"traces.endpoint": url, **more})


async def ask(gateway: Gateway, *, stream: bool = False, **headers: str) -> tuple[int, bytes]:
    body = {
        "model": "guide",
        "stream": stream,
        "max_tokens": 12,
        "temperature": 0,
        "stop": [SENTENCE],
        "messages": [{"role": "user", "content": SENTENCE}],
    }
    url = f"{gateway.url}/v1/chat/completions"
    async with gateway.http.post(url, json=body, headers={"User-Agent": "aider/0.86", **headers}) as reply:
        return reply.status, await reply.read()


async def answer_whole(_request: web.Request) -> web.Response:
    usage = {"prompt_tokens": 9, "completion_tokens": 2}
    choice = {"index": 0, "message": {"role": "assistant", "content": "It rains."}, "finish_reason": "length"}
    return web.json_response({"id": "x", "model": "guide", "choices": [choice], "usage": usage})


def split_spans(spans: list[TakenSpan]) -> tuple[TakenSpan, TakenSpan]:
    """Return the server's span and the call's."""
    server, call = sorted(spans, key=lambda span: span.kind)
    assert (server.kind, call.kind) == (2, 3)
    return server, call


async def test_a_stream_is_one_trace_from_the_client_to_the_engine(
    gateway: Gateway, api: Api, pen: Pen, collector: Collector
) -> None:
    await switch_on(api, collector.url)
    pen.write(chunk("It"), chunk(" rains."), LAST)
    pen.end()
    status, _ = await ask(gateway, stream=True, traceparent=f"00-{TRACE}-{PARENT}-01", tracestate="a=1,b=2")
    assert status == 200
    server, call = split_spans(await collector.wait_for(2))
    assert (server.trace_id, server.parent_id, server.name) == (TRACE, PARENT, "POST /v1/chat/completions")
    assert (call.trace_id, call.parent_id, call.name) == (TRACE, server.span_id, "chat guide")
    assert (server.state, server.flags, call.flags) == ("a=1,b=2", 0x301, 0x101)
    (told_headers,) = gateway.upstream.headers
    assert told_headers["traceparent"] == f"00-{TRACE}-{call.span_id}-01"
    assert told_headers["tracestate"] == "a=1,b=2"
    assert call.attributes["gen_ai.operation.name"] == "chat"
    assert call.attributes["gen_ai.provider.name"] == "llama.cpp"
    assert call.attributes["gen_ai.request.model"] == call.attributes["gen_ai.response.model"] == "guide"
    assert call.attributes["gen_ai.request.max_tokens"] == 12
    assert call.attributes["gen_ai.request.temperature"] == 0.0
    assert call.attributes["gen_ai.request.stream"] is True
    assert call.attributes["gen_ai.usage.input_tokens"] == 10
    assert call.attributes["gen_ai.usage.cache_read.input_tokens"] == 2
    assert call.attributes["gen_ai.usage.output_tokens"] == 3
    assert call.attributes["gen_ai.response.finish_reasons"] == ["stop"]
    assert 0 < call.attributes["gen_ai.response.time_to_first_chunk"] < 60
    assert call.attributes["server.address"] == "127.0.0.1"
    assert "gen_ai.first_chunk" in call.events
    assert server.attributes["http.response.status_code"] == 200
    assert server.attributes["user_agent.original"] == "aider/0.86"
    assert server.resource["service.name"] == "roundhouse"
    assert server.start_ns <= call.start_ns <= call.end_ns <= server.end_ns
    assert not server.is_error
    assert not call.is_error
    (request,) = await api.call("GET", "/requests", list[RequestInfo])
    assert request.trace_id == TRACE
    assert request.id == server.attributes["roundhouse.request.id"]


async def test_no_word_of_a_prompt_or_an_answer_is_sent(gateway: Gateway, api: Api, collector: Collector) -> None:
    await switch_on(api, collector.url)
    gateway.upstream.play = answer_whole
    await ask(gateway)
    _, call = split_spans(await collector.wait_for(2))
    assert call.attributes["gen_ai.response.finish_reasons"] == ["length"]
    sent_bytes = b"".join(collector.bodies)
    assert SENTENCE.encode() not in sent_bytes
    assert b"rains" not in sent_bytes


async def test_contents_are_sent_cut_once_a_second_switch_says_so(
    gateway: Gateway, api: Api, collector: Collector
) -> None:
    await switch_on(api, collector.url, **{"traces.contents": True})

    async def answer_long(_request: web.Request) -> web.Response:
        return web.json_response({"choices": [{"message": {"content": "rain " * 9000}, "finish_reason": "stop"}]})

    gateway.upstream.play = answer_long
    await ask(gateway)
    _, call = split_spans(await collector.wait_for(2))
    assert SENTENCE in call.attributes["roundhouse.request.body"]
    assert len(call.attributes["roundhouse.response.body"]) == 8 * 1024
    (request,) = await api.call("GET", "/requests", list[RequestInfo])
    detail = await api.call("GET", f"/requests/{request.id}", dict[str, Any])
    assert not detail["has_bodies"], "the inspector's own setting is off"


async def test_a_router_in_between_has_the_engine_in_the_same_trace(
    near: Gateway, far: Far, upstream: Upstream, collector: Collector
) -> None:
    """The router is scripted: like real ones it begins a span of its own below that of its caller."""
    upstream.play = answer_whole

    async def route(request: web.Request) -> web.Response:
        trace_id = request.headers["traceparent"].split("-")[1]
        headers = {"traceparent": f"00-{trace_id}-{PARENT}-01", "tracestate": request.headers["tracestate"]}
        async with near.http.post(f"{upstream.url}/v1/chat/completions", data=b"{}", headers=headers) as reply:
            return web.Response(body=await reply.read(), content_type="application/json")

    far.play = route
    await switch_on(Api(near), collector.url)
    body = {"model": "distant", "messages": [{"role": "user", "content": "Why?"}]}
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "a=1"}
    async with near.http.post(f"{near.url}/v1/chat/completions", json=body, headers=headers) as reply:
        assert reply.status == 200
    server, call = split_spans(await collector.wait_for(2))
    assert {server.trace_id, call.trace_id, upstream.headers[0]["traceparent"].split("-")[1]} == {TRACE}
    assert upstream.headers[0]["tracestate"] == "a=1"
    assert call.attributes["gen_ai.provider.name"] == "attached"
    assert call.attributes["server.port"] == int(far.url.rpartition(":")[2])


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "nonsense",
        f"00-{TRACE}-{PARENT}",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{TRACE}-{PARENT}-zz",
        f"cc-{TRACE}-{PARENT}-01-{'x' * 300}",
    ],
)
async def test_a_trace_that_is_none_begins_here(gateway: Gateway, api: Api, collector: Collector, parent: str) -> None:
    await switch_on(api, collector.url)
    gateway.upstream.play = answer_whole
    await ask(gateway, traceparent=parent, tracestate="a=1")
    server, call = split_spans(await collector.wait_for(2))
    assert server.parent_id == ""
    assert server.state == ""
    assert server.trace_id not in {TRACE, "0" * 32}
    assert gateway.upstream.headers[0]["traceparent"] == f"00-{server.trace_id}-{call.span_id}-01"
    assert "tracestate" not in gateway.upstream.headers[0]


async def test_a_later_version_and_a_long_state_are_read_as_far_as_they_can_be(
    gateway: Gateway, api: Api, collector: Collector
) -> None:
    await switch_on(api, collector.url)
    gateway.upstream.play = answer_whole
    await ask(gateway, traceparent=f"cc-{TRACE}-{PARENT}-01-more", tracestate="a=" + "x" * 600)
    server, _ = split_spans(await collector.wait_for(2))
    assert (server.trace_id, server.parent_id, server.state) == (TRACE, PARENT, "")


async def test_a_trace_that_its_client_does_not_record_is_passed_on_and_not_sent(
    gateway: Gateway, api: Api, collector: Collector
) -> None:
    await switch_on(api, collector.url)
    gateway.upstream.play = answer_whole
    await ask(gateway, traceparent=f"00-{TRACE}-{PARENT}-00")
    traceparent = gateway.upstream.headers[0]["traceparent"]
    assert traceparent.startswith(f"00-{TRACE}-")
    assert traceparent.endswith("-00")
    await ask(gateway)
    spans = await collector.wait_for(2)
    assert {span.trace_id for span in spans}.isdisjoint({TRACE})


async def test_off_the_client_s_own_headers_go_on_and_nothing_else_happens(gateway: Gateway, api: Api) -> None:
    gateway.upstream.play = answer_whole
    await ask(gateway, traceparent=f"00-{TRACE}-{PARENT}-01", tracestate="a=1")
    headers = gateway.upstream.headers[0]
    assert (headers["traceparent"], headers["tracestate"]) == (f"00-{TRACE}-{PARENT}-01", "a=1")
    await ask(gateway)
    assert "traceparent" not in gateway.upstream.headers[1]
    assert [request.trace_id for request in await api.call("GET", "/requests", list[RequestInfo])] == ["", ""]
    state = await api.call("GET", "/traces", TracesState)
    assert (state.is_on, state.sent, state.sentence) == (False, 0, "Traces are not sent anywhere.")
    assert await api.expect_refusal("POST", "/traces/test") == (400, "traces_off")


async def test_an_error_and_a_repetition_are_told(gateway: Gateway, api: Api, collector: Collector) -> None:
    await switch_on(api, collector.url)
    gateway.supervisor.base_urls = [f"http://127.0.0.1:{free_port()}"]

    async def refuse(_request: web.Request) -> web.Response:
        return web.json_response({"error": {"message": f"no {SENTENCE}"}}, status=500)

    gateway.upstream.play = refuse
    status, _ = await ask(gateway)
    server, call = split_spans(await collector.wait_for(2))
    assert call.events["repeat"] == {"why": "the engine had gone"}
    assert call.is_error
    assert call.attributes["error.type"] == str(status)
    assert server.is_error is (status >= 500)
    assert SENTENCE.encode() not in b"".join(collector.bodies)


async def test_a_refused_key_is_a_span_without_a_call(gateway: Gateway, api: Api, collector: Collector) -> None:
    await switch_on(api, collector.url, **{"gateway.require_key": True})
    assert (await ask(gateway))[0] == 401
    (server,) = await collector.wait_for(1)
    assert (server.kind, server.attributes["http.response.status_code"], server.is_error) == (2, 401, False)


async def test_a_translated_dialect_is_traced_too(gateway: Gateway, api: Api, pen: Pen, collector: Collector) -> None:
    await switch_on(api, collector.url)
    pen.write(chunk("It rains."), LAST)
    pen.end()
    body = {"model": "guide", "messages": [{"role": "user", "content": "x"}], "stream": True}
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    async with gateway.http.post(f"{gateway.url}/api/chat", json=body, headers=headers) as reply:
        assert reply.status == 200
        await reply.read()
    server, call = split_spans(await collector.wait_for(2))
    assert (server.name, server.trace_id) == ("POST /api/chat", TRACE)
    assert gateway.upstream.headers[0]["traceparent"] == f"00-{TRACE}-{call.span_id}-01"
    assert call.attributes["gen_ai.usage.output_tokens"] == 3


async def test_a_collector_that_comes_later_loses_nothing(
    gateway: Gateway, api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trace_exporter, "_FIRST_BACKOFF_S", 0.05)
    port = free_port()
    gateway.upstream.play = answer_whole
    async with api.events("/events", Event) as events:
        await switch_on(api, f"http://127.0.0.1:{port}/")
        for _ in range(3):
            assert (await ask(gateway))[0] == 200
        notice = await anext(event async for event in events if isinstance(event, Notice))
    assert notice.code == "traces_not_sent"
    assert f"127.0.0.1:{port}" in notice.sentence
    state = await api.call("GET", "/traces", TracesState)
    assert (state.sent, state.dropped, state.problem) == (0, 0, notice.sentence)
    assert notice.sentence in state.sentence
    assert await api.expect_refusal("POST", "/traces/test") == (500, "traces_not_sent")
    async with playing_collector(port) as collector:
        assert len(await collector.wait_for(6)) == 6
    warnings = [record for record in caplog.records if "Traces are not sent" in record.message]
    assert len(warnings) == 1, "one sentence, however often it is tried"
    caplog.clear()


async def test_a_slow_collector_holds_nobody_up_and_little_memory(
    gateway: Gateway, api: Api, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_exporter, "_MOST_SPANS", 8)
    monkeypatch.setattr(trace_exporter, "_BATCH", 4)
    await switch_on(api, collector.url)
    collector.may_answer.clear()
    gateway.upstream.play = answer_whole
    for _ in range(10):
        assert (await ask(gateway))[0] == 200

    async def is_full() -> bool:
        state = await api.call("GET", "/traces", TracesState)
        return state.waiting == 8 and state.dropped > 0

    await until(is_full)
    assert len(collector.bodies) == 1, "one request at a time"
    first_count = len(read_spans(collector.bodies[0]))
    assert 0 < first_count <= 4
    collector.may_answer.set()
    await until(lambda: len(collector.spans) >= first_count + 8)


@pytest.mark.parametrize("refusal", [(401, False), (404, False), (400, False), (503, True), (429, True)])
async def test_a_collector_that_refuses_is_said_once(
    gateway: Gateway,
    api: Api,
    collector: Collector,
    caplog: pytest.LogCaptureFixture,
    refusal: tuple[int, bool],
) -> None:
    status, is_kept = refusal
    await switch_on(api, collector.url)
    collector.status = status
    gateway.upstream.play = answer_whole
    await ask(gateway)
    await until(lambda: collector.bodies)

    async def is_said() -> bool:
        return bool((await api.call("GET", "/traces", TracesState)).problem)

    await until(is_said)
    state = await api.call("GET", "/traces", TracesState)
    assert f"(status {status})" in state.problem
    assert (state.waiting, state.dropped) == ((2, 0) if is_kept else (0, 2))
    assert [record.levelname for record in caplog.records if "Traces are not sent" in record.message] == ["WARNING"]
    caplog.clear()


@pytest.fixture
def no_keyring() -> Iterator[None]:
    before = keyring.get_keyring()
    keyring.set_keyring(fail.Keyring())  # type: ignore[no-untyped-call] # keyring has no types there
    yield
    keyring.set_keyring(before)


@pytest.mark.usefixtures("no_keyring")
async def test_headers_are_secret_and_sent(gateway: Gateway, api: Api, collector: Collector) -> None:
    await switch_on(api, collector.url)
    kept_headers = await api.call(
        "POST", "/traces/headers", TracesState, SetTraceHeaders(headers={"Authorization": "Bearer s3cr3t"})
    )
    assert kept_headers.header_names == ["Authorization"]
    assert b"s3cr3t" not in json.dumps(await api.call("GET", "/settings", list[Any])).encode()
    await api.call("POST", "/traces/test", TracesState)
    assert collector.headers[0]["Authorization"] == "Bearer s3cr3t"
    assert collector.headers[0]["Content-Type"] == "application/x-protobuf"
    assert [span.name for span in collector.spans] == ["roundhouse traces test"]
    assert (await api.raw("DELETE", "/traces/headers"))[0] == 204
    await api.call("POST", "/traces/test", TracesState)
    assert "Authorization" not in collector.headers[1]


@pytest.mark.usefixtures("no_keyring")
async def test_headers_never_go_to_another_computer_in_the_open(api: Api) -> None:
    await switch_on(api, "http://collector.example:4318")
    await api.call("POST", "/traces/headers", TracesState, SetTraceHeaders(headers={"X-Key": "s3cr3t"}))
    status, body = await api.raw("POST", "/traces/test")
    assert status == 500
    assert b"https" in body
    assert b"s3cr3t" not in body
    assert (await api.call("GET", "/connections", ConnectionList)).connections == []


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": "text/plain"},
        {"A b": "x"},
        {"X": ""},
        {"X": "s3cr3t\r\nY: z"},
        {"X": "s3cr3t" * 1000},
        {f"X-{number}": "y" for number in range(17)},
    ],
)
async def test_odd_headers_are_refused_without_being_told(api: Api, headers: dict[str, str]) -> None:
    status, body = await api.raw("POST", "/traces/headers", {"headers": headers})
    assert status == 400
    assert b"s3cr3t" not in body


async def test_offline_another_computer_is_not_called(api: Api) -> None:
    await switch_on(api, "https://collector.example:4318", **{"network.offline": True})
    status, _ = await api.raw("POST", "/traces/test")
    assert status == 500
    (refused_connection,) = (await api.call("GET", "/connections", ConnectionList)).connections
    assert (refused_connection.host, refused_connection.why, refused_connection.refused) == (
        "collector.example",
        "traces",
        True,
    )


async def test_offline_this_computer_s_collector_goes_on(api: Api, collector: Collector) -> None:
    await switch_on(api, collector.url, **{"network.offline": True})
    assert (await api.call("POST", "/traces/test", TracesState)).sent == 1


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1:4318",
        "ftp://x",
        "http://",
        "http://u:p@x",
        "http://x?key=1",
        "http://x:0",
        "http://x:99999",
        "http://x y",
        "http://[::1",
        "http://169.254.169.254",
    ],
)
async def test_odd_addresses_are_refused(api: Api, address: str) -> None:
    assert await api.expect_refusal("PATCH", "/settings", {"traces.endpoint": address}) == (400, "bad_request")


async def test_another_collector_gets_what_comes_from_then_on(gateway: Gateway, api: Api, collector: Collector) -> None:
    gateway.upstream.play = answer_whole
    await switch_on(api, collector.url)
    await ask(gateway)
    await collector.wait_for(2)
    async with playing_collector() as other:
        await switch_on(api, f"{other.url}/v1/traces")
        await ask(gateway)
        assert len(await other.wait_for(2)) == 2
    await switch_on(api, "")
    await ask(gateway)
    assert len(collector.spans) == 2
    assert not (await api.call("GET", "/traces", TracesState)).is_on


async def test_what_is_left_goes_out_when_the_gateway_ends(
    services: Services, upstream: Upstream, unused_port: int, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_exporter, "FLUSH_S", 3600.0)
    upstream.play = answer_whole
    async with serve_gateway(services, upstream, unused_port) as gateway:
        await switch_on(Api(gateway), collector.url)
        await ask(gateway)
        assert collector.spans == []
    assert len(collector.spans) == 2


async def test_what_came_while_the_last_collector_was_slow_goes_to_the_new_one(
    gateway: Gateway, api: Api, collector: Collector
) -> None:
    gateway.upstream.play = answer_whole
    collector.may_answer.clear()
    await switch_on(api, collector.url)
    await ask(gateway)
    await until(lambda: collector.bodies)
    async with playing_collector() as other:
        await switch_on(api, other.url)
        await ask(gateway)
        collector.may_answer.set()
        assert len(await other.wait_for(2)) == 2
