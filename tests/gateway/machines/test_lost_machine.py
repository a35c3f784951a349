"""A machine that goes away before anything of its answer was sent: another answers, in every dialect, and only then.

The client has a head and signs of life by then, since it was made to wait.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

import pytest
from aiohttp import web

from app.core.models import AttachEndpoint
from app.gateway.exchange import client_stream
from app.gateway.library.attached_endpoints import attach
from app.gateway.machines.routing import MachineModel
from app.hub.library.attached import ReplicaRecord
from tests.gateway.far import ASKED, DIALECTS, WAYS, Far, begun, chunk, played_far
from tests.gateway.played import Gateway
from tests.patience import until

BEGINNINGS = {
    "/v1/chat/completions": '"role":"assistant"',
    "/v1/messages": '"type":"message_start"',
    "/v1/responses": '"type":"response.created"',
    "/api/chat": '"done":true',
    "/api/v1/chat": '"type":"chat.start"',
}
"""What stands in a stream of each dialect once."""
Loss = Callable[[Far, web.Request], Awaitable[web.StreamResponse]]
LOSSES = pytest.mark.parametrize("loss", [Far.die_before_its_head, Far.die_before_content])


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_stream, "QUIET_S", 0.01)
    monkeypatch.setattr(client_stream, "EVERY_S", 0.01)


@pytest.fixture
async def other(near: Gateway) -> AsyncIterator[Far]:
    """A second machine with the model of the first, which is expected to answer first."""
    async with played_far() as played:
        await attach(near.services, AttachEndpoint(url=played.url, name="other", key="sk-far"))
        models = [
            MachineModel(name="distant", machine="desk", is_loaded=True, tokens_per_s=50.0),
            MachineModel(name="other", machine="box", is_loaded=True, tokens_per_s=10.0),
        ]
        near.services.machine_routes.put_models([("shared", model) for model in models])
        yield played


@pytest.fixture
async def fleet(near: Gateway, far: Far) -> Far:
    """The endpoint as the router of a fleet's."""
    members = [ReplicaRecord(name=name, url=far.url) for name in ("1", "2")]
    near.services.library.correct_attachment("distant", lambda attachment: attachment.with_members(members))
    return far


class Pair(NamedTuple):
    """Both machines."""

    first: Far
    second: Far


@pytest.fixture
def pair(far: Far, other: Far) -> Pair:
    return Pair(far, other)


async def ask_until_lost(near: Gateway, far: Far, path: str, more: dict[str, Any], model: str = "shared") -> str:
    """Ask for a stream; lose the machine once the client has the head; return all that the client is sent."""
    body = json.dumps({"model": model, "stream": True, **more}).encode()
    async with near.http.post(near.url + path, data=body) as reply:
        assert reply.status == 200
        await until(lambda: bool(far.posts))
        far.may_die.set()
        return await reply.text()


@DIALECTS
@LOSSES
async def test_another_machine_answers_a_client_that_has_seen_a_head_alone(
    near: Gateway, pair: Pair, path: str, more: dict[str, Any], loss: Loss
) -> None:
    far, other = pair
    far.play = partial(loss, far)
    answer = await ask_until_lost(near, far, path, more)
    assert "Because." in answer
    assert "error" not in answer.replace('"error":null', "")
    assert answer.replace(" ", "").count(BEGINNINGS[path]) <= 1, "it begins once"
    assert (len(far.posts), len(other.posts)) == (1, 1)


@DIALECTS
async def test_after_the_first_word_nobody_else_is_asked(
    near: Gateway, far: Far, other: Far, path: str, more: dict[str, Any]
) -> None:
    far.play = far.die_in_the_middle
    answer = await ask_until_lost(near, far, path, more)
    assert "cut off" in answer
    assert other.posts == []


@DIALECTS
@LOSSES
async def test_where_all_are_lost_the_stream_says_so(
    near: Gateway, pair: Pair, path: str, more: dict[str, Any], loss: Loss
) -> None:
    far, other = pair
    far.play, other.play = partial(loss, far), other.die_at_once
    answer = await ask_until_lost(near, far, path, more)
    assert "cut off" in answer
    assert (len(far.posts), len(other.posts)) == (1, 1)


@DIALECTS
async def test_a_machine_that_was_named_is_the_only_one(
    near: Gateway, far: Far, other: Far, path: str, more: dict[str, Any]
) -> None:
    far.play = far.die_before_its_head
    answer = await ask_until_lost(near, far, path, more, model="distant")
    assert "cut off" in answer
    assert other.posts == []


@DIALECTS
@LOSSES
async def test_a_fleet_s_router_is_asked_once_more(
    near: Gateway, fleet: Far, path: str, more: dict[str, Any], loss: Loss
) -> None:
    async def lose_the_first(request: web.Request) -> web.StreamResponse:
        return await (loss(fleet, request) if len(fleet.posts) == 1 else fleet.answer(request))

    fleet.play = lose_the_first
    answer = await ask_until_lost(near, fleet, path, more, model="distant")
    assert "Because." in answer
    assert len(fleet.posts) == 2
    fleet.posts.clear()
    fleet.play = fleet.die_at_once
    status_or_error = await ask_whole(near, path, more)
    assert "cut off" in status_or_error
    assert len(fleet.posts) == 2, "once, and no more"


async def ask_whole(near: Gateway, path: str, more: dict[str, Any]) -> str:
    async with near.http.post(near.url + path, json={"model": "distant", "stream": False, **more}) as reply:
        return await reply.text()


@pytest.mark.parametrize("pieces", [[chunk("Be"), chunk("cause.", "stop")], [chunk("Because.", "stop")]])
async def test_a_stream_that_begins_late_is_whole_and_leaves_its_connection_in_order(
    near: Gateway, far: Far, other: Far, pieces: list[bytes]
) -> None:
    async def answer_late(request: web.Request) -> web.StreamResponse:
        response = await begun(request)
        for piece in (b": waiting\n\n", *pieces, b"data: [DONE]\n\n"):
            await response.write(piece)
            await asyncio.sleep(0.01)  # each comes by itself
        return response

    far.play = answer_late
    (path, more), body = WAYS[0], {"model": "shared", "stream": True, "messages": ASKED}
    for _ in range(3):
        async with near.http.post(near.url + path, json=body | more) as reply:
            text = await reply.text()
        assert text.replace(": waiting\n\n", "") == b"".join([*pieces, b"data: [DONE]\n\n"]).decode()
    assert len(far.posts) == 3
    assert other.posts == []
