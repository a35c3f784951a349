"""The page of coding agents: switched on, a session begun, followed, decided, ended and removed."""

import pytest
from msgspec.structs import replace
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from app.core.agents import (
    AgentAnswer,
    AgentEntryChanged,
    AgentPromptText,
    AgentSessionChanged,
    AgentState,
    AgentTextAdded,
    DecideAgentPermission,
    NewAgentSession,
)
from app.core.errors import ErrorBody
from app.core.events import AgentSessionsChanged, SettingChanged
from app.gui.net.remote_lists import Stores
from app.gui.screens.agents.entries import PermissionEntry, TextEntry, ToolEntry
from app.gui.screens.agents.view import AgentsScreen, SessionRow
from app.gui.screens.chat.transcript.answer_view import AnswerView
from app.gui.screens.chat.transcript.box import Verb
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button
from app.gui.widgets.code import DiffView
from tests.demo.agents import ASKING, ENDED, EVENTS, LISTED, QUESTION
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell

STREAM = "/agents/sessions/a1/events"


@pytest.fixture
def page(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> AgentsScreen:
    page = AgentsScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(page)
    page.resize(1000, 900)
    page.show()
    shell.is_connected = True
    shell.connected.emit()
    api.flush()
    return page


def open_session(page: AgentsScreen, api: DemoApi) -> None:
    page.model.open_session(ASKING)
    for event in EVENTS:
        api.send_event(STREAM, event)


def test_agents_are_off_until_they_are_turned_on(page: AgentsScreen, api: DemoApi, shell: QuietShell) -> None:
    api.replies["GET /agents"] = replace(LISTED, is_on=False)
    shell.event_received.emit(SettingChanged(name="agents.enabled"))
    api.flush()
    assert page.switch.isVisible()
    assert not page.form.isVisible()
    page.switch.button.click()
    api.flush()
    assert {"agents.enabled": True} in api.bodies_of("PATCH", "/settings")


def test_a_session_is_begun_in_a_folder_that_was_chosen(page: AgentsScreen, api: DemoApi) -> None:
    form = page.form
    assert form.isVisible()
    assert not form.start.isEnabled()
    form.set_folder("/home/ada/notes")
    assert form.start.isEnabled()
    form.agent.set_value("codex")
    form.agent.chosen.emit("codex")
    assert not form.start.isEnabled()
    assert "codex-acp" in form.help.text()
    form.agent.set_value("opencode")
    form.agent.chosen.emit("opencode")
    form.start.click()
    api.flush()
    (new,) = api.bodies_of("POST", "/agents/sessions")
    assert isinstance(new, NewAgentSession)
    assert (new.agent, new.folder, new.network) == ("opencode", "/home/ada/notes", False)
    assert page.conversation.isVisible()
    assert not form.isVisible()


def test_what_happens_is_shown_and_grows(page: AgentsScreen, api: DemoApi) -> None:
    open_session(page, api)
    widgets = page.conversation.entries
    assert [type(widget) for widget in widgets.values()] == [
        *[TextEntry] * 3,
        *[ToolEntry] * 2,
        TextEntry,
        PermissionEntry,
    ]
    answer = widgets[5]
    assert isinstance(answer, TextEntry)
    assert answer.answer.plain_text().startswith("greet returns a greeting.")
    api.send_event(STREAM, AgentTextAdded(entry=5, offset=60, text="\n\nThat is **all**."))
    assert answer.answer.plain_text().endswith("That is all.")
    api.send_event(STREAM, AgentEntryChanged(entry=AgentAnswer(id=7, text="<b>no markup</b> ![x](/etc/passwd)")))
    plain = widgets[7]
    assert isinstance(plain, TextEntry)
    assert "<b>no markup</b>" in plain.answer.plain_text()


def test_an_answer_is_drawn_as_in_chats_and_is_as_tall_as_it_is(qtbot: QtBot, theme: Theme) -> None:
    answer = AnswerView(theme)
    qtbot.addWidget(answer)
    answer.resize(600, 400)
    answer.show()
    answer.show_markdown("Look:\n\n```python\nprint(1)\n")
    short = answer.sizeHint().height()
    answer.show_markdown("Look:\n\n```python\nprint(1)\nprint(2)\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    (turn,) = answer.document.turns
    assert answer.sizeHint().height() > short > 0
    assert (answer.verticalScrollBar().maximum(), answer.offset) == (0, 0)
    spots = {spot.verb: spot for spot in turn.spots_between(0, turn.height)}
    assert (
        {Verb.COPY_CODE, Verb.COPY_TABLE}
        <= set(spots)
        <= {Verb.COPY_CODE, Verb.WRAP_CODE, Verb.COPY_TABLE, Verb.COPY_CSV}
    )
    answer.perform_action(0, spots[Verb.COPY_CODE])
    assert QGuiApplication.clipboard().text() == "print(1)\nprint(2)"
    answer.show_markdown("Another text.")
    assert answer.plain_text() == "Another text."


def test_a_permission_is_decided_with_the_change_before_ones_eyes(page: AgentsScreen, api: DemoApi) -> None:
    open_session(page, api)
    permission = page.conversation.entries[6]
    assert isinstance(permission, PermissionEntry)
    assert permission.findChildren(DiffView)
    buttons = {button.text(): button for button in permission.buttons.findChildren(Button)}
    buttons["Allow once"].click()
    api.flush()
    assert api.bodies_of("POST", "/agents/sessions/a1/permissions/6") == [DecideAgentPermission(option="once")]
    api.send_event(STREAM, AgentEntryChanged(entry=replace(QUESTION, is_open=False, answer="once")))
    assert not permission.buttons.isVisible()
    assert "Allow once" in permission.result.text()


def test_a_prompt_is_sent_once_the_agent_waits(page: AgentsScreen, api: DemoApi) -> None:
    open_session(page, api)
    view = page.conversation
    view.prompt.setPlainText("Go on")
    assert (view.send.isEnabled(), view.stop.isVisible(), view.resume.isVisible()) == (False, True, False)
    api.send_event(STREAM, AgentSessionChanged(session=replace(ASKING, state=AgentState.READY)))
    view.send.click()
    api.flush()
    assert api.bodies_of("POST", "/agents/sessions/a1/prompts") == [AgentPromptText(text="Go on")]
    api.send_event(STREAM, AgentSessionChanged(session=replace(ASKING, state=AgentState.FAILED)))
    assert (view.prompt.isEnabled(), view.resume.isVisible(), view.end.isVisible()) == (False, True, False)


def test_a_refusal_is_said_and_a_stream_that_broke_is_taken_up_again(
    page: AgentsScreen, api: DemoApi, qtbot: QtBot
) -> None:
    open_session(page, api)
    api.replies["POST /agents/sessions/a1/cancel"] = ErrorBody(code="agent_idle", sentence="It does nothing.")
    page.conversation.stop.click()
    api.flush()
    assert page.error.isVisible()
    api.streams.pop(STREAM)[1](ErrorBody(code="gateway_gone", sentence="Gone."))
    qtbot.waitUntil(lambda: STREAM in api.streams)
    assert not page.conversation.entries  # told anew


def test_sessions_are_listed_and_removed_once_that_is_confirmed(
    page: AgentsScreen, api: DemoApi, shell: QuietShell
) -> None:
    assert list(page.rows.rows) == ["a1", "b2", "c3"]
    row = page.rows.rows["b2"]
    assert isinstance(row, SessionRow)
    row.remove.click()
    ((_, _, command),) = shell.confirmations
    command.run()
    api.replies["GET /agents/sessions"] = [ASKING]
    shell.event_received.emit(AgentSessionsChanged())
    api.flush()
    assert list(page.rows.rows) == ["a1"]
    assert ENDED.id not in page.rows.rows
