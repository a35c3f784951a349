"""Traces on the settings page: what came of sending them, the header that takes, and a test."""

import pytest
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from app.core.errors import ErrorBody
from app.core.traces import SetTraceHeaders, TracesState
from app.gui.net.remote_lists import Stores
from app.gui.screens.settings.traces_card import TracesCard
from app.gui.theme.theme import Theme
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell

OFF = TracesState(sentence="Traces are not sent anywhere.")
ON = TracesState(is_on=True, sentence="Traces are sent to 127.0.0.1:4318.")
KEPT = TracesState(is_on=True, sentence=ON.sentence, header_names=["Authorization"])


@pytest.fixture
def card(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> TracesCard:
    api.replies |= {
        "GET /traces": ON,
        "POST /traces/headers": KEPT,
        "DELETE /traces/headers": None,
        "POST /traces/test": ON,
    }
    card = TracesCard(theme, Stores(api, shell), shell)
    qtbot.addWidget(card)
    card.show()
    api.flush()
    return card


def test_a_header_is_hidden_and_gone_once_kept(card: TracesCard, api: DemoApi, shell: QuietShell) -> None:
    assert card.field.echoMode() == QLineEdit.EchoMode.Password
    assert card.forget_button.isHidden()
    card.field.setText("Authorization: Bearer s3cr3t")
    card.keep_button.click()
    api.flush()
    assert api.bodies_of("POST", "/traces/headers") == [SetTraceHeaders(headers={"Authorization": "Bearer s3cr3t"})]
    assert card.field.text() == ""
    assert card.state_text.text() == f"{ON.sentence} Headers: Authorization"
    assert shell.messages == ["The header was saved."]
    card.forget_button.click()
    api.flush()
    assert len(api.bodies_of("DELETE", "/traces/headers")) == 1
    assert card.forget_button.isHidden()


def test_what_is_no_header_is_said_in_its_place(card: TracesCard, api: DemoApi) -> None:
    card.field.setText("s3cr3t")
    card.keep_button.click()
    assert not card.error.isHidden()
    assert api.bodies_of("POST", "/traces/headers") == []
    assert card.field.text() == "s3cr3t"


def test_a_test_says_whether_it_was_taken(card: TracesCard, api: DemoApi, shell: QuietShell) -> None:
    card.test_button.click()
    api.flush()
    assert shell.messages == ["The collector took a test."]
    api.replies["POST /traces/test"] = ErrorBody(code="traces_not_sent", sentence="127.0.0.1:4318 cannot be reached.")
    card.test_button.click()
    api.flush()
    assert not card.error.isHidden()


def test_without_a_collector_there_is_nothing_to_test(card: TracesCard, api: DemoApi) -> None:
    api.replies["GET /traces"] = OFF
    card.fetch_state()
    api.flush()
    assert card.test_button.isHidden()
    assert card.state_text.text() == OFF.sentence
