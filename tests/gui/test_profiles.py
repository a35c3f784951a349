"""The page of profiles, the tray's menu of them and the palette: kept, looked at, used, undone, edited, removed."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.core.errors import ErrorBody
from app.core.events import ProfilesChanged
from app.core.profiles import (
    NextSwitch,
    Profile,
    ProfileCause,
    ProfileHours,
    ProfileList,
    ProfileModel,
    SaveProfile,
    UseProfile,
    Weekday,
)
from app.gui.net.remote_lists import Stores
from app.gui.screens.profiles.model import (
    ProfileFields,
    describe_plan,
    describe_profile,
    describe_switch,
    describe_terms,
    parse_profile,
)
from app.gui.screens.profiles.view import ModelEntryRow, ProfilesScreen
from app.gui.shell.contract import PageId
from app.gui.shell.tray import ProfileMenu, Tray
from app.gui.shell.window import MainWindow
from app.gui.theme.theme import Theme
from app.gui.widgets.menus import Menu
from tests.demo.api import DemoApi
from tests.demo.profiles import CODING, NIGHT, PLAN, STATE, WRITING
from tests.gui.conftest import QuietShell


@pytest.fixture
def page(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> ProfilesScreen:
    stores = Stores(api, shell)
    page = ProfilesScreen(theme, stores, shell)
    qtbot.addWidget(page)
    page.resize(1000, 800)
    page.show()
    shell.is_connected = True
    for store in (stores.profiles, stores.library):
        store.read()
    api.flush()
    return page


def test_each_profile_says_what_is_in_it_and_which_is_active(page: ProfilesScreen) -> None:
    assert page.find_card("Coding").use.text() == "Stop using"
    assert page.find_card("Night batch").use.text() == "Use"
    assert describe_profile(CODING) == (
        "qwen3-8b-q4_k_m (64k context, pinned) and nomic-embed-text-v1.5 (loaded on request)"
    )
    assert describe_profile(WRITING) == "Leaves what is loaded as it is"
    assert describe_terms(NIGHT) == "active mon-tue 22:00-06:00"
    assert "before" in describe_switch(NextSwitch(at=0.0, profile=""))
    assert describe_switch(NextSwitch(at=0.0, profile="Night")).endswith("Night becomes active by its hours.")


def test_what_is_loaded_is_kept_under_a_name_with_the_hours_that_were_there(page: ProfilesScreen, api: DemoApi) -> None:
    assert not page.form.save.isEnabled()
    QTest.keyClicks(page.form.name, " Night batch ")
    page.form.save.click()
    api.flush()
    profile = Profile(name="Night batch", models=CODING.models, hours=NIGHT.hours)
    assert api.bodies_of("POST", "/profiles") == [SaveProfile(profile=profile)]
    assert page.form.name.text() == ""


def test_a_plan_is_shown_and_hidden_before_anything_happens(page: ProfilesScreen, api: DemoApi) -> None:
    card = page.find_card("Night batch")
    card.preview.click()
    api.flush()
    assert api.bodies_of("POST", "/profile/plan") == [UseProfile(name="Night batch")]
    assert api.bodies_of("POST", "/profile/use") == []
    assert describe_plan(PLAN) == [
        "qwen3-8b-q4_k_m is unloaded. 10.0 GiB · after its answers",
        "gpt-oss-20b-mxfp4 is loaded. 13.0 GiB",
        "NVIDIA GeForce RTX 4090: 10.0 GiB now, 13.0 GiB afterwards, of 23.0 GiB",
    ]
    assert card._plan.text().splitlines() == describe_plan(PLAN)
    card.preview.click()
    assert card._plan.isHidden()


def test_using_a_profile_offers_undo(page: ProfilesScreen, api: DemoApi, shell: QuietShell) -> None:
    page.find_card("Night batch").use.click()
    api.flush()
    assert api.bodies_of("POST", "/profile/use") == [UseProfile(name="Night batch")]
    undo = shell.undos[-1]
    assert shell.messages[-1] == "Night batch is active now"
    assert undo is not None
    undo()
    assert api.bodies_of("POST", "/profile/undo") == [None]
    page.find_card("Coding").use.click()
    assert api.bodies_of("POST", "/profile/use")[-1] == UseProfile(name="")


def test_the_page_follows_what_happens(page: ProfilesScreen, api: DemoApi, shell: QuietShell) -> None:
    api.replies["GET /profiles"] = replace(
        STATE, active="Night batch", cause=ProfileCause.HOURS, problems=["gpt-oss-20b-mxfp4: It does not fit."]
    )
    shell.broadcast_event(ProfilesChanged())
    api.flush()
    assert page.find_card("Night batch").row.accessibleDescription() == "Active by its hours"
    assert "does not fit" in page._problems.text()
    api.replies["GET /profiles"] = replace(STATE, loading=["gpt-oss-20b-mxfp4"])
    shell.broadcast_event(ProfilesChanged())
    api.flush()
    assert page.find_card("Coding").row.accessibleDescription() == "Active · loading gpt-oss-20b-mxfp4"


def test_a_profile_is_edited_and_renamed(page: ProfilesScreen, api: DemoApi) -> None:
    editor = page.find_card("Coding").editor
    first = editor.models.rows["qwen3-8b-q4_k_m"]
    assert isinstance(first, ModelEntryRow)
    first.context.setText("32768")
    first.pinned.click()
    second = editor.models.rows["nomic-embed-text-v1.5"]
    assert isinstance(second, ModelEntryRow)
    second.remove.click()
    editor.add.chosen.emit("gpt-oss-20b-mxfp4")
    editor.name.setText("Work")
    editor.aliases.setText("a=auto, b = guide ,")
    editor.hours.setText("sat,sun 10:00-12:00")
    editor.save.click()
    weekend = ProfileHours(days=[Weekday.SATURDAY, Weekday.SUNDAY], start="10:00", end="12:00")
    profile = Profile(
        name="Work",
        models=[ProfileModel(model="qwen3-8b-q4_k_m", context=32_768), ProfileModel(model="gpt-oss-20b-mxfp4")],
        default="qwen3-8b-q4_k_m",
        aliases=["a=auto", "b = guide"],
        hours=[weekend],
    )
    assert api.bodies_of("POST", "/profiles") == [SaveProfile(profile=profile, replaced="Coding")]


def test_hours_that_are_none_are_said_and_nothing_is_sent(page: ProfilesScreen, api: DemoApi) -> None:
    editor = page.find_card("Coding").editor
    editor.hours.setText("someday 10-12")
    editor.save.click()
    assert "Days are" in editor._wrong.text()
    assert api.bodies_of("POST", "/profiles") == []
    fields = ProfileFields(name="x", models=[], default="", aliases="", hours="mon")
    assert isinstance(parse_profile(fields), ErrorBody)


def test_what_the_gateway_refuses_is_said(page: ProfilesScreen, api: DemoApi) -> None:
    api.replies["POST /profiles"] = ErrorBody(code="conflict", sentence="There is a profile called Work already.")
    page.find_card("Coding").editor.save.click()
    api.flush()
    assert not page.error.isHidden()


def test_a_profile_is_removed_once_that_is_confirmed(page: ProfilesScreen, api: DemoApi, shell: QuietShell) -> None:
    card = page.find_card("Writing")
    card.more.click()
    menu = card.findChildren(Menu)[-1]
    next(action for action in menu.actions() if action.text() == "Remove").trigger()
    menu.hide()
    assert not [call for call in api.calls if call[0] == "DELETE"]
    shell.confirmations[-1][2].run()
    assert [path for method, path, _ in api.calls if method == "DELETE"] == ["/profiles/Writing"]


def test_without_profiles_the_page_says_how_to_begin(page: ProfilesScreen, api: DemoApi, shell: QuietShell) -> None:
    api.replies["GET /profiles"] = ProfileList()
    shell.broadcast_event(ProfilesChanged())
    api.flush()
    assert not page._nothing.isHidden()
    assert page._next.isHidden()


def test_the_trays_menu_switches(api: DemoApi, shell: QuietShell) -> None:
    stores = Stores(api, shell)
    tray = Tray(shell, stores)
    menu: ProfileMenu = tray.profiles
    assert not menu.menu.menuAction().isVisible(), "nothing is known yet"
    stores.profiles.read()
    api.flush()
    shown_actions = [action for action in menu.actions if action.isVisible()]
    assert [(action.text(), action.isChecked()) for action in shown_actions] == [
        ("Coding", True),
        ("Night batch", False),
        ("Writing", False),
    ]
    shown_actions[1].trigger()
    assert api.bodies_of("POST", "/profile/use") == [UseProfile(name="Night batch")]
    assert not shown_actions[1].isChecked(), "it is not active before the gateway says so"
    menu.none_action.trigger()
    assert api.bodies_of("POST", "/profile/use")[-1] == UseProfile(name="")
    tray.menu.deleteLater()


def test_the_palette_switches(make_window: Callable[[PageId], MainWindow], api: DemoApi) -> None:
    window = make_window(PageId.PROFILES)
    api.flush()
    commands = {command.title: command for command in window._commands.profile_commands()}
    assert list(commands) == ["Use the profile Night batch", "Use the profile Writing", "Use no profile"]
    commands["Use the profile Writing"].run()
    assert api.bodies_of("POST", "/profile/use") == [UseProfile(name="Writing")]
