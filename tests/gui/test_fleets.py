"""The server page's fleets: how replicas stand, and what their buttons ask for."""

import tomllib
from pathlib import Path

import pytest
from msgspec.structs import replace
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app.core.errors import ErrorBody
from app.core.events import FleetsChanged, ModelsChanged
from app.core.fleets import AddReplica, Fleet, FleetReplica, ReplicaState, RollFleet, StartFleet
from app.gui.net.remote_lists import Stores
from app.gui.screens.server.fleets_model import FleetsModel, can_roll, fleet_facts, replica_facts, weights_of
from app.gui.screens.server.fleets_view import FleetsSection, ReplicaRow
from app.gui.theme.theme import Theme
from tests.demo import data
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell

OTHER = data.READY.model
"""A model whose weights the engines may be given."""


@pytest.fixture
def section(api: DemoApi, shell: QuietShell, theme: Theme, qtbot: QtBot) -> FleetsSection:
    api.replies["GET /fleets"] = [data.FLEET]
    stores = Stores(api, shell)
    section = FleetsSection(theme, FleetsModel(stores, shell))
    qtbot.addWidget(section)
    shell.is_connected = True
    for store in (stores.library, stores.running):
        store.read()
    api.flush()
    return section


def test_each_replica_says_how_it_stands_and_is_drained_and_put_back(section: FleetsSection, api: DemoApi) -> None:
    (card,) = section._cards.values()
    first, second, third, fourth = (row for row in card.replicas.rows.values() if isinstance(row, ReplicaRow))
    assert section._none.isHidden()
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
    card.changes.roll.click()
    card.head.switch.click()
    api.flush()
    assert api.bodies_of("POST", "/fleets/team/roll") == [RollFleet()]
    assert api.bodies_of("POST", "/fleets/team/stop") == [None]


def test_its_engines_are_given_other_weights_one_after_the_other(
    section: FleetsSection, api: DemoApi, shell: QuietShell
) -> None:
    (card,) = section._cards.values()
    changes = card.changes
    assert (changes.weights.value, changes.roll.text()) == ("qwen3-8b", "Restart one by one")
    changes.weights._choose_value(OTHER)
    assert changes.roll.text() == "Change one by one"
    shell.broadcast_event(FleetsChanged())
    api.flush()
    assert changes.weights.value == OTHER, "what was chosen stays while the fleet is looked at"
    changes.roll.click()
    sentence = "Replica 1 is being started with them (1 of 3)."
    replicas = [replace(replica, weights=OTHER) if replica.is_local else replica for replica in data.FLEET.replicas]
    api.replies["GET /fleets"] = [replace(data.FLEET, replicas=replicas, rolling=sentence)]
    api.flush()
    assert api.bodies_of("POST", "/fleets/team/roll") == [RollFleet(serves=OTHER)]
    assert card.head.accessibleDescription() == sentence
    assert changes.roll.isHidden()
    assert weights_of(section.model.items[0]) == OTHER


def test_an_engine_is_added_and_a_replica_removed_once_that_is_confirmed(
    section: FleetsSection, api: DemoApi, shell: QuietShell
) -> None:
    (card,) = section._cards.values()
    card.changes.add.click()
    api.flush()
    assert api.bodies_of("POST", "/fleets/team/replicas") == [AddReplica()]
    row = card.replicas.rows["2"]
    assert isinstance(row, ReplicaRow)
    row.remove.click()
    api.flush()
    assert not [call for call in api.calls if call[0] == "DELETE"]
    shell.confirmations[-1][2].run()
    api.flush()
    assert [path for method, path, _ in api.calls if method == "DELETE"] == ["/fleets/team/replicas/2"]


def test_without_fleets_one_can_be_started(section: FleetsSection, api: DemoApi, shell: QuietShell) -> None:
    api.replies["GET /fleets"] = []
    shell.broadcast_event(FleetsChanged())
    api.flush()
    assert not section._none.isHidden()
    section.start.click()
    assert section._none.isHidden()
    text = section.form.text.toPlainText()
    assert not section.form.isHidden()
    assert tomllib.loads(text) == {"model": "team", "serves": data.READY.model, "replicas": 2}
    api.replies["POST /fleets"] = ErrorBody(code="not_installed", sentence="smg is not installed.", hint="Install it.")
    section.form.key.setText("sk-fleet")
    section.form.start.click()
    assert not section.form.start.isEnabled()
    api.flush()
    assert section.form.error._sentence.text() == "smg is not installed."
    assert section.form.text.toPlainText() == text, "nothing that was typed is lost"
    api.replies["POST /fleets"] = data.FAR_MODEL
    section.form.start.click()
    api.flush()
    assert api.bodies_of("POST", "/fleets") == [StartFleet(text=text, key="sk-fleet")] * 2
    assert section.form.isHidden()
    assert (section.form.key.text(), section.form.text.toPlainText()) == ("", "")
    assert not section._none.isHidden()


@pytest.mark.parametrize("name", ['a "large" one', "back\\slash", "{braces}", "line\nbreak"])
def test_the_example_is_a_fleet_file_whatever_the_model_is_called(
    section: FleetsSection, api: DemoApi, shell: QuietShell, name: str
) -> None:
    api.replies["GET /models"] = [replace(data.MODELS[0], name=name)]
    shell.broadcast_event(ModelsChanged())
    api.flush()
    assert tomllib.loads(section.model.example)["serves"] == name


def test_a_fleet_file_is_opened_or_says_why_not(
    section: FleetsSection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    form, file = section.form, tmp_path / "fleet.toml"
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_arguments: (str(file), ""))
    section.start.click()
    for content, words in ((None, "No such file"), (b"\xff", "decode"), (b"#" * 70_000, "larger than 64 KiB")):
        if content is not None:
            file.write_bytes(content)
        form.open_file.click()
        assert words in form.error._sentence.text()
        assert "team" in form.text.toPlainText()
    file.write_text('model = "other"\n')
    form.open_file.click()
    assert form.text.toPlainText() == 'model = "other"\n'
    assert form.error.isHidden()
    form.cancel.click()
    assert form.isHidden()


def test_what_is_told_of_fleets() -> None:
    replica = FleetReplica(url="http://a:1", name="1", is_local=True, weights="w", engine="llama.cpp")
    fleet = Fleet(model="m", router="smg", policy="", replicas=[replica])
    assert fleet_facts(fleet) == "1 of 1 replicas answer, behind smg"
    assert replica_facts(replica) == "Ready · llama.cpp · w · http://a:1"
    assert replica_facts(replace(replica, load=3)).startswith("Ready · 3 requests · ")
    assert not can_roll(fleet)
    assert fleet_facts(Fleet(model="m", router="smg", policy="", replicas=[], is_stopped=True)).startswith("Stopped")
    assert not can_roll(Fleet(model="m", router="smg", policy="", replicas=[replica] * 2, rolling="Replica 1"))
    assert can_roll(Fleet(model="m", router="smg", policy="", replicas=[replica] * 2))
    assert ReplicaState.READY is replica.state
