"""A fleet's engines on this computer: started, drained, started anew with other weights, and ended, for real."""

import dataclasses
from collections.abc import AsyncIterator

import pytest

from app.config.paths import Paths
from app.config.store import SettingsStore
from app.core.errors import BadRequest, Conflict
from app.core.fleets import AddReplica, Fleet, ReplicaState, RollFleet, StartFleet
from app.engine_store.catalogue import EngineCatalogue
from app.engine_store.version_store import VersionStore
from app.gateway.exchange.upstream import StuckChecks
from app.gateway.fleets.keeper import FleetKeeper
from app.gateway.loading.launch import model_folders, policy_from
from app.gateway.services import Limits, Services
from app.hub.library.library import Library
from app.supervisor.pool import Supervisor, SupervisorFolders
from engines.registry import ADAPTERS
from tests.fake_engine.adapter import FakeAdapter
from tests.fake_engine.behaviour import Behaviour
from tests.gateway.played import Upstream, played_services
from tests.gguf_files import TinyLlama
from tests.patience import until

TWO = 'model = "team"\nserves = "first"\nreplicas = 2\n'
BEHAVIOURS = {"team": Behaviour(), "broken": Behaviour(exit_code=1, says=("out of memory",))}


@pytest.fixture
async def services(paths: Paths, limits: Limits) -> AsyncIterator[Services]:
    for name in ("first", "second"):
        TinyLlama().write(paths.models / f"{name}.gguf")
    settings = SettingsStore(paths.settings_file)
    adapters = {"fake": FakeAdapter(BEHAVIOURS), "smg": ADAPTERS["smg"]}
    base_services = await played_services(paths, {}, limits, Upstream())
    folders = SupervisorFolders(records=paths.engine_records, logs=paths.logs, scratch=paths.state)
    local_services = dataclasses.replace(
        base_services,
        settings=settings,
        adapters=adapters,
        supervisor=Supervisor(adapters, folders, policy_from(settings), base_services.events.publish),
        library=Library(lambda: model_folders(paths, settings), paths.data / "models.json", paths.data / "none.gguf"),
        catalogue=EngineCatalogue(adapters, VersionStore(paths.data / "engines")),
    )
    yield local_services
    await local_services.supervisor.close()
    await local_services.http.close()
    await local_services.chats.close()


@pytest.fixture
async def fleets(services: Services) -> AsyncIterator[FleetKeeper]:
    keeper = FleetKeeper(services, StuckChecks().list_silent)
    yield keeper
    await keeper.close()


async def until_states(fleets: FleetKeeper, *states: ReplicaState) -> Fleet:
    async def stand_so() -> bool:
        await fleets.look_once()
        return [replica.state for replica in (await fleets.describe("team")).replicas] == list(states)

    await until(stand_so)
    return await fleets.describe("team")


READY, DRAINED, STOPPED, FAILED = ReplicaState.READY, ReplicaState.DRAINED, ReplicaState.STOPPED, ReplicaState.FAILED


@pytest.mark.slow
async def test_engines_are_started_drained_put_back_added_and_ended(fleets: FleetKeeper) -> None:
    await fleets.start_fleet(StartFleet(text=TWO))
    fleet = await until_states(fleets, READY, READY)
    assert [(replica.is_local, replica.weights) for replica in fleet.replicas] == [(True, "first")] * 2
    await fleets.drain_replica("team", "1")
    await until_states(fleets, DRAINED, READY)
    await fleets.put_back("team", "1")
    await fleets.add_replica("team", AddReplica())
    await until_states(fleets, READY, READY, READY)
    await fleets.stop_fleet("team")
    await until_states(fleets, STOPPED, STOPPED, STOPPED)
    await fleets.start_again("team")
    await until_states(fleets, READY, READY, READY)


async def test_a_fleet_started_with_fewer_engines_keeps_those_that_run(fleets: FleetKeeper, services: Services) -> None:
    await fleets.start_fleet(StartFleet(text=TWO))
    before = await until_states(fleets, READY, READY)
    await fleets.start_fleet(StartFleet(text=TWO.replace("2", "1")))
    after = await until_states(fleets, READY)
    assert after.replicas[0].url == before.replicas[0].url

    async def has_one_engine() -> bool:
        await fleets.look_once()
        return [engine.model for engine in services.supervisor.list_ready()] == ["team#1"]

    await until(has_one_engine)


@pytest.mark.slow
async def test_weights_are_changed_one_replica_after_the_other(fleets: FleetKeeper) -> None:
    await fleets.start_fleet(StartFleet(text=TWO))
    await until_states(fleets, READY, READY)
    assert "started anew (1 of 2)" in (await fleets.roll_fleet("team", RollFleet(serves="second"))).rolling
    with pytest.raises(Conflict, match="already"):
        await fleets.roll_fleet("team", RollFleet())

    async def has_ended() -> bool:
        return not (await fleets.describe("team")).rolling

    await until(has_ended)
    fleet = await until_states(fleets, READY, READY)
    assert [replica.weights for replica in fleet.replicas] == ["second", "second"]


async def test_a_fleet_has_a_name_of_its_own(fleets: FleetKeeper) -> None:
    await fleets.start_fleet(StartFleet(text=TWO))
    with pytest.raises(BadRequest, match="is the name of the fleet"):
        await fleets.start_fleet(StartFleet(text='model = "team"\nreplicas = 1'))
