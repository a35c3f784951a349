"""A cancelled request whose engine may be stuck: told only where neither the probe nor another answer speaks for it."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from tests.gateway.exchange.test_streaming import ASKED, DONE, event
from tests.gateway.far import Far, begin_stream, chunk
from tests.gateway.played import Gateway
from tests.patience import PATIENCE_S, until

CHAT = "/v1/chat/completions"


class Engine:
    """Answers "stream" with a first event, and with the rest once it may; "quick" at once; all else never."""

    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()

    async def play(self, request: web.Request) -> web.StreamResponse:
        word = json.loads(await request.read())["messages"][0]["content"]
        if word == "quick":
            return web.json_response({"object": "chat.completion", "choices": []})
        if word != "stream":
            await asyncio.Event().wait()
        response = await begin_stream(request)
        await response.write(event("a"))
        await self.may_go_on.wait()
        await response.write(event("b") + DONE)
        return response


@pytest.fixture
async def engine(gateway: Gateway) -> AsyncIterator[Engine]:
    """An engine that does not answer its probe until the test says so: `may_tell`."""
    played_engine = Engine()
    gateway.upstream.play = played_engine.play
    gateway.supervisor.is_well = False
    gateway.supervisor.may_tell.clear()
    yield played_engine
    played_engine.may_go_on.set()


def chat_body(word: str) -> dict[str, object]:
    return {**ASKED, "messages": [{"role": "user", "content": word}]}


async def cancel_one(gateway: Gateway, word: str = "hang") -> None:
    """Have a client leave that the engine keeps waiting."""
    gateway.upstream.arrival.clear()
    gateway.upstream.disconnect.clear()
    question = asyncio.create_task(gateway.chat(**chat_body(word)))
    await asyncio.wait_for(gateway.upstream.arrival.wait(), PATIENCE_S)
    question.cancel()
    await asyncio.wait_for(gateway.upstream.disconnect.wait(), PATIENCE_S)
    await until(lambda: gateway.supervisor.probes > 0)


async def end_probe(gateway: Gateway) -> list[str]:
    """Have the probe end, and return which engines were reported."""
    gateway.supervisor.may_tell.set()
    await until(lambda: gateway.supervisor.probe_answers == gateway.supervisor.probes)
    return list(gateway.supervisor.stuck_urls)


@pytest.mark.usefixtures("engine")
async def test_an_engine_that_answers_nothing_is_reported_once(gateway: Gateway) -> None:
    await cancel_one(gateway)
    await cancel_one(gateway)
    assert gateway.supervisor.in_flight == 0, "the lease is given back whatever the engine does"
    assert await end_probe(gateway) == [gateway.upstream.url]
    assert gateway.supervisor.probes == 1


@pytest.mark.usefixtures("engine")
async def test_a_slow_engine_that_answers_its_probe_is_not_reported(gateway: Gateway) -> None:
    gateway.supervisor.is_well = True
    await cancel_one(gateway)
    assert await end_probe(gateway) == []


@pytest.mark.usefixtures("engine")
async def test_an_engine_that_cannot_be_asked_is_not_reported(gateway: Gateway) -> None:
    gateway.supervisor.is_well = None
    await cancel_one(gateway)
    assert await end_probe(gateway) == []


@pytest.mark.usefixtures("engine")
async def test_a_request_stopped_by_hand_begins_a_check(gateway: Gateway) -> None:
    question = asyncio.create_task(gateway.chat(**chat_body("hang")))
    await asyncio.wait_for(gateway.upstream.arrival.wait(), PATIENCE_S)
    headers = {"Authorization": f"Bearer {gateway.services.identity.token}"}
    async with gateway.http.get(f"{gateway.url}/roundhouse/v1/requests", headers=headers) as reply:
        (request,) = await reply.json()
    async with gateway.http.post(f"{gateway.url}/roundhouse/v1/requests/{request['id']}/cancel", headers=headers):
        await question
    assert await end_probe(gateway) == [gateway.upstream.url]


@pytest.mark.parametrize("looks", [1, 2], ids=["once", "again, after the first check"])
async def test_an_engine_whose_other_answer_goes_on_is_not_reported(
    gateway: Gateway, engine: Engine, looks: int
) -> None:
    async with gateway.http.post(gateway.url + CHAT, json=chat_body("stream")) as other:
        assert await other.content.readany() == event("a")
        if looks > 1:
            await cancel_one(gateway)
            assert await end_probe(gateway) == [gateway.upstream.url]
            gateway.supervisor.stuck_urls.clear()
            gateway.supervisor.may_tell.clear()
        probes = gateway.supervisor.probes
        await cancel_one(gateway)
        await until(lambda: gateway.supervisor.probes == probes + 1)
        engine.may_go_on.set()
        assert await other.read() == event("b") + DONE, "what is watched arrives as it was"
        assert await end_probe(gateway) == []


@pytest.mark.usefixtures("engine")
async def test_an_engine_that_answers_a_later_request_is_not_reported(gateway: Gateway) -> None:
    await cancel_one(gateway)
    assert (await gateway.chat(messages=[{"role": "user", "content": "quick"}]))[0] == 200
    assert await end_probe(gateway) == []


@pytest.mark.usefixtures("engine")
async def test_a_stream_that_waits_for_its_first_byte_is_no_sign_of_life(gateway: Gateway) -> None:
    waiting_question = asyncio.create_task(gateway.chat(**chat_body("hang")))
    await asyncio.wait_for(gateway.upstream.arrival.wait(), PATIENCE_S)
    await cancel_one(gateway)
    assert await end_probe(gateway) == [gateway.upstream.url]
    waiting_question.cancel()
    await asyncio.gather(waiting_question, return_exceptions=True)


@pytest.mark.usefixtures("engine")
async def test_a_stream_cut_short_in_the_middle_begins_a_check(gateway: Gateway) -> None:
    async with gateway.http.post(gateway.url + CHAT, json=chat_body("stream")) as reply:
        await reply.content.readany()
        reply.close()
    await until(lambda: gateway.supervisor.probes == 1)
    assert await end_probe(gateway) == [gateway.upstream.url]


async def test_requests_that_end_well_begin_no_check(gateway: Gateway, engine: Engine) -> None:
    engine.may_go_on.set()
    for word in ("quick", "stream"):
        async with gateway.http.post(gateway.url + CHAT, json=chat_body(word)) as reply:
            await reply.read()
    assert gateway.supervisor.probes == 0


@pytest.mark.usefixtures("engine")
async def test_a_gateway_that_closes_waits_for_no_probe(gateway: Gateway) -> None:
    await cancel_one(gateway)
    assert not gateway.supervisor.may_tell.is_set(), "what the fixture closes now is still being asked"


async def test_an_attached_endpoint_is_not_asked(near: Gateway, far: Far) -> None:
    arrival = asyncio.Event()

    async def hang(request: web.Request) -> web.StreamResponse:
        response = await begin_stream(request)
        await response.write(chunk("Bec"))
        arrival.set()
        await asyncio.Event().wait()
        return response

    far.play = hang
    body = {"model": "distant", "stream": True, "messages": [{"role": "user", "content": "Why?"}]}
    async with near.http.post(near.url + CHAT, json=body) as reply:
        await asyncio.wait_for(arrival.wait(), PATIENCE_S)
        looks = far.looks
        reply.close()
    await asyncio.wait_for(far.disconnect.wait(), PATIENCE_S)
    assert far.looks == looks
