"""What is photographed of documents: the page of collections, an answer with its passages, a citation that is open."""

from collections.abc import Iterator

import msgspec

from app.core.chats import Chat
from app.core.documents import WholeFile
from app.gui.screens.chat.transcript.box import Verb
from app.gui.screens.chat.view import ChatScreen
from app.gui.screens.documents.view import DocumentsScreen
from app.gui.shell.contract import PageId
from app.gui.shell.window import MainWindow
from tests.demo import long_chat
from tests.demo.api import DemoApi
from tests.demo.documents import SOURCES
from tests.demo.scene import BOTH, EVERY_LOOK, USUAL_LOOKS, Replies, Scene, SceneLook
from tests.demo.tool_scenes import open_tool_chat


def make_documents_chat() -> Chat:
    """Return a chat whose answer cites passages."""
    question = long_chat.make_question(1, "Until when is my espresso machine under warranty?", None)
    answer = long_chat.make_answer(
        1,
        "The warranty lasts 24 months from the day of purchase [1]. You bought it on 3 March 2026 [2], so it runs "
        "until **3 March 2028**. The seals are not covered [1].",
        reasoning="",
        documents=SOURCES,
    )
    chat = long_chat.make_chat([question, answer], title="Warranty of the espresso machine")
    return msgspec.structs.replace(chat, collections=["vs_notes"])


def make_file_chat() -> Chat:
    """Return a chat whose answer was given a file whole, beside passages."""
    chat = make_documents_chat()
    documents = msgspec.structs.replace(SOURCES, files=[WholeFile(name="warranty card.txt", tokens=320)])
    answer = msgspec.structs.replace(chat.messages[1], documents=documents)
    return msgspec.structs.replace(chat, messages=[chat.messages[0], answer])


def document_chat_scenes(replies: Replies) -> Iterator[Scene]:
    """Yield documents in a chat; `replies` are those of a chat page."""
    looks = (*USUAL_LOOKS, SceneLook(is_mirrored=True))
    known_replies: Replies = {**replies, "GET /chats/c1": make_documents_chat()}
    yield Scene("chat-sources", PageId.CHAT, known_replies, unfold_sources, looks=looks)
    yield Scene(
        "chat-whole-file", PageId.CHAT, {**replies, "GET /chats/c1": make_file_chat()}, unfold_sources, looks=looks
    )
    yield Scene("chat-passage", PageId.CHAT, known_replies, open_passage, looks=looks)
    yield Scene("chat-collections", PageId.CHAT, known_replies, open_collections, looks=looks)
    yield Scene("chat-collections-none", PageId.CHAT, {**known_replies, "GET /collections": []}, open_collections)


def document_scenes(usual: Replies) -> Iterator[Scene]:
    """Yield the page of collections."""
    yield Scene("documents", PageId.DOCUMENTS, usual, looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("documents-search", PageId.DOCUMENTS, usual, search_documents, looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("documents-empty", PageId.DOCUMENTS, {**usual, "GET /collections": []})


def search_documents(window: MainWindow, api: DemoApi) -> None:
    """Search the collections, and unfold the files that cannot be read."""
    page = window.pages.currentWidget()
    if isinstance(page, DocumentsScreen):
        page.search.field.setText("How long is the warranty?")
        page.search.find_passages()
        page.find_card("vs_notes").unread.toggle()
        api.flush()


def unfold_sources(window: MainWindow, api: DemoApi) -> None:
    """Open the chat, and what its answer was given."""
    open_tool_chat(window, api)
    _press(window, Verb.FOLD_SOURCES)


def open_passage(window: MainWindow, api: DemoApi) -> None:
    """Open the chat, and its first citation."""
    open_tool_chat(window, api)
    _press(window, Verb.OPEN_SOURCE)
    api.flush()


def open_collections(window: MainWindow, api: DemoApi) -> None:
    """Open the chat, and the card of its collections."""
    open_tool_chat(window, api)
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        page.conversation_view.toggle_collections()
        api.flush()


def _press(window: MainWindow, verb: Verb) -> None:
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        transcript = page.conversation_view.transcript
        turn = transcript.document.turns[1]
        turn.lay_out_between(0, 1e6)
        spot = next(spot for spot in turn.spots_between(0, 1e6) if spot.verb is verb)
        transcript.perform_action(1, spot)
