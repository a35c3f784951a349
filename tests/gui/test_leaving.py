"""Closing and quitting: what each means, when a person is asked, and that nothing waits for an answer unseen."""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.core.events import EngineChanged
from app.gui.main import reopen_window
from app.gui.shell.appearance import load_memory
from app.gui.shell.contract import PageId
from app.gui.shell.quit_flow import (
    ASK_SETTING,
    KEEP_SETTING,
    QuitContext,
    QuitFlow,
    QuitSituation,
    QuitStep,
    ServiceOwner,
    decide_on_close,
    decide_on_quit,
)
from app.gui.shell.tray import Tray
from app.gui.shell.window import MainWindow
from tests.demo import data
from tests.demo.api import DemoApi

Make = Callable[[PageId], MainWindow]
OURS, OTHERS, NONE = ServiceOwner.OURS, ServiceOwner.OTHERS, ServiceOwner.NONE


@pytest.mark.parametrize(
    ("now", "step"),
    [
        (QuitSituation(service=NONE), QuitStep.END),
        (QuitSituation(service=NONE, has_tray=True), QuitStep.END),
        (QuitSituation(service=OTHERS), QuitStep.LEAVE),
        (QuitSituation(service=OTHERS, has_tray=True), QuitStep.HIDE),
        (QuitSituation(service=OURS), QuitStep.ASK_SERVICE),
        (QuitSituation(service=OURS, asks=False), QuitStep.END),
        (QuitSituation(service=OURS, asks=False, answering=1), QuitStep.ASK_ANSWERS),
        (QuitSituation(service=OURS, asks=False, keeps_serving=True, answering=1), QuitStep.LEAVE),
        (QuitSituation(service=OURS, asks=False, keeps_serving=True, has_tray=True), QuitStep.HIDE),
    ],
)
def test_what_closing_means(now: QuitSituation, step: QuitStep) -> None:
    assert decide_on_close(now) is step


@pytest.mark.parametrize(
    ("now", "step"),
    [
        (QuitSituation(service=NONE), QuitStep.END),
        (QuitSituation(service=OURS, keeps_serving=True), QuitStep.END),
        (QuitSituation(service=OURS, answering=2), QuitStep.ASK_ANSWERS),
        (QuitSituation(service=OTHERS, answering=2), QuitStep.END),
    ],
)
def test_what_quitting_means(now: QuitSituation, step: QuitStep) -> None:
    assert decide_on_quit(now) is step


@dataclass
class Leaver:
    """A window that a person leaves, with whose service it is and whether there is a tray."""

    window: MainWindow
    api: DemoApi
    service: ServiceOwner = OURS
    quits: list[bool] = field(default_factory=list)

    def begin(self) -> QuitFlow:
        window = self.window
        quit_context = QuitContext(
            stores=window.stores,
            service=lambda: self.service,
            tray=window.tray,
            question=window.question,
        )
        departure = QuitFlow(window, quit_context)
        window.may_close, window.leave = departure.may_close, departure.quit
        departure.program_ended.connect(lambda: self.quits.append(departure.ends_service))
        departure.program_ended.connect(window.save_state)
        departure.window_hidden.connect(window.explain_tray)
        return departure

    @property
    def shown_question(self) -> str:
        return self.window.question.title.text() if self.window.question.isVisible() else ""

    def press(self, words: str) -> None:
        next(button for button in self.window.question.buttons if button.text() == words).click()
        self.api.flush()

    def stop_answering(self) -> None:
        self.window.shell.broadcast_event(EngineChanged(status=msgspec.structs.replace(data.READY, in_flight=0)))

    def set(self, **values: bool) -> None:
        names = {"asks": ASK_SETTING, "keeps": KEEP_SETTING}
        changed_values = {names[name]: value for name, value in values.items()}
        self.window.stores.preferences.replace(
            [
                data.with_value(row, changed_values.get(row.name, row.value))
                for row in self.window.stores.preferences.items
            ]
        )


@pytest.fixture
def leaver(make_window: Make, api: DemoApi) -> Leaver:
    leaver = Leaver(make_window(PageId.SERVER), api)
    leaver.begin()
    return leaver


@pytest.fixture
def in_tray(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have a tray, and return what is told in it."""
    tray_messages: list[str] = []
    monkeypatch.setattr(Tray, "is_there", property(lambda _tray: True))
    monkeypatch.setattr(Tray, "show_message", lambda _tray, title, _text: tray_messages.append(title))
    return tray_messages


def test_closing_asks_and_cancelling_leaves_all_as_it_was(leaver: Leaver) -> None:
    assert not leaver.window.close()
    assert "Keep serving" in leaver.shown_question
    leaver.press("Cancel")
    assert (leaver.quits, leaver.window.isVisible(), leaver.shown_question) == ([], True, "")


@pytest.mark.slow
def test_keeping_ends_the_window_and_not_the_service(leaver: Leaver) -> None:
    leaver.window.close()
    leaver.press("Keep serving")
    assert leaver.quits == [False]
    assert leaver.api.bodies_of("PATCH", "/settings") == [], "nothing was to be remembered"


@pytest.mark.slow
def test_keeping_with_a_tray_hides_the_window_and_says_once_where_it_is(leaver: Leaver, in_tray: list[str]) -> None:
    for _ in range(2):
        leaver.window.close()
        leaver.press("Keep serving")
        assert (leaver.quits, leaver.window.isVisible()) == ([], False)
        leaver.window.tray.window_requested.emit()
        assert leaver.window.isVisible()
    assert in_tray == ["Roundhouse is still running"]


@pytest.mark.slow
def test_an_answer_that_is_to_be_remembered_is_kept_as_settings(leaver: Leaver) -> None:
    leaver.stop_answering()
    leaver.window.close()
    leaver.window.question.remembers.click()
    leaver.press("Stop everything")
    assert leaver.api.bodies_of("PATCH", "/settings") == [{KEEP_SETTING: False}, {ASK_SETTING: False}]
    assert leaver.quits == [True]


@pytest.mark.slow
def test_stopping_everything_asks_about_answers_in_progress(leaver: Leaver) -> None:
    leaver.window.close()
    leaver.press("Stop everything")
    assert (leaver.shown_question, leaver.quits) == ("An answer is still being written", [])
    leaver.press("Keep working")
    assert leaver.quits == []
    leaver.window.close()
    leaver.press("Stop everything")
    leaver.press("Quit anyway")
    assert leaver.quits == [True]


@pytest.mark.slow
def test_what_was_settled_is_not_asked_again(leaver: Leaver) -> None:
    leaver.stop_answering()
    leaver.set(asks=False, keeps=True)
    assert leaver.window.close()
    assert (leaver.quits, leaver.shown_question) == ([False], "")


@pytest.mark.slow
def test_a_service_that_was_there_before_is_left_alone(leaver: Leaver, in_tray: list[str]) -> None:
    leaver.service = OTHERS
    assert not leaver.window.close()
    assert (leaver.window.isVisible(), leaver.shown_question, in_tray) == (False, "", ["Roundhouse is still running"])


@pytest.mark.slow
def test_quitting_a_hidden_window_brings_it_back_to_ask(leaver: Leaver, in_tray: list[str], qtbot: QtBot) -> None:
    leaver.set(asks=False, keeps=True)
    leaver.window.close()
    assert not leaver.window.isVisible()
    leaver.window.tray.quit_requested.emit()
    assert leaver.window.isVisible()
    assert leaver.shown_question == "An answer is still being written"
    leaver.stop_answering()
    leaver.press("Keep working")
    leaver.window.tray.quit_requested.emit()
    assert leaver.quits == [True]


@pytest.mark.slow
def test_ctrl_q_quits_whatever_closing_means(leaver: Leaver) -> None:
    leaver.stop_answering()
    leaver.set(asks=False, keeps=True)
    QTest.keyClick(leaver.window, Qt.Key.Key_Q, Qt.KeyboardModifier.ControlModifier)
    assert leaver.quits == [True]


@pytest.mark.slow
def test_several_answers_are_counted(leaver: Leaver) -> None:
    leaver.window.shell.broadcast_event(EngineChanged(status=msgspec.structs.replace(data.READY, in_flight=3)))
    leaver.window.leave()
    assert leaver.shown_question == "3 answers are still being written"
    assert "cuts them off" in leaver.window.question.sentence.text()


@pytest.mark.slow
def test_a_signal_and_a_log_out_are_not_kept_waiting(leaver: Leaver, monkeypatch: pytest.MonkeyPatch) -> None:
    leaver.set(keeps=True)
    monkeypatch.setattr("app.gui.shell.quit_flow._is_session_ending", lambda: True)
    assert leaver.window.close()
    assert (leaver.quits, leaver.shown_question) == ([False], "")


@pytest.mark.slow
def test_a_signal_ends_it_as_the_settings_say_and_only_once(make_window: Make, api: DemoApi) -> None:
    leaver = Leaver(make_window(PageId.SERVER), api)
    departure = leaver.begin()
    departure.end_without_asking()
    departure.end_without_asking()
    departure.quit()
    assert leaver.quits == [True]
    assert leaver.window.close(), "once it has left, closing is closing"


@pytest.mark.slow
def test_what_the_window_knows_is_kept_when_it_is_left_from_the_tray(leaver: Leaver, in_tray: list[str]) -> None:
    leaver.stop_answering()
    leaver.service = OTHERS
    leaver.window.close()
    leaver.window.leave()
    kept_memory = load_memory(leaver.window._memory_file)
    assert (kept_memory.page, kept_memory.knows_tray) == ("server", True)


@pytest.mark.slow
def test_escape_changes_the_mind_and_tab_stays_in_the_sheet(leaver: Leaver) -> None:
    window, question = leaver.window, leaver.window.question
    window.close()
    assert question.buttons[0].hasFocus()
    seen_widgets = []
    for _ in range(len(question.buttons) + 1):
        seen_widgets.append(window.focusWidget())
        QTest.keyClick(seen_widgets[-1], Qt.Key.Key_Tab)
    assert set(seen_widgets) == {*question.buttons, question.remembers}
    assert window.focusWidget() is question.buttons[0]
    QTest.keyClick(question.buttons[0], Qt.Key.Key_Escape)
    assert (leaver.shown_question, leaver.quits) == ("", [])


@pytest.mark.slow
def test_being_chosen_in_the_dock_brings_a_hidden_window_back(leaver: Leaver, in_tray: list[str]) -> None:
    leaver.service = OTHERS
    leaver.window.close()
    reopen_window(leaver.window, Qt.ApplicationState.ApplicationInactive)
    assert leaver.window.isHidden()
    reopen_window(leaver.window, Qt.ApplicationState.ApplicationActive)
    assert leaver.window.isVisible()
