"""The server page's keys: shown once, revoked with a way back; other computers only once there is a key."""

import msgspec
import pytest
from pytestqt.qtbot import QtBot

from app.core.errors import ErrorBody
from app.core.keys import NewKey, Scope
from app.gui.net.remote_lists import Stores
from app.gui.screens.server.keys_model import KeysModel, key_facts
from app.gui.screens.server.keys_view import KeysSection
from app.gui.screens.server.model import ServerModel, SnippetKind
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from tests.demo import data
from tests.demo.api import DemoApi

REFUSED = ErrorBody(code="key_required", sentence="There is no key.")


@pytest.fixture
def model(api: DemoApi, shell: Shell) -> KeysModel:
    model = KeysModel(Stores(api, shell), shell)
    api.flush()
    return model


@pytest.fixture
def restarts() -> list[str]:
    return []


@pytest.fixture
def section(theme: Theme, model: KeysModel, shell: Shell, qtbot: QtBot, restarts: list[str]) -> KeysSection:
    section = KeysSection(theme, model, shell, restart=lambda: restarts.append("again"))
    qtbot.addWidget(section)
    section.show()
    return section


def test_a_new_key_is_there_until_it_is_put_away(model: KeysModel, api: DemoApi) -> None:
    model.make("  tablet ", may_manage=True)
    api.flush()
    assert api.bodies_of("POST", "/keys") == [NewKey(name="tablet", scopes=[Scope.INFERENCE, Scope.MANAGE])]
    assert model.new_key == data.MADE_KEY
    model.put_away()
    assert model.new_key is None


def test_revoking_happens_at_once_and_can_be_undone(model: KeysModel, api: DemoApi, qtbot: QtBot) -> None:
    with qtbot.waitSignal(model.toast_requested) as toast:
        model.revoke("laptop")
        api.flush()
    sentence, undo = toast.args
    assert "laptop" in sentence
    undo()
    api.flush()
    assert api.bodies_of("POST", "/keys/laptop/restore") == [None]


def test_a_refusal_is_said(model: KeysModel, api: DemoApi, qtbot: QtBot) -> None:
    api.replies["POST /keys"] = REFUSED
    with qtbot.waitSignal(model.failed) as failed:
        model.make("x", may_manage=False)
        api.flush()
    assert failed.args == [REFUSED]
    assert model.new_key is None


def test_others_are_not_let_in_before_there_is_a_key_that_opens(api: DemoApi, shell: Shell) -> None:
    for keys in ([], [msgspec.structs.replace(data.KEYS[0], expires_at=1.0)]):
        api.replies["GET /keys"] = keys
        model = KeysModel(Stores(api, shell), shell)
        api.flush()
        assert "Create a key first" in model.why_fixed
    api.replies["GET /keys"] = data.KEYS
    model = KeysModel(Stores(api, shell), shell)
    assert model.why_fixed  # nothing is known yet
    api.flush()
    assert model.why_fixed == ""


def test_an_address_of_the_environment_cannot_be_switched(api: DemoApi, shell: Shell) -> None:
    rows = data.default_settings()
    host = next(row for row in rows if row.name == "gateway.host")
    api.replies["GET /settings"] = [data.with_value(host, "127.0.0.1", "environment")]
    model = KeysModel(Stores(api, shell), shell)
    api.flush()
    assert "environment" in model.why_fixed


def test_the_consequence_names_who_where_and_what(api: DemoApi, shell: Shell, model: KeysModel) -> None:
    assert "Only programs on this computer" in model.consequence
    api.replies.update(data.network_replies())
    model_info = KeysModel(Stores(api, shell), shell)
    api.flush()
    assert "http://192.168.1.20:11434/v1" in model_info.consequence
    assert "not encrypted" in model_info.consequence
    assert (model_info.is_open, model_info.waits_for_restart, model_info.why_fixed) == (True, False, "")


def test_the_page_says_who_can_reach_it_and_its_snippets_ask_for_a_key(api: DemoApi, shell: Shell) -> None:
    server = ServerModel(Stores(api, shell), shell)
    api.flush()
    assert "Only this computer" in server.about
    assert "Authorization" not in server.format_snippet(SnippetKind.CURL)
    api.replies.update(data.network_replies())
    shell.connected.emit()
    api.flush()
    assert "every program needs a key" in server.about
    assert all("YOUR-KEY" in server.format_snippet(dialect) for dialect in SnippetKind)


def test_switching_waits_for_the_service_to_start_again(
    section: KeysSection, model: KeysModel, api: DemoApi, restarts: list[str]
) -> None:
    assert section.restart_button.isHidden()
    api.replies["PATCH /settings"] = data.network_replies()["GET /settings"]
    section.wider.switch.click()
    assert api.bodies_of("PATCH", "/settings") == [{"gateway.host": "0.0.0.0"}]  # noqa: S104 -- what the switch means
    api.flush()
    assert (model.is_open, model.waits_for_restart, section.wider.switch.isChecked()) == (True, True, True)
    section.restart_button.click()
    assert restarts == ["again"]
    api.replies["PATCH /settings"] = data.default_settings()
    section.wider.switch.click()
    api.flush()
    assert api.bodies_of("PATCH", "/settings")[-1] == {"gateway.host": None}
    assert section.restart_button.isHidden()


def test_a_refused_switch_goes_back(section: KeysSection, api: DemoApi) -> None:
    api.replies["PATCH /settings"] = REFUSED
    section.wider.switch.click()
    api.flush()
    assert not section.wider.switch.isChecked()


def test_the_key_is_shown_and_copied_once(section: KeysSection, api: DemoApi) -> None:
    assert section.new_key_card.isHidden()
    assert not section.make_button.isEnabled()
    section.name.setText("tablet")
    section.make_button.click()
    api.flush()
    assert not section.new_key_card.isHidden()
    assert data.MADE_KEY.key in section.new_key_field.accessibleName()
    section.model.put_away()
    assert section.new_key_card.isHidden()
    assert data.MADE_KEY.key not in section.new_key_field.accessibleName()


def test_a_key_is_told_in_one_line() -> None:
    laptop, server = data.KEYS
    assert key_facts(laptop).startswith("may use models · last used 20")
    assert key_facts(server).startswith("may manage Roundhouse · never used · until 2")
    assert key_facts(msgspec.structs.replace(server, expires_at=1.0)).endswith("expired")
