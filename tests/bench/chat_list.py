"""What very many chats cost: pages and searches of 50,000 in the database, and the window's list far down.

    python -m tests.bench.chat_list [--json]

Times are the processor's. Every chat has four messages of some hundred characters, each hundredth a file of 4 kB.
"""

import asyncio
import gc
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from app.core.attachments import Attachment, AttachmentKind, AttachmentPart
from app.core.chats import Chat, ChatImport, ChatSummary, Message, Role, Sampling
from app.gui.screens.chat.chat_folders import PAGE
from app.gui.theme.theme import Theme
from app.store.database import ChatStore
from app.store.files import hash_of
from app.store.listing import MAX_PAGE, ListRequest
from tests.bench.chat_window import ChatBenchFigure, make_screen, prepare_theme, print_figures, settle_events

CHATS = 50_000
ROWS = 20_000
PAGE_LIMIT_MS = 5.0
SEARCH_LIMIT_MS = 160.0
"""As long as a search waits for the next letter. It is time of the database's thread: no answer waits for it."""
ROWS_LIMIT_MS = 32.0
"""Two pictures of a display: a page is added while somebody scrolls."""
_BATCH = 2_000
_FILE_EVERY = 100
_REPEATS = 7
_LAST = datetime(2026, 3, 10, 12, tzinfo=UTC).timestamp()
_EVERY_S = 1200.0
_WORDS = "boiler pressure wheel axle signal points shed turntable coal water steam whistle brake wagon".split()  # noqa: SIM905 -- a list of words reads as a line


def measure_all(theme: Theme) -> list[ChatBenchFigure]:
    """Return all figures."""
    return [*asyncio.run(measure_store()), *measure_rows(theme)]


async def measure_store() -> list[ChatBenchFigure]:
    """Measure pages of the list, the first and one far down, and searches."""
    with tempfile.TemporaryDirectory() as folder:
        store = await ChatStore.open(Path(folder) / "chats.sqlite")
        try:
            await _fill(store)
            far = _LAST - _EVERY_S * (CHATS - 2 * PAGE)
            requests = {
                "first page": (ListRequest(limit=PAGE), PAGE_LIMIT_MS),
                "page 49,900 chats down": (ListRequest(limit=PAGE, before=far), PAGE_LIMIT_MS),
                "search, a word in every chat": (ListRequest("boiler", limit=PAGE), SEARCH_LIMIT_MS),
                "search, a rare word": (ListRequest("zanzibar", limit=PAGE), SEARCH_LIMIT_MS),
                "search, one letter": (ListRequest("b", limit=PAGE), SEARCH_LIMIT_MS),
            }
            return [
                ChatBenchFigure(name=name, value=await _time_request(store, request), unit="ms", limit=limit)
                for name, (request, limit) in requests.items()
            ]
        finally:
            await store.close()


async def _time_request(store: ChatStore, request: ListRequest) -> float:
    times = []
    for _ in range(_REPEATS):
        began = time.process_time()
        assert await store.list_summaries(request)
        times.append((time.process_time() - began) * 1000)
    return statistics.median(times)


async def _fill(store: ChatStore) -> None:
    chance = random.Random(7)  # noqa: S311 -- the same chats each time
    for start in range(0, CHATS, _BATCH):
        chats = [make_chat(number, chance) for number in range(start, min(start + _BATCH, CHATS))]
        for chat in chats[::_FILE_EVERY]:
            chat.messages[0].attachments.append(await _attach(store, chance))
        await store.import_chats(ChatImport(chats=chats))


async def _attach(store: ChatStore, chance: random.Random) -> Attachment:
    content = " ".join(chance.choices(_WORDS, k=600)).encode()
    digest = hash_of(content)
    attachment = Attachment(
        id=digest[:32],
        name="notes.txt",
        kind=AttachmentKind.TEXT,
        media_type="text/plain",
        hash=digest,
        size_bytes=len(content),
        tokens=len(content) // 4,
    )
    return await store.add_attachment(attachment, {AttachmentPart.ORIGINAL: content, AttachmentPart.TEXT: content})


def make_chat(number: int, chance: random.Random) -> Chat:
    """Return one of very many chats, the newest first."""
    at, id_ = _LAST - _EVERY_S * number, f"c{number}"
    messages = [
        Message(
            id=f"{id_}m{place}",
            chat=id_,
            parent=f"{id_}m{place - 1}" if place else None,
            role=Role.ASSISTANT if place % 2 else Role.USER,
            content=" ".join(chance.choices(_WORDS, k=40)) + (" zanzibar" if number % 5_000 == place == 1 else ""),
            created_at=at,
            attachments=[],
        )
        for place in range(4)
    ]
    return Chat(
        id=id_,
        title=" ".join(chance.choices(_WORDS, k=4)),
        model="guide",
        system_prompt="",
        sampling=Sampling(),
        head=messages[-1].id,
        created_at=at,
        updated_at=at,
        messages=messages,
    )


def measure_rows(theme: Theme) -> list[ChatBenchFigure]:
    """Measure the window's list with very many rows: a page more, and what a change of the newest chat costs."""
    api, screen = make_screen(theme)
    chats, view = screen.model.chat_list, screen.pane.list_view
    summaries = [
        ChatSummary(id=f"c{n}", title=f"Chat {n}", created_at=at, updated_at=at, message_count=4)
        for n in range(ROWS + _REPEATS * PAGE)
        for at in [_LAST - _EVERY_S * n]
    ]
    api.replies["GET /chats"] = summaries[:PAGE]
    settle_events(api)
    chats.items, chats.has_more = summaries[:ROWS], True
    chats.changed.emit()
    settle_events(api)
    view.scrollToBottom()
    settle_events(api)

    def add_page(turn: int) -> None:
        start = ROWS + turn * PAGE
        api.replies["GET /chats"] = summaries[start : start + PAGE]
        chats.fetch_more()
        settle_events(api)
        view.grab()

    def read_again(turn: int) -> None:
        changed_chats = [ChatSummary(id="c0", title=f"Changed {turn}", created_at=_LAST, updated_at=_LAST + turn + 1)]
        api.replies["GET /chats"] = [*changed_chats, *summaries[1:MAX_PAGE]][: 3 * PAGE]
        chats.fetch_chats()
        settle_events(api)
        view.grab()

    figures = [
        ChatBenchFigure(name=f"a page more below {ROWS:,} rows", value=_time(add_page), unit="ms", limit=ROWS_LIMIT_MS),
        ChatBenchFigure(name=f"a change above {ROWS:,} rows", value=_time(read_again), unit="ms", limit=ROWS_LIMIT_MS),
    ]
    assert len(chats.items) >= ROWS
    screen.deleteLater()
    return figures


def _time(act: Callable[[int], None]) -> float:
    times = []
    gc.collect()
    for turn in range(_REPEATS):
        began = time.process_time()
        act(turn)
        times.append((time.process_time() - began) * 1000)
    return statistics.median(times)


if __name__ == "__main__":
    sys.exit(print_figures(measure_all(prepare_theme()), sys.argv[1:]))
