"""The token on the settings page: hidden while it is typed, gone once it is kept, and forgotten on request."""

from collections.abc import Callable

import pytest
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from app.core.errors import ErrorBody
from app.core.hub import HubTokenState, SetHubToken, TokenPlace
from app.gui.screens.settings.token_card import HUB_TOKEN, TokenCard
from app.gui.shell.contract import PageId
from app.gui.shell.window import MainWindow
from app.gui.theme.theme import Theme
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell

NONE = HubTokenState(place=None, said="There is no token for the hub.")
KEPT = HubTokenState(place=TokenPlace.KEYRING, said="The token is in this system's keyring.")


@pytest.fixture
def card(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> TokenCard:
    api.replies |= {"GET /hub/token": NONE, "POST /hub/token": KEPT, "DELETE /hub/token": None}
    card = TokenCard(theme, api, shell)
    qtbot.addWidget(card)
    card.show()
    api.flush()
    return card


def test_what_is_typed_is_hidden_and_gone_once_kept(card: TokenCard, api: DemoApi, shell: QuietShell) -> None:
    assert card.state_text.text() == NONE.said
    assert card.field.echoMode() == QLineEdit.EchoMode.Password
    assert not card.keep_button.isEnabled()
    card.field.setText(" hf_something ")
    card.keep_button.click()
    api.flush()
    assert api.bodies_of("POST", "/hub/token") == [SetHubToken(token="hf_something")]
    assert (card.field.text(), card.state_text.text(), shell.messages) == ("", KEPT.said, ["The token was saved."])


def test_only_our_own_can_be_forgotten(card: TokenCard, api: DemoApi) -> None:
    assert card.forget_button.isHidden()
    card.field.setText("hf_something")
    card.field.returnPressed.emit()
    api.flush()
    assert not card.forget_button.isHidden()
    card.forget_button.click()
    api.flush()
    assert len(api.bodies_of("DELETE", "/hub/token")) == 1
    assert card.forget_button.isHidden()


def test_a_refusal_is_said_in_its_place(card: TokenCard, api: DemoApi) -> None:
    api.replies["POST /hub/token"] = ErrorBody(code="invalid_value", sentence="This is not a token.")
    card.field.setText("x")
    card.keep_button.click()
    api.flush()
    assert not card.error.isHidden()
    assert card.field.text() == "x"


@pytest.mark.slow
def test_the_settings_page_leads_to_it(make_window: Callable[[PageId], MainWindow], api: DemoApi) -> None:
    window = make_window(PageId.SETTINGS)
    window.shell.request_task(PageId.SETTINGS, HUB_TOKEN)
    api.flush()
    (card,) = window.pages.findChildren(TokenCard)
    assert window.focusWidget() is card.field
