"""What an empty field of the chat's sampling means."""

import pytest
from pytestqt.qtbot import QtBot

from app.core.errors import ErrorBody
from app.core.events import SettingChanged
from app.core.models import ModelChoices, ModelSampling, ModelSettings
from app.gui.net.remote_lists import Stores
from app.gui.screens.chat.model import DefaultSampling
from app.gui.screens.chat.view import ChatScreen
from app.gui.theme.theme import Theme
from tests.demo import data, long_chat
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell

SHOWN = ModelChoices(
    model="m",
    settings=ModelSettings(sampling=ModelSampling(temperature=0.7)),
    sampling=ModelSampling(temperature=0.6, top_k=20),
)


@pytest.fixture
def usual(api: DemoApi, shell: QuietShell) -> DefaultSampling:
    api.replies["GET /model-settings/team%2Fm"] = SHOWN
    return DefaultSampling(api, shell)


def count_reads(api: DemoApi) -> int:
    return len(api.bodies_of("GET", "/model-settings/team%2Fm"))


def test_it_says_what_is_set_what_the_model_recommends_and_what_nobody_says(
    usual: DefaultSampling, api: DemoApi
) -> None:
    assert usual.field_words() == {}
    usual.fetch_for("team/m")
    api.flush()
    words = usual.field_words()
    assert words["temperature"] == "0.7 as set"
    assert words["top_k"] == "model: 20"
    assert words["min_p"] == "engine default"


def test_it_is_asked_once_and_anew_when_something_was_set(usual: DefaultSampling, api: DemoApi) -> None:
    usual.fetch_for("team/m")
    usual.fetch_for("team/m")
    usual.fetch_for("")
    assert count_reads(api) == 1
    usual.handle_event(SettingChanged(name="gateway.port"))
    usual.fetch_for("team/m")
    assert count_reads(api) == 1
    usual.handle_event(SettingChanged(name="model.team/m"))
    usual.fetch_for("team/m")
    assert count_reads(api) == 2


def test_what_cannot_be_told_is_asked_again_later(usual: DefaultSampling, api: DemoApi) -> None:
    api.replies["GET /model-settings/team%2Fm"] = ErrorBody(code="gone", sentence="It is gone.")
    usual.fetch_for("team/m")
    api.flush()
    assert usual.field_words() == {}
    usual.fetch_for("team/m")
    assert count_reads(api) == 2


def test_the_panel_asks_when_it_is_opened(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> None:
    api.replies |= {**long_chat.chat_replies(), f"GET /model-settings/{data.READY.model}": data.TUNED}
    screen = ChatScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.show()
    api.flush()
    screen.model.open_chat("c1")
    api.flush()
    api.replies[f"GET /model-settings/{screen.model.model}"] = data.TUNED
    fields = screen.conversation_view._sampling._fields
    assert fields["top_k"].placeholderText() == "default"
    screen.conversation_view.toggle_sampling()
    api.flush()
    assert (fields["top_k"].placeholderText(), fields["seed"].placeholderText()) == ("model: 20", "default")
