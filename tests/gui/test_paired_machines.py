"""The page of other computers: switched on, a code shown and counted down, paired, woken, revoked once confirmed."""

import pytest
from msgspec.structs import replace
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.core.errors import ErrorBody
from app.core.events import MachinesChanged
from app.core.machines import ChangeMachine, MachineList, ModelLoad, PairMachine, WakeMachine
from app.gui.net.remote_lists import Stores
from app.gui.screens.machines.model import (
    MachinesModel,
    describe_load,
    describe_loan,
    describe_own,
    describe_place,
    describe_rights,
)
from app.gui.screens.machines.view import MachinesScreen, NearbyRow
from app.gui.theme.theme import Theme
from tests.demo import data
from tests.demo.api import DemoApi
from tests.demo.paired_machines import BOX, CODE, DESK, LISTED
from tests.gui.conftest import QuietShell


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def page(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> MachinesScreen:
    api.replies["GET /settings"] = [
        data.with_value(info, info.name == "machines.enabled" or info.value) for info in data.default_settings()
    ]
    stores = Stores(api, shell)
    page = MachinesScreen(theme, stores, shell)
    qtbot.addWidget(page)
    page.resize(1000, 800)
    page.show()
    shell.is_connected = True
    for store in (stores.machines, stores.preferences):
        store.read()
    api.flush()
    return page


def test_each_computer_says_how_it_stands(page: MachinesScreen) -> None:
    desk, box = page.find_card("desk"), page.find_card("box")
    assert desk.row.accessibleDescription() == "Answers"
    assert box.row.accessibleDescription() == "Does not answer"
    assert list(desk.models.rows) == ["qwen3-30b-a3b@desk", "gpt-oss-20b-mxfp4@desk"]
    assert (desk.wake.isHidden(), box.wake.isHidden()) == (True, False)
    assert describe_load(DESK.models[0]) == "loaded · 2 requests · 118 tok/s"
    assert describe_load(ModelLoad(name="x")) == "not loaded"
    assert describe_own(LISTED) == "This computer is laptop. Certificate 3f91c2d84be0a675."


def test_a_code_is_shown_until_somebody_is_paired(page: MachinesScreen, api: DemoApi, shell: QuietShell) -> None:
    api.replies["GET /machines"] = replace(LISTED, machines=[BOX])
    shell.broadcast_event(MachinesChanged())
    api.flush()
    assert page.code.digits.isHidden()
    page.code.show_button.click()
    api.flush()
    assert page.code.digits.text() == CODE.code
    api.replies["GET /machines"] = LISTED
    shell.broadcast_event(MachinesChanged())
    api.flush()
    assert page.code.digits.isHidden()


def test_files_are_given_once_that_is_switched_on(page: MachinesScreen, api: DemoApi) -> None:
    assert describe_place(DESK).endswith(" · gives files")
    assert "files" not in describe_place(BOX)
    assert (page.sharing.isHidden(), page.sharing.switch.isChecked()) == (False, False)
    api.replies["PATCH /settings"] = data.default_settings()
    page.sharing.switch.click()
    api.flush()
    assert api.bodies_of("PATCH", "/settings") == [{"machines.share_files": True}]


def test_a_code_counts_down_and_ends(api: DemoApi, shell: QuietShell) -> None:
    clock = Clock()
    model = MachinesModel(Stores(api, shell), shell, clock)
    model.show_code()
    api.flush()
    clock.now_s += 299.5
    model._count_down()
    assert (model.code, model.seconds_left) == (CODE.code, 1)
    clock.now_s += 1
    model._count_down()
    assert (model.code, model.seconds_left) == ("", 0)


def test_a_code_that_is_hidden_counts_no_longer(page: MachinesScreen, api: DemoApi) -> None:
    page.code.show_button.click()
    api.flush()
    page.code.hide_button.click()
    api.flush()
    assert ("DELETE", "/machines/code") in {call[:2] for call in api.calls}
    assert page.code.digits.isHidden()


def test_a_computer_is_paired_by_what_is_typed(page: MachinesScreen, api: DemoApi, shell: QuietShell) -> None:
    assert not page.form.pair.isEnabled()
    QTest.keyClicks(page.form.host, " desk.local ")
    QTest.keyClicks(page.form.code, "5865-6106")
    page.form.pair.click()
    assert not page.form.pair.isEnabled(), "one try at a time"
    api.flush()
    assert api.bodies_of("POST", "/machines") == [PairMachine(host="desk.local", code="5865-6106")]
    assert shell.messages == ["desk is paired."]
    assert page.form.host.text() == page.form.code.text() == ""


def test_one_nearby_is_chosen_and_only_its_code_is_typed(page: MachinesScreen) -> None:
    row = next(iter(page.nearby.rows.values()))
    assert isinstance(row, NearbyRow)
    row.choose.click()
    assert page.form.host.text() == "192.168.1.31:11643"


def test_a_wrong_code_is_said_and_what_was_typed_stays(page: MachinesScreen, api: DemoApi) -> None:
    api.replies["POST /machines"] = ErrorBody(code="pairing_refused", sentence="The code is wrong.")
    page.form.host.setText("desk")
    page.form.code.setText("1")
    page.form.pair.click()
    api.flush()
    assert not page.error.isHidden()
    assert page.form.host.text() == "desk"
    assert page.form.pair.isEnabled()


def test_waking_and_revoking(page: MachinesScreen, api: DemoApi, shell: QuietShell) -> None:
    page.find_card("box").wake.click()
    api.flush()
    assert api.bodies_of("POST", "/machines/wake") == [WakeMachine(name="box")]
    page.find_card("box").revoke.click()
    assert not [call for call in api.calls if call[0] == "DELETE"]
    shell.confirmations[-1][2].run()
    assert [path for method, path, _ in api.calls if method == "DELETE"] == ["/machines/box"]


def test_memory_is_lent_by_a_switch_that_is_off_at_first(page: MachinesScreen, api: DemoApi) -> None:
    desk = page.find_card("desk")
    assert not desk.lends.isChecked()
    assert desk._rights.text() == "It lends memory to this computer."
    lending_machine = replace(DESK, lends_memory=True)
    api.replies["GET /machines"] = replace(LISTED, machines=[BOX, lending_machine])
    desk.lends.click()
    api.flush()
    assert api.bodies_of("PATCH", "/machines/desk") == [ChangeMachine(lends_memory=True)]
    assert desk.lends.isChecked()
    assert desk.lends.accessibleName() == "Lend memory to desk"
    assert describe_loan(lending_machine).startswith("A model too large for desk alone can be split")
    assert describe_loan(DESK).startswith("Off: nothing of desk is held in this computer's memory.")


def test_a_loan_that_is_refused_is_not_shown_as_made(page: MachinesScreen, api: DemoApi) -> None:
    api.replies["PATCH /machines/desk"] = ErrorBody(code="storage", sentence="The disk is full.")
    page.find_card("desk").lends.click()
    api.flush()
    assert not page.error.isHidden()
    assert not page.find_card("desk").lends.isChecked()


def test_one_from_the_older_list_may_ask_for_memory_only() -> None:
    assert "lent memory and use nothing else" in describe_rights(replace(BOX, is_memory_only=True))


def test_switched_off_it_shows_no_more_than_the_switch(page: MachinesScreen, api: DemoApi) -> None:
    api.replies["PATCH /settings"] = data.default_settings()
    api.replies["GET /machines"] = MachineList(name="laptop", fingerprint="", port=0, machines=[])
    page.enabled.switch.click()
    api.flush()
    assert api.bodies_of("PATCH", "/settings") == [{"machines.enabled": False}]
    assert page.code.isHidden()
    assert page.form.isHidden()
