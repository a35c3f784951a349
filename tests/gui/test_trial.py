"""The shadow trial in the window: what it asks, both sides and each request without words, the switch and back."""

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.core.benchmarks import BenchmarkTarget
from app.core.errors import ErrorBody
from app.core.events import TrialChanged
from app.core.trials import StartTrial, TrialWords
from app.gui.net.remote_lists import Stores
from app.gui.screens.benchmarks.trial_view import TrialRow
from app.gui.screens.benchmarks.view import BenchmarksScreen
from app.gui.theme.theme import Theme
from tests.demo.api import DemoApi
from tests.demo.benchmarks import TRIAL_RESULT, TRYING
from tests.gui.conftest import QuietShell

DONE = TrialChanged(model="m", stage="Done", done=True, result=TRIAL_RESULT)


@pytest.fixture
def screen(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> BenchmarksScreen:
    page = BenchmarksScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(page)
    page.resize(1000, 800)
    page.show()
    api.flush()
    return page


def test_a_trial_is_opened_begun_and_followed_to_the_switch_and_back(
    screen: BenchmarksScreen, api: DemoApi, shell: QuietShell
) -> None:
    section, model = screen.trial, screen.model.trial
    assert not section.isVisibleTo(screen)
    screen.form.trial.click()
    QApplication.processEvents()
    assert section.start.isVisibleTo(screen)
    assert model.against not in {"", screen.model.chosen_model}
    section.start.click()
    model.start()
    (body,) = api.bodies_of("POST", "/trials")
    assert body == StartTrial(model=screen.model.chosen_model, against=model.against)
    assert not screen.form.start.isEnabled(), "two measurements would disturb each other"
    shell.broadcast_event(TRYING)
    shell.broadcast_event(DONE)
    assert section.sides.isVisibleTo(screen)
    assert section.switch.isVisibleTo(screen)
    section.switch.click()
    api.flush()
    assert (section.switch.isVisibleTo(screen), section.undo.isVisibleTo(screen)) == (False, True)
    section.undo.click()
    api.flush()
    assert (section.switch.isVisibleTo(screen), section.undo.isVisibleTo(screen)) == (True, False)
    section.close_.click()
    assert not section.isVisibleTo(screen)


def test_sides_and_requests_are_said(screen: BenchmarksScreen) -> None:
    model = screen.model.trial
    assert "50% of tool calls valid" in model.side_texts(TRIAL_RESULT.second)[1]
    different, equal = (model.request_texts(part)[1] for part in TRIAL_RESULT.requests)
    assert different == "different from character 42, token 10 · 1 of 2 tool calls valid"
    assert equal == "equal"


def test_answers_stand_side_by_side_where_their_words_are_kept(
    screen: BenchmarksScreen, api: DemoApi, shell: QuietShell
) -> None:
    api.replies["GET /trials/words"] = [TrialWords(id="r1", first="<b>Yes", second="No")]
    screen.form.trial.click()
    screen.model.trial.start()
    shell.broadcast_event(DONE)
    api.flush()
    rows = [row for row in screen.findChildren(TrialRow) if row.answers[0].isVisibleTo(screen)]
    assert [[answer.text() for answer in row.answers] for row in rows] == [["<b>Yes", "No"]]
    assert rows[0].answers[0].textFormat() == Qt.TextFormat.PlainText
    names = [TRIAL_RESULT.first.target.model, TRIAL_RESULT.second.target.model]
    assert [head.text() for head in rows[0].heads] == names, "it is said who wrote which"


def test_the_same_model_on_another_engine_can_be_tried(
    screen: BenchmarksScreen, api: DemoApi, shell: QuietShell
) -> None:
    screen.form.trial.click()
    api.flush()
    model = screen.model.trial
    assert model.engine_options == [("engine:openvino", "The same model on OpenVINO GenAI")]
    model.choose("engine:openvino")
    model.start()
    (body,) = api.bodies_of("POST", "/trials")
    assert body == StartTrial(model=screen.model.chosen_model, engine="openvino")
    sides = [
        msgspec.structs.replace(side, target=BenchmarkTarget(model="m", engine=engine))
        for side, engine in ((TRIAL_RESULT.first, "llama.cpp"), (TRIAL_RESULT.second, "openvino"))
    ]
    result = msgspec.structs.replace(TRIAL_RESULT, first=sides[0], second=sides[1])
    shell.broadcast_event(msgspec.structs.replace(DONE, result=result))
    assert model.side_titles == ("llama.cpp", "openvino")


def test_earlier_trials_are_listed_and_shown_without_a_switch(screen: BenchmarksScreen, api: DemoApi) -> None:
    api.replies["GET /trials"] = [TRIAL_RESULT]
    screen.form.trial.click()
    api.flush()
    section, model = screen.trial, screen.model.trial
    assert section.earlier.isVisibleTo(screen)
    assert "against unsloth/Qwen3-4B-GGUF:Q8_0" in model.earlier_texts(TRIAL_RESULT)[0]
    model.show_result(model.earlier[0])
    assert section.sides.isVisibleTo(screen)
    assert not section.switch.isVisibleTo(screen), "only the last can be switched by"
    assert not section.earlier.isVisibleTo(screen)
    section.close_.click()
    assert not section.isVisibleTo(screen)


def test_what_went_wrong_is_shown(screen: BenchmarksScreen, shell: QuietShell) -> None:
    screen.form.trial.click()
    screen.model.trial.start()
    shell.broadcast_event(TrialChanged(model="m", stage="Ended", done=True, error="It died.", code="x"))
    assert screen.model.trial.problem == ErrorBody(code="x", sentence="It died.")
    assert screen.trial.error.isVisibleTo(screen)
