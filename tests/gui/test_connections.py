"""The connections page: who was called by day, how it follows what happens, the switch, and the way to it."""

import time
from collections.abc import Callable

import msgspec
import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.core.connections import REASON_TEXTS, Connection, ConnectionList
from app.core.errors import ErrorBody
from app.core.events import ConnectionChanged, ConnectionsForgotten, SettingChanged
from app.gui.net.remote_lists import Stores
from app.gui.screens.connections.model import (
    KEPT,
    OFFLINE,
    SHOWN,
    ConnectionsModel,
    count_text,
    outcome_sign,
    reason_text,
    time_text,
)
from app.gui.screens.connections.view import ConnectionRow, ConnectionsScreen
from app.gui.screens.settings.view import SettingsScreen
from app.gui.shell.contract import PageId
from app.gui.shell.window import MainWindow
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button
from app.gui.widgets.text import Label
from tests.demo.api import DemoApi
from tests.demo.connections import CONNECTIONS
from tests.gui.conftest import QuietShell, still_settings

FETCHED = CONNECTIONS[0]
NOON = time.mktime((2026, 11, 21, 12, 0, 0, 0, 0, -1))
DAY_S = 24 * 3600.0


def at(moment: float, number: int = 0) -> Connection:
    return msgspec.structs.replace(FETCHED, id=f"cn_{number}", first_at=moment, last_at=moment)


@pytest.fixture
def model(api: DemoApi, shell: QuietShell) -> ConnectionsModel:
    page_model = ConnectionsModel(Stores(api, shell), shell, clock=lambda: NOON)
    api.flush()
    return page_model


@pytest.fixture
def screen(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> ConnectionsScreen:
    page = ConnectionsScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(page)
    page.resize(1000, 700)
    page.show()
    api.flush()
    return page


def set_offline(api: DemoApi, *, source: str = "file") -> None:
    api.replies["GET /settings"] = [
        msgspec.structs.replace(row, value=True, source=source) if row.name == OFFLINE else row
        for row in still_settings()
    ]


def rows(screen: ConnectionsScreen) -> list[str]:
    QApplication.processEvents()  # a section that was just made is shown by its layout
    return [row.accessibleName() for row in screen.findChildren(ConnectionRow) if row.isVisibleTo(screen)]


def test_days_are_named_as_people_do(model: ConnectionsModel) -> None:
    model.replace([at(NOON, 1), at(NOON - DAY_S, 2), at(NOON - 9 * DAY_S, 3), at(NOON - 9 * DAY_S - 60, 4)])
    assert [(day, len(connections)) for day, connections in model.group_by_day().items()] == [
        ("Today", 1),
        ("Yesterday", 1),
        ("12 November", 2),
    ]


def test_an_event_puts_its_connection_on_top_once(model: ConnectionsModel, shell: QuietShell) -> None:
    old = model.items[-1]
    shell.broadcast_event(
        ConnectionChanged(connection=msgspec.structs.replace(old, count=99, last_at=time.time() + DAY_S))
    )
    assert [item.id for item in model.items].count(old.id) == 1
    assert (model.items[0].id, model.items[0].count) == (old.id, 99)


def test_no_more_are_kept_and_shown_than_a_page_bears(model: ConnectionsModel, shell: QuietShell) -> None:
    for number in range(KEPT + 5):
        shell.broadcast_event(ConnectionChanged(connection=at(NOON + number, number)))
    assert len(model.items) == KEPT
    assert sum(map(len, model.group_by_day().values())) == SHOWN
    assert model.rest_note == f"`roundhouse connections` lists {KEPT - SHOWN} earlier ones."


def test_the_sum_leaves_out_what_was_kept_back(model: ConnectionsModel) -> None:
    assert model.summary == "6 hosts · 1,411 connections · 7.8 GiB received"
    model.replace([item for item in model.items if item.refused])
    assert model.summary == ""


@pytest.mark.parametrize(
    ("changes", "color", "text"),
    [
        ({}, "ok", "1,204 times · 4.7 GiB"),
        ({"count": 1, "received_bytes": 0}, "ok", "once"),
        ({"failed": 4}, "ok", "1,204 times, 4 failed · 4.7 GiB"),
        ({"count": 2, "failed": 2}, "bad", "2 times, no answer"),
        ({"count": 1, "refused": True}, "warn", "once, blocked"),
    ],
)
def test_how_it_went_is_a_colour_and_words(changes: dict[str, object], color: str, text: str) -> None:
    connection = msgspec.structs.replace(FETCHED, **changes)
    assert (outcome_sign(connection)[0], count_text(connection)) == (color, text)


def test_a_span_names_both_its_ends() -> None:
    assert time_text(at(NOON)) == "12:00"
    assert time_text(msgspec.structs.replace(at(NOON), first_at=NOON - 3600)) == "11:00 to 12:00"
    assert reason_text(FETCHED) == f"{REASON_TEXTS[FETCHED.why]} · unsloth/Qwen3-8B-GGUF"


def test_the_page_lists_hosts_and_follows(screen: ConnectionsScreen, shell: QuietShell) -> None:
    assert rows(screen)[:2] == ["cdn-lfs.huggingface.co", "huggingface.co"]
    assert "gpu-box.lan:8000" in rows(screen), "a port that is not the usual one is named"
    new = msgspec.structs.replace(FETCHED, id="cn_new", host="mirror.example", last_at=time.time() + DAY_S)
    shell.broadcast_event(ConnectionChanged(connection=new))
    assert rows(screen).count("mirror.example") == 1
    shell.broadcast_event(ConnectionsForgotten())
    assert rows(screen) == []
    assert screen._nothing.isVisible()


def test_a_row_that_grows_stays_the_same(screen: ConnectionsScreen, shell: QuietShell) -> None:
    def of_it() -> ConnectionRow:
        return next(row for row in screen.findChildren(ConnectionRow) if row.accessibleName() == FETCHED.host)

    before = of_it()
    shell.broadcast_event(ConnectionChanged(connection=msgspec.structs.replace(FETCHED, count=2000)))
    assert of_it() is before
    assert any("2,000 times" in label.text() for label in before.findChildren(Label))


def test_the_switch_says_what_it_means_and_asks_for_it(screen: ConnectionsScreen, api: DemoApi) -> None:
    assert not screen.offline.switch.isChecked()
    assert "When on" in screen.offline.consequence.text()
    set_offline(api)
    screen.offline.switch.click()
    assert api.bodies_of("PATCH", "/settings") == [{OFFLINE: True}]
    screen.model.preferences.take(SettingChanged(name=OFFLINE))
    api.flush()
    assert screen.offline.switch.isChecked()
    assert "listed below" in screen.offline.consequence.text()


def test_what_the_environment_says_cannot_be_switched(screen: ConnectionsScreen, api: DemoApi) -> None:
    set_offline(api, source="environment")
    screen.model.preferences.read()
    api.flush()
    assert not screen.offline.switch.isEnabled()
    assert "ROUNDHOUSE_NETWORK_OFFLINE" in screen.offline.why_fixed.text()


def test_a_refusal_is_said_in_place(screen: ConnectionsScreen, api: DemoApi) -> None:
    api.replies["DELETE /connections"] = ErrorBody(code="disk_full", sentence="The disk is full.")
    screen.clear.click()
    api.flush()
    assert screen.error.isVisible()
    assert "disk is full" in screen.error.accessibleName()


def test_a_list_that_cannot_be_read_can_be_asked_for_again(
    screen: ConnectionsScreen, api: DemoApi, shell: QuietShell
) -> None:
    api.replies["GET /connections"] = ErrorBody(code="storage", sentence="It cannot be read.")
    screen.model.read()
    api.flush()
    assert screen.error.isVisible()
    api.replies["GET /connections"] = ConnectionList(offline=False, connections=[])
    next(child for child in screen.error.findChildren(Button) if child.text() == "Try again").click()
    api.flush()
    assert not screen.error.isVisible()
    assert screen._nothing.isVisible()


def test_the_settings_lead_there_and_it_leads_back(
    theme: Theme, api: DemoApi, shell: QuietShell, screen: ConnectionsScreen, qtbot: QtBot
) -> None:
    settings = SettingsScreen(theme, Stores(api, shell), shell, restart=lambda: None)
    qtbot.addWidget(settings)
    api.flush()
    next(child for child in settings.findChildren(Button) if child.text() == "Show connections").click()
    next(child for child in screen.findChildren(Button) if child.text() == "Settings").click()
    assert shell.pages == [PageId.CONNECTIONS, PageId.SETTINGS]


def test_the_rail_marks_the_page_it_is_reached_from(make_window: Callable[[PageId], MainWindow]) -> None:
    window = make_window(PageId.CONNECTIONS)
    assert window.rail.buttons[PageId.SETTINGS].isChecked()
    assert PageId.CONNECTIONS not in window.rail.buttons
