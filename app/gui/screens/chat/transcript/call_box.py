"""A call of a tool within an answer: what the model wants to do, a person's decision, and what came of it, folded."""

import json

import msgspec
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter

from app.core.tool_calls import AnswerToolCall, ToolCallState, ToolDecision
from app.core.translation import LazyText, tr
from app.gui.markdown.pieces import LINE_BREAK
from app.gui.screens.chat.transcript.box import Box, PaintState, Spot, Verb, is_lit, paint_words, words_area
from app.gui.screens.chat.transcript.look import TranscriptLook
from app.gui.screens.chat.transcript.text_lines import TextLines
from app.gui.theme.tokens import ICON_SIZE, Radius

_ROW = 36
_PAD = 14
_LONGEST_SHOWN = 6000
"""Characters of arguments or of a result; all of it is copied and exported."""
_MIDDLE = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
_END = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
_DECISIONS = (
    (ToolDecision.ONCE, LazyText("Allow once")),
    (ToolDecision.ALWAYS, LazyText("Always in this chat")),
    (ToolDecision.REFUSE, LazyText("Refuse")),
    (ToolDecision.NEVER, LazyText("Never in this chat")),
)
_STATES = {
    ToolCallState.RUNNING: LazyText("Running…"),
    ToolCallState.FAILED: LazyText("Failed"),
    ToolCallState.REFUSED: LazyText("Not allowed"),
    ToolCallState.CANCELLED: LazyText("Cancelled"),
}


def call_name(call: AnswerToolCall) -> str:
    """Return what a tool is called where it is shown, with its server."""
    tool = call.title or call.tool
    return " · ".join(filter(None, (call.server, tool)))


def state_words(call: AnswerToolCall) -> str:
    """Return how a call stands, in a word or two."""
    words = _STATES.get(call.state)
    if words is not None:
        return words.tr()
    return tr("{seconds:.1f} s", seconds=call.seconds) if call.state is ToolCallState.ANSWERED else ""


class CallBox(Box):
    """One call. While it waits it shows what would be done, and the buttons; later it is a line that unfolds."""

    gap = 8

    def __init__(self, call: AnswerToolCall) -> None:
        super().__init__()
        self.call = call
        self.is_open = False
        self._parts: list[tuple[TextLines, float]] = []
        self._spots: list[Spot] = []
        self._head = QRectF()

    @property
    def _is_waiting(self) -> bool:
        return self.call.state is ToolCallState.WAITING

    def show_call(self, call: AnswerToolCall) -> bool:
        """Show how far the call has come; return whether that changed anything."""
        if call is self.call or call == self.call:
            return False
        self.call = call
        self.drop_layout()
        return True

    def guess_height(self, look: TranscriptLook, width: float) -> float:
        """Return the height of a line, or of a card with buttons."""
        del width
        return look.px(_ROW * 4 if self._is_waiting else _ROW)

    def lay_out(self, look: TranscriptLook, width: float) -> None:
        """Set the line, then what is unfolded below it."""
        self._parts, self._spots, self.natural = [], [], width
        self._head = QRectF(0, 0, width, look.px(_ROW))
        y = float(look.px(_ROW))
        if not self._is_waiting:
            self._spots.append(Spot(QRectF(self._head), Verb.FOLD_CALL, self._describe(), self.call.id))
        if self._is_waiting or self.is_open:
            y = self._lay_details(look, width, y)
        if self._is_waiting:
            y = self._lay_buttons(look, width, y + look.px(4)) + look.px(_PAD)
        elif self.is_open:
            y += look.px(8)
        self.height = y

    def paint(self, painter: QPainter, look: TranscriptLook, pose: PaintState) -> None:
        """Draw the card, the line, the details and the buttons."""
        radius, half = look.px(Radius.CARD), 0.5 / painter.device().devicePixelRatioF()
        painter.setPen(look.hairline_pen("warn" if self._is_waiting else "line"))
        painter.setBrush(look.color("surface"))
        area = QRectF(0, 0, self._width, self.height).adjusted(half, half, -half, -half)
        painter.drawRoundedRect(area, radius, radius)
        if self._spots and self._spots[0].verb is Verb.FOLD_CALL and is_lit(self._spots[0], pose):
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(look.color("hover"))
            painter.drawRoundedRect(self._head, radius, radius)
        self._paint_head(painter, look)
        for lines, top in self._parts:
            lines.draw_at(painter, QPointF(look.px(_PAD), top), look, None)
        for spot in self._spots:
            if spot.verb is Verb.DECIDE_CALL:
                paint_words(painter, look, spot, pose=pose)

    def list_spots(self) -> list[Spot]:
        """Return the line, or the buttons."""
        return self._spots

    def _paint_head(self, painter: QPainter, look: TranscriptLook) -> None:
        pad, side, ratio = look.px(_PAD), look.px(ICON_SIZE), painter.device().devicePixelRatioF()
        middle = round((self._head.height() - side) / 2)
        has_failed = self.call.state is ToolCallState.FAILED
        icon, color = ("triangle-alert", "bad") if has_failed else ("wrench", "ink-3")
        painter.drawPixmap(QPointF(pad, middle), look.theme.pixmap(icon, color, ratio=ratio))
        right = self._width - pad
        if not self._is_waiting:
            chevron = "chevron-down" if self.is_open else "chevron-right"
            right -= side
            painter.drawPixmap(QPointF(round(right), middle), look.theme.pixmap(chevron, "ink-3", ratio=ratio))
            right -= look.px(6)
        words = state_words(self.call)
        painter.setFont(look.meta.font)
        painter.setPen(look.color("bad" if has_failed else "ink-3"))
        painter.drawText(QRectF(0, 0, right, self._head.height()), _END, words)
        left = pad + side + look.px(8)
        room = right - look.meta.metrics.horizontalAdvance(words) - look.px(12) - left
        tone = look.strong if self._is_waiting else look.body
        painter.setFont(tone.font)
        painter.setPen(look.color("ink" if self._is_waiting else "ink-2"))
        title = tone.metrics.elidedText(self._title(), Qt.TextElideMode.ElideRight, max(0.0, room))
        painter.drawText(QRectF(left, 0, max(0.0, room), self._head.height()), _MIDDLE, title)

    def _title(self) -> str:
        name = call_name(self.call)
        if self._is_waiting:
            return tr("The model wants to use {tool}", tool=name)
        if not self.call.tool:
            return tr("{server} could not be started", server=self.call.server)
        return name

    def _describe(self) -> str:
        parts = ", ".join(filter(None, (self._title(), state_words(self.call))))
        if self.is_open:
            return tr("{call}: hide what was called and returned", call=parts)
        return tr("{call}: show what was called and returned", call=parts)

    def _lay_details(self, look: TranscriptLook, width: float, y: float) -> float:
        room = width - 2 * look.px(_PAD)
        if self._is_waiting and self.call.has_changed:
            words = tr("The server describes this tool otherwise than when you allowed it.")
            y = self._add_lines(TextLines(words, look.body, [], width=room), y)
        arguments = pretty_arguments(self.call.arguments)
        if arguments:
            y = self._add_text(look, tr("Arguments"), arguments, room, y)
        if self.call.result:
            y = self._add_text(look, tr("Result"), self.call.result, room, y)
        if not arguments and not self.call.result:
            y = self._add_lines(TextLines(tr("Without arguments."), look.meta, [], width=room), y)
        return y

    def _add_text(self, look: TranscriptLook, title: str, text: str, room: float, y: float) -> float:
        visible_text = text
        if len(text) > _LONGEST_SHOWN:
            more = tr("… and {count:,} more characters", count=len(text) - _LONGEST_SHOWN)
            visible_text = f"{text[:_LONGEST_SHOWN]}\n{more}"
        y = self._add_lines(TextLines(title, look.meta, [], width=room), y)
        lines = TextLines(visible_text.replace("\n", LINE_BREAK), look.code, [], width=room)
        return self._add_lines(lines, y) + look.px(6)

    def _lay_buttons(self, look: TranscriptLook, width: float, y: float) -> float:
        pad = float(look.px(_PAD))
        x, row = pad, look.px(30)
        for decision, words in _DECISIONS:
            area = words_area(look, words.tr(), x, y)
            if x > pad and area.right() > width - pad:
                x, y = pad, y + row + look.px(4)
                area = words_area(look, words.tr(), x, y)
            self._spots.append(Spot(area, Verb.DECIDE_CALL, words.tr(), f"{decision.value} {self.call.id}"))
            x += area.width() + look.px(8)
        return y + row

    def _add_lines(self, lines: TextLines, top: float) -> float:
        self._parts.append((lines, top))
        return top + lines.height


def pretty_arguments(arguments: str) -> str:
    """Return arguments as they are read easily; nothing for none."""
    try:
        value = msgspec.json.decode(arguments or "{}")
    except msgspec.MsgspecError:
        return arguments
    return json.dumps(value, ensure_ascii=False, indent=2) if value else ""
