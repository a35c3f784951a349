"""The lower half of the sampling card: what is offered, what is sent, and what is told of mistakes."""

import pytest
from pytestqt.qtbot import QtBot

from app.core.chats import ChatPatch, Sampling
from app.core.models import AnswerChoices
from app.core.thinking import ThinkingLevel
from app.gui.net.remote_lists import Stores
from app.gui.screens.chat.answer_form_fields import AnswerFormFields, about_answers, thinking_options
from app.gui.screens.chat.view import ChatScreen
from app.gui.theme.theme import Theme
from tests.demo.api import DemoApi
from tests.demo.sampling_scenes import SAMPLING, THINKING, sampling_replies
from tests.gui.conftest import QuietShell


@pytest.fixture
def screen(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> ChatScreen:
    api.replies |= sampling_replies(SAMPLING)
    screen = ChatScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.show()
    api.flush()
    screen.model.open_chat("c1")
    api.flush()
    screen.conversation_view.toggle_sampling()
    api.flush()
    return screen


def form_of(screen: ChatScreen) -> AnswerFormFields:
    return screen.conversation_view._sampling.form


def sampling_sent(api: DemoApi) -> list[Sampling | None]:
    api.flush()
    bodies = api.bodies_of("PATCH", "/chats/c1")
    return [body.sampling for body in bodies if isinstance(body, ChatPatch)]


def test_what_is_stored_is_shown(screen: ChatScreen) -> None:
    form = form_of(screen)
    assert (form._thinking.value, form._budget.text()) == ("high", "2000")
    assert (form._kind.value, form._form.toPlainText()) == ("json_schema", SAMPLING.json_schema)
    assert form._stops.toPlainText() == "END"


def test_thinking_is_for_this_chat(screen: ChatScreen, api: DemoApi) -> None:
    form_of(screen)._thinking.chosen.emit("off")
    assert sampling_sent(api)[-1].thinking is ThinkingLevel.OFF  # type: ignore[union-attr]  # one was sent
    form_of(screen)._budget.setText("0")
    form_of(screen)._budget.editingFinished.emit()
    assert len(sampling_sent(api)) == 1
    assert "whole number from 1" in screen.conversation_view._sampling.quiet.text()


def test_a_schema_that_is_wrong_is_told_with_its_line_and_nothing_is_sent(screen: ChatScreen, api: DemoApi) -> None:
    form = form_of(screen)
    form._form.setPlainText('{"type":\n "strin"}')
    form._form.focus_left.emit()
    assert "line 2: there is no type" in screen.conversation_view._sampling.quiet.text()
    assert form._form.property("wrong") is True
    assert sampling_sent(api) == []
    screen.conversation_view.composer.set_text("And now?")
    screen.conversation_view.composer.field.submitted.emit()
    api.flush()
    assert api.bodies_of("POST", "/chats/c1/turns") == []
    assert screen.conversation_view.composer.text == "And now?"


def test_a_mended_schema_counts(screen: ChatScreen, api: DemoApi) -> None:
    form = form_of(screen)
    for text in ("{", '{"type": "string"}'):
        form._form.setPlainText(text)
        form._form.focus_left.emit()
    assert form.problem == ""
    assert sampling_sent(api)[-1].json_schema == '{"type": "string"}'  # type: ignore[union-attr]  # one was sent
    assert screen.conversation_view._sampling.quiet.text().startswith("Leave a field empty")


def test_a_grammar_takes_the_place_of_a_schema(screen: ChatScreen, api: DemoApi) -> None:
    form = form_of(screen)
    form._kind.set_value("grammar")
    form._choose_kind("grammar")
    form._form.setPlainText('root ::= "yes"')
    form._form.focus_left.emit()
    last = sampling_sent(api)[-1]
    assert last is not None
    assert (last.json_schema, last.grammar) == ("", 'root ::= "yes"')
    form._choose_kind("free")
    last = sampling_sent(api)[-1]
    assert last is not None
    assert (last.json_schema, last.grammar) == ("", "")


def test_stop_texts_are_one_per_line_and_may_be_line_breaks(screen: ChatScreen, api: DemoApi) -> None:
    form = form_of(screen)
    form._stops.setPlainText("END\n\\n\\n\n\\\\n")
    form._stops.focus_left.emit()
    assert sampling_sent(api)[-1].stops == ["END", "\n\n", "\\n"]  # type: ignore[union-attr]  # one was sent
    form.show_sampling(Sampling(stops=["\n\n", "\\n"]))
    assert form._stops.toPlainText() == "\\n\\n\n\\\\n"
    form._stops.setPlainText("x" * 201)
    form._stops.focus_left.emit()
    assert form._stops.property("wrong") is True


def test_reset_leaves_all_of_it_to_the_model(screen: ChatScreen, api: DemoApi) -> None:
    screen.conversation_view._sampling._reset_fields()
    assert sampling_sent(api)[-1] == Sampling()


@pytest.mark.parametrize(
    ("choices", "levels"),
    [
        (AnswerChoices(), ["default"]),
        (AnswerChoices(thinks=True, can_switch_thinking=True), ["default", "off", "on"]),
        (AnswerChoices(thinks=True, takes_effort=True), ["default", "low", "medium", "high"]),
        (THINKING, ["default", "off", "on", "low", "medium", "high"]),
    ],
)
def test_only_what_the_model_knows_is_offered(choices: AnswerChoices, levels: list[str]) -> None:
    assert [level for level, _ in thinking_options(choices, ThinkingLevel.DEFAULT)] == levels
    assert ("high", "A lot") in thinking_options(choices, ThinkingLevel.MAX)


def test_what_the_model_or_its_engine_cannot_is_said() -> None:
    assert about_answers(AnswerChoices(), "free") == ""
    assert about_answers(AnswerChoices(engine_name="E"), "free") == "This model does not think before it answers."
    always = AnswerChoices(engine_name="E", thinks=True)
    assert "always thinks" in about_answers(always, "free")
    assert "E does not hold answers to a JSON schema." in about_answers(always, "json_schema")
    assert "E does not hold answers of this model to a grammar." in about_answers(always, "grammar")
    assert about_answers(THINKING, "grammar") == "With a grammar the model does not think."


def test_controls_that_can_do_nothing_are_off(theme: Theme, qtbot: QtBot) -> None:
    form = AnswerFormFields(theme)
    qtbot.addWidget(form)
    form.show_choices(AnswerChoices(engine_name="E"))
    assert (form._thinking.isEnabled(), form._budget.isEnabled()) == (False, False)
    form.show_choices(THINKING)
    assert (form._thinking.isEnabled(), form._budget.isEnabled()) == (True, True)
