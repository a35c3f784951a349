"""What can be done with a single message in the window: by its row, its menu and the keys, with the way back."""

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.core.chats import ChatPatch, ForkChat, MessageStatus, NewTurn, NewVersion, OverflowRule, Turn
from app.core.errors import ErrorBody
from app.gui.net.remote_lists import Stores
from app.gui.screens.chat.message_tree import was_cut
from app.gui.screens.chat.transcript.box import Spot, Verb
from app.gui.screens.chat.view import ChatScreen
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.menus import Menu
from tests.demo import long_chat
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell

BUSY = ErrorBody(code="answer_in_progress", sentence="That answer is still being written.")


def turn_for(body: object) -> Turn:
    assert isinstance(body, NewTurn)
    answer = long_chat.make_answer(9, "", timings=None, status="generating", parent=body.parent)
    return Turn(question=None, answer=answer)


@pytest.fixture
def screen(qtbot: QtBot, theme: Theme, api: DemoApi, shell: Shell) -> ChatScreen:
    fork = long_chat.make_chat([long_chat.make_question(7, "Copy", None)], name="c7")
    api.replies |= long_chat.chat_replies()
    api.replies |= {
        "POST /chats/c1/turns": turn_for,
        "POST /chats/c1/fork": fork,
        "GET /chats/c7": fork,
        "DELETE /chats/c1/messages/a2": None,
        "POST /chats/c1/messages/a2/restore": long_chat.make_sample_chat(),
        "POST /chats/c1/messages/a2/versions": long_chat.make_answer(8, "Mine", parent="q2", is_edited=True),
    }
    screen = ChatScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.resize(1100, 720)
    with qtbot.waitActive(screen):
        screen.show()
        screen.activateWindow()
    api.flush()
    screen.model.open_chat("c1")
    api.flush()
    return screen


def spots(screen: ChatScreen, turn: int) -> dict[Verb, Spot]:
    entry = screen.conversation_view.transcript.document.turns[turn]
    entry.lay_out_between(0, entry.height)
    return {spot.verb: spot for spot in entry.spots_between(0, entry.height)}


def act(screen: ChatScreen, api: DemoApi, verb: Verb, turn: int = -1) -> None:
    transcript = screen.conversation_view.transcript
    place = turn % len(transcript.document.turns)
    transcript.perform_action(place, spots(screen, place)[verb])
    api.flush()


def calls(api: DemoApi, method: str) -> list[str]:
    return [path for verb, path, _ in api.calls if verb == method]


def test_an_answer_says_which_model_wrote_it_and_how_fast(screen: ChatScreen) -> None:
    words = screen.conversation_view.transcript.document.turns[-1]._foot.words
    assert words.startswith("Qwen3 8B · 11 tok/s · 0.84 s to first token")


@pytest.mark.slow
def test_every_action_has_a_name(screen: ChatScreen) -> None:
    assert [spot.name for spot in spots(screen, 3).values()] == [
        "Regenerate answer",
        "Regenerate with another model…",
        "Compare the answers side by side",
        "Edit answer",
        "Fork: new chat from here",
        "Read aloud",
        "Copy answer",
        "Delete answer",
        "Previous version",
        "Next version",
    ]
    assert [spot.name for spot in spots(screen, 0).values()] == [
        "Edit",
        "Fork: new chat from here",
        "Copy message",
        "Delete message",
    ]


def test_a_deleted_message_comes_back_with_undo(screen: ChatScreen, api: DemoApi, shell: QuietShell) -> None:
    act(screen, api, Verb.DELETE)
    assert calls(api, "DELETE") == ["/chats/c1/messages/a2"]
    assert calls(api, "GET").count("/chats/c1") == 2
    assert shell.messages[-1] == "The message was deleted."
    undo = shell.undos[-1]
    assert undo is not None
    undo()
    api.flush()
    assert calls(api, "POST")[-1] == "/chats/c1/messages/a2/restore"
    assert calls(api, "GET").count("/chats/c1") == 3


def test_the_delete_key_deletes_the_chosen_message(screen: ChatScreen, api: DemoApi) -> None:
    transcript = screen.conversation_view.transcript
    transcript.setFocus(Qt.FocusReason.TabFocusReason)
    QTest.keyClick(transcript, Qt.Key.Key_Delete)
    api.flush()
    assert calls(api, "DELETE") == ["/chats/c1/messages/a2"]


def test_what_cannot_be_deleted_is_said(screen: ChatScreen, api: DemoApi, shell: QuietShell) -> None:
    api.replies["DELETE /chats/c1/messages/a2"] = BUSY
    act(screen, api, Verb.DELETE)
    assert shell.messages == ["That answer is still being written."]


@pytest.mark.slow
def test_an_edited_answer_is_kept_beside_the_models(screen: ChatScreen, api: DemoApi) -> None:
    act(screen, api, Verb.EDIT)
    composer = screen.conversation_view.composer
    assert composer.text == long_chat.ARABIC_ANSWER
    composer.set_text("Mine")
    QTest.keyClick(composer.field, Qt.Key.Key_Return)
    api.flush()
    assert api.bodies_of("POST", "/chats/c1/messages/a2/versions") == [NewVersion(content="Mine")]
    assert calls(api, "POST") == ["/chats/c1/messages/a2/versions"]
    assert not screen.model.conversation.is_busy
    assert screen.model.conversation.editing is None


def test_words_that_were_not_kept_are_put_back(screen: ChatScreen, api: DemoApi) -> None:
    api.replies["POST /chats/c1/messages/a2/versions"] = BUSY
    act(screen, api, Verb.EDIT)
    screen.conversation_view.composer.set_text("Mine")
    QTest.keyClick(screen.conversation_view.composer.field, Qt.Key.Key_Return)
    api.flush()
    assert screen.conversation_view.composer.text == "Mine"


def test_a_fork_opens_as_a_chat_of_its_own(screen: ChatScreen, api: DemoApi, shell: QuietShell) -> None:
    act(screen, api, Verb.FORK, 1)
    assert api.bodies_of("POST", "/chats/c1/fork") == [ForkChat(message="a1")]
    assert screen.model.conversation.id == "c7"
    assert "copy" in shell.messages[-1]


def test_another_model_answers_from_a_menu_with_loaded_ones_first(
    screen: ChatScreen, api: DemoApi, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    menus: list[list[str]] = []

    def choose_last(menu: Menu, *_at: object) -> None:
        menus.append([action.text() for action in menu.actions()])
        menu.actions()[-1].trigger()

    monkeypatch.setattr(Menu, "popup", choose_last)
    act(screen, api, Verb.REGENERATE_WITH)
    qtbot.waitUntil(lambda: bool(menus))
    models = screen.model.models_for_another_answer()
    loaded_flags = [screen.model.is_loaded(info) for info in models]
    assert any(loaded_flags)
    assert loaded_flags == sorted(loaded_flags, reverse=True)
    assert [words.endswith("loaded") for words in menus[0]] == loaded_flags
    assert api.bodies_of("POST", "/chats/c1/turns") == [NewTurn(parent="q2", model=models[-1].name)]


def test_only_an_answer_that_was_cut_is_continued(screen: ChatScreen, api: DemoApi) -> None:
    assert Verb.CONTINUE not in spots(screen, 3)
    sample = long_chat.make_sample_chat()
    cut = [*sample.messages[:-1], replace(sample.messages[-1], finish_reason="length")]
    api.replies["GET /chats/c1"] = replace(sample, messages=cut)
    screen.model.conversation.fetch_chat()
    api.flush()
    act(screen, api, Verb.CONTINUE)
    assert api.bodies_of("POST", "/chats/c1/turns") == [NewTurn(continues="a2")]


@pytest.mark.parametrize(
    ("fields", "is_cut"),
    [
        ({"status": "stopped"}, True),
        ({"status": "interrupted"}, True),
        ({"status": "failed"}, True),
        ({"finish_reason": "stop"}, False),
        ({"status": "stopped", "reasoning": "Hm."}, False),
    ],
)
def test_what_was_cut(fields: dict[str, object], *, is_cut: bool) -> None:
    assert was_cut(long_chat.make_answer(1, "" if "reasoning" in fields else "Word", **fields)) is is_cut


@pytest.mark.slow
def test_what_was_left_out_is_marked(screen: ChatScreen, api: DemoApi) -> None:
    sample = long_chat.make_sample_chat()
    for summary, words in (("", "Left out of the last answer"), ("Rust.", "Summarised for the last answer")):
        last = replace(sample.messages[-1], left_out=2, summary=summary)
        api.replies["GET /chats/c1"] = replace(sample, messages=[*sample.messages[:-1], last])
        screen.model.conversation.fetch_chat()
        api.flush()
        for turn in range(4):
            spots(screen, turn)
        feet = [turn._foot.words for turn in screen.conversation_view.transcript.document.turns]
        assert [words in foot for foot in feet] == [True, True, False, False]


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(("verb", "rule"), [(Verb.CUT_OLDEST, "cut"), (Verb.SUMMARISE, "summarise")])
def test_a_full_context_offers_ways_on(screen: ChatScreen, api: DemoApi, verb: Verb, rule: str) -> None:
    sample = long_chat.make_sample_chat()
    failed_answer = replace(
        sample.messages[-1],
        content="",
        status=MessageStatus.FAILED,
        finish_reason="context_too_long",
        error="Too long.",
    )
    api.replies["GET /chats/c1"] = replace(sample, messages=[*sample.messages[:-1], failed_answer])
    api.replies["PATCH /chats/c1"] = sample
    screen.model.conversation.fetch_chat()
    api.flush()
    act(screen, api, verb)
    assert api.bodies_of("PATCH", "/chats/c1") == [ChatPatch(overflow=OverflowRule(rule))]
    assert api.bodies_of("POST", "/chats/c1/turns") == [NewTurn(parent="q2")]


def test_what_a_full_context_does_is_chosen_in_a_menu(
    screen: ChatScreen, api: DemoApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.replies["PATCH /chats/c1"] = long_chat.make_sample_chat()
    monkeypatch.setattr(Menu, "popup", lambda menu, *_at: menu.actions()[2].trigger())
    screen._open_overflow_menu()
    assert api.bodies_of("PATCH", "/chats/c1") == [ChatPatch(overflow=OverflowRule.CUT)]


def test_a_question_without_an_answer_can_be_answered(screen: ChatScreen, api: DemoApi) -> None:
    api.replies["GET /chats/c1"] = replace(long_chat.make_sample_chat(), head="q2")
    screen.model.conversation.fetch_chat()
    api.flush()
    act(screen, api, Verb.REGENERATE)
    assert api.bodies_of("POST", "/chats/c1/turns") == [NewTurn(parent="q2", model="")]


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("verb", [Verb.DELETE, Verb.FORK, Verb.EDIT])
def test_while_an_answer_is_written_there_is_only_copy(screen: ChatScreen, api: DemoApi, verb: Verb) -> None:
    screen.model.conversation.regenerate("a2")
    api.flush()
    assert verb not in spots(screen, 0)
    assert Verb.COPY in spots(screen, 0)
