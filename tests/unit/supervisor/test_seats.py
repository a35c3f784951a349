"""Engines with a seat: several of one model beside each other, where and with the key that a router expects."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec

from app.core.engines import EngineState
from app.supervisor.policy import EngineSeat, LeaseOptions, LoadRequest, SupervisorPolicy
from app.supervisor.pool import Supervisor
from engines.api import RemoteEndpoint

Ask = Callable[..., LoadRequest]
KEY = "one-key-for-all"


def with_seat(request: LoadRequest, supervisor: Supervisor, number: int, folder: Path) -> LoadRequest:
    key_file = folder / "fleet.key"
    key_file.write_text(KEY)
    seat = EngineSeat(name=f"fleet#{number}", port=supervisor.pick_port(), key_file=key_file)
    return msgspec.structs.replace(request, seat=seat)


async def test_several_engines_of_a_model_answer_where_and_as_the_router_expects(
    supervisor: Supervisor, ask: Ask, tmp_path: Path
) -> None:
    seats = [with_seat(ask(), supervisor, number, tmp_path) for number in (1, 2)]
    statuses = await asyncio.gather(*map(supervisor.ensure_ready, seats))
    assert [status.model for status in statuses] == ["fleet#1", "fleet#2"]
    ready = {engine.model: engine for engine in supervisor.list_ready()}
    for request in seats:
        assert request.seat is not None
        engine = ready[request.seat.name]
        assert engine.base_url.endswith(f":{request.seat.port}")
        assert engine.key == KEY
    async with supervisor.lease(seats[0]) as lease:
        assert lease.served_name == "m"


async def test_one_with_a_seat_stays_although_nobody_here_uses_it(
    supervisor: Supervisor, ask: Ask, tmp_path: Path
) -> None:
    supervisor.policy = SupervisorPolicy(idle_s=0.001)
    status = await supervisor.ensure_ready(with_seat(ask(), supervisor, 1, tmp_path))
    assert (status.state, status.is_pinned, status.unload_at) == (EngineState.READY, True, None)


async def test_those_who_hold_an_engine_are_waited_for_and_later_ones_are_not(supervisor: Supervisor, ask: Ask) -> None:
    request = ask(slots=4)
    async with supervisor.lease(request):
        waiter = asyncio.create_task(supervisor.wait_for_holders("m"))
        await asyncio.sleep(0)
        assert not waiter.done()
        later = await supervisor.acquire_lease(request, LeaseOptions())
    await waiter
    supervisor.release_lease(later)
    await supervisor.wait_for_holders("nobody")


def test_a_router_that_runs_serves_the_fleet_with_other_replicas(ask: Ask, tmp_path: Path) -> None:
    request = ask()

    def over(*replicas: str, served_as: str = "m") -> LoadRequest:
        remote = RemoteEndpoint(url="http://a/v1", served_as=served_as, key_file=tmp_path / "k", replicas=replicas)
        return msgspec.structs.replace(request, source=msgspec.structs.replace(request.source, remote=remote))

    assert over("http://a", "http://b").is_served_by(over("http://a"))
    assert not over("http://a", served_as="other").is_served_by(over("http://a"))
    assert not over("http://a").is_served_by(over())
