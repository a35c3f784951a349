"""Files of the next question: chosen, dropped and pasted, shown with their cost, removed, sent, and edited again."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QAccessible, QColor, QDropEvent, QImage, QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog
from pytestqt.qtbot import QtBot

from app.core.capabilities import Capability
from app.core.chats import NewTurn, Turn
from app.core.errors import ErrorBody
from app.gui.net.remote_lists import Stores
from app.gui.net.thumbnails import Thumbnails
from app.gui.screens.chat.draft_files import DraftFiles
from app.gui.screens.chat.file_cards import FileCard
from app.gui.screens.chat.transcript.box import Verb
from app.gui.screens.chat.view import ChatScreen
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from tests.demo import attachments, data, long_chat
from tests.demo.api import DemoApi

SEEING = replace(data.MODELS[2], capabilities=[Capability.CHAT, Capability.VISION])
TURNS = "/chats/c1/turns"


def turn_for(body: object) -> Turn:
    assert isinstance(body, NewTurn)
    question = long_chat.make_question(9, body.content or "", body.parent)
    return Turn(question=question, answer=long_chat.make_answer(9, "", timings=None, status="generating"))


@pytest.fixture
def screen(qtbot: QtBot, theme: Theme, api: DemoApi, shell: Shell) -> ChatScreen:
    api.replies |= {**long_chat.chat_replies(), **attachments.file_replies(), f"POST {TURNS}": turn_for}
    api.replies["GET /chats/c1"] = attachments.make_chat_with_files()
    api.replies["POST /attachments"] = attachments.REPORT
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


def cards(screen: ChatScreen) -> list[FileCard]:
    return [card for card in screen.conversation_view.file_cards.cards if card.isVisible()]


def attach(screen: ChatScreen, api: DemoApi, name: str, answer: object) -> None:
    api.replies["POST /attachments"] = answer
    screen.model.files.add_content(name, b"content")
    api.flush()


def send(screen: ChatScreen, api: DemoApi, text: str = "") -> None:
    field = screen.conversation_view.composer.field
    QTest.keyClicks(field, text)
    QTest.keyClick(field, Qt.Key.Key_Return)
    api.flush()


def button_of(screen: ChatScreen) -> bool:
    return screen.conversation_view.composer._button.isEnabled()


def test_a_chosen_file_is_uploaded_shown_with_its_cost_and_sent(
    screen: ChatScreen, api: DemoApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "Köln & Bern.pdf"
    file.write_bytes(b"%PDF")
    monkeypatch.setattr(QFileDialog, "getOpenFileNames", lambda *_arguments: ([str(file)], ""))
    screen.conversation_view.choose_files()
    (card,) = cards(screen)
    assert "Reading" in card.accessibleName()
    assert not button_of(screen), "it is sent only once it is read"
    api.flush()
    assert api.bodies_of("POST", "/attachments?name=K%C3%B6ln%20%26%20Bern.pdf") == [b"%PDF"]
    (card,) = cards(screen)
    assert "942 KiB · ≈ 10k tokens" in card.accessibleName()
    assert button_of(screen), "a file is a question by itself"
    usage = screen.model.context_usage()
    assert usage is not None
    assert usage.fraction is not None
    send(screen, api, "Sum it up")
    assert api.bodies_of("POST", TURNS) == [NewTurn(parent="a2", content="Sum it up", attachments=["f1"])]
    assert cards(screen) == []


def test_a_file_alone_is_sent(screen: ChatScreen, api: DemoApi) -> None:
    attach(screen, api, "a.pdf", attachments.REPORT)
    send(screen, api)
    assert api.bodies_of("POST", TURNS) == [NewTurn(parent="a2", content="", attachments=["f1"])]


def test_dropped_files_are_attached_and_folders_are_not(screen: ChatScreen, api: DemoApi, tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("x", encoding="utf-8")
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(path)) for path in (tmp_path / "a.txt", tmp_path / "b.txt", tmp_path)])
    event = QDropEvent(
        QPointF(5, 5), Qt.DropAction.CopyAction, mime, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    )
    screen.dropEvent(event)
    assert [card.file.name for card in cards(screen)] == ["a.txt", "b.txt"]
    api.flush()


def paste(screen: ChatScreen, mime: QMimeData) -> None:
    QApplication.clipboard().setMimeData(mime)
    QTest.keySequence(screen.conversation_view.composer.field, QKeySequence(QKeySequence.StandardKey.Paste))


def test_a_picture_is_pasted_and_text_that_brings_one_stays_text(screen: ChatScreen, api: DemoApi) -> None:
    picture = QImage(8, 6, QImage.Format.Format_RGB32)
    picture.fill(QColor("red"))
    only_picture = QMimeData()
    only_picture.setImageData(picture)
    api.replies["POST /attachments"] = attachments.EVENING
    paste(screen, only_picture)
    ((_, path, body),) = [call for call in api.calls if call[1].startswith("/attachments?name=")]
    assert path.endswith(".png")
    assert isinstance(body, bytes)
    assert QImage.fromData(body).size() == picture.size()
    table = QMimeData()
    table.setImageData(picture)
    table.setText("1\t2")
    paste(screen, table)
    assert screen.conversation_view.composer.text == "1\t2"
    assert len(cards(screen)) == 1


def test_a_pasted_file_is_attached(screen: ChatScreen, api: DemoApi, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x", encoding="utf-8")
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(tmp_path / "a.txt"))])
    paste(screen, mime)
    assert [card.file.name for card in cards(screen)] == ["a.txt"]
    assert screen.conversation_view.composer.text == ""


def test_a_file_that_cannot_be_read_says_why_and_holds_the_question_back(screen: ChatScreen, api: DemoApi) -> None:
    attach(screen, api, "secret.pdf", attachments.PROTECTED)
    (card,) = cards(screen)
    assert "protected with a password" in card.accessibleName()
    problems = screen.conversation_view.file_cards.problems
    assert problems.text() == f"secret.pdf: {attachments.PROTECTED.sentence} {attachments.PROTECTED.hint}"
    assert problems.isVisible()
    send(screen, api, "What is it?")
    assert api.bodies_of("POST", TURNS) == []
    card.remove_button.click()
    assert cards(screen) == []
    assert not api.bodies_of("DELETE", "/attachments/f1")
    send(screen, api)
    assert api.bodies_of("POST", TURNS) == [NewTurn(parent="a2", content="What is it?")]


def test_what_is_too_large_or_gone_is_not_read(screen: ChatScreen, api: DemoApi, tmp_path: Path) -> None:
    large = tmp_path / "large.bin"
    with large.open("wb") as file:
        file.truncate(33 << 20)
    screen.model.files.add_paths([large, tmp_path / "gone.txt"])
    assert ["MiB" in card.accessibleName() for card in cards(screen)] == [True, False]
    assert "cannot be read" in cards(screen)[1].accessibleName()
    assert not [call for call in api.calls if call[0] == "POST"]


def test_a_removed_file_is_deleted_and_the_keyboard_goes_on(screen: ChatScreen, api: DemoApi) -> None:
    attach(screen, api, "a.pdf", attachments.REPORT)
    attach(screen, api, "b.xlsx", attachments.TABLE)
    first = cards(screen)[0].remove_button
    assert first.accessibleName() == "Remove a.pdf"
    first.setFocus()
    QTest.keyClick(first, Qt.Key.Key_Return)
    api.flush()
    assert ("DELETE", "/attachments/f1", None) in api.calls
    assert cards(screen)[0].remove_button.hasFocus()
    QTest.keyClick(cards(screen)[0].remove_button, Qt.Key.Key_Space)
    assert screen.conversation_view.composer.field.hasFocus()


def test_files_stay_with_their_chat(screen: ChatScreen, api: DemoApi) -> None:
    attach(screen, api, "a.pdf", attachments.REPORT)
    screen.model.open_chat("c2")
    api.flush()
    assert cards(screen) == []
    screen.model.open_chat("c1")
    api.flush()
    assert len(cards(screen)) == 1


def test_a_refused_question_keeps_its_files(screen: ChatScreen, api: DemoApi) -> None:
    attach(screen, api, "a.pdf", attachments.REPORT)
    api.replies[f"POST {TURNS}"] = ErrorBody(code="storage", sentence="The disk is full.")
    send(screen, api, "Hm?")
    assert screen.conversation_view.composer.text == "Hm?"
    assert len(cards(screen)) == 1


def test_a_blind_model_says_so_before_and_one_that_sees_is_offered(screen: ChatScreen, api: DemoApi) -> None:
    attach(screen, api, "a.png", attachments.EVENING)
    banner = screen.conversation_view.sight_banner
    assert banner.isVisible()
    assert banner.button.text() == "Find a model that sees"
    send(screen, api, "What is it?")
    assert api.bodies_of("POST", TURNS) == []
    api.replies["GET /models"] = [*data.MODELS[:2], SEEING]
    screen.model.library.read()
    api.flush()
    assert banner.button.text() == f"Ask {SEEING.title}"
    banner.button.click()
    api.flush()
    assert screen.model.model == SEEING.name
    assert not banner.isVisible()
    send(screen, api)
    assert api.bodies_of("POST", TURNS) == [NewTurn(parent="a2", content="What is it?", attachments=["f3"])]


def test_a_deaf_model_says_so_before_and_one_that_hears_is_offered(screen: ChatScreen, api: DemoApi) -> None:
    attach(screen, api, "talk.mp3", attachments.TALK)
    banner = screen.conversation_view.sight_banner
    assert banner.isVisible()
    assert banner.button.text() == "Find a model that hears"
    assert "1 min 32 s" in cards(screen)[0].file.facts
    send(screen, api, "What is said?")
    assert api.bodies_of("POST", TURNS) == []
    hearing_model = replace(SEEING, capabilities=[*SEEING.capabilities, Capability.AUDIO])
    api.replies["GET /models"] = [*data.MODELS[:2], hearing_model]
    screen.model.library.read()
    api.flush()
    assert banner.button.text() == f"Ask {hearing_model.title}"


def test_an_edited_question_keeps_its_files_until_they_are_removed(screen: ChatScreen, api: DemoApi) -> None:
    api.replies["GET /models"] = [SEEING]
    screen.model.library.read()
    screen.model.conversation.choose_model(SEEING.name)
    api.flush()
    screen.conversation_view.begin_edit("q1")
    assert [card.file.name for card in cards(screen)][1:] == ["costs.xlsx", "evening.png", "morning.heic"]
    cards(screen)[0].remove_button.click()
    api.flush()
    assert not [call for call in api.calls if call[0] == "DELETE"], "the question that was sent keeps its files"
    QTest.keyClick(screen.conversation_view.composer.field, Qt.Key.Key_Return)
    api.flush()
    (turn,) = api.bodies_of("POST", TURNS)
    assert isinstance(turn, NewTurn)
    assert (turn.parent, turn.attachments) == (None, ["f2", "f3", "f4"])


def test_leaving_an_edit_brings_the_draft_back(screen: ChatScreen, api: DemoApi) -> None:
    attach(screen, api, "a.pdf", attachments.TABLE)
    screen.conversation_view.begin_edit("q1")
    assert len(cards(screen)) == 4
    screen.conversation_view._leave_edit()
    assert [card.file.name for card in cards(screen)] == ["a.pdf"]


def test_the_transcript_shows_files_that_can_be_saved(
    screen: ChatScreen, api: DemoApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = screen.conversation_view.transcript.document
    document.lay_out_between(0, 10_000)
    spots = [spot for spot in document.turns[0].spots_between(0, 10_000) if spot.verb is Verb.SAVE_FILE]
    assert [spot.value for spot in spots] == ["f1", "f2", "f3", "f4"]
    assert "costs.xlsx" in spots[1].name
    target = tmp_path / "copy.xlsx"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_arguments: (str(target), ""))
    api.replies["GET /attachments/f2/content"] = b"the table"
    screen._perform_action(Verb.SAVE_FILE, "q1", "f2")
    api.flush()
    assert target.read_bytes() == b"the table"


def test_no_more_than_sixty_small_pictures_are_kept(qtbot: QtBot, api: DemoApi, shell: Shell) -> None:
    content = attachments.draw_picture("#ffffff", "#000000")
    store = Thumbnails(api, shell)
    many = [replace(attachments.EVENING, id=f"p{at}", hash=f"{at:064x}") for at in range(80)]
    for picture in many:
        api.replies[f"GET /attachments/{picture.id}/content"] = content
        assert store.find(picture) is None
    api.flush()
    assert len(store._pixmaps) == 60
    assert store.find(many[-1]) is not None
    assert store.find(attachments.REPORT) is None


def test_a_question_takes_fifty_files(qtbot: QtBot, api: DemoApi, shell: Shell) -> None:
    files = DraftFiles(api, shell, lambda: "", lambda: 32)
    api.replies["POST /attachments"] = attachments.REPORT
    for number in range(51):
        files.add_content(f"{number}.txt", b"x")
    api.flush()
    assert [file.error is not None for file in files.items] == [False] * 50 + [True]
    assert not files.is_ready


def test_cards_have_names_for_screen_readers(screen: ChatScreen, api: DemoApi) -> None:
    attach(screen, api, "a.pdf", attachments.REPORT)
    card = cards(screen)[0]
    spoken_card = QAccessible.queryAccessibleInterface(card)
    assert "a.pdf" in spoken_card.text(QAccessible.Text.Name)
