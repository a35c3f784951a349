"""Fleets: what a fleet file may say, how its model is listed, and what each replica answers."""

import sys
from pathlib import Path

import pytest

from app.core.errors import BadRequest, RoundhouseError, Unavailable
from app.core.models import StartFleet
from app.gateway.library.fleets import list_fleets, read_fleet_file, start_fleet
from app.gateway.loading.launch import load_request_for
from engines.api import EngineInstallation, LaunchOptions, ListenOptions
from engines.registry import ADAPTERS
from engines.smg import worker
from engines.worker_base import KEY_VARIABLE, WorkerLaunch
from tests.gateway.far import Far
from tests.gateway.played import Gateway

DEAD = "http://127.0.0.1:9"
"""Nothing listens on the port of the discard protocol."""


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
        ("#" * 70_000, "too long"),
    ],
)
def test_a_mistake_in_a_fleet_file_is_a_sentence(text: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        read_fleet_file(text)


async def test_a_fleet_is_one_model_whose_requests_a_router_shares_out(near: Gateway, far: Far) -> None:
    text = fleet_text(far.url + "/v1", DEAD, more='policy = "round_robin"')
    model = await start_fleet(near.services, StartFleet(text=text, key="sk-far"))
    assert (model.name, model.router, model.served_as, model.trained_context) == ("team", "smg", "big", 4096)
    load = load_request_for(near.services, model)
    assert load.engine == "smg"
    assert load.source.remote is not None
    assert load.source.remote.replicas == (far.url, DEAD)
    assert not load.takes_memory
    (fleet,) = await list_fleets(near.services.library)
    assert (fleet.model, fleet.policy) == ("team", "round_robin")
    alive, dead = fleet.replicas
    assert (alive.url, alive.problem) == (far.url, "")
    assert "nothing listens there" in dead.problem
    assert set(far.keys[-3:]) == {"Bearer sk-far"}


async def test_a_fleet_started_again_has_its_new_replicas_under_the_same_name(near: Gateway, far: Far) -> None:
    for replicas in ((far.url,), (DEAD, far.url)):
        model = await start_fleet(near.services, StartFleet(text=fleet_text(*replicas)))
        assert model.name == "team"
    (fleet,) = await list_fleets(near.services.library)
    assert [replica.url for replica in fleet.replicas] == [DEAD, far.url]


async def test_a_fleet_does_not_take_the_name_of_another_model(near: Gateway, far: Far) -> None:
    text = fleet_text(far.url).replace("team", "distant")
    model = await start_fleet(near.services, StartFleet(text=text))
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
    near: Gateway, far: Far, text: str, kind: type[RoundhouseError], words: str
) -> None:
    with pytest.raises(kind, match=words):
        await start_fleet(near.services, StartFleet(text=text.replace("FAR", far.url)))
    assert await list_fleets(near.services.library) == []


async def test_a_router_that_is_not_installed_is_named_with_how_to_install_it(near: Gateway, far: Far) -> None:
    await start_fleet(near.services, StartFleet(text=fleet_text(far.url)))
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
