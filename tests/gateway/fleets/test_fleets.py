"""Fleets: what a fleet file may say, how its model is listed, and what each replica answers."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.core.errors import BadRequest, Conflict, NotFound, RoundhouseError, Unavailable
from app.core.fleets import AddReplica, LocalReplica, ReplicaState, StartFleet
from app.gateway.fleets.fleet_file import read_fleet_file
from app.gateway.fleets.keeper import FleetKeeper, needs_new_router
from app.gateway.loading.launch import load_request_for
from app.hub.library.attached import Attachment, ReplicaRecord
from engines.api import EngineInstallation, LaunchOptions, ListenOptions
from engines.registry import ADAPTERS
from engines.smg import worker
from engines.worker_base import KEY_VARIABLE, WorkerLaunch
from tests.gateway.far import Far
from tests.gateway.played import Gateway

DEAD = "http://127.0.0.1:9"
"""Nothing listens on the port of the discard protocol."""


@pytest.fixture
async def fleets(near: Gateway) -> AsyncIterator[FleetKeeper]:
    keeper = FleetKeeper(near.services, near.engines.stuck_checks.list_silent)
    yield keeper
    await keeper.close()


def fleet_text(*replicas: str, serves: str = "big", more: str = "") -> str:
    addresses = ", ".join(f'"{url}"' for url in replicas)
    return f'model = "team"\nserves = "{serves}"\nreplicas = [{addresses}]\n{more}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model = ", "is not TOML"),
        ('replicas = ["http://a:1"]', "missing required field `model`"),
        ('model = "x"\nreplicas = "http://a:1"', r"\$\.replicas"),
        ('model = "x"\nreplicas = []\nrepplicas = 1', "repplicas"),
        ('model = "x"\nreplicas = 0', "1 to 256 replicas, not 0"),
        ('model = "x"\nreplicas = 65', "At most 64 replicas run on this computer"),
        ('model = "x"\nreplicas = 2\nslots = 0', "slots"),
        ('model = "x"\nreplicas = [{card = "first"}]', "card"),
        ("#" * 70_000, "too long"),
    ],
)
def test_a_mistake_in_a_fleet_file_is_a_sentence(text: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        read_fleet_file(text)


async def test_a_fleet_is_one_model_whose_requests_a_router_shares_out(
    near: Gateway, far: Far, fleets: FleetKeeper
) -> None:
    text = fleet_text(far.url + "/v1", DEAD, more='policy = "round_robin"')
    model = await fleets.start_fleet(StartFleet(text=text, key="sk-far"))
    assert (model.name, model.router, model.served_as, model.trained_context) == ("team", "smg", "big", 4096)
    load = load_request_for(near.services, model)
    assert load.engine == "smg"
    assert load.source.remote is not None
    assert load.source.remote.replicas == (far.url, DEAD)
    assert not load.takes_memory
    (fleet,) = await fleets.list_fleets()
    assert (fleet.model, fleet.policy) == ("team", "round_robin")
    alive, dead = fleet.replicas
    assert (alive.url, alive.problem) == (far.url, "")
    assert "nothing listens there" in dead.problem
    assert set(far.keys[-3:]) == {"Bearer sk-far"}


async def test_a_fleet_started_again_has_its_new_replicas_under_the_same_name(
    near: Gateway, far: Far, fleets: FleetKeeper
) -> None:
    for replicas in ((far.url,), (DEAD, far.url)):
        model = await fleets.start_fleet(StartFleet(text=fleet_text(*replicas)))
        assert model.name == "team"
    (fleet,) = await fleets.list_fleets()
    assert [replica.url for replica in fleet.replicas] == [DEAD, far.url]


def test_a_router_is_started_anew_when_none_of_its_replicas_stays() -> None:
    def fleet(*hosts: str, policy: str = "cache_aware") -> Attachment:
        members = [ReplicaRecord(name=host, url=f"http://{host}:1") for host in hosts]
        return Attachment(name="team", url="", served_as="big", router="smg", policy=policy).with_members(members)

    assert not needs_new_router(fleet("a", "b"), fleet("b", "c"))
    assert needs_new_router(fleet("a", "b"), fleet("c", "d"))
    assert needs_new_router(fleet("a", "b"), fleet("a", "b", policy="random"))


async def test_a_fleet_does_not_take_the_name_of_another_model(near: Gateway, far: Far, fleets: FleetKeeper) -> None:
    text = fleet_text(far.url).replace("team", "distant")
    model = await fleets.start_fleet(StartFleet(text=text))
    assert model.name != "distant"


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        (fleet_text(), BadRequest, "1 to 256 replicas, not 0"),
        (fleet_text("FAR", "FAR/v1"), BadRequest, "more than once"),
        (fleet_text("ftp://box"), BadRequest, "not the address of an endpoint"),
        (fleet_text("http://169.254.169.254"), BadRequest, "never contacted"),
        (fleet_text("FAR", serves="small"), BadRequest, "no model 'small'"),
        (fleet_text("FAR", more='router = "vllm"'), BadRequest, "no router 'vllm'"),
        (fleet_text(DEAD), Unavailable, "No replica answers"),
    ],
)
async def test_a_fleet_that_cannot_be_is_refused_and_nothing_changes(
    fleets: FleetKeeper, far: Far, text: str, kind: type[RoundhouseError], words: str
) -> None:
    with pytest.raises(kind, match=words):
        await fleets.start_fleet(StartFleet(text=text.replace("FAR", far.url)))
    assert await fleets.list_fleets() == []


def test_what_stands_beside_the_replicas_counts_for_engines_that_do_not_say() -> None:
    text = 'model = "x"\nslots = 2\nreplicas = ["http://a:1", {slots = 4}, {engine = "vllm"}]'
    assert read_fleet_file(text).entries == ("http://a:1", LocalReplica(slots=4), LocalReplica(slots=2, engine="vllm"))
    assert read_fleet_file('model = "x"\nreplicas = 3\ncontext = 512').entries == (LocalReplica(context=512),) * 3


async def test_a_drained_replica_gets_nothing_until_it_is_put_back(
    near: Gateway, far: Far, fleets: FleetKeeper
) -> None:
    model = await fleets.start_fleet(StartFleet(text=fleet_text(far.url, DEAD)))

    def active() -> tuple[str, ...]:
        return near.services.library.find_attachment(model).replicas

    drained_fleet = await fleets.drain_replica("team", "2")
    assert drained_fleet.replicas[1].state in {ReplicaState.DRAINING, ReplicaState.DRAINED}
    assert active() == (far.url,)
    with pytest.raises(Conflict, match="only replica"):
        await fleets.drain_replica("team", far.url)
    await fleets.put_back("team", "2")
    assert active() == (far.url, DEAD)
    fleet_after = await fleets.remove_replica("team", DEAD)
    assert [replica.url for replica in fleet_after.replicas] == [far.url]
    with pytest.raises(NotFound, match="no replica '2'"):
        await fleets.drain_replica("team", "2")


async def test_a_replica_is_added_once_and_only_where_the_model_is(
    near: Gateway, far: Far, fleets: FleetKeeper
) -> None:
    await fleets.start_fleet(StartFleet(text=fleet_text(far.url)))
    with pytest.raises(Conflict, match="already"):
        await fleets.add_replica("team", AddReplica(url=far.url))
    with pytest.raises(Unavailable, match="No replica answers"):
        await fleets.add_replica("team", AddReplica(url=DEAD))
    with pytest.raises(BadRequest, match="no engine on this computer"):
        await fleets.add_replica("team", AddReplica())


async def test_a_stopped_fleet_says_how_to_start_it(near: Gateway, far: Far, fleets: FleetKeeper) -> None:
    model = await fleets.start_fleet(StartFleet(text=fleet_text(far.url)))
    stopped_fleet = await fleets.stop_fleet("team")
    assert (stopped_fleet.is_stopped, stopped_fleet.replicas[0].state) == (True, ReplicaState.STOPPED)
    with pytest.raises(Unavailable, match="was stopped") as refusal:
        load_request_for(near.services, model)
    assert "roundhouse fleet start team" in refusal.value.hint
    assert not (await fleets.start_again("team")).is_stopped
    assert load_request_for(near.services, model).engine == "smg"


async def test_what_is_no_fleet_is_not_changed(near: Gateway, far: Far, fleets: FleetKeeper) -> None:
    with pytest.raises(NotFound, match="not a fleet"):
        await fleets.stop_fleet("distant")


async def test_a_router_that_is_not_installed_is_named_with_how_to_install_it(
    near: Gateway, far: Far, fleets: FleetKeeper
) -> None:
    await fleets.start_fleet(StartFleet(text=fleet_text(far.url)))
    body = {"model": "team", "messages": [{"role": "user", "content": "Why?"}]}
    async with near.http.post(near.url + "/v1/chat/completions", json=body) as reply:
        text = await reply.text()
    assert "smg is not installed" in text
    assert "roundhouse engines install smg" in text
    assert far.posts == []


def test_no_key_stands_on_the_routers_command_line(near: Gateway) -> None:
    adapter = ADAPTERS["smg"]
    here = EngineInstallation(engine="smg", version="1", backend="cpu", python=Path(sys.executable))
    source = near.services.library.find_model("distant")
    load = load_request_for(near.services, source)
    net = ListenOptions(host="127.0.0.1", port=50_001, key="sk-secret")
    (process,) = adapter.plan(load.source, LaunchOptions(), net, here).processes
    assert "sk-secret" not in " ".join((*process.argv, *process.env.values()))
    assert process.secrets[KEY_VARIABLE] == "sk-secret"


def test_whoever_calls_the_router_or_changes_its_replicas_needs_the_key() -> None:
    config = {"host": "127.0.0.1", "port": 1, "policy": "cache_aware", "replicas": ["http://a:1"]}
    arguments = worker.build_arguments(WorkerLaunch(config=config, key="sk"))
    assert arguments["api_key"] == "sk"
    assert arguments["control_plane_api_keys"] == [("gateway", "gateway", "sk", "admin")]
    assert arguments["worker_urls"] == ["http://a:1"]


def test_metrics_are_on_a_port_of_this_computer_alone_and_not_the_same_for_all() -> None:
    config = {"host": "127.0.0.1", "port": 1, "policy": "cache_aware", "replicas": ["http://a:1"]}
    arguments = worker.build_arguments(WorkerLaunch(config=config, key="sk"))
    assert arguments["prometheus_host"] == "127.0.0.1"
    assert arguments["prometheus_port"] not in {None, 0, 29000}
