"""Clients that have to wait: bytes that keep them there, errors in their place, and refusals of a full queue."""

import asyncio
import json
from collections.abc import Callable

import anthropic
import openai
import pytest

from app.core.errors import EngineFailed, Overloaded
from app.gateway.exchange import client_stream
from tests.gateway.exchange.test_streaming import ASKED, DONE, event, streams
from tests.gateway.played import Gateway
from tests.patience import PATIENCE_S

MESSAGES = {"model": "guide", "max_tokens": 5, "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
REFUSED = EngineFailed("It did not fit.", code="out_of_memory")
FULL = Overloaded("Server busy.", retry_s=6.2)


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_stream, "QUIET_S", 0.01)
    monkeypatch.setattr(client_stream, "EVERY_S", 0.01)


async def ask_while_loading(
    gateway: Gateway, path: str, body: dict[str, object], then: Callable[[], None]
) -> tuple[int, bytes]:
    """Ask while the model loads; let `then` happen after the first byte has come. Return status and everything."""
    gateway.supervisor.may_load.clear()
    async with gateway.http.post(gateway.url + path, json=body) as reply:
        first = await reply.content.readany()
        then()
        return reply.status, first + await reply.read()


@pytest.mark.usefixtures("_impatient")
async def test_comments_come_before_the_answer_which_is_whole(gateway: Gateway) -> None:
    whole = event("Hi") + DONE
    gateway.upstream.play = streams(whole)
    status, answer = await ask_while_loading(gateway, "/v1/chat/completions", ASKED, gateway.supervisor.may_load.set)
    assert status == 200
    assert answer.startswith(b": waiting\n\n")
    assert answer.replace(b": waiting\n\n", b"") == whole


@pytest.mark.usefixtures("_impatient")
async def test_anthropics_clients_are_pinged(gateway: Gateway) -> None:
    gateway.upstream.play = streams(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')
    _, answer = await ask_while_loading(gateway, "/v1/messages", MESSAGES, gateway.supervisor.may_load.set)
    assert answer.startswith(b'event: ping\ndata: {"type":"ping"}\n\n')
    assert answer.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize(("path", "body"), [("/v1/chat/completions", ASKED), ("/v1/messages", MESSAGES)])
async def test_a_load_that_fails_later_is_said_in_the_stream(
    gateway: Gateway, path: str, body: dict[str, object]
) -> None:
    def fail() -> None:
        gateway.supervisor.refuse_with = REFUSED
        gateway.supervisor.may_load.set()

    status, answer = await ask_while_loading(gateway, path, body, fail)
    assert status == 200
    last = answer.strip().splitlines()[-1].removeprefix(b"data: ")
    assert "It did not fit." in json.loads(last)["error"]["message"]
    lines = gateway.services.metrics.format_exposition([]).splitlines()
    assert any('outcome="engine_failed"} 1' in line for line in lines)


@pytest.mark.usefixtures("_impatient")
async def test_a_refusal_of_the_engine_is_said_in_the_stream(gateway: Gateway) -> None:
    from aiohttp import web  # noqa: PLC0415 -- here only

    async def refuses(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"code": 400, "message": "No.", "type": "x"}}, status=400)

    gateway.upstream.play = refuses
    status, answer = await ask_while_loading(gateway, "/v1/chat/completions", ASKED, gateway.supervisor.may_load.set)
    assert status == 200
    assert "No." in json.loads(answer.strip().splitlines()[-1].removeprefix(b"data: "))["error"]["message"]


@pytest.mark.usefixtures("_impatient")
async def test_openais_client_reads_over_the_comments(gateway: Gateway) -> None:
    gateway.upstream.play = streams(event("Hi") + DONE)
    gateway.supervisor.may_load.clear()
    asyncio.get_running_loop().call_later(0.1, gateway.supervisor.may_load.set)
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="x", max_retries=0) as client:
        stream = await client.chat.completions.create(
            model="guide", stream=True, messages=[{"role": "user", "content": "Hi"}]
        )
        assert [chunk.choices[0].delta.content async for chunk in stream] == ["Hi"]


@pytest.mark.usefixtures("_impatient")
async def test_a_client_that_leaves_while_it_is_kept_waiting_waits_no_more(gateway: Gateway) -> None:
    gateway.supervisor.may_load.clear()
    async with gateway.http.post(f"{gateway.url}/v1/chat/completions", json=ASKED) as reply:
        await reply.content.readany()
        assert gateway.supervisor.waiter_count == 1
    async with asyncio.timeout(PATIENCE_S):
        while gateway.supervisor.waiter_count:  # noqa: ASYNC110 -- nobody announces it
            await asyncio.sleep(0.01)


async def test_what_goes_wrong_soon_keeps_its_status(gateway: Gateway) -> None:
    gateway.supervisor.refuse_with = REFUSED
    async with gateway.http.post(f"{gateway.url}/v1/chat/completions", json=ASKED) as reply:
        assert (reply.status, reply.headers["Content-Type"].split(";")[0]) == (502, "application/json")


@pytest.mark.usefixtures("_impatient")
async def test_an_answer_that_is_no_stream_is_waited_for_in_silence(gateway: Gateway) -> None:
    gateway.supervisor.refuse_with = REFUSED
    gateway.supervisor.may_load.clear()
    asyncio.get_running_loop().call_later(0.1, gateway.supervisor.may_load.set)
    status, _ = await gateway.chat(messages=[{"role": "user", "content": "Hi"}])
    assert status == 502


@pytest.mark.parametrize(
    ("path", "status", "key"),
    [
        ("/v1/chat/completions", 429, "rate_limit_error"),
        ("/v1/messages", 529, "overloaded_error"),
        ("/api/chat", 503, "Server busy."),
        ("/infill", 503, "server_error"),
    ],
)
async def test_a_full_queue_is_said_as_each_dialect_says_it(gateway: Gateway, path: str, status: int, key: str) -> None:
    gateway.supervisor.refuse_with = FULL  # type: ignore[assignment]  # any error of ours will do
    body = {"model": "guide", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]}
    asked_for = {"model": "guide", "input_prefix": "a", "input_suffix": "b"} if path == "/infill" else body
    async with gateway.http.post(gateway.url + path, json=asked_for) as reply:
        assert (reply.status, reply.headers["Retry-After"]) == (status, "7")
        assert key in await reply.text()


async def test_the_clients_raise_their_own_errors_for_a_full_queue(gateway: Gateway) -> None:
    gateway.supervisor.refuse_with = FULL  # type: ignore[assignment]  # as above
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="x", max_retries=0) as client:
        with pytest.raises(openai.RateLimitError):
            await client.chat.completions.create(model="guide", messages=[{"role": "user", "content": "Hi"}])
    async with anthropic.AsyncAnthropic(base_url=gateway.url, api_key="x", max_retries=0) as other:
        with pytest.raises(anthropic.APIStatusError) as error:
            await other.messages.create(model="guide", max_tokens=5, messages=[{"role": "user", "content": "Hi"}])
    assert error.value.status_code == 529
