"""The list of chats: pages of it, or what a search finds, by day; rename, delete, bring back."""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from math import inf
from types import NoneType
from typing import NamedTuple
from urllib.parse import quote

import msgspec
from msgspec.structs import replace
from PySide6.QtCore import QObject, QTimer, Signal

from app.client.http import quote_segment
from app.core.chats import Chat, ChatFolder, ChatPatch, ChatShelf, ChatSummary
from app.core.errors import ErrorBody
from app.core.events import ChatChanged, Event
from app.core.translation import tr
from app.gui.net.api import GatewayApi, GatewayCall
from app.gui.screens.chat.chat_folders import PAGE, ChatFolders
from app.gui.shell.contract import Shell

_SEARCH_MS = 160
"""A search waits for the next letter this long."""
_AGAIN_MS = 250
"""Changes come in bursts; the list is read once for all of them."""
_WEEK, _LONGEST_MONTH = 7, 31


class ChatGroup(msgspec.Struct, frozen=True):
    """Chats of one span of days, newest first."""

    title: str
    chats: tuple[ChatSummary, ...]
    folder: ChatFolder | None = None
    """Whose chats these are; a folder that is closed shows none."""
    is_open: bool = False
    has_more: bool = False


class ChatList(QObject):
    """The chats there are. `toast_requested` is a sentence in passing with the way back."""

    changed = Signal()
    toast_requested = Signal(str, object)
    failed = Signal(object)

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(shell)
        self.items: list[ChatSummary] = []
        self.models: list[str] = []
        """The models of the chats, the latest first, whatever is searched for."""
        self.is_known = False
        self.error: ErrorBody | None = None
        self.query = ""
        self.shelf = ChatShelf.CURRENT
        """Which chats are shown: the current ones, the archived, or those in the trash."""
        self.tag = ""
        """The tag that all of them have, where only such are shown."""
        self.has_more = False
        self.folders = ChatFolders(api, shell)
        self._has_folders = False
        self._api, self._shell = api, shell
        self._call: GatewayCall | None = None
        self._more: GatewayCall | None = None
        self._search_call: GatewayCall | None = None
        self._wait = QTimer(self, singleShot=True)
        self._wait.timeout.connect(self.fetch_chats)
        self.folders.changed.connect(self._show_folders)
        self.folders.failed.connect(self.failed)
        shell.connected.connect(self.fetch_chats)
        shell.event_received.connect(self._handle_event)
        if shell.is_connected:
            self.fetch_chats()

    def group_chats(self, today: date) -> list[ChatGroup]:
        """Return the chats by day; what a search found is one group."""
        if self.query.strip():
            return [ChatGroup(tr("Found"), tuple(self.items))] if self.items else []
        if self.tag:
            return group_by_day(self.items, today)
        pinned_chats = tuple(item for item in self.items if item.is_pinned and self._is_current)
        others = [item for item in self.items if not item.is_pinned] if pinned_chats else self.items
        pinned_group = [ChatGroup(tr("Pinned"), pinned_chats)] if pinned_chats else []
        return [*self._folder_groups(), *pinned_group, *group_by_day(others, today)]

    def _folder_groups(self) -> list[ChatGroup]:
        """Return the folders as they are shown: below a heading, above everything else."""
        if self.shelf is not ChatShelf.CURRENT or not self.folders.items:
            return []
        groups = [ChatGroup(tr("Folders"), ())]
        for folder in self.folders.items:
            pages = self.folders.pages_of(folder.id)
            chats, has_more = (tuple(pages.items), pages.has_more) if pages else ((), False)
            groups.append(ChatGroup("", chats, folder=folder, is_open=pages is not None, has_more=has_more))
        return groups

    def find_chat(self, chat: str) -> ChatSummary | None:
        """Return a chat of the list, or of an open folder."""
        return next((item for item in self.items if item.id == chat), None) or self.folders.find_chat(chat)

    def set_query(self, text: str) -> None:
        """Search the text of all chats; nothing shows all of them again."""
        if text != self.query:
            self.query = text
            self._wait.start(_SEARCH_MS)

    def search(self, text: str, limit: int, then: Callable[[list[ChatSummary]], object]) -> None:
        """Look for chats elsewhere than in the list, by their titles first; only the last search is answered."""
        if self._search_call is not None:
            self._search_call.cancel()
        path = f"/chats?limit={limit}&query={quote(text.strip(), safe='')}&has_titles_first=true"
        self._search_call = self._api.get(path, list[ChatSummary], then, lambda _: None)

    def show_shelf(self, shelf: ChatShelf) -> None:
        """Show the chats of another shelf."""
        if shelf is not self.shelf or self.tag:
            self.shelf, self.tag = shelf, ""
            self._begin_anew()

    def show_tag(self, tag: str) -> None:
        """Show the chats that have a tag, in whichever folders they are; an empty one shows all again."""
        if tag != self.tag:
            self.shelf, self.tag = ChatShelf.CURRENT, tag
            self._begin_anew()

    def _begin_anew(self) -> None:
        self.items, self.is_known = [], False
        self.changed.emit()
        self.fetch_chats()

    def fetch_chats(self) -> None:
        """Read the first page, or as much as is shown."""
        self._wait.stop()
        for call in (self._call, self._more):
            if call is not None:
                call.cancel()
        self._more = None
        self.folders.fetch_open()
        limit = max(PAGE, min(len(self.items), 3 * PAGE)) if not self.query else PAGE
        self._call = self._api.get(
            self._page_path(limit), list[ChatSummary], lambda items: self._set_items(items, limit), self._store_error
        )

    def fetch_more(self) -> None:
        """Read the next page, when the end of the list is near."""
        if not self.has_more or self._more is not None or not self.items:
            return
        path = f"{self._page_path(PAGE)}&before={self.items[-1].updated_at!r}"
        self._more = self._api.get(path, list[ChatSummary], self._append_items, lambda _: self._end_more())

    def rename(self, chat: str, title: str) -> None:
        """Give a chat another title; Undo gives the old one back."""
        summary = self.find_chat(chat)
        if summary is None or not title.strip() or title.strip() == summary.title:
            return
        self._patch_title(chat, title.strip())

    def pin(self, chat: str, *, is_pinned: bool) -> None:
        """Keep a chat above the others, or no longer."""
        self._patch(chat, ChatPatch(is_pinned=is_pinned))

    def archive(self, chat: str, *, is_archived: bool) -> None:
        """Put a chat out of the way, or back; Undo does the reverse."""
        summary = self.find_chat(chat)
        self._hide_chat(chat)
        self._patch(chat, ChatPatch(is_archived=is_archived))
        title = _shorten_title(summary.title if summary else tr("The chat"))
        sentence = (
            tr("“{title}” is archived.", title=title)
            if is_archived
            else tr("“{title}” is among your chats again.", title=title)
        )
        undo = ChatPatch(is_archived=not is_archived)
        self.toast_requested.emit(sentence, lambda: self._patch(chat, undo))

    def move(self, chat: str, folder: str) -> None:
        """Put a chat into a folder, or with an empty one out of its folder; Undo puts it back."""
        summary = self.find_chat(chat)
        before = summary.folder if summary else ""
        if summary is None or before == folder:
            return
        target = self.folders.find_folder(folder)
        self._hide_chat(chat)
        self._patch(chat, ChatPatch(folder=folder))
        title = _shorten_title(summary.title or tr("The chat"))
        sentence = (
            tr("“{title}” is in {folder} now.", title=title, folder=target.name)
            if target
            else tr("“{title}” is in no folder now.", title=title)
        )
        self.toast_requested.emit(sentence, lambda: self._patch(chat, ChatPatch(folder=before)))

    def set_tags(self, chat: str, tags: list[str]) -> None:
        """Have a chat have these tags."""
        self.items = [replace(item, tags=tags) if item.id == chat else item for item in self.items]
        self.changed.emit()
        self._patch(chat, ChatPatch(tags=tags))

    def _hide_chat(self, chat: str) -> None:
        """Show a chat no longer, before the service says that it is elsewhere."""
        self.items = [item for item in self.items if item.id != chat]
        self.folders.hide_chat(chat)
        self.changed.emit()

    def restore(self, chat: str) -> None:
        """Bring a chat back from the trash."""
        self._hide_chat(chat)
        self._restore_chat(chat)

    def delete_for_good(self, chat: str) -> None:
        """Delete a chat that is in the trash."""
        self._hide_chat(chat)
        path = f"/chats/{quote_segment(chat)}?for_good=true"
        self._api.send_request(
            "DELETE", path, None, kind=NoneType, then=lambda _: self.fetch_chats(), on_error=self.failed.emit
        )

    def delete(self, chat: str, reopen: Callable[[], object] | None = None) -> None:
        """Delete a chat; Undo brings it back, and then does `reopen`."""
        summary = self.find_chat(chat)
        title = summary.title if summary else tr("The chat")
        self._hide_chat(chat)

        def finish_delete() -> None:
            self.toast_requested.emit(
                tr("“{title}” was deleted.", title=_shorten_title(title)),
                lambda: self._restore_chat(chat, reopen),
            )

        def handle_error(error: ErrorBody) -> None:
            self.failed.emit(error)
            self.fetch_chats()

        self._api.send_request(
            "DELETE",
            f"/chats/{quote_segment(chat)}",
            None,
            kind=NoneType,
            then=lambda _: finish_delete(),
            on_error=handle_error,
        )

    def add_chat(self, chat: Chat) -> None:
        """Show a chat that was just made, before the list is read again."""
        if self.find_chat(chat.id) is None and not (self.query or self.tag or chat.folder) and self._is_current:
            summary = ChatSummary(
                id=chat.id, title=chat.title, model=chat.model, created_at=chat.created_at, updated_at=chat.updated_at
            )
            self.items = [summary, *self.items]
            self.models.insert(0, summary.model)
            self.changed.emit()

    def _restore_chat(self, chat: str, reopen: Callable[[], object] | None = None) -> None:
        def finish_restore(_: Chat) -> None:
            self.fetch_chats()
            if reopen is not None:
                reopen()

        self._api.post(
            f"/chats/{quote_segment(chat)}/restore",
            None,
            kind=Chat,
            then=finish_restore,
            on_error=self.failed.emit,
        )

    def _patch_title(self, chat: str, title: str) -> None:
        self.items = [replace(item, title=title) if item.id == chat else item for item in self.items]
        self.changed.emit()
        self._patch(chat, ChatPatch(title=title))

    def _patch(self, chat: str, body: ChatPatch) -> None:
        self._api.patch(
            f"/chats/{quote_segment(chat)}",
            body,
            kind=Chat,
            then=lambda _: self.fetch_chats(),
            on_error=self.failed.emit,
        )

    @property
    def _is_current(self) -> bool:
        return self.shelf is ChatShelf.CURRENT

    def _page_path(self, limit: int) -> str:
        query, tag = self.query.strip(), self.tag
        has_tree = self._is_current and not query and not tag and bool(self.folders.items)
        places = [
            "" if self._is_current else f"&shelf={self.shelf}",
            f"&tag={quote(tag, safe='')}" if tag else "",
            "&folder=" if has_tree else "",  # those of folders stand below their folders
        ]
        return f"/chats?limit={limit}&query={quote(query, safe='')}{''.join(places)}"

    def _show_folders(self) -> None:
        if self._has_folders != bool(self.folders.items):
            self._has_folders = bool(self.folders.items)
            self.fetch_chats()
        self.changed.emit()

    def _set_items(self, items: list[ChatSummary], limit: int) -> None:
        self._call, self.is_known, self.error = None, True, None
        self.items, self.has_more = self._join_items(items, limit), len(items) >= limit
        if not self.query.strip() and not self.tag and self._is_current:
            self.models = [item.model for item in items]
        self.changed.emit()

    def _join_items(self, first: list[ChatSummary], limit: int) -> list[ChatSummary]:
        """Return what was read anew, and after it what the reader had scrolled to before."""
        if len(first) < limit or len(self.items) <= limit or self.query.strip():
            return first
        last, ids = first[-1].updated_at, {item.id for item in first}
        return [*first, *(item for item in self.items if item.updated_at < last and item.id not in ids)]

    def _append_items(self, items: list[ChatSummary]) -> None:
        self._more = None
        known_ids = {item.id for item in self.items}
        self.items = [*self.items, *(item for item in items if item.id not in known_ids)]
        self.has_more = len(items) >= PAGE
        self.changed.emit()

    def _end_more(self) -> None:
        self._more = None

    def _store_error(self, error: ErrorBody) -> None:
        self._call, self.error = None, error
        self.changed.emit()

    def _handle_event(self, event: Event) -> None:
        if not isinstance(event, ChatChanged):
            return
        if event.deleted and self.shelf is not ChatShelf.TRASH:
            self.items = [item for item in self.items if item.id != event.chat]
        if not self._wait.isActive():
            self._wait.start(_AGAIN_MS)


def group_by_day(items: list[ChatSummary], today: date) -> list[ChatGroup]:
    """Return chats, newest first, by the day they were last changed; older ones by month."""
    groups: dict[str, list[ChatSummary]] = {}
    chats: list[ChatSummary] = []
    start = end = 0.0
    for item in items:
        if not start <= item.updated_at < end:  # calendars are slow, and neighbours are mostly of the same span
            title, start, end = _span_around(item.updated_at, today)
            chats = groups.setdefault(title, [])
        chats.append(item)
    return [ChatGroup(title, tuple(chats)) for title, chats in groups.items()]


class _Span(NamedTuple):
    """Days whose chats stand together: from the time `start` on, before `end`."""

    title: str
    start: float
    end: float


def _span_around(at: float, today: date) -> _Span:
    day = datetime.fromtimestamp(at).astimezone().date()
    yesterday, week = today - timedelta(days=1), today - timedelta(days=_WEEK)
    if day >= today:
        return _Span(tr("Today"), _begin(today), inf)
    if day == yesterday:
        return _Span(tr("Yesterday"), _begin(yesterday), _begin(today))
    if day >= week:
        return _Span(tr("Previous 7 days"), _begin(week), _begin(yesterday))
    title = f"{day:%B %Y}" if day.year != today.year else f"{day:%B}"
    first = day.replace(day=1)
    next_month = (first + timedelta(days=_LONGEST_MONTH)).replace(day=1)
    return _Span(title, _begin(first), min(_begin(next_month), _begin(week)))


def _begin(day: date) -> float:
    """Return when a day begins here."""
    return datetime(day.year, day.month, day.day).astimezone().timestamp()


def _shorten_title(title: str) -> str:
    limit = 40
    return title if len(title) <= limit else f"{title[: limit - 1]}…"
