"""How long a letter takes from its key to the screen while an answer arrives, and what 50 pictures cost the window.

    python -m tests.bench.chat_typing

Keys come from a timer, as from a keyboard, twenty a second. A letter's time begins when its timer was due, so what it
waits for the answer's words counts, and ends when the composer has painted it. Of it the thread's own processor time is
told apart: on a busy machine the rest is other programs'.
"""

import gc
import json
import statistics
import sys
import time
from collections.abc import Sequence

import msgspec
import psutil
from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication

from app.core.attachments import Attachment, AttachmentKind
from app.core.chats import Message, MessageStatus
from app.gui.screens.chat.view import ChatScreen
from app.gui.theme.stylesheet import make_stylesheet
from app.gui.theme.theme import Theme
from tests.bench.chat_window import (
    STALL_LIMIT_MS,
    ChatBenchFigure,
    TokenFeed,
    answer_tokens,
    make_screen,
    percentile_99,
    settle_events,
)
from tests.demo import attachments, long_chat

TOKENS = 4_000
PICTURES = 50
MEMORY_LIMIT_MB = 300.0
_KEY_MS = 50
_MB = 1e6
_STEPS = 60


class Typist(QObject):
    """Types letters into a composer, and notes how long each took."""

    def __init__(self, screen: ChatScreen) -> None:
        super().__init__(screen)
        self._field = screen.conversation_view.composer.field
        self.waits_ms: list[float] = []
        self.own_ms: list[float] = []
        self._due = 0.0
        self._timer = QTimer(self, timerType=Qt.TimerType.PreciseTimer)
        self._timer.setInterval(_KEY_MS)
        self._timer.timeout.connect(self._type_letter)

    def start(self) -> None:
        """Begin."""
        self._due = time.perf_counter() + _KEY_MS / 1000
        self._timer.start()

    def stop(self) -> None:
        """End."""
        self._timer.stop()

    def _type_letter(self) -> None:
        spent = time.thread_time()
        key = Qt.Key.Key_Space if len(self.waits_ms) % 8 == 0 else Qt.Key.Key_A
        for kind in (QEvent.Type.KeyPress, QEvent.Type.KeyRelease):
            text = " " if key == Qt.Key.Key_Space else "a"
            QApplication.sendEvent(self._field, QKeyEvent(kind, key, Qt.KeyboardModifier.NoModifier, text))
        self._field.viewport().repaint()
        now = time.perf_counter()
        self.waits_ms.append((now - self._due) * 1000)
        self.own_ms.append((time.thread_time() - spent) * 1000)
        self._due = max(now, self._due + _KEY_MS / 1000)


def measure_typing(theme: Theme, tokens: int = TOKENS) -> list[ChatBenchFigure]:
    """Measure letters typed while an answer is written at 200 tokens a second."""
    api, screen = make_screen(theme)
    question = long_chat.make_question(1, "Write a long one.", None)
    answer = long_chat.make_answer(1, "", timings=None, status=MessageStatus.GENERATING)
    screen.model.conversation.open_chat("c1")
    api.replies["GET /chats/c1"] = long_chat.make_chat([question, answer])
    settle_events(api)
    feed = TokenFeed(api, "/chats/c1/answers/a1?offset=0", list(answer_tokens(tokens)))
    typist = Typist(screen)
    gc.collect()
    typist.start()
    feed.run()
    typist.stop()
    screen.deleteLater()
    return [
        ChatBenchFigure(
            name="a letter to the screen, p99", value=percentile_99(typist.waits_ms), limit=STALL_LIMIT_MS, unit="ms"
        ),
        ChatBenchFigure(name="a letter to the screen, median", value=statistics.median(typist.waits_ms), unit="ms"),
        ChatBenchFigure(
            name="of it computed here, p99", value=percentile_99(typist.own_ms), limit=STALL_LIMIT_MS, unit="ms"
        ),
    ]


def measure_pictures(theme: Theme) -> list[ChatBenchFigure]:
    """Measure the memory of a window whose conversation of 50 pictures was read from end to beginning."""
    api, screen = make_screen(theme)
    drawn = attachments.draw_picture("#e07a3a", "#5b4a63")
    messages: list[Message] = []
    for number in range(1, PICTURES + 1):
        picture = attachments.make_attachment(number + 100, f"{number}.png", kind=AttachmentKind.PICTURE)
        api.replies[f"GET /attachments/{picture.id}/content"] = drawn
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


def main(arguments: list[str]) -> int:
    """Print the figures, as JSON only those with a limit; return 1 when one is too large."""
    application = QApplication.instance() or QApplication(["roundhouse", "-platform", "offscreen"])
    theme = Theme()
    if isinstance(application, QApplication):
        application.setStyleSheet(make_stylesheet(theme))
    results = [*measure_pictures(theme), *measure_typing(theme)]
    if "--json" in arguments:
        rows = [msgspec.to_builtins(result) for result in results if result.limit is not None]
        sys.stdout.write(json.dumps(rows) + "\n")
    else:
        sys.stdout.write("".join(f"{result.format_line()}\n" for result in results))
    return int(any(result.is_too_large for result in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
