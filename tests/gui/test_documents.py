"""The page of documents: collections are added, looked at, given folders, shared, and removed once confirmed."""

import pytest
from msgspec.structs import replace
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app.core.documents import (
    Collection,
    CollectionPatch,
    CollectionStage,
    NewCollection,
    PassageQuery,
    PassageResults,
)
from app.core.errors import ErrorBody
from app.core.events import CollectionsChanged
from app.gui.net.remote_lists import Stores
from app.gui.phrases import describe_collection, describe_collection_means
from app.gui.screens.documents.search_view import PassageRow
from app.gui.screens.documents.view import CollectionCard, DocumentsScreen
from app.gui.theme.theme import Theme
from app.gui.widgets.menus import Menu
from app.gui.widgets.text import Paragraph
from tests.demo.api import DemoApi
from tests.demo.documents import AWAY, NOTES, PAPERS, RESULTS
from tests.gui.conftest import QuietShell


@pytest.fixture
def page(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> DocumentsScreen:
    page = DocumentsScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(page)
    page.resize(1000, 800)
    page.show()
    shell.is_connected = True
    page.model.store.read()
    api.flush()
    return page


def choose(card: CollectionCard, words: str) -> None:
    card.more.click()
    menu = card.findChildren(Menu)[-1]
    next(action for action in menu.actions() if action.text() == words).trigger()
    menu.hide()


def folder_chosen(monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_args: folder)


def test_each_collection_says_how_it_stands(page: DocumentsScreen) -> None:
    about = {item.name: page.find_card(item.id).row.accessibleDescription() for item in (AWAY, NOTES, PAPERS)}
    assert about == {
        "Archive": "Not there now: /media/ada/archive",
        "Manuals": "214 files · 5120 passages · 3 not read",
        "Papers": "Comparing passage 353 of 900",
    }
    assert "qwen3-embedding:0.6b" in describe_collection_means(NOTES)
    assert "by their words" in describe_collection_means(AWAY)
    assert describe_collection(replace(PAPERS, stage=CollectionStage.WAITING)) == "Waiting"


def test_a_collection_is_added_with_the_folder_that_is_chosen(
    page: DocumentsScreen, api: DemoApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_chosen(monkeypatch, "/home/ada/letters")
    page.form.name.setText("  My   letters ")
    page.form.choose.click()
    api.flush()

    assert api.bodies_of("POST", "/collections") == [NewCollection(name="My letters", folders=["/home/ada/letters"])]
    assert page.form.name.text() == ""


def test_without_a_name_it_has_that_of_the_folder(
    page: DocumentsScreen, api: DemoApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_chosen(monkeypatch, "/home/ada/letters")
    page.form.choose.click()
    api.flush()
    assert api.bodies_of("POST", "/collections") == [NewCollection(name="letters", folders=["/home/ada/letters"])]


def test_what_is_refused_is_said_and_dismissed(
    page: DocumentsScreen, api: DemoApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.replies["POST /collections"] = ErrorBody(code="own_folder", sentence="That folder is Roundhouse's own.")
    folder_chosen(monkeypatch, "/home/ada/.roundhouse")
    page.form.choose.click()
    api.flush()
    assert not page.error.isHidden()
    page.model.dismiss_refusal()
    assert page.error.isHidden()


@pytest.mark.parametrize(
    ("words", "patch"),
    [
        ("Add a folder…", CollectionPatch(folders=[*NOTES.folders, "/home/ada/more"])),
        ("Take out /home/ada/manuals", CollectionPatch(folders=["/home/ada/receipts"])),
        ("Let programs at the endpoint search it", CollectionPatch(is_served=True)),
    ],
)
def test_a_collection_is_changed_from_its_menu(
    page: DocumentsScreen, api: DemoApi, monkeypatch: pytest.MonkeyPatch, words: str, patch: CollectionPatch
) -> None:
    folder_chosen(monkeypatch, "/home/ada/more")
    choose(page.find_card("vs_notes"), words)
    api.flush()
    assert api.bodies_of("PATCH", "/collections/vs_notes") == [patch]


def test_its_folders_are_looked_at_now(page: DocumentsScreen, api: DemoApi) -> None:
    choose(page.find_card("vs_notes"), "Look for changes now")
    api.flush()
    assert len(api.bodies_of("POST", "/collections/vs_notes/index")) == 1


def test_a_collection_is_removed_once_that_is_confirmed(page: DocumentsScreen, api: DemoApi, shell: QuietShell) -> None:
    choose(page.find_card("vs_notes"), "Remove…")
    api.flush()
    assert not api.bodies_of("DELETE", "/collections/vs_notes")
    title, sentence, command = shell.confirmations[-1]
    assert (title, "stay as they are" in sentence) == ("Remove Manuals?", True)
    command.run()
    api.flush()
    assert len(api.bodies_of("DELETE", "/collections/vs_notes")) == 1
    assert shell.messages[-1] == "Manuals was removed."


def test_an_event_brings_what_is_so_now(page: DocumentsScreen, api: DemoApi, shell: QuietShell) -> None:
    letters = Collection(id="vs_letters", name="Letters", created_at=0.0, files=1, passages=2)
    api.replies["GET /collections"] = [letters]
    shell.event_received.emit(CollectionsChanged())
    api.flush()
    assert page.find_card("vs_letters").row.accessibleDescription() == "1 file · 2 passages"
    with pytest.raises(KeyError):
        page.find_card("vs_notes")


def search(page: DocumentsScreen, api: DemoApi, words: str) -> list[PassageRow]:
    page.search.field.setText(words)
    page.search.button.click()
    api.flush()
    return [row for row in page.search.rows.rows.values() if isinstance(row, PassageRow)]


def test_a_search_shows_passages_where_they_are_and_how_they_were_found(
    page: DocumentsScreen, api: DemoApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened_files: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened_files.append(url.toLocalFile()))
    first, second = search(page, api, "  How long is the warranty? ")

    everywhere = [AWAY.id, NOTES.id, PAPERS.id]
    query = PassageQuery(text="How long is the warranty?", collections=everywhere)
    assert api.bodies_of("POST", "/collections/search") == [query]
    assert first.accessibleName() == "espresso machine.pdf · page 12 · Warranty"
    assert (first.text.text()[-1], first.fold.isHidden(), second.fold.isHidden()) == ("…", False, True)
    first.fold.click()
    assert first.text.text() == RESULTS.passages[0].text
    second.open.click()
    assert opened_files == ["/home/ada/receipts/2026-03.md"]
    assert page.search.outcome.text() == "2 passages found by their words, by what they mean, in 21 ms."
    assert "still being worked out" in page.search.note.text()


def test_another_collection_is_searched_at_once_and_an_empty_field_shows_nothing(
    page: DocumentsScreen, api: DemoApi
) -> None:
    search(page, api, "warranty")
    page.search.choice.chosen.emit("vs_notes")
    page.search.choice.set_value("vs_notes")
    page.search.find_passages()
    api.flush()
    query = PassageQuery(text="warranty", collections=["vs_notes"])
    assert api.bodies_of("POST", "/collections/search")[-1] == query

    assert search(page, api, " ") == []
    assert (page.search.outcome.isHidden(), page.search.note.isHidden()) == (True, True)


def test_a_search_that_finds_nothing_or_is_refused_says_so(page: DocumentsScreen, api: DemoApi) -> None:
    api.replies["POST /collections/search"] = PassageResults(passages=[])
    search(page, api, "okapi")
    assert page.search.outcome.text() == "Nothing was found."
    api.replies["POST /collections/search"] = ErrorBody(code="index_unreachable", sentence="The index is away.")
    search(page, api, "okapi")
    assert page.search.outcome.text() == "The index is away."


def test_without_a_passage_there_is_nothing_to_search(page: DocumentsScreen, api: DemoApi, shell: QuietShell) -> None:
    api.replies["GET /collections"] = [Collection(id="vs_new", name="New", created_at=0.0)]
    shell.event_received.emit(CollectionsChanged())
    api.flush()
    assert page.search.isHidden()


def test_files_that_cannot_be_read_are_listed_with_why(page: DocumentsScreen, api: DemoApi, shell: QuietShell) -> None:
    unread = page.find_card("vs_notes").unread
    assert (unread.isHidden(), page.find_card("vs_papers").unread.isHidden()) == (False, True)
    assert not unread.files.rows
    unread.toggle()
    api.flush()
    names = [row.accessibleName() for row in unread.files.rows.values()]
    assert names == ["boiler (scan).pdf", "lease.docx", "empty.txt"]
    assert "It takes a password." in unread.files.rows["file-8"].accessibleDescription()

    api.replies["GET /collections"] = [replace(NOTES, unread_files=9)]
    shell.event_received.emit(CollectionsChanged())
    api.flush()
    assert len(unread.files.rows) == 3
    labels = [label.text() for label in unread.findChildren(Paragraph) if not label.isHidden()]
    assert "6 more are not listed." in labels
