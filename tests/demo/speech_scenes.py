"""Dictation while it records, and an answer that is read aloud; without a microphone and without a voice."""

from collections.abc import Iterator
from typing import cast

from msgspec.structs import replace
from PySide6.QtCore import Qt

from app.core.capabilities import Capability
from app.gui.screens.chat.view import ChatScreen
from app.gui.shell.contract import PageId
from app.gui.shell.window import MainWindow
from app.gui.speech.microphone import Microphone
from tests.demo import data, long_chat
from tests.demo.api import DemoApi
from tests.demo.scene import USUAL_LOOKS, Replies, Scene, SceneLook


class SilentMicrophone(Microphone):
    """Begins at once, and hears nothing."""

    def start(self) -> None:
        self.began.emit()

    def stop(self) -> None:
        pass

    def cancel(self) -> None:
        pass


def speech_scenes() -> Iterator[Scene]:
    """Yield them."""
    replies: Replies = {**data.gateway_replies(), **long_chat.chat_replies()}
    looks = (*USUAL_LOOKS, SceneLook(is_mirrored=True))
    attached_model = replace(
        data.MODELS[0],
        name="whisper",
        title="Whisper",
        capabilities=[Capability.TRANSCRIPTION],
        chats=False,
        is_builtin=False,
        attached="http://box.example:8000/v1",
    )
    yield Scene(
        "chat-dictation",
        PageId.CHAT,
        {**replies, "GET /models": [*data.MODELS, attached_model]},
        begin_dictation,
        looks=looks,
    )
    yield Scene("chat-read-aloud", PageId.CHAT, replies, read_aloud, looks=looks)


def open_sample(window: MainWindow, api: DemoApi) -> ChatScreen:
    """Open the sample conversation."""
    page = cast("ChatScreen", window.pages.currentWidget())
    page.model.open_chat("c1")
    api.flush()
    return page


def begin_dictation(window: MainWindow, api: DemoApi) -> None:
    """Record for an attached model."""
    page = open_sample(window, api)
    page.model.dictation.use_microphone(SilentMicrophone(page))
    page.conversation_view.toggle_dictation()


def read_aloud(window: MainWindow, api: DemoApi) -> None:
    """Read the last answer, its row shown."""
    page = open_sample(window, api)
    read_aloud = page.model.reading
    read_aloud.message = "a2"
    read_aloud.changed.emit()
    page.conversation_view.transcript.setFocus(Qt.FocusReason.TabFocusReason)
