"""All turns below each other: which are near the view, what is where, and what is selected. No widget in it.

Places are counted from the top left corner of the column. A `Spot` on the way out carries the turn it is in.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from PySide6.QtCore import QPointF
from PySide6.QtGui import QPainter

from app.gui.markdown.pieces import wide_length
from app.gui.screens.chat.transcript.box import HeightStack, MatchMark, PaintState, Spot
from app.gui.screens.chat.transcript.code_box import CodeBox, CodeCard
from app.gui.screens.chat.transcript.look import TranscriptLook
from app.gui.screens.chat.transcript.text_lines import Range
from app.gui.screens.chat.transcript.transcript_turn import TranscriptTurn
from app.gui.screens.chat.turns import TurnView

FOOT_SPACE = 24
_KEPT = 60
"""Turns whose layouts are kept when they are out of view."""

Place = tuple[int, int, int]
"""Turn, box, position in the box's text."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A place that stays where it is on the screen while heights around it change."""

    turn: int
    box: int
    offset: float


class TranscriptDocument:
    """The conversation as it is drawn."""

    def __init__(self, look: TranscriptLook) -> None:
        self.look = look
        self.turns: list[TranscriptTurn] = []
        self.start: Place | None = None
        self.end: Place | None = None
        self.marks: Mapping[tuple[int, int], Sequence[MatchMark]] = {}
        """What is looked for, by turn and box."""
        self._stack = HeightStack()
        self._width = 1.0
        self._recent: dict[int, None] = {}

    @property
    def height(self) -> float:
        """The height of everything."""
        return self._stack.total + self.look.px(FOOT_SPACE) if self.turns else 0.0

    def show_views(self, views: Sequence[TurnView]) -> None:
        """Show these turns, keeping what is known of the messages that stay."""
        turns_by_id = {turn.view.message.id: turn for turn in self.turns}
        old_turns = [turns_by_id.get(view.message.id) for view in views]
        if [turn for turn in old_turns if turn] != self.turns[: len(views)]:
            self.clear_selection()
        self.turns = []
        for view, turn in zip(views, old_turns, strict=True):
            self.turns.append(self._turn_for(view, turn))
        self._recent = {}
        self._stack.replace_from(0, [turn.height for turn in self.turns])

    def _turn_for(self, view: TurnView, turn: TranscriptTurn | None) -> TranscriptTurn:
        if turn is None:
            turn = TranscriptTurn(view, self.look)
            turn.resize(self.look, self._width)
        elif view != turn.view:
            turn.show_view(view)
        return turn

    def resize(self, look: TranscriptLook, width: float) -> None:
        """Take another width or another state of the theme."""
        if look is self.look and width == self._width:
            return
        self.look, self._width = look, width
        for turn in self.turns:
            turn.resize(look, width)
        self._stack.replace_from(0, [turn.height for turn in self.turns])

    def pull_answer(self, message: str) -> bool:
        """Read what was appended to an answer being written."""
        for index in range(len(self.turns) - 1, -1, -1):
            if self.turns[index].view.message.id == message:
                is_changed = self.turns[index].pull_text()
                self._stack.set_height(index, self.turns[index].height)
                return is_changed
        return False

    def update_height(self, index: int) -> None:
        """Take the new height of a turn that changed by itself."""
        self._stack.set_height(index, self.turns[index].height)

    def lay_out_between(self, top: float, bottom: float) -> bool:
        """Lay out what lies between two places; return whether heights changed."""
        if not self.turns:
            return False
        before = self._stack.total
        index = self._stack.index_at(top)
        while index < len(self.turns) and self._stack.top_of(index) < bottom:
            offset = self._stack.top_of(index)
            self.turns[index].lay_out_between(top - offset, bottom - offset)
            self._stack.set_height(index, self.turns[index].height)
            self._keep_recent(index)
            index += 1
        return self._stack.total != before

    def anchor_at(self, y: float) -> Anchor:
        """Return what is at a place, to find it again later."""
        if not self.turns:
            return Anchor(0, 0, 0.0)
        index = self._stack.index_at(y)
        turn, inner = self.turns[index], y - self._stack.top_of(index)
        if not turn.boxes:
            return Anchor(index, -1, inner)
        box = turn.box_at(inner)
        return Anchor(index, box, inner - turn.stack.top_of(box))

    def place_of(self, anchor: Anchor) -> float:
        """Return where an anchor is now."""
        if anchor.turn >= len(self.turns):
            return 0.0
        turn = self.turns[anchor.turn]
        inside = turn.stack.top_of(anchor.box) if 0 <= anchor.box < len(turn.boxes) else 0.0
        return self._stack.top_of(anchor.turn) + inside + anchor.offset

    def turn_top(self, index: int) -> float:
        """Return where a turn begins."""
        return self._stack.top_of(index)

    def turn_at(self, y: float) -> int:
        """Return which turn is at a place."""
        return self._stack.index_at(y)

    def visible_turns(self, top: float, bottom: float) -> range:
        """Return which turns lie between two places."""
        if not self.turns:
            return range(0)
        return range(self._stack.index_at(top), self._stack.index_at(max(top, bottom - 1)) + 1)

    def spot_at(self, x: float, y: float) -> tuple[int, Spot] | None:
        """Return the spot at a place, and its turn."""
        if not self.turns:
            return None
        index = self.turn_at(y)
        inner = y - self.turn_top(index)
        point = QPointF(x, inner)
        for spot in self.turns[index].spots_between(inner, inner + 1):
            if spot.area.contains(point):
                return index, spot
        return None

    def card_at(self, y: float) -> CodeCard | None:
        """Return the card of the code at a place, to scroll it sideways."""
        if not self.turns:
            return None
        index = self.turn_at(y)
        turn = self.turns[index]
        box = turn.boxes[turn.box_at(y - self.turn_top(index))] if turn.boxes else None
        return box.card if isinstance(box, CodeBox) else None

    def position_at(self, x: float, y: float) -> Place:
        """Return the place in the text nearest to a place on the page."""
        index = self.turn_at(y)
        turn = self.turns[index]
        turn.build_boxes()
        inner = y - self.turn_top(index)
        box = turn.box_at(inner)
        corner = turn.box_corner(box)
        return index, box, turn.boxes[box].offset_at(QPointF(x - corner.x(), inner - corner.y()))

    def paint(
        self, painter: QPainter, top: float, bottom: float, pose: Callable[[int, Range | None], PaintState]
    ) -> None:
        """Paint what lies between two places; `pose` gets the turn and what is selected in a box of it."""
        for index in self.visible_turns(top, bottom):
            offset = self.turn_top(index)
            turn = self.turns[index]

            def of_box(box: int, index: int = index) -> PaintState:
                state, marks = pose(index, self.selection_in(index, box)), self.marks.get((index, box))
                return replace(state, marks=marks) if marks else state

            painter.translate(0, offset)
            turn.paint(painter, top - offset, bottom - offset, of_box)
            painter.translate(0, -offset)

    def clear_selection(self) -> None:
        """Select nothing."""
        self.start = self.end = None

    def select_range(self, start: Place, end: Place) -> None:
        """Select between two places, in whichever order they are."""
        self.start, self.end = start, end

    def select_all(self) -> None:
        """Select everything."""
        if self.turns:
            self.select_range((0, 0, 0), (len(self.turns), 0, 0))

    def selection_in(self, turn: int, box: int) -> Range | None:
        """Return the selected part of a box's text."""
        if self.start is None or self.end is None or self.start == self.end:
            return None
        low, high = sorted((self.start, self.end))
        if (turn, box) < low[:2] or (turn, box) > high[:2]:
            return None
        length = wide_length(self.turns[turn].boxes[box].text)
        first = low[2] if (turn, box) == low[:2] else 0
        last = min(high[2], length) if (turn, box) == high[:2] else length
        return (first, last) if first < last else None

    def selection_text(self) -> str:
        """Return the selection: whole messages as they were written, parts as they are read."""
        if self.start is None or self.end is None or self.start == self.end:
            return ""
        low, high = sorted((self.start, self.end))
        texts = []
        for index in range(low[0], min(high[0] + 1, len(self.turns))):
            text = self._selection_text_in(index, low, high)
            if text:
                texts.append(text)
        return "\n\n".join(texts)

    def _selection_text_in(self, index: int, low: Place, high: Place) -> str:
        turn = self.turns[index]
        turn.build_boxes()
        first = turn.body_box
        is_whole = low <= (index, first, 0) and (index, len(turn.boxes) - 1, 0) <= high
        live = turn.view.live
        if is_whole:
            return "".join(live.content) if live else turn.view.message.content
        parts: list[str] = []
        for box in range(len(turn.boxes)):
            selection = self.selection_in(index, box)
            if selection is not None:
                text_box = turn.boxes[box]
                parts += [text_box.joint if parts else "", "" if selection[0] else text_box.prefix]
                parts.append(text_box.copy_text(*selection))
        return "".join(parts)

    def _keep_recent(self, index: int) -> None:
        """Remember that a turn was seen, and let go of the layouts of one that was not for long."""
        self._recent.pop(index, None)
        self._recent[index] = None
        if len(self._recent) > _KEPT:
            oldest = next(iter(self._recent))
            del self._recent[oldest]
            self.turns[oldest].drop_layouts()
