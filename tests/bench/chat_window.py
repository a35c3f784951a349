"""What the chat page costs: stalls and typing while an answer streams, opening a chat, the memory of 50 pictures.

    python -m tests.bench.chat_window [--json]

Words arrive as bytes of the gateway's event stream, one event per token, 200 a second, and pass through everything they
pass through in the window. A timer that fires as often as it can notices every moment in which the event loop did not
turn. Runs without a display; painting is real.
"""

import gc
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence

import msgspec
import psutil
from PySide6.QtCore import QEventLoop, Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.core.attachments import Attachment, AttachmentKind
from app.core.chats import AnswerDelta, AnswerDone, AnswerEvent, Chat, Message, MessageStatus
from app.core.tokens import TextTokens
from app.gui.markdown.highlight import COMMON_LANGUAGES, highlight_code
from app.gui.net.remote_lists import Stores
from app.gui.net.sse import SseParser
from app.gui.screens.chat.view import ChatScreen
from app.gui.shell.contract import Shell
from app.gui.theme.stylesheet import make_stylesheet
from app.gui.theme.theme import Theme
from tests.demo import attachments, long_chat
from tests.demo.api import DemoApi
from tests.demo.data import gateway_replies

TOKENS = 20_000
TOKENS_PER_S = 200
MESSAGES = 5_000
STALL_LIMIT_MS = 16.0
RATIO_LIMIT = 1.5
OPEN_LIMIT_MS = 300.0
TYPING_TOKENS = 6_000
KEY_EVERY_MS = 50
"""Faster than anybody types: twenty keys a second."""
PICTURES = 50
MEMORY_LIMIT_MB = 300.0
_SIZE = (1200, 780)
_MB = 1e6
_STEPS = 60
"""In which a conversation is looked through from its end to its beginning."""
_PERCENT = 100


class ChatBenchFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure and the most it may be; without a limit it is told for information."""

    name: str
    value: float
    unit: str
    limit: float | None = None

    @property
    def is_too_large(self) -> bool:
        """Whether it breaks its promise."""
        return self.limit is not None and self.value > self.limit

    def format_line(self) -> str:
        """Return it as a line of text."""
        promise = "" if self.limit is None else f" (at most {self.limit:g})"
        return f"{self.name:36} {self.value:8.2f} {self.unit:3}{promise}"


class Heartbeat:
    """A timer that fires as often as the event loop lets it, and remembers how long it was kept waiting."""

    def __init__(self) -> None:
        self.gaps_ms: list[float] = []
        self.own_ms: list[float] = []
        """As much of each gap as this process computed; the rest is the machine's doing."""
        self._last = self._last_spent_s = 0.0
        self._timer = QTimer(timerType=Qt.TimerType.PreciseTimer)
        self._timer.setInterval(1)
        self._timer.timeout.connect(self._note_gap)

    def start(self) -> None:
        """Begin."""
        self._last, self._last_spent_s = time.perf_counter(), time.thread_time()
        self._timer.start()

    def stop(self) -> None:
        """End."""
        self._timer.stop()

    def _note_gap(self) -> None:
        now, spent_s = time.perf_counter(), time.thread_time()
        self.gaps_ms.append((now - self._last) * 1000)
        self.own_ms.append((spent_s - self._last_spent_s) * 1000)
        self._last, self._last_spent_s = now, spent_s


class TokenFeed:
    """Sends an answer's tokens on time, and notes what each tenth of them cost the processor."""

    def __init__(self, api: DemoApi, path: str, tokens: list[str]) -> None:
        self._api, self._path, self._tokens = api, path, tokens
        self._parser, self._decoder = SseParser(), msgspec.json.Decoder(AnswerEvent)
        self._position, self._offset, self._began = 0, 0, 0.0
        self.marks: list[tuple[int, float]] = []
        self._timer = QTimer(timerType=Qt.TimerType.PreciseTimer)
        self._timer.setInterval(round(1000 / TOKENS_PER_S))
        self._timer.timeout.connect(self._send_due)
        self._loop = QEventLoop()

    def run(self) -> None:
        """Send everything, in real time."""
        self._began = time.perf_counter()
        self._timer.start()
        self._loop.exec()

    def _send_due(self) -> None:
        due = min(len(self._tokens), int((time.perf_counter() - self._began) * TOKENS_PER_S) + 1)
        while self._position < due:
            self._send_token(self._tokens[self._position])
        if self._position == len(self._tokens):
            self._timer.stop()
            self._loop.quit()

    def _send_token(self, token: str) -> None:
        if self._position % 100 == 0:
            self.marks.append((self._position, time.process_time()))
        event = AnswerDelta(content=token, offset=self._offset)
        packet = b"event: delta\ndata: " + msgspec.json.encode(event) + b"\n\n"
        for data in self._parser.feed(packet):
            self._api.send_event(self._path, self._decoder.decode(data))
        self._offset += len(token)
        self._position += 1


def prepare_theme() -> Theme:
    """Return the theme, with an application that uses it."""
    application = QApplication.instance() or QApplication(["roundhouse", "-platform", "offscreen"])
    theme = Theme()
    if isinstance(application, QApplication):
        application.setStyleSheet(make_stylesheet(theme))
    return theme


def measure_all(tokens: int = TOKENS) -> list[ChatBenchFigure]:
    """Measure everything; takes a little longer than the answer does."""
    theme = prepare_theme()
    # Pictures first: what else was shown would be counted as theirs.
    return [
        *measure_pictures(theme),
        *measure_stream(theme, tokens),
        *measure_typing(theme),
        measure_opening(theme),
    ]


def measure_pictures(theme: Theme) -> list[ChatBenchFigure]:
    """Measure the memory of a window whose conversation of 50 pictures was read from end to beginning."""
    api, screen = make_screen(theme)
    content = attachments.draw_picture("#e07a3a", "#5b4a63")
    messages: list[Message] = []
    for number in range(1, PICTURES + 1):
        picture = attachments.make_attachment(number + 100, f"{number}.png", kind=AttachmentKind.PICTURE)
        api.replies[f"GET /attachments/{picture.id}/content"] = content
        messages += _turn(number, picture)
    before = psutil.Process().memory_info().rss
    api.replies["GET /chats/c1"] = long_chat.make_chat(messages)
    screen.model.open_chat("c1")
    settle_events(api)
    bar = screen.conversation_view.transcript.verticalScrollBar()
    for step in range(_STEPS, -1, -1):
        bar.setValue(bar.maximum() * step // _STEPS)
        screen.grab()
        settle_events(api)
    memory = psutil.Process().memory_info().rss
    screen.deleteLater()
    return [
        ChatBenchFigure(name=f"memory with {PICTURES} pictures", value=memory / _MB, limit=MEMORY_LIMIT_MB, unit="MB"),
        ChatBenchFigure(name="of it for the pictures", value=(memory - before) / _MB, unit="MB"),
    ]


def _turn(number: int, picture: Attachment) -> Sequence[Message]:
    question = long_chat.make_question(number, "What is it?", f"a{number - 1}" if number > 1 else None)
    question = long_chat.replace_fields(question, attachments=[picture])
    return question, long_chat.make_answer(number, f"Picture {number}.\n\n{long_chat.ANSWER}")


def measure_stream(theme: Theme, tokens: int) -> list[ChatBenchFigure]:
    """Measure an answer being written."""
    api, screen = make_screen(theme)
    question = long_chat.make_question(1, "Write a long one.", None)
    answer = long_chat.make_answer(1, "", timings=None, status=MessageStatus.GENERATING)
    for language in COMMON_LANGUAGES:
        highlight_code(language, "x")  # the window does this while nobody waits
    screen.model.conversation.open_chat("c1")
    api.replies["GET /chats/c1"] = long_chat.make_chat([question, answer])
    settle_events(api)
    feed = TokenFeed(api, "/chats/c1/answers/a1?offset=0", list(answer_tokens(tokens)))
    beat = Heartbeat()
    gc.collect()
    beat.start()
    feed.run()
    beat.stop()
    whole = "".join(answer_tokens(tokens))
    last_event = AnswerDone(message=long_chat.replace_fields(answer, content=whole, status=MessageStatus.COMPLETE))
    began = time.perf_counter()
    api.send_event("/chats/c1/answers/a1?offset=0", last_event)
    settle_events(api)
    ended_ms = (time.perf_counter() - began) * 1000
    screen.deleteLater()
    return [
        ChatBenchFigure(
            name="event loop stall, p99", value=percentile_99(beat.gaps_ms), limit=STALL_LIMIT_MS, unit="ms"
        ),
        ChatBenchFigure(name="event loop stall, longest", value=max(beat.gaps_ms), unit="ms"),
        ChatBenchFigure(name="of it computed here, longest", value=max(beat.own_ms), unit="ms"),
        ChatBenchFigure(
            name="cost of a token, last tenth / first", value=_cost_ratio(feed.marks), limit=RATIO_LIMIT, unit=""
        ),
        ChatBenchFigure(
            name="processor used while streaming", value=_processor_share(feed.marks), limit=100.0, unit="%"
        ),
        ChatBenchFigure(name="the end of the answer", value=ended_ms, limit=100.0, unit="ms"),
    ]


class Typist:
    """Types into the composer, and notes how long each key took from when it was due to its picture."""

    def __init__(self, screen: ChatScreen) -> None:
        self.delays_ms: list[float] = []
        self.own_ms: list[float] = []
        """Processor time of each key; the rest of its delay is the answer's, or the machine's doing."""
        self._screen = screen
        self._due = 0.0
        self._timer = QTimer(timerType=Qt.TimerType.PreciseTimer)
        self._timer.setInterval(KEY_EVERY_MS)
        self._timer.timeout.connect(self._press_key)

    def start(self) -> None:
        """Begin."""
        self._due = time.perf_counter()
        self._timer.start()

    def stop(self) -> None:
        """End."""
        self._timer.stop()

    def _press_key(self) -> None:
        spent_s, interval_s = time.thread_time(), KEY_EVERY_MS / 1000
        self._due += interval_s
        field = self._screen.conversation_view.composer.field
        QTest.keyClicks(field, " word"[len(self.delays_ms) % 5])
        field.viewport().repaint()
        self.own_ms.append((time.thread_time() - spent_s) * 1000)
        late_s = time.perf_counter() - self._due
        self.delays_ms.append(late_s * 1000)
        self._due += late_s // interval_s * interval_s  # keys that were missed are not made up for


def measure_typing(theme: Theme) -> list[ChatBenchFigure]:
    """Measure typing while an answer streams: each key from when it is due until it is painted."""
    api, screen = make_screen(theme)
    question = long_chat.make_question(1, "Write a long one.", None)
    answer = long_chat.make_answer(1, "", timings=None, status=MessageStatus.GENERATING)
    screen.model.conversation.open_chat("c1")
    api.replies["GET /chats/c1"] = long_chat.make_chat([question, answer])
    api.replies["POST /tokens"] = TextTokens(tokens=100, is_estimate=False)
    settle_events(api)
    feed = TokenFeed(api, "/chats/c1/answers/a1?offset=0", list(answer_tokens(TYPING_TOKENS)))
    typist = Typist(screen)
    gc.collect()
    typist.start()
    feed.run()
    typist.stop()
    screen.deleteLater()
    return [
        ChatBenchFigure(
            name="a key while streaming, p99", value=percentile_99(typist.delays_ms), limit=STALL_LIMIT_MS, unit="ms"
        ),
        ChatBenchFigure(name="a key while streaming, median", value=statistics.median(typist.delays_ms), unit="ms"),
        ChatBenchFigure(name="of it computed here, p99", value=percentile_99(typist.own_ms), unit="ms"),
    ]


def measure_opening(theme: Theme) -> ChatBenchFigure:
    """Measure opening a long chat: bytes to values to the first picture. The middle of five times."""
    data = msgspec.json.encode(make_chat(MESSAGES))
    times = []
    for _ in range(5):
        api, screen = make_screen(theme)
        settle_events(api)
        gc.collect()
        began = time.perf_counter()
        api.replies["GET /chats/c1"] = msgspec.json.decode(data, type=Chat)
        screen.model.open_chat("c1")
        api.flush()
        screen.grab()
        times.append((time.perf_counter() - began) * 1000)
        screen.deleteLater()
    return ChatBenchFigure(
        name=f"opening {MESSAGES:,} messages", value=statistics.median(times), limit=OPEN_LIMIT_MS, unit="ms"
    )


def answer_tokens(count: int) -> Iterator[str]:
    """Yield the tokens of an answer with everything in it: prose, lists, code, tables, and one endless paragraph."""
    text = long_chat.ANSWER + "\n\n"
    endless = "and so it goes on without a line break, " * 60 + "\n\n"
    token_count = 0
    while True:
        for source in (text, text, endless):
            for start in range(0, len(source), 4):
                yield source[start : start + 4]
                token_count += 1
                if token_count == count:
                    return


def make_chat(count: int) -> Chat:
    """Return a chat of `count` messages, a kilobyte each."""
    messages: list[Message] = []
    for number in range(1, count // 2 + 1):
        parent = messages[-1].id if messages else None
        messages.append(
            long_chat.make_question(number, f"Question {number}: why does the borrow checker refuse this?", parent)
        )
        messages.append(long_chat.make_answer(number, f"Answer {number}.\n\n{long_chat.ANSWER}"))
    return long_chat.make_chat(messages)


def make_screen(theme: Theme) -> tuple[DemoApi, ChatScreen]:
    """Return the chat page with its demo gateway."""
    api = DemoApi({**gateway_replies(), **long_chat.chat_replies()})
    shell = Shell()
    screen = ChatScreen(theme, Stores(api, shell), shell)
    shell.setParent(screen)
    screen.resize(*_SIZE)
    screen.show()
    return api, screen


def settle_events(api: DemoApi) -> None:
    """Have everything answered and painted that is due."""
    for _ in range(5):
        api.flush()
        QApplication.processEvents()


def percentile_99(values: list[float]) -> float:
    """Return what one of a hundred is above."""
    return sorted(values)[int(len(values) * 0.99)]


def _cost_ratio(marks: list[tuple[int, float]]) -> float:
    tenth = max(1, len(marks) // 10)
    first = marks[tenth][1] - marks[0][1]
    last = marks[-1][1] - marks[-1 - tenth][1]
    return last / first if first else 0.0


def _processor_share(marks: list[tuple[int, float]]) -> float:
    tokens, spent_s = marks[-1][0] - marks[0][0], marks[-1][1] - marks[0][1]
    return _PERCENT * spent_s * TOKENS_PER_S / tokens


def print_figures(results: Sequence[ChatBenchFigure], arguments: Sequence[str]) -> int:
    """Print figures, as JSON only those with a limit; return 1 when one is too large."""
    if "--json" in arguments:
        rows = [msgspec.to_builtins(result) for result in results if result.limit is not None]
        sys.stdout.write(json.dumps(rows) + "\n")
    else:
        sys.stdout.write("".join(f"{result.format_line()}\n" for result in results))
    return int(any(result.is_too_large for result in results))


if __name__ == "__main__":
    sys.exit(print_figures(measure_all(), sys.argv[1:]))
