"""A machine that goes away before anything of its answer was sent: another answers, in every dialect, and only then.

The client has a head and signs of life by then, since it was made to wait.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import pytest
from aiohttp import web

from app.core.models import AttachEndpoint
from app.gateway.exchange import client_stream
from app.gateway.library.attached_endpoints import attach
from app.gateway.machines.routing import MachineModel
from app.hub.library.attached import ReplicaRecord
from app.network.machine_addresses import machine_addresses
from app.network.pinned_tls import MachineAddress
from tests.gateway.far import ASKED, DIALECTS, WAYS, Far, Play, ask_near, begin_stream, chunk, played_far
from tests.gateway.played import Gateway
from tests.patience import PATIENCE_S, until

TALK = [
    {"role": "system", "content": "Be brief."},
    *({"role": role, "content": f"{role} {at} " + "x" * 40} for at in range(5) for role in ("user", "assistant")),
    {"role": "user", "content": "So?"},
]
TRIMMED = pytest.mark.parametrize(
    ("path", "more"),
    [("/api/chat", {"messages": TALK, "truncate": True}), ("/v1/responses", {"input": TALK, "truncation": "auto"})],
)
"""A conversation that may be cut to what fits, in the dialects that have a word for that."""
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
    async with played_far() as endpoint:
        await attach(near.services, AttachEndpoint(url=endpoint.url, name="other", key="sk-far"))
        models = [
            MachineModel(name="distant", machine="desk", is_loaded=True, tokens_per_s=50.0),
            MachineModel(name="other", machine="box", is_loaded=True, tokens_per_s=10.0),
        ]
        near.services.machine_routes.put_models([("shared", model) for model in models])
        yield endpoint


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


@pytest.mark.slow(cases=6)
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


@pytest.fixture
def _far_is_desk(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = MachineAddress("desk", "127.0.0.1", 1, ssl.create_default_context(), "")
    monkeypatch.setattr(machine_addresses, "find_machine", lambda _url: desk)


@pytest.mark.usefixtures("_far_is_desk")
@pytest.mark.parametrize("is_loaded", [True, False])
@DIALECTS
async def test_one_that_does_not_trust_this_machine_any_more_is_passed_over(
    near: Gateway, pair: Pair, path: str, more: dict[str, Any], *, is_loaded: bool
) -> None:
    far, other = pair
    if is_loaded:
        assert "Because." in (await ask_near(near, path, more, stream=False))[1]
    far.trusts = False
    async with near.http.post(near.url + path, json={"model": "shared", "stream": True, **more}) as reply:
        assert (reply.status, "Because." in await reply.text(), len(other.posts)) == (200, True, 1)
    status, text = await ask_near(near, path, more, stream=False)
    assert (status >= 400, "desk does not trust this computer" in text) == (True, True), text


@DIALECTS
async def test_a_machine_that_was_named_is_the_only_one(
    near: Gateway, far: Far, other: Far, path: str, more: dict[str, Any]
) -> None:
    far.play = far.die_before_its_head
    answer = await ask_until_lost(near, far, path, more, model="distant")
    assert "cut off" in answer
    assert other.posts == []


@pytest.mark.slow(cases=7)
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
        response = await begin_stream(request)
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


def refuse_above(context: int, most: int, otherwise: Play) -> Play:
    """Return what refuses conversations of more messages as too long for a context, which all of TALK is."""
    words = {"code": 400, "message": "m", "type": "exceed_context_size_error", "n_prompt_tokens": 900, "n_ctx": context}

    async def play(request: web.Request) -> web.StreamResponse:
        if len((await request.json())["messages"]) > most:
            return web.json_response({"error": words}, status=400)
        return await otherwise(request)

    return play


def last_document(answer: str) -> str:
    """Return the last line of a stream with a document: earlier ones may have said what was so then."""
    return [line for line in answer.splitlines() if "{" in line][-1].replace(" ", "")


def count_messages(endpoint: Far) -> list[int]:
    return [len(document["messages"]) for _, document in endpoint.posts]


@TRIMMED
@LOSSES
async def test_a_conversation_that_was_cut_for_a_lost_machine_is_whole_for_one_that_takes_all_of_it(
    near: Gateway, pair: Pair, path: str, more: dict[str, Any], loss: Loss
) -> None:
    far, other = pair
    far.play = refuse_above(400, 4, partial(loss, far))
    answer = await ask_until_lost(near, far, path, more)
    assert "Because." in answer
    assert "dropped_messages" not in last_document(answer)
    assert (count_messages(far), count_messages(other)) == ([len(TALK), 4], [len(TALK)])


@TRIMMED
@LOSSES
async def test_a_conversation_is_cut_for_the_machine_that_answers_instead(
    near: Gateway, pair: Pair, path: str, more: dict[str, Any], loss: Loss
) -> None:
    far, other = pair
    far.play, other.play = partial(loss, far), refuse_above(700, 8, other.answer)
    answer = await ask_until_lost(near, far, path, more)
    assert "Because." in answer
    assert (count_messages(far), count_messages(other)) == ([len(TALK)], [len(TALK), 6])
    assert '"dropped_messages":6' in last_document(answer)


@TRIMMED
async def test_a_fleet_is_asked_again_for_as_much_as_fitted(
    near: Gateway, fleet: Far, path: str, more: dict[str, Any]
) -> None:
    async def lose_the_second(request: web.Request) -> web.StreamResponse:
        return await (fleet.die_before_its_head(request) if len(fleet.posts) == 2 else fleet.answer(request))

    fleet.play = refuse_above(400, 4, lose_the_second)
    answer = await ask_until_lost(near, fleet, path, more, model="distant")
    assert "Because." in answer
    assert count_messages(fleet) == [len(TALK), 4, 4]
    assert '"dropped_messages":8' in last_document(answer)


UNREAD = {"error": {"code": 500, "message": "Failed to parse input at pos 0", "type": "server_error"}}
"""What an engine says that cannot read its model's answer: it is asked again in a way that is read here."""
THREE = {"messages": ASKED, "n": 3, "seed": 5}


def fail_to_read_first(endpoint: Far, plays: Mapping[int, Play]) -> Play:
    """Return what cannot read its first answer, and plays the further ones, counted from 1, or answers."""

    async def play(request: web.Request) -> web.StreamResponse:
        number = len(endpoint.posts) - 1
        return (
            web.json_response(UNREAD, status=500) if not number else await plays.get(number, endpoint.answer)(request)
        )

    return play


async def read_choices(near: Gateway, far: Far, *, stream: bool, model: str = "shared") -> dict[int, str]:
    """Ask for three answers, and return the text of each by its index. Raises AssertionError for an error."""
    far.may_die.set()
    body = {"model": model, "stream": stream, **THREE}
    async with near.http.post(f"{near.url}/v1/chat/completions", json=body) as reply:
        assert reply.status == 200
        text = await reply.text()
    lines = [line.removeprefix("data: ") for line in text.splitlines()]
    documents = [json.loads(line) for line in lines if line.startswith("{")]
    texts = dict[int, str]()
    for choice in (choice for document in documents for choice in document["choices"]):
        words = choice.get("delta") or choice.get("message") or {}
        texts[choice["index"]] = texts.get(choice["index"], "") + (words.get("content") or "")
    return texts


def seeds_of(endpoint: Far) -> list[int]:
    return [document["seed"] for _, document in endpoint.posts]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send no head before an engine answers: what could not be read is asked again only then."""
    monkeypatch.setattr(client_stream, "QUIET_S", PATIENCE_S)


WHOLE_OR_STREAMED = pytest.mark.parametrize("stream", [pytest.param(True, id="streamed"), False])


@LOSSES
@WHOLE_OR_STREAMED
@pytest.mark.usefixtures("patient")
async def test_of_several_answers_those_that_are_left_move_to_the_other_machine(
    near: Gateway,
    pair: Pair,
    loss: Loss,
    stream: bool,  # noqa: FBT001 -- a parameter of pytest's
) -> None:
    far, other = pair
    far.play = fail_to_read_first(far, {2: partial(loss, far)})
    assert await read_choices(near, far, stream=stream) == dict.fromkeys(range(3), "Because.")
    assert (seeds_of(far), seeds_of(other)) == ([5, 5, 6], [6, 7]), "the third does not try the machine that was lost"


@WHOLE_OR_STREAMED
@pytest.mark.usefixtures("patient")
async def test_each_of_several_answers_may_go_to_a_fleet_s_router_once_more(
    near: Gateway,
    fleet: Far,
    stream: bool,  # noqa: FBT001 -- as above
) -> None:
    fleet.play = fail_to_read_first(fleet, dict.fromkeys((1, 3, 5), fleet.die_at_once))
    assert await read_choices(near, fleet, stream=stream, model="distant") == dict.fromkeys(range(3), "Because.")
    assert seeds_of(fleet) == [5, 5, 5, 6, 6, 7, 7]


async def test_one_of_several_answers_that_is_lost_twice_ends_the_others(near: Gateway, fleet: Far) -> None:
    fleet.play = fail_to_read_first(fleet, {2: fleet.die_at_once, 3: fleet.die_at_once})
    status, answer = await ask_near(near, "/v1/chat/completions", THREE, stream=False)
    assert status >= 500
    assert "cut off" in answer
    assert seeds_of(fleet) == [5, 5, 6, 6]
