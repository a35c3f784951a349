"""What the reader does with single messages of the open chat, and the way back where something is lost."""

from collections.abc import Callable
from types import NoneType

from PySide6.QtCore import QObject, Signal

from app.client.http import quote_segment
from app.core.chats import Chat, ForkChat, Message, NewVersion
from app.core.translation import tr
from app.gui.net.api import GatewayApi
from app.gui.screens.chat.conversation import Conversation


class MessageActions(QObject):
    """Edits, deletes and forks. `toast_requested` is a sentence in passing with the way back."""

    toast_requested = Signal(str, object)
    chat_forked = Signal(object)
    """The new `Chat`."""
    failed = Signal(object)

    def __init__(self, api: GatewayApi, conversation: Conversation) -> None:
        super().__init__(conversation)
        self._api, self._conversation = api, conversation

    def save_version(self, message: Message, text: str, on_refusal: Callable[[object, str], object]) -> None:
        """Keep other words for an answer beside the model's; `refused` gets an error and the text back."""
        self._api.post(
            f"{_path_of(message)}/versions",
            NewVersion(content=text),
            kind=Message,
            then=lambda _: self._read_again(message.chat),
            on_error=lambda error: on_refusal(error, text),
        )

    def delete(self, message: str) -> None:
        """Delete a message; Undo brings it back where it was."""
        entry = self._conversation.find_message(message)
        if entry is None or self._conversation.is_busy:
            return

        def finish_delete() -> None:
            self._read_again(entry.chat)
            self.toast_requested.emit(tr("The message was deleted."), lambda: self._restore(entry))

        self._api.send_request(
            "DELETE",
            _path_of(entry),
            None,
            kind=NoneType,
            then=lambda _: finish_delete(),
            on_error=self.failed.emit,
        )

    def fork(self, message: str) -> None:
        """Begin a chat with a copy of everything down to a message."""
        entry = self._conversation.find_message(message)
        if entry is not None:
            path = f"/chats/{quote_segment(entry.chat)}/fork"
            body = ForkChat(message=message)
            self._api.post(path, body, kind=Chat, then=self.chat_forked.emit, on_error=self.failed.emit)

    def _restore(self, message: Message) -> None:
        self._api.post(
            f"{_path_of(message)}/restore",
            None,
            kind=Chat,
            then=lambda _: self._read_again(message.chat),
            on_error=self.failed.emit,
        )

    def _read_again(self, chat: str) -> None:
        if chat == self._conversation.id:
            self._conversation.fetch_chat()


def _path_of(message: Message) -> str:
    return f"/chats/{quote_segment(message.chat)}/messages/{quote_segment(message.id)}"
