"""The list of chats: pages of it, or what a search finds, by day; rename, delete, bring back."""

from datetime import date, datetime, timedelta
from types import NoneType
from urllib.parse import quote

import msgspec
from msgspec.structs import replace
from PySide6.QtCore import QObject, QTimer, Signal

from app.client.http import segment
from app.core.chats import Chat, ChatPatch, ChatSummary
from app.core.errors import ErrorBody
from app.core.events import ChatChanged, Event
from app.gui.net.api import Call, GatewayApi
from app.gui.shell.contract import Shell

PAGE = 60
_SEARCH_MS = 160
"""A search waits for the next letter this long."""
_AGAIN_MS = 250
"""Changes come in bursts; the list is read once for all of them."""
_WEEK = 7


class Group(msgspec.Struct, frozen=True):
    """Chats of one span of days, newest first."""

    title: str
    chats: tuple[ChatSummary, ...]


class Conversations(QObject):
    """The chats there are. `said` is a sentence in passing with the way back."""

    changed = Signal()
    said = Signal(str, object)
    failed = Signal(object)

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(shell)
        self.items: list[ChatSummary] = []
        self.models: list[str] = []
        """The models of the chats, the latest first, whatever is searched for."""
        self.is_known = False
        self.error: ErrorBody | None = None
        self.query = ""
        self.has_more = False
        self._api, self._shell = api, shell
        self._call: Call | None = None
        self._more: Call | None = None
        self._wait = QTimer(self, singleShot=True)
        self._wait.timeout.connect(self.read)
        shell.connected.connect(self.read)
        shell.happened.connect(self._happened)
        if shell.is_connected:
            self.read()

    def groups(self, today: date) -> list[Group]:
        """Return the chats by day; what a search found is one group."""
        if self.query.strip():
            return [Group("Found", tuple(self.items))] if self.items else []
        return grouped(self.items, today)

    def find(self, chat: str) -> ChatSummary | None:
        """Return a chat of the list."""
        return next((item for item in self.items if item.id == chat), None)

    def look_for(self, text: str) -> None:
        """Search the text of all chats; nothing shows all of them again."""
        if text != self.query:
            self.query = text
            self._wait.start(_SEARCH_MS)

    def read(self) -> None:
        """Read the first page, or as much as is shown."""
        self._wait.stop()
        for call in (self._call, self._more):
            if call is not None:
                call.cancel()
        self._more = None
        limit = max(PAGE, min(len(self.items), 3 * PAGE)) if not self.query else PAGE
        self._call = self._api.get(
            self._page(limit), list[ChatSummary], lambda items: self._take(items, limit), self._unread
        )

    def read_more(self) -> None:
        """Read the next page, when the end of the list is near."""
        if not self.has_more or self._more is not None or not self.items:
            return
        path = f"{self._page(PAGE)}&before={self.items[-1].updated_at!r}"
        self._more = self._api.get(path, list[ChatSummary], self._append, lambda _: self._end_more())

    def rename(self, chat: str, title: str) -> None:
        """Give a chat another title; Undo gives the old one back."""
        known = self.find(chat)
        if known is None or not title.strip() or title.strip() == known.title:
            return
        self._patch_title(chat, title.strip())

    def delete(self, chat: str) -> None:
        """Delete a chat; Undo brings it back."""
        known = self.find(chat)
        title = known.title if known else "The chat"
        self.items = [item for item in self.items if item.id != chat]
        self.changed.emit()

        def gone() -> None:
            self.said.emit(f"“{_short(title)}” was deleted.", lambda: self._restore(chat))

        def kept(error: ErrorBody) -> None:
            self.failed.emit(error)
            self.read()

        self._api.send("DELETE", f"/chats/{segment(chat)}", None, kind=NoneType, then=lambda _: gone(), failed=kept)

    def put(self, chat: Chat) -> None:
        """Show a chat that was just made, before the list is read again."""
        if self.find(chat.id) is None and not self.query:
            made = ChatSummary(
                id=chat.id, title=chat.title, model=chat.model, created_at=chat.created_at, updated_at=chat.updated_at
            )
            self.items = [made, *self.items]
            self.models.insert(0, made.model)
            self.changed.emit()

    def _restore(self, chat: str) -> None:
        self._api.post(
            f"/chats/{segment(chat)}/restore", None, kind=Chat, then=lambda _: self.read(), failed=self.failed.emit
        )

    def _patch_title(self, chat: str, title: str) -> None:
        self.items = [replace(item, title=title) if item.id == chat else item for item in self.items]
        self.changed.emit()
        body = ChatPatch(title=title)
        self._api.patch(f"/chats/{segment(chat)}", body, kind=Chat, then=lambda _: self.read(), failed=self.failed.emit)

    def _page(self, limit: int) -> str:
        return f"/chats?limit={limit}&query={quote(self.query.strip(), safe='')}"

    def _take(self, items: list[ChatSummary], limit: int) -> None:
        self._call, self.is_known, self.error = None, True, None
        self.items, self.has_more = items, len(items) >= limit
        if not self.query.strip():
            self.models = [item.model for item in items]
        self.changed.emit()

    def _append(self, items: list[ChatSummary]) -> None:
        self._more = None
        known = {item.id for item in self.items}
        self.items = [*self.items, *(item for item in items if item.id not in known)]
        self.has_more = len(items) >= PAGE
        self.changed.emit()

    def _end_more(self) -> None:
        self._more = None

    def _unread(self, error: ErrorBody) -> None:
        self._call, self.error = None, error
        self.changed.emit()

    def _happened(self, event: Event) -> None:
        if isinstance(event, ChatChanged) and not self._wait.isActive():
            self._wait.start(_AGAIN_MS)


def grouped(items: list[ChatSummary], today: date) -> list[Group]:
    """Return chats, newest first, by the day they were last changed; older ones by month."""
    groups: dict[str, list[ChatSummary]] = {}
    for item in items:
        day = datetime.fromtimestamp(item.updated_at).astimezone().date()
        groups.setdefault(_span(day, today), []).append(item)
    return [Group(title, tuple(chats)) for title, chats in groups.items()]


def _span(day: date, today: date) -> str:
    if day >= today:
        return "Today"
    if day == today - timedelta(days=1):
        return "Yesterday"
    if day >= today - timedelta(days=_WEEK):
        return "Previous 7 days"
    return f"{day:%B %Y}" if day.year != today.year else f"{day:%B}"


def _short(title: str) -> str:
    limit = 40
    return title if len(title) <= limit else f"{title[: limit - 1]}…"
