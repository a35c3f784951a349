"""The list of chats: by day, searched, page by page, renamed, deleted and brought back."""

import time
from datetime import date, datetime

import pytest
from msgspec.structs import replace
from pytestqt.qtbot import QtBot

from app.core.chats import ChatPatch, ChatShelf, ChatSummary
from app.core.errors import ErrorBody
from app.core.events import ChatChanged
from app.gui.screens.chat import chat_list
from app.gui.screens.chat.chat_folders import PAGE
from app.gui.screens.chat.chat_list import ChatList, group_by_day
from app.gui.screens.chat.chat_pane import ChatPane
from app.gui.screens.chat.chat_row_delegate import cut_before_match, split_marks
from app.gui.screens.chat.chat_rows import ChatListModel, strip_marks
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from tests.demo import long_chat
from tests.demo.api import DemoApi
from tests.demo.machines import NOON

TODAY = datetime.now().astimezone().date()


def summary(number: int, *, at: datetime | None = None) -> ChatSummary:
    when = at.timestamp() if at else NOON - number
    return ChatSummary(id=f"c{number}", title=f"Chat {number}", created_at=when, updated_at=when)


@pytest.fixture
def conversations(qtbot: QtBot, api: DemoApi, shell: Shell) -> ChatList:
    api.replies |= long_chat.chat_replies()
    chat_list = ChatList(api, shell)
    api.flush()
    return chat_list


@pytest.mark.parametrize(
    ("at", "title"),
    [
        ((2026, 3, 10, 0, 1), "Today"),
        ((2026, 3, 9, 23, 59), "Yesterday"),
        ((2026, 3, 3, 12, 0), "Previous 7 days"),
        ((2026, 3, 2, 12, 0), "March"),
        ((2026, 1, 31, 12, 0), "January"),
        ((2025, 12, 31, 12, 0), "December 2025"),
    ],
)
def test_chats_stand_below_their_day(at: tuple[int, int, int, int, int], title: str) -> None:
    here = datetime(*at).astimezone()
    groups = group_by_day([summary(1, at=here)], date(2026, 3, 10))
    assert [group.title for group in groups] == [title]


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Los_Angeles", "Pacific/Apia"])
def test_many_chats_stand_where_each_alone_would(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(time, "tzset"):
        pytest.skip("this system has one zone for all programs")
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        noon = datetime(2026, 11, 2, 12).astimezone().timestamp()  # summer time ends the week before, or the day before
        chats = [replace(summary(n), updated_at=noon - 3000.0 * n) for n in range(12_000)]
        today = date(2026, 11, 2)
        alone = {chat.id: group_by_day([chat], today)[0].title for chat in chats}
        groups = group_by_day(chats, today)
        assert {chat.id: group.title for group in groups for chat in group.chats} == alone
        assert [chat.id for group in groups for chat in group.chats] == [chat.id for chat in chats]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_calendar_is_asked_once_for_a_span_of_days(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[float] = []
    span_around = chat_list._span_around

    def count_spans(at: float, today: date) -> object:
        times.append(at)
        return span_around(at, today)

    monkeypatch.setattr(chat_list, "_span_around", count_spans)
    chats = [replace(summary(n), updated_at=NOON - 600.0 * n) for n in range(20_000)]
    groups = group_by_day(chats, datetime.fromtimestamp(NOON).astimezone().date())
    assert len(times) == len(groups) < 10


def test_qt_asks_python_for_no_rows_that_it_does_not_show(conversations: ChatList, theme: Theme, qtbot: QtBot) -> None:
    pane = ChatPane(theme, conversations)
    qtbot.addWidget(pane)
    pane.resize(264, 600)
    pane.show()
    model = pane.list_view.model()
    assert isinstance(model, ChatListModel)
    assert "rowCount" not in vars(ChatListModel), "it would be called twice for each row whenever some are added"
    conversations.items = [summary(n) for n in range(3000)]
    pane.show_state("")
    assert model.rowCount() == len(model.rows) > 3000
    conversations.items = [*conversations.items, *(summary(n) for n in range(3000, 3060))]
    with qtbot.waitSignal(model.rowsInserted):
        pane.show_state("")
    assert model.rowCount() == len(model.rows)
    conversations.items = conversations.items[:5]
    with qtbot.waitSignal(model.modelReset):
        pane.show_state("")
    assert model.rowCount() == len(model.rows)


def test_the_list_is_read_and_grouped(conversations: ChatList) -> None:
    assert conversations.is_known
    assert [chat.id for group in conversations.group_chats(TODAY) for chat in group.chats] == [
        f"c{n}" for n in range(1, 10)
    ]


def test_a_search_waits_for_the_last_letter_and_finds_in_one_group(
    qtbot: QtBot, conversations: ChatList, api: DemoApi
) -> None:
    api.replies["GET /chats"] = long_chat.make_search_results()
    for text in ("b", "bo", "borrow & co"):
        conversations.set_query(text)
    with qtbot.waitSignal(conversations._wait.timeout):
        pass
    api.flush()
    queries = [path for _, path, _ in api.calls if path.startswith("/chats?")]
    assert queries[1:] == [f"/chats?limit={PAGE}&query=borrow%20%26%20co"]
    assert [group.title for group in conversations.group_chats(TODAY)] == ["Found"]


def test_the_next_page_begins_after_the_last_chat(conversations: ChatList, api: DemoApi) -> None:
    first, second = [summary(n) for n in range(PAGE)], [summary(n) for n in range(PAGE - 1, PAGE + 5)]
    api.replies["GET /chats"] = first
    conversations.fetch_chats()
    api.flush()
    assert conversations.has_more
    api.replies["GET /chats"] = second
    conversations.fetch_more()
    conversations.fetch_more()
    api.flush()
    pages = [path for _, path, _ in api.calls if "before=" in path]
    assert pages == [f"/chats?limit={PAGE}&query=&before={first[-1].updated_at!r}"]
    assert [chat.id for chat in conversations.items] == [f"c{n}" for n in range(PAGE + 5)]
    assert not conversations.has_more


def test_a_new_title_shows_at_once(conversations: ChatList, api: DemoApi) -> None:
    conversations.rename("c1", "  Lifetimes ")
    chat = conversations.find_chat("c1")
    assert chat is not None
    assert chat.title == "Lifetimes"
    api.flush()
    assert api.bodies_of("PATCH", "/chats/c1") == [ChatPatch(title="Lifetimes")]


@pytest.mark.parametrize("title", ["", "   ", "Rust borrow checker and temporaries"])
def test_no_title_and_the_same_title_change_nothing(conversations: ChatList, api: DemoApi, title: str) -> None:
    conversations.rename("c1", title)
    api.flush()
    assert api.bodies_of("PATCH", "/chats/c1") == []


def test_a_deleted_chat_can_be_brought_back(conversations: ChatList, api: DemoApi) -> None:
    toasts: list[tuple[str, object]] = []
    conversations.toast_requested.connect(lambda sentence, undo: toasts.append((sentence, undo)))
    conversations.delete("c1")
    assert conversations.find_chat("c1") is None
    api.flush()
    sentence, undo = toasts[0]
    assert sentence == "“Rust borrow checker and temporaries” was deleted."
    assert callable(undo)
    undo()
    api.flush()
    assert api.bodies_of("POST", "/chats/c1/restore") == [None]
    assert conversations.find_chat("c1") is not None


def test_a_chat_that_cannot_be_deleted_stays(conversations: ChatList, api: DemoApi) -> None:
    failures: list[object] = []
    conversations.failed.connect(failures.append)
    api.replies["DELETE /chats/c1"] = ErrorBody(code="storage", sentence="The disk is full.")
    conversations.delete("c1")
    api.flush()
    assert len(failures) == 1
    assert conversations.find_chat("c1") is not None


def test_pinned_chats_have_a_group_of_their_own(conversations: ChatList) -> None:
    conversations.items = [replace(summary(7), is_pinned=True), summary(1), summary(2)]
    groups = conversations.group_chats(TODAY)
    assert groups[0].title == "Pinned"
    assert [chat.id for chat in groups[0].chats] == ["c7"]
    assert [chat.id for group in groups[1:] for chat in group.chats] == ["c1", "c2"]


def test_archiving_takes_a_chat_off_the_list_and_undo_puts_it_back(conversations: ChatList, api: DemoApi) -> None:
    toasts = []
    conversations.toast_requested.connect(lambda sentence, undo: toasts.append((sentence, undo)))
    conversations.archive("c1", is_archived=True)
    assert conversations.find_chat("c1") is None
    api.flush()
    ((sentence, undo),) = toasts
    assert "is archived" in sentence
    undo()
    api.flush()
    assert api.bodies_of("PATCH", "/chats/c1") == [ChatPatch(is_archived=True), ChatPatch(is_archived=False)]


def test_another_shelf_is_read_when_it_is_shown(conversations: ChatList, api: DemoApi) -> None:
    conversations.show_shelf(ChatShelf.TRASH)
    assert not conversations.items
    api.flush()
    assert api.calls[-1][1] == f"/chats?limit={PAGE}&query=&shelf=trash"
    conversations.restore("c1")
    assert conversations.find_chat("c1") is None
    api.flush()
    assert ("POST", "/chats/c1/restore") in [(method, path) for method, path, _ in api.calls]


def test_what_is_deleted_for_good_goes_from_the_trash(conversations: ChatList, api: DemoApi) -> None:
    api.replies["DELETE /chats/c1?for_good=true"] = None
    conversations.show_shelf(ChatShelf.TRASH)
    api.flush()
    conversations.delete_for_good("c1")
    assert conversations.find_chat("c1") is None
    api.flush()
    assert ("DELETE", "/chats/c1?for_good=true") in [(method, path) for method, path, _ in api.calls]


def test_a_burst_of_events_reads_the_list_once(
    qtbot: QtBot, conversations: ChatList, api: DemoApi, shell: Shell
) -> None:
    before = len(api.calls)
    for _ in range(5):
        shell.event_received.emit(ChatChanged(chat="c1"))
    with qtbot.waitSignal(conversations._wait.timeout):
        pass
    assert len(api.calls) == before + 1


def test_matches_are_found_in_a_snippet() -> None:
    snippet = "tokens\n\u0002borrow\u0003 it, a \u0002borrow\u0003"
    assert strip_marks(snippet) == "tokens\nborrow it, a borrow"
    assert split_marks(cut_before_match(snippet)) == [
        ("tokens ", False),
        ("borrow", True),
        (" it, a ", False),
        ("borrow", True),
    ]
    assert cut_before_match("x" * 100 + "\u0002hit\u0003").startswith("…xxx")
