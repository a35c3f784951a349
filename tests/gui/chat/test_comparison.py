"""Several models side by side on one question: chosen, asked, read in columns, and one of them kept."""

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.core.chats import AnswerDelta, AnswerDone, ChatPatch, NewTurn, Turn
from app.core.errors import ErrorBody
from app.gui.net.remote_lists import Stores
from app.gui.screens.chat.transcript.box import Verb
from app.gui.screens.chat.view import ChatScreen
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Chip
from tests.demo import long_chat
from tests.demo.api import DemoApi

REFUSED = ErrorBody(code="model_not_found", sentence="There is no such model.")
QUESTION = long_chat.make_question(9, "Who is fastest?", "a2")


@pytest.fixture
def screen(qtbot: QtBot, theme: Theme, api: DemoApi, shell: Shell) -> ChatScreen:
    models: list[str] = []

    def turn_for(body: object) -> Turn:
        assert isinstance(body, NewTurn)
        models.append(body.model)
        answer = long_chat.make_answer(
            9, "", id=f"b{len(models)}", model=body.model, timings=None, status="generating", parent="q9"
        )
        return Turn(question=QUESTION if body.content else None, answer=answer)

    api.replies |= long_chat.chat_replies()
    api.replies |= {"POST /chats/c1/turns": turn_for, "PATCH /chats/c1": long_chat.make_sample_chat()}
    screen = ChatScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.resize(1200, 720)
    with qtbot.waitActive(screen):
        screen.show()
        screen.activateWindow()
    api.flush()
    screen.model.open_chat("c1")
    api.flush()
    return screen


def choose(screen: ChatScreen, *places: int) -> list[str]:
    """Choose models in the panel, and no others; return their names."""
    screen.conversation_view.toggle_models()
    panel = screen.conversation_view.models_panel
    chips = panel.findChildren(Chip)
    for chip in chips:
        chip.setChecked(False)
    for place in places:
        chips[place].click()
    return panel.models


def ask(screen: ChatScreen, api: DemoApi) -> None:
    screen.conversation_view.composer.set_text("Who is fastest?")
    QTest.keyClick(screen.conversation_view.composer.field, Qt.Key.Key_Return)
    api.flush()


def finish(screen: ChatScreen, api: DemoApi, answer: str) -> None:
    message = screen.model.conversation.find_message(answer)
    assert message is not None
    stored_message = replace(message, content="Me.", status="complete", timings=long_chat.make_timings())
    path = f"/chats/c1/answers/{answer}?offset=0"
    api.send_event(path, AnswerDelta(content="Me.", offset=0))
    api.send_event(path, AnswerDone(message=stored_message))


def test_each_chosen_model_answers_in_a_column_and_one_is_kept(screen: ChatScreen, api: DemoApi) -> None:
    first, second = choose(screen, 1, 0)
    assert first != second
    ask(screen, api)
    assert api.bodies_of("POST", "/chats/c1/turns") == [
        NewTurn(parent="a2", content="Who is fastest?", model=first),
        NewTurn(parent="q9", model=second),
    ]
    view = screen.conversation_view
    assert view._stack.currentWidget() is view.comparison
    assert view.models_panel.isHidden(), "the columns have its room"
    assert view._models_tool.isChecked(), "the next question goes to them too"
    columns = list(view.comparison.columns.values())
    assert [column.keep.isEnabled() for column in columns] == [False, False]
    assert [column.figures.text() for column in columns] == ["Writing…", "Writing…"]
    finish(screen, api, "b1")
    finish(screen, api, "b2")
    assert [column.keep.isEnabled() for column in columns] == [True, True]
    assert all("tok/s" in column.figures.text() and "to first token" in column.figures.text() for column in columns)
    assert len({column.keep.accessibleName() for column in columns}) == 2
    columns[0].keep.click()
    api.flush()
    assert api.bodies_of("PATCH", "/chats/c1") == [ChatPatch(head="b1", model=first)]
    assert view._stack.currentWidget() is view.transcript
    assert screen.model.conversation.message_path()[-1].id == "b1"
    assert screen.model.model == first


@pytest.mark.slow
def test_a_single_model_compares_nothing(screen: ChatScreen, api: DemoApi) -> None:
    choose(screen, 0)
    ask(screen, api)
    assert api.bodies_of("POST", "/chats/c1/turns") == [NewTurn(parent="a2", content="Who is fastest?")]
    assert screen.conversation_view._stack.currentWidget() is screen.conversation_view.transcript


def test_a_model_that_is_gone_stops_the_others_and_gives_the_question_back(screen: ChatScreen, api: DemoApi) -> None:
    api.replies["POST /chats/c1/turns"] = REFUSED
    choose(screen, 0, 1)
    ask(screen, api)
    assert len(api.bodies_of("POST", "/chats/c1/turns")) == 1
    assert screen.conversation_view.composer.text == "Who is fastest?"
    assert screen.model.conversation.comparing is None


@pytest.mark.slow
def test_versions_are_compared_too_and_left_again(screen: ChatScreen, api: DemoApi) -> None:
    view = screen.conversation_view
    entry = view.transcript.document.turns[3]
    entry.lay_out_between(0, entry.height)
    spot = next(spot for spot in entry.spots_between(0, entry.height) if spot.verb is Verb.COMPARE)
    view.transcript.perform_action(3, spot)
    assert view._stack.currentWidget() is view.comparison
    assert list(view.comparison.columns) == ["a2b", "a2"]
    view.comparison.closed.emit()
    assert view._stack.currentWidget() is view.transcript
    screen.model.conversation.compare_versions("a2")
    screen.model.open_chat("c2")
    api.flush()
    assert screen.model.conversation.comparing is None


@pytest.mark.slow
def test_the_model_of_the_chat_is_the_first_to_be_compared(screen: ChatScreen, api: DemoApi) -> None:
    view = screen.conversation_view
    view.toggle_models()
    assert view.models_panel.models == [screen.model.model]
    checked_names = [chip.text() for chip in view.models_panel.findChildren(Chip) if chip.isChecked()]
    assert len(checked_names) == 1
    next(chip for chip in view.models_panel.findChildren(Chip) if not chip.isChecked()).click()
    ask(screen, api)
    assert len(api.bodies_of("POST", "/chats/c1/turns")) == 2


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("is_new", [True, False])
def test_another_chat_compares_nothing(screen: ChatScreen, api: DemoApi, is_new: bool) -> None:  # noqa: FBT001 -- a case
    choose(screen, 0, 1)
    if is_new:
        screen.model.new_chat()
    else:
        screen.model.open_chat("c2")
    api.flush()
    view = screen.conversation_view
    assert view.models_panel.models == []
    assert view.models_panel.isHidden()
    assert not view._models_tool.isChecked()
