"""The count of what is typed: an estimate at once, and the engine's own once nobody types."""

import pytest
from pytestqt.qtbot import QtBot

from app.core.errors import ErrorBody
from app.core.tokens import CountText, TextTokens
from app.gui.net.remote_lists import Stores
from app.gui.screens.chat.draft_tokens import DraftTokens
from app.gui.screens.chat.view import ChatScreen
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from tests.demo import data, long_chat
from tests.demo.api import DemoApi

TEXT = "How long is this text?"


@pytest.fixture
def tokens(api: DemoApi, shell: Shell) -> DraftTokens:
    api.replies["POST /tokens"] = TextTokens(tokens=9, is_estimate=False)
    return DraftTokens(api, shell)


def count_requests(api: DemoApi) -> list[object]:
    api.flush()
    return api.bodies_of("POST", "/tokens")


def test_keys_cost_an_estimate_and_the_pause_after_them_a_count(tokens: DraftTokens, api: DemoApi) -> None:
    for end in range(1, len(TEXT) + 1):
        tokens.note_draft(TEXT[:end], "m", is_loaded=True)
        assert tokens.count(TEXT[:end]).is_estimate
    assert count_requests(api) == []
    assert tokens._timer.isActive()
    tokens._timer.timeout.emit()
    assert count_requests(api) == [CountText(model="m", text=TEXT)]
    assert tokens.count(TEXT) == TextTokens(tokens=9, is_estimate=False)
    assert tokens.count(TEXT + "!").is_estimate


def test_a_count_that_comes_too_late_is_for_nobody(tokens: DraftTokens, api: DemoApi) -> None:
    tokens.note_draft(TEXT, "m", is_loaded=True)
    tokens._timer.timeout.emit()
    tokens.note_draft("Another", "m", is_loaded=True)
    api.flush()
    assert tokens.count(TEXT).is_estimate
    assert tokens.count("Another").is_estimate


@pytest.mark.parametrize(("text", "is_loaded"), [("", True), (TEXT, False), ("x" * 1_000_001, True)])
def test_nothing_is_asked_where_nobody_could_count(tokens: DraftTokens, text: str, *, is_loaded: bool) -> None:
    tokens.note_draft("before", "m", is_loaded=True)
    tokens.note_draft(text, "m", is_loaded=is_loaded)
    assert not tokens._timer.isActive()


def test_an_engine_that_cannot_count_leaves_the_estimate(tokens: DraftTokens, api: DemoApi) -> None:
    for reply in (TextTokens(tokens=5), ErrorBody(code="gone", sentence="It is gone.")):
        api.replies["POST /tokens"] = reply
        tokens.note_draft(f"{TEXT} {reply}", "m", is_loaded=True)
        tokens._timer.timeout.emit()
        api.flush()
        assert tokens.count(f"{TEXT} {reply}").is_estimate


def test_the_composer_says_it(theme: Theme, api: DemoApi, shell: Shell, qtbot: QtBot) -> None:
    api.replies |= {**data.gateway_replies(), **long_chat.chat_replies()}
    api.replies["POST /tokens"] = TextTokens(tokens=9, is_estimate=False)
    screen = ChatScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.show()
    api.flush()
    screen.model.open_chat("c1")
    api.flush()
    hint = screen.conversation_view.composer._hint
    screen.conversation_view.composer.field.insertPlainText(TEXT)
    assert hint.text() == "≈ 6 tokens"
    screen.model.draft_tokens._timer.timeout.emit()
    api.flush()
    assert hint.text() == "9 tokens"
    screen.conversation_view.composer.field.clear()
    assert hint.text() == ""
