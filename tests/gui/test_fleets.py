"""The server page's fleets: how replicas stand, and what their buttons ask for."""

import pytest
from pytestqt.qtbot import QtBot

from app.core.events import FleetsChanged
from app.core.fleets import Fleet, FleetReplica, ReplicaState, RollFleet
from app.gui.net.remote_lists import Stores
from app.gui.screens.server.fleets_model import FleetsModel, can_roll, fleet_facts, replica_facts
from app.gui.screens.server.fleets_view import FleetsSection, ReplicaRow
from app.gui.theme.theme import Theme
from tests.demo import data
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell


@pytest.fixture
def section(api: DemoApi, shell: QuietShell, theme: Theme, qtbot: QtBot) -> FleetsSection:
    api.replies["GET /fleets"] = [data.FLEET]
    section = FleetsSection(theme, FleetsModel(Stores(api, shell), shell))
    qtbot.addWidget(section)
    api.flush()
    return section


def test_each_replica_says_how_it_stands_and_is_drained_and_put_back(section: FleetsSection, api: DemoApi) -> None:
    (card,) = section._cards.values()
    first, second, third, fourth = (row for row in card.replicas.rows.values() if isinstance(row, ReplicaRow))
    assert not section.isHidden()
    assert "127.0.0.1" in first.accessibleDescription()
    assert "nothing listens there" in fourth.accessibleDescription()
    first.switch.click()
    third.switch.click()
    api.flush()
    posts = [path for method, path, _ in api.calls if method == "POST"]
    assert posts == ["/fleets/team/replicas/1/drain", "/fleets/team/replicas/3/resume"]
    assert second.switch.text() == "Drain"


def test_a_fleet_is_stopped_and_its_engines_started_anew(section: FleetsSection, api: DemoApi) -> None:
    (card,) = section._cards.values()
    card.head.roll.click()
    card.head.switch.click()
    api.flush()
    assert api.bodies_of("POST", "/fleets/team/roll") == [RollFleet()]
    assert api.bodies_of("POST", "/fleets/team/stop") == [None]


def test_without_fleets_there_is_no_section(section: FleetsSection, api: DemoApi, shell: QuietShell) -> None:
    api.replies["GET /fleets"] = []
    shell.broadcast_event(FleetsChanged())
    api.flush()
    assert section.isHidden()


def test_what_is_told_of_fleets() -> None:
    replica = FleetReplica(url="http://a:1", name="1", is_local=True, weights="w", engine="llama.cpp")
    fleet = Fleet(model="m", router="smg", policy="", replicas=[replica])
    assert fleet_facts(fleet) == "1 of 1 replicas answer, behind smg"
    assert replica_facts(replica) == "llama.cpp · w · http://a:1 · Ready"
    assert not can_roll(fleet)
    assert fleet_facts(Fleet(model="m", router="smg", policy="", replicas=[], is_stopped=True)).startswith("Stopped")
    assert not can_roll(Fleet(model="m", router="smg", policy="", replicas=[replica] * 2, rolling="Replica 1"))
    assert can_roll(Fleet(model="m", router="smg", policy="", replicas=[replica] * 2))
    assert ReplicaState.READY is replica.state
