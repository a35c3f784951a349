"""Answers being written, followed on their streams. A stream that breaks is taken up again where it broke.

follow() ──delta, progress──> `grew`, `moved`      ──done──> `ended` with the stored message
   └─ stream breaks ─> a moment later, or when the gateway is back: follow from the characters already here
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal

from app.client.http import segment
from app.core.chats import AnswerDelta, AnswerDone, AnswerEvent, AnswerProgress, Message
from app.core.errors import ErrorBody
from app.gui.net.api import Call, GatewayApi
from app.gui.screens.chat.estimate import Estimate
from app.gui.screens.chat.turns import Live, Progress
from app.gui.screens.chat.words import progress_words

_AGAIN_MS = 600
_LOST = frozenset({"gateway_gone", "unavailable"})
"""Codes after which trying again can help; after others the answer is gone."""


@dataclass(slots=True)
class _Followed:
    message: Message
    live: Live
    call: Call | None = None
    estimate: Estimate = field(default_factory=Estimate)


class Answering(QObject):
    """The answers of the open chat that are being written."""

    grew = Signal(str)
    """Text was appended to the answer of this message."""
    moved = Signal(str)
    """Its progress or its state before the first word changed."""
    ended = Signal(object)
    """The `Message` as it was stored."""
    broke = Signal(str, object)
    """It cannot be followed any more: message, `ErrorBody`."""

    def __init__(self, api: GatewayApi, parent: QObject, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(parent)
        self.thought_s: dict[str, float] = {}
        """How long answers thought, as far as it was seen here."""
        self._api, self._clock = api, clock
        self._followed: dict[str, _Followed] = {}
        self._again = QTimer(self, singleShot=True, interval=_AGAIN_MS)
        self._again.timeout.connect(self.resume)

    def __bool__(self) -> bool:
        return bool(self._followed)

    def live(self, message: str) -> Live | None:
        """Return the answer's text so far, while it is written."""
        one = self._followed.get(message)
        return one.live if one else None

    def ids(self) -> list[str]:
        """Return the messages being written."""
        return list(self._followed)

    def follow(self, message: Message) -> None:
        """Follow an answer from where `message` ends."""
        if message.id in self._followed:
            return
        live = Live(started_at=self._clock(), length=len(message.content))
        if message.content:
            live.content.append(message.content)
        else:
            live.progress = Progress(words="Waiting for the model…")
        if message.reasoning and message.content:
            live.reasoning.append(message.reasoning)
        self._followed[message.id] = _Followed(message, live)
        self._connect(self._followed[message.id])

    def leave(self) -> None:
        """Follow nothing any more; the answers go on without us."""
        self._again.stop()
        for one in self._followed.values():
            if one.call is not None:
                one.call.cancel()
        self._followed.clear()

    def resume(self) -> None:
        """Take up every stream that broke."""
        for one in list(self._followed.values()):
            if one.call is None:
                self._connect(one)

    def _connect(self, one: _Followed) -> None:
        live, message = one.live, one.message
        if not live.length and live.reasoning:  # the gateway tells the thoughts again to who reads from the start
            live.reasoning.clear()
            live.restarts += 1
        path = f"/chats/{segment(message.chat)}/answers/{segment(message.id)}?offset={live.length}"
        one.call = self._api.stream(path, AnswerEvent, partial(self._take, one), partial(self._stopped, one))

    def _take(self, one: _Followed, event: AnswerEvent) -> None:
        if isinstance(event, AnswerDelta):
            self._append(one.live, event)
            self.grew.emit(one.message.id)
        elif isinstance(event, AnswerProgress):
            left = one.estimate.left(event.stage, event.fraction, self._clock())
            words = progress_words(event.stage, event.fraction, left)
            one.live.progress = Progress(words=words, fraction=event.fraction)
            self.moved.emit(one.message.id)
        elif isinstance(event, AnswerDone):
            self._end(one, event.message)

    def _append(self, live: Live, delta: AnswerDelta) -> None:
        live.progress = None
        if delta.reasoning:
            live.thinking_since = live.thinking_since or self._clock()
            live.reasoning.append(delta.reasoning)
        text = delta.content[max(0, live.length - delta.offset) :]
        if not text:
            return
        if live.thinking_since is not None and live.thought_s is None:
            live.thought_s = self._clock() - live.thinking_since
        live.content.append(text)
        live.length += len(text)

    def _end(self, one: _Followed, message: Message) -> None:
        self._followed.pop(message.id, None)
        if one.call is not None:
            one.call.cancel()
        if one.live.thought_s is not None:
            self.thought_s[message.id] = one.live.thought_s
        self.ended.emit(message)

    def _stopped(self, one: _Followed, error: ErrorBody | None) -> None:
        one.call = None
        if one.message.id not in self._followed:
            return
        if error is None or error.code in _LOST:
            self._again.start()
            return
        del self._followed[one.message.id]
        self.broke.emit(one.message.id, error)
