"""The Guide's answers in the window: what was looked up, and the buttons that do what they offer."""

import pytest
from PySide6.QtCore import QRectF
from pytestqt.qtbot import QtBot

from app.core.documents import DocumentText
from app.core.downloads import Pull
from app.core.guide import ActionKind, AnswerAction
from app.gui.net.remote_lists import Stores
from app.gui.screens.chat.passage_panel import PassagePanel
from app.gui.screens.chat.transcript.actions_box import describe_action, select_shown
from app.gui.screens.chat.transcript.box import Spot, Verb
from app.gui.screens.chat.transcript.call_box import CallBox
from app.gui.screens.chat.transcript.sources_box import SourcesBox
from app.gui.screens.chat.view import ChatScreen
from app.gui.shell.contract import PageId, Task
from app.gui.theme.theme import Theme
from tests.demo.api import DemoApi
from tests.demo.tool_scenes import make_guide_chat
from tests.gui.conftest import QuietShell


@pytest.fixture
def screen(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> ChatScreen:
    api.replies |= {"GET /chats/c1": make_guide_chat()}
    screen = ChatScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.resize(1000, 800)
    screen.show()
    api.flush()
    screen.model.open_chat("c1")
    api.flush()
    return screen


def buttons(screen: ChatScreen) -> list[Spot]:
    turn = screen.conversation_view.transcript.document.turns[1]
    turn.lay_out_between(0, turn.height)
    return [spot for spot in turn.spots_between(0, turn.height) if spot.verb is Verb.DO_ACTION]


def press(screen: ChatScreen, spot: Spot) -> None:
    screen.conversation_view.transcript.perform_action(1, spot)


def test_an_answer_shows_what_was_looked_up_and_its_buttons(screen: ChatScreen) -> None:
    assert [spot.name for spot in buttons(screen)] == ["Download Qwen3 8B", "Open Models"]
    boxes = screen.conversation_view.transcript.document.turns[1].boxes
    assert [box.call.tool for box in boxes if isinstance(box, CallBox)] == ["search"]


def test_a_button_opens_its_page_with_its_task(screen: ChatScreen, shell: QuietShell) -> None:
    tasks: list[str] = []
    shell.task_requested.connect(tasks.append)
    press(screen, buttons(screen)[1])
    assert (shell.pages, tasks) == ([PageId.MODELS], ["discover"])


def test_a_download_begins_only_when_its_button_is_pressed(screen: ChatScreen, api: DemoApi) -> None:
    assert api.bodies_of("POST", "/downloads") == []
    press(screen, buttons(screen)[0])
    assert api.bodies_of("POST", "/downloads") == [Pull(model="qwen3:8b")]


def test_an_answer_about_attaching_opens_the_dialog_for_files(
    screen: ChatScreen, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened_dialogs: list[bool] = []
    attach = AnswerAction(kind=ActionKind.OPEN_PAGE, target=PageId.CHAT, task=Task.ATTACH_FILES)
    monkeypatch.setattr(screen.conversation_view, "choose_files", lambda: opened_dialogs.append(True))
    monkeypatch.setattr(screen.model.conversation, "actions_of", lambda message: [attach])  # noqa: ARG005 -- of the method
    press(screen, buttons(screen)[0])
    assert opened_dialogs == [True]
    assert describe_action(attach) == "Attach files"


def test_every_page_of_an_answer_has_a_button_but_the_chat_itself() -> None:
    pages = [AnswerAction(kind=ActionKind.OPEN_PAGE, target=page) for page in PageId]
    shown_pages = select_shown(pages)
    assert {action.target for action in shown_pages} == set(PageId) - {PageId.CHAT}
    assert all(describe_action(action) for action in shown_pages)


def test_the_passage_of_the_manual_opens_in_its_chapter(screen: ChatScreen, api: DemoApi) -> None:
    (box,) = [box for box in screen.conversation_view.transcript.document.turns[1].boxes if isinstance(box, SourcesBox)]
    assert box.title == "From the manual: Finding models · Discover"
    (source,) = box.documents.sources
    path = "/collections/roundhouse%3Amanual/files/guide%2Fmodels.md/text"
    api.replies |= {f"GET {path}": DocumentText(path="guide/models.md", text=f"{source.text}\n\nMore of it.")}
    transcript = screen.conversation_view.transcript
    transcript.perform_action(1, Spot(QRectF(), Verb.OPEN_SOURCE, "", "1"))
    api.flush()
    panel = screen.findChild(PassagePanel)
    assert panel is not None
    assert "More of it." in panel.text.toPlainText()
    assert not panel.open.isVisible()
