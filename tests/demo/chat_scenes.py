"""What is photographed of the chats: conversations, files, folders, search, answers side by side."""

from collections.abc import Callable, Iterator
from functools import partial

import msgspec
from PySide6.QtCore import Qt

from app.core.chats import Chat, ChatShelf, ChatSummary
from app.core.downloads import DownloadState
from app.gui.screens.chat.view import ChatScreen
from app.gui.shell.contract import PageId
from app.gui.shell.window import MainWindow
from app.gui.widgets.buttons import Chip
from tests.demo import attachments, data, folders, hub, long_chat
from tests.demo.api import DemoApi
from tests.demo.document_scenes import document_chat_scenes
from tests.demo.presets import preset_scenes
from tests.demo.sampling_scenes import sampling_scenes
from tests.demo.scene import USUAL_LOOKS, Replies, Scene, SceneLook
from tests.demo.speech_scenes import speech_scenes
from tests.demo.tool_scenes import tool_scenes


def chat_scenes(usual: Replies, much: Replies) -> Iterator[Scene]:
    """Yield what the chat page shows beside its usual state."""
    first_start = with_chat(data.gateway_replies(statuses=[], models=data.MODELS[:1]), summaries=[])
    yield Scene("chat-new", PageId.CHAT, with_chat(usual))
    yield Scene("chat-first-start", PageId.CHAT, first_start)
    yield Scene("chat-failed", PageId.CHAT, with_chat(much, long_chat.make_failed_chat()), open_chat)
    yield from sampling_scenes()
    yield from preset_scenes()
    yield from speech_scenes()
    yield from tool_scenes(with_chat(usual))
    yield from document_chat_scenes(with_chat(usual))
    yield from message_scenes(much)
    yield from shelf_scenes(usual)
    yield from folder_scenes(much)
    yield from file_scenes(much)


def with_chat(replies: Replies, chat: Chat | None = None, *, summaries: list[ChatSummary] | None = None) -> Replies:
    """Return `replies` with conversations to list, and one to open."""
    summaries = long_chat.make_summaries() if summaries is None else summaries
    order: Replies = {"GET /chats/folders": [], "GET /chats/tags": []}
    return {**replies, **order, "GET /chats": summaries, "GET /chats/c1": chat or long_chat.make_sample_chat()}


def open_chat(window: MainWindow, _api: DemoApi) -> None:
    """Open the conversation of the sample."""
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        page.model.open_chat("c1")


def message_scenes(replies: Replies) -> Iterator[Scene]:
    """Yield a message with its actions, answers side by side, the models to choose from, what was left out."""
    looks = (*USUAL_LOOKS, SceneLook(is_mirrored=True))
    yield Scene("chat-actions", PageId.CHAT, with_chat(replies), choose_message, looks=looks)
    yield Scene("chat-compare", PageId.CHAT, with_chat(replies), compare_answers, looks=looks)
    yield Scene("chat-compare-models", PageId.CHAT, with_chat(replies), choose_models, looks=looks)
    sample = long_chat.make_sample_chat()
    last = long_chat.replace_fields(sample.messages[-1], left_out=2, finish_reason="length")
    cut = msgspec.structs.replace(sample, messages=[*sample.messages[:-1], last])
    yield Scene("chat-left-out", PageId.CHAT, with_chat(replies, cut), choose_message, looks=looks)


def choose_message(window: MainWindow, api: DemoApi) -> None:
    """Open the conversation, and choose its last message with the keys."""
    open_chat(window, api)
    api.flush()
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        page.conversation_view.transcript.setFocus(Qt.FocusReason.TabFocusReason)


def compare_answers(window: MainWindow, api: DemoApi) -> None:
    """Open the conversation, and show the versions of its last answer side by side."""
    open_chat(window, api)
    api.flush()
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        page.model.conversation.compare_versions("a2")


def choose_models(window: MainWindow, api: DemoApi) -> None:
    """Open the conversation, and the models to compare with the first two chosen."""
    open_chat(window, api)
    api.flush()
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        page.conversation_view.toggle_models()
        for chip in page.conversation_view.models_panel.findChildren(Chip)[:2]:
            chip.setChecked(True)


def shelf_scenes(usual: Replies) -> Iterator[Scene]:
    """Yield the list with a chat that is pinned, and the trash."""
    first, second, *others = long_chat.make_summaries()
    pinned_chats = [msgspec.structs.replace(second, is_pinned=True), first, *others]
    yield Scene("chat-pinned", PageId.CHAT, with_chat(usual, summaries=pinned_chats))
    yield Scene("chat-trash", PageId.CHAT, with_chat(usual), show_trash)


def show_trash(window: MainWindow, _api: DemoApi) -> None:
    """Look into the trash."""
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        page.model.chat_list.show_shelf(ChatShelf.TRASH)


def folder_scenes(replies: Replies) -> Iterator[Scene]:
    """Yield the tree of folders with a chat in one, a folder's card, tags, and the question before one is deleted."""
    looks = (*USUAL_LOOKS, SceneLook(is_mirrored=True))
    yield Scene(
        "chat-folders", PageId.CHAT, {**with_chat(replies), **folders.folder_replies()}, open_folder, looks=looks
    )
    yield Scene("chat-search", PageId.CHAT, with_chat(replies), search_chats, looks=looks)
    yield Scene("chat-find", PageId.CHAT, with_chat(replies), find_in_chat, looks=looks)
    for name, show in (
        ("card", lambda view: view.conversation_view.show_folder("f1")),
        ("tags", lambda view: view.conversation_view.show_tags("c2")),
        ("delete", lambda view: view.pane.list_view.folder_delete_requested.emit("f1")),
        ("new-chat", lambda view: view.pane.list_view.folder_chat_requested.emit("f1")),
    ):
        known_replies = {**with_chat(replies), **folders.folder_replies()}
        prepare = partial(show_in_folder, show=show)
        yield Scene(f"chat-folder-{name}", PageId.CHAT, known_replies, prepare, looks=looks)


def open_folder(window: MainWindow, api: DemoApi) -> None:
    """Open a folder in the list, and a chat in it."""
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        api.replies |= folders.folder_replies()
        page.model.chat_list.folders.store.read()
        page.model.chat_list.folders.tags.read()
        api.flush()
        page.model.chat_list.folders.toggle("f1")
        api.flush()
        page.model.open_chat("c1")


def show_in_folder(window: MainWindow, api: DemoApi, *, show: Callable[[ChatScreen], object]) -> None:
    """Open a folder, and then something about it."""
    open_folder(window, api)
    api.flush()
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        show(page)


def search_chats(window: MainWindow, api: DemoApi) -> None:
    """Search all chats: a message has the word in one of them, a file in the other."""
    api.replies["GET /chats"] = long_chat.make_search_results()
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        page.pane.focus_search()
        page.pane.search.setText("borrow")
        page.model.chat_list.fetch_chats()
        api.flush()


def find_in_chat(window: MainWindow, api: DemoApi) -> None:
    """Open the conversation of the sample, and find a word in it."""
    open_chat(window, api)
    api.flush()
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        page.conversation_view.find_bar.open_bar()
        page.conversation_view.find_bar.field.setText("borrow")
        page.conversation_view.find_bar.step(1)


def file_scenes(replies: Replies) -> Iterator[Scene]:
    """Yield conversations with formulas and files, and more files in the composer."""
    formulas = with_chat(replies, long_chat.make_formula_chat())
    yield Scene("chat-formulas", PageId.CHAT, formulas, open_chat, looks=(*USUAL_LOOKS, SceneLook(is_mirrored=True)))
    files = {**with_chat(replies, attachments.make_chat_with_files()), **attachments.file_replies()}
    yield Scene("chat-files", PageId.CHAT, files, attach_files, looks=USUAL_LOOKS)
    yield Scene("chat-files-mirrored", PageId.CHAT, files, attach_files, looks=(SceneLook(is_mirrored=True),))
    looks = (*USUAL_LOOKS, SceneLook(is_mirrored=True))
    sounds = {**with_chat(replies, attachments.make_chat_with_sounds()), "POST /attachments": attachments.TALK}
    yield Scene("chat-sounds", PageId.CHAT, sounds, attach_sound, looks=looks)
    yield Scene("chat-downloaded", PageId.CHAT, with_chat(replies), end_download, looks=looks)


def attach_files(window: MainWindow, api: DemoApi) -> None:
    """Open the conversation about files, and attach more: one that cannot be read, and a picture for a blind model."""
    page = window.pages.currentWidget()
    if not isinstance(page, ChatScreen):
        return
    api.replies |= attachments.file_replies()
    page.model.open_chat("c1")
    api.flush()
    for name in ("report.pdf", "evening.png", "Contract with Müller.pdf", "costs.xlsx"):
        page.model.files.add_content(name, b"?")
    api.flush()
    for picture in (attachments.EVENING, attachments.MORNING):
        page.model.thumbnails.find(picture)
    api.flush()
    page.conversation_view.composer.set_text("And this one?")


def attach_sound(window: MainWindow, api: DemoApi) -> None:
    """Open the conversation about a recording, and attach another for a model that cannot hear."""
    open_chat(window, api)
    api.flush()
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        page.model.files.add_content("talk.mp3", b"?")


def end_download(window: MainWindow, api: DemoApi) -> None:
    """Let a download end while the reader is at a chat."""
    open_chat(window, api)
    api.flush()
    window.stores.downloads.ended.emit(msgspec.structs.replace(hub.DOWNLOADS[0], state=DownloadState.DONE))
