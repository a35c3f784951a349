"""Documents in the chat's window: the passages of an answer, citations that open them, the card of collections."""

import pytest
from msgspec.structs import replace
from pytestqt.qtbot import QtBot

from app.core.chats import ChatPatch
from app.core.documents import AnswerDocuments, DocumentText, WholeFile
from app.core.errors import ErrorBody
from app.gui.net.remote_lists import Stores
from app.gui.phrases import describe_passage_place
from app.gui.screens.chat.collections_panel import CollectionRow
from app.gui.screens.chat.transcript.box import Spot, Verb
from app.gui.screens.chat.transcript.sources_box import SourcesBox
from app.gui.screens.chat.view import ChatScreen
from app.gui.shell.contract import PageId
from app.gui.theme.theme import Theme
from tests.demo.api import DemoApi
from tests.demo.document_scenes import make_documents_chat
from tests.demo.documents import SOURCES
from tests.gui.conftest import QuietShell


@pytest.fixture
def screen(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> ChatScreen:
    api.replies["GET /chats/c1"] = make_documents_chat()
    screen = ChatScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.resize(1000, 800)
    screen.show()
    shell.is_connected = True
    api.flush()
    screen.model.open_chat("c1")
    api.flush()
    return screen


def spots_of(screen: ChatScreen, verb: Verb) -> list[Spot]:
    turn = screen.conversation_view.transcript.document.turns[1]
    turn.lay_out_between(0, 1e6)
    return [spot for spot in turn.spots_between(0, 1e6) if spot.verb is verb]


def press(screen: ChatScreen, spot: Spot) -> None:
    screen.conversation_view.transcript.perform_action(1, spot)


def test_an_answer_says_how_many_passages_it_was_given_and_shows_them(screen: ChatScreen) -> None:
    turn = screen.conversation_view.transcript.document.turns[1]
    turn.lay_out_between(0, 1e6)
    box = next(box for box in turn.boxes if isinstance(box, SourcesBox))
    assert box.title == "2 passages of your documents · ≈ 276 tokens"
    height = turn.height
    (fold,) = spots_of(screen, Verb.FOLD_SOURCES)
    press(screen, fold)

    names = [spot.name for spot in spots_of(screen, Verb.OPEN_SOURCE)]
    assert "Open passage 2: 2026-03.md" in names
    assert turn.height > height
    (fold,) = spots_of(screen, Verb.FOLD_SOURCES)
    press(screen, fold)
    turn.lay_out_between(0, 1e6)
    assert turn.height == height


@pytest.mark.parametrize(
    ("documents", "title"),
    [
        (AnswerDocuments(files=[WholeFile(name="a.txt", tokens=80)]), "a.txt, whole · ≈ 80 tokens"),
        (replace(SOURCES, files=[WholeFile(name=name, tokens=12) for name in "ab"]),
         "2 whole files · 2 passages of your documents · ≈ 300 tokens"),
        (AnswerDocuments(note="Nothing."), "No passage of your documents was found"),
    ],
)  # fmt: skip
def test_an_answer_says_which_files_it_was_given_whole(
    screen: ChatScreen, api: DemoApi, documents: AnswerDocuments, title: str
) -> None:
    chat = make_documents_chat()
    api.replies["GET /chats/c1"] = replace(
        chat, messages=[chat.messages[0], replace(chat.messages[1], documents=documents)]
    )
    screen.model.conversation.fetch_chat()
    api.flush()
    (fold,) = spots_of(screen, Verb.FOLD_SOURCES)
    assert fold.name == f"{title}: show them"
    press(screen, fold)
    turn = screen.conversation_view.transcript.document.turns[1]
    turn.lay_out_between(0, 1e6)
    picture = screen.conversation_view.transcript.grab()  # drawn without a warning
    assert not picture.isNull()


def test_a_citation_opens_its_passage_and_marks_it(screen: ChatScreen, api: DemoApi) -> None:
    citations = spots_of(screen, Verb.OPEN_SOURCE)
    assert [spot.value for spot in citations] == ["1", "2", "1"]

    press(screen, citations[0])
    api.flush()

    panel = screen.conversation_view.passage_panel
    assert not panel.isHidden()
    assert panel.quiet.text() == "[1] espresso machine.pdf · page 12 · Warranty"
    (mark,) = panel.text.extraSelections()
    assert mark.cursor.selectedText() == SOURCES.sources[0].text
    assert panel.text.toPlainText().startswith("# Warranty")


def test_a_passage_of_a_file_that_changed_or_went_is_shown_by_itself(screen: ChatScreen, api: DemoApi) -> None:
    path = "GET /collections/vs_notes/files/file-1/text"
    api.replies[path] = DocumentText(path="a", text="Something else.")
    press(screen, spots_of(screen, Verb.OPEN_SOURCE)[0])
    api.flush()
    panel = screen.conversation_view.passage_panel
    assert panel.text.toPlainText() == SOURCES.sources[0].text
    assert "has changed since" in panel.quiet.text()

    api.replies[path] = ErrorBody(code="file_not_found", sentence="It is not there any more.")
    press(screen, spots_of(screen, Verb.OPEN_SOURCE)[0])
    api.flush()
    assert panel.text.toPlainText() == SOURCES.sources[0].text
    assert panel.quiet.text().endswith("It is not there any more.")


@pytest.mark.slow
def test_numbers_that_cite_nothing_are_no_buttons(screen: ChatScreen, api: DemoApi) -> None:
    chat = make_documents_chat()
    answer = replace(chat.messages[-1], content="An index a[7], and [12].")
    api.replies["GET /chats/c1"] = replace(chat, messages=[chat.messages[0], answer])
    screen.model.conversation.fetch_chat()
    api.flush()
    assert spots_of(screen, Verb.OPEN_SOURCE) == []


def test_a_chat_uses_the_collections_that_are_switched_on(screen: ChatScreen, api: DemoApi) -> None:
    view = screen.conversation_view
    view.toggle_collections()
    api.flush()
    rows = {row.accessibleName(): row for row in view.collections_panel.findChildren(CollectionRow)}
    assert {name: row.switch.isChecked() for name, row in rows.items()} == {
        "Archive": False,
        "Manuals": True,
        "Papers": False,
    }

    rows["Papers"].switch.click()

    assert screen.model.conversation.collections == ["vs_notes", "vs_papers"]
    api.flush()
    assert api.bodies_of("PATCH", "/chats/c1") == [ChatPatch(collections=["vs_notes", "vs_papers"])]


def test_the_card_leads_to_the_page_of_documents(screen: ChatScreen, shell: QuietShell) -> None:
    screen.conversation_view.toggle_collections()
    screen.conversation_view.collections_panel.manage.click()
    assert shell.pages[-1] is PageId.DOCUMENTS
    assert describe_passage_place(SOURCES.sources[1]) == "2026-03.md"
