"""Whether a replica works: one that lists its model and writes no token is out until it writes one again."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from app.core.engines import EngineState, EngineStatus
from app.gateway.fleets import health
from app.gateway.fleets.health import TOKEN_EVERY_S, HealthWatch
from app.hub.library.attached import Attachment, ReplicaRecord

KEY = "sk-replica"
SILENT = "It lists the model, and writes no token."
FLEET = Attachment(name="team", url="", served_as="big", router="smg")


class PlayedReplica:
    """A server that lists its models and answers chats with a status, or not at all."""

    def __init__(self) -> None:
        self.status = 200
        self.models = ["big"]
        self.keys: list[str] = []
        self.url = ""

    @property
    def record(self) -> ReplicaRecord:
        return ReplicaRecord(name="1", url=self.url)

    async def list_models(self, _request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": name} for name in self.models]})

    async def chat(self, request: web.Request) -> web.Response:
        self.keys.append(request.headers["Authorization"])
        assert (await request.json())["max_tokens"] == 1
        return web.json_response({}, status=self.status)


class PlayedSupervisor:
    """Engines of this computer, of which one is ready and computes or does not."""

    def __init__(self) -> None:
        self.is_computing: bool | None = True
        self.ended_seats: list[str] = []

    def list_statuses(self) -> list[EngineStatus]:
        return [EngineStatus(model="team#1", engine="llama.cpp", state=EngineState.READY)]

    async def still_computes(self, _seat: str) -> bool | None:
        return self.is_computing

    async def end_broken(self, seat: str) -> None:
        self.ended_seats.append(seat)


class Clock:
    """The time, as the test says."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
async def replica() -> AsyncIterator[PlayedReplica]:
    replica = PlayedReplica()
    application = web.Application()
    application.router.add_get("/v1/models", replica.list_models)
    application.router.add_post("/v1/chat/completions", replica.chat)
    async with TestServer(application) as server:
        replica.url = str(server.make_url("")).rstrip("/")
        yield replica


def watch_with(supervisor: Any, clock: Clock) -> HealthWatch:  # noqa: ANN401 -- played
    return HealthWatch(supervisor, clock)


async def test_a_replica_is_asked_for_a_token_once_a_minute_with_its_key(replica: PlayedReplica) -> None:
    clock = Clock()
    watch = watch_with(PlayedSupervisor(), clock)
    for _ in range(2):
        await watch.look_at(FLEET, replica.record, KEY)
    assert replica.keys == [f"Bearer {KEY}"]
    clock.seconds += TOKEN_EVERY_S
    await watch.look_at(FLEET, replica.record, KEY)
    assert len(replica.keys) == 2
    assert watch.problem_of("team", replica.record) == ""


async def test_one_that_lists_the_model_and_fails_at_a_token_is_out_until_it_writes_one(replica: PlayedReplica) -> None:
    watch = watch_with(PlayedSupervisor(), Clock())
    replica.status = 503
    await watch.look_at(FLEET, replica.record, KEY)
    assert watch.problem_of("team", replica.record) == SILENT
    replica.status = 200
    await watch.look_at(FLEET, replica.record, KEY)
    assert watch.problem_of("team", replica.record) == "", "it is asked at every look while something is wrong"


async def test_one_that_never_answers_a_chat_is_out(replica: PlayedReplica, monkeypatch: pytest.MonkeyPatch) -> None:
    async def wait_in_vain(*_arguments: object, **_options: object) -> bool:
        raise TimeoutError

    monkeypatch.setattr(health, "computes", wait_in_vain)
    watch = watch_with(PlayedSupervisor(), Clock())
    await watch.look_at(FLEET, replica.record, KEY)
    assert watch.problem_of("team", replica.record) == SILENT


async def test_one_that_has_lost_the_model_is_not_asked_for_a_token(replica: PlayedReplica) -> None:
    watch = watch_with(PlayedSupervisor(), Clock())
    replica.models = ["small"]
    await watch.look_at(FLEET, replica.record, KEY)
    assert "has no model called 'big'" in watch.problem_of("team", replica.record)
    assert not replica.keys


@pytest.mark.parametrize(("is_computing", "expected_seats"), [(True, []), (None, []), (False, ["team#1"])])
async def test_an_engine_here_that_answers_nothing_ends_only_if_it_computes_nothing(
    replica: PlayedReplica,
    is_computing: bool | None,  # noqa: FBT001 -- what is played
    expected_seats: list[str],
) -> None:
    supervisor = PlayedSupervisor()
    supervisor.is_computing = is_computing
    watch = watch_with(supervisor, Clock())
    own = ReplicaRecord(name="1", url="http://127.0.0.1:1", weights="big")
    await watch.look_at(FLEET, own, KEY)
    assert supervisor.ended_seats == expected_seats
    assert bool(watch.problem_of("team", own)) == bool(expected_seats)
    assert not replica.keys
