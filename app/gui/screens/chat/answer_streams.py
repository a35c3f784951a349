"""Answers being written, followed on their streams. A stream that breaks is taken up again where it broke.

follow() ──delta, progress──> `text_appended`, `progress_changed`      ──done──> `answer_ended` with the stored message
   └─ stream breaks ─> a moment later, or when the gateway is back: follow from the characters already here

How long something will take that tells how far it is.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal

from app.client.http import quote_segment
from app.core.chats import AnswerCallChanged, AnswerDelta, AnswerDone, AnswerEvent, AnswerProgress, Message
from app.core.errors import ErrorBody
from app.core.translation import tr
from app.gui.net.api import GatewayApi, GatewayCall
from app.gui.phrases import progress_words
from app.gui.screens.chat.turns import LiveText, TurnProgress

_SURE_AFTER_S = 0.7
_SURE_FRACTION = 0.04


class TimeLeft:
    """Time left, from how fast the present stage went so far."""

    def __init__(self) -> None:
        self._stage = ""
        self._began = (0.0, 0.0)

    def estimate_left_s(self, stage: str, fraction: float | None, now: float) -> float | None:
        """Return the seconds left of `stage`; None while nobody can say."""
        if fraction is None:
            return None
        if stage != self._stage or fraction < self._began[1]:
            self._stage, self._began = stage, (now, fraction)
        passed_s, done_share = now - self._began[0], fraction - self._began[1]
        if passed_s < _SURE_AFTER_S or done_share < _SURE_FRACTION:
            return None
        return passed_s * (1.0 - fraction) / done_share


_AGAIN_MS = 600
_LOST = frozenset({"gateway_gone", "unavailable"})
"""Codes after which trying again can help; after others the answer is gone."""


@dataclass(slots=True)
class _AnswerStream:
    message: Message
    live: LiveText
    call: GatewayCall | None = None
    estimate: TimeLeft = field(default_factory=TimeLeft)


class AnswerStreams(QObject):
    """The answers of the open chat that are being written."""

    text_appended = Signal(str)
    """Text was appended to the answer of this message."""
    progress_changed = Signal(str)
    """Its progress or its state before the first word changed."""
    answer_ended = Signal(object)
    """The `Message` as it was stored."""
    stream_broke = Signal(str, object)
    """It cannot be followed any more: message, `ErrorBody`."""

    def __init__(self, api: GatewayApi, parent: QObject, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(parent)
        self.thought_s: dict[str, float] = {}
        """How long answers thought, as far as it was seen here."""
        self._api, self._clock = api, clock
        self._streams: dict[str, _AnswerStream] = {}
        self._again = QTimer(self, singleShot=True, interval=_AGAIN_MS)
        self._again.timeout.connect(self.reconnect_all)

    def __bool__(self) -> bool:
        return bool(self._streams)

    def find_live(self, message: str) -> LiveText | None:
        """Return the answer's text so far, while it is written."""
        stream = self._streams.get(message)
        return stream.live if stream else None

    def message_ids(self) -> list[str]:
        """Return the messages being written."""
        return list(self._streams)

    def follow(self, message: Message) -> None:
        """Follow an answer from where `message` ends."""
        if message.id in self._streams:
            return
        live = LiveText(started_at=self._clock(), length=len(message.content))
        live.calls.update((call.id, call) for call in message.calls)
        live.attachments.extend(message.attachments)
        if message.content:
            live.content.append(message.content)
        else:
            live.progress = TurnProgress(words=tr("Waiting for the model…"))
        if message.reasoning and message.content:
            live.reasoning.append(message.reasoning)
        self._streams[message.id] = _AnswerStream(message, live)
        self._open_stream(self._streams[message.id])

    def leave_all(self) -> None:
        """Follow nothing any more; the answers go on without us."""
        self._again.stop()
        for stream in self._streams.values():
            if stream.call is not None:
                stream.call.cancel()
        self._streams.clear()

    def reconnect_all(self) -> None:
        """Take up every stream that broke."""
        for stream in list(self._streams.values()):
            if stream.call is None:
                self._open_stream(stream)

    def _open_stream(self, stream: _AnswerStream) -> None:
        live, message = stream.live, stream.message
        if not live.length and live.reasoning:  # the gateway tells the thoughts again to who reads from the start
            live.reasoning.clear()
            live.restarts += 1
        path = f"/chats/{quote_segment(message.chat)}/answers/{quote_segment(message.id)}?offset={live.length}"
        stream.call = self._api.open_stream(
            path, AnswerEvent, partial(self._handle_event, stream), partial(self._handle_stream_end, stream)
        )

    def _handle_event(self, stream: _AnswerStream, event: AnswerEvent) -> None:
        if isinstance(event, AnswerDelta):
            self._append_delta(stream.live, event)
            self.text_appended.emit(stream.message.id)
        elif isinstance(event, AnswerProgress):
            left_s = stream.estimate.estimate_left_s(event.stage, event.fraction, self._clock())
            words = progress_words(event.stage, event.fraction, left_s)
            stream.live.progress = TurnProgress(words=words, fraction=event.fraction)
            self.progress_changed.emit(stream.message.id)
        elif isinstance(event, AnswerCallChanged):
            stream.live.progress = None
            stream.live.calls[event.call.id] = event.call
            stream.live.attachments += [file for file in event.attachments if file not in stream.live.attachments]
            self.text_appended.emit(stream.message.id)
        elif isinstance(event, AnswerDone):
            self._end_answer(stream, event.message)

    def _append_delta(self, live: LiveText, delta: AnswerDelta) -> None:
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

    def _end_answer(self, stream: _AnswerStream, message: Message) -> None:
        self._streams.pop(message.id, None)
        if stream.call is not None:
            stream.call.cancel()
        if stream.live.thought_s is not None:
            self.thought_s[message.id] = stream.live.thought_s
        self.answer_ended.emit(message)

    def _handle_stream_end(self, stream: _AnswerStream, error: ErrorBody | None) -> None:
        stream.call = None
        if stream.message.id not in self._streams:
            return
        if error is None or error.code in _LOST:
            self._again.start()
            return
        del self._streams[stream.message.id]
        self.stream_broke.emit(stream.message.id, error)
