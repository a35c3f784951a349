"""What a turn is made of: boxes below each other, each laid out when it comes into view.

A box knows the height it will probably have before it is laid out, its text for selecting and copying, and the spots in
it that can be pressed.

How something that can be pressed is drawn in the transcript: an icon or words, lit below the pointer.

Heights one below the other: where each begins, and which lies at a given place.

Sums are kept up to the first height that changed and made anew from there when asked for, so that a change at the end,
where answers grow, costs nothing.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter

from app.gui.markdown.pieces import LINE_BREAK, wide_cut
from app.gui.screens.chat.transcript.look import TranscriptLook
from app.gui.screens.chat.transcript.text_lines import Range
from app.gui.theme.tokens import ICON_SIZE, Radius


class Verb(StrEnum):
    """What pressing a spot asks for."""

    OPEN_LINK = "open_link"
    COPY_CODE = "copy_code"
    COPY_CSV = "copy_csv"
    COPY_TABLE = "copy_table"
    WRAP_CODE = "wrap_code"
    FOLD = "fold"
    FOLD_CALL = "fold_call"
    DECIDE_CALL = "decide_call"
    DO_ACTION = "do_action"
    FOLD_SOURCES = "fold_sources"
    OPEN_SOURCE = "open_source"
    COPY = "copy"
    READ_ALOUD = "read_aloud"
    EDIT = "edit"
    SAVE_FILE = "save_file"
    REGENERATE = "regenerate"
    CONTINUE = "continue"
    REGENERATE_WITH = "regenerate_with"
    COMPARE = "compare"
    FORK = "fork"
    DELETE = "delete"
    PREVIOUS_BRANCH = "previous_branch"
    NEXT_BRANCH = "next_branch"
    SHOW_CAUSE = "show_cause"
    TRY_AGAIN = "try_again"
    LOAD_AGAIN = "load_again"
    LOAD_OTHERWISE = "load_otherwise"
    MEND = "mend"
    CHOOSE_MODEL = "choose_model"
    CUT_OLDEST = "cut_oldest"
    SUMMARISE = "summarise"


@dataclass(frozen=True, slots=True)
class Spot:
    """A place that can be pressed. `name` is what a screen reader and the tip say; `value` is the verb's object."""

    area: QRectF
    verb: Verb
    name: str
    value: str = ""

    def translate_by(self, x: float, y: float) -> "Spot":
        """Return the same spot elsewhere."""
        return Spot(self.area.translated(x, y), self.verb, self.name, self.value)


class MatchMark(NamedTuple):
    """A place in a box's text that is looked for, and whether the reader is at it."""

    start: int
    end: int
    is_current: bool


@dataclass(frozen=True, slots=True)
class PaintState:
    """How a box is painted this time: what is selected in it, what is lit, and whether its turn shows its actions."""

    selection: Range | None = None
    lit_spot: Spot | None = None
    is_active: bool = False
    marks: Sequence[MatchMark] = ()


class Box:
    """One thing in a turn. `gap` is the unscaled space above it; `height` holds once `is_laid`."""

    gap = 0
    text = ""
    """What can be selected in it, with U+2028 for line breaks."""
    joint = "\n"
    """What stands before the text when it is copied together with what is above."""
    prefix = ""
    """What stands before the text when it is copied from its beginning: a list's marker."""

    bars_above = 0
    """How many of the quotes it is in go on from the box above."""

    def __init__(self) -> None:
        self.is_laid = False
        self.height = 0.0
        self.natural = 0.0
        self._width = 0.0

    def guess_height(self, look: TranscriptLook, width: float) -> float:
        """Return the height the box will probably have."""
        raise NotImplementedError

    def ensure_layout(self, look: TranscriptLook, width: float) -> None:
        """Lay the box out unless it is laid out for this width."""
        if not self.is_laid or self._width != width:
            self._width, self.is_laid = width, True
            self.lay_out(look, width)

    def lay_out(self, look: TranscriptLook, width: float) -> None:
        """Set `height` and `natural`, the width really used."""
        raise NotImplementedError

    def drop_layout(self) -> None:
        """Forget the layout, not the height."""
        self.is_laid = False

    def paint(self, painter: QPainter, look: TranscriptLook, pose: PaintState) -> None:
        """Paint with the origin at the box's corner."""

    def offset_at(self, point: QPointF) -> int:
        """Return the position in `text` nearest to a place in the box."""
        del point
        return 0

    def top_at(self, position: int) -> float:
        """Return where the line of a position begins, once it is laid out."""
        del position
        return 0.0

    def copy_text(self, start: int, end: int) -> str:
        """Return what a part of `text` is on the clipboard."""
        return wide_cut(self.text, start, end).replace(LINE_BREAK, "\n")

    def list_spots(self) -> list[Spot]:
        """Return what can be pressed; places are within the box."""
        return []


def is_lit(spot: Spot, pose: PaintState) -> bool:
    """Whether the pointer or the keyboard is on a spot."""
    return pose.lit_spot is not None and pose.lit_spot.verb is spot.verb and pose.lit_spot.value == spot.value


def paint_spot(  # noqa: PLR0913 -- a painter's arguments
    painter: QPainter, look: TranscriptLook, spot: Spot, *, icon: str, pose: PaintState, color: str = "ink-3"
) -> None:
    """Draw an icon that can be pressed, lit when it is pointed at or chosen with the keys."""
    if is_lit(spot, pose):
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(look.color("hover"))
        painter.drawRoundedRect(spot.area, look.px(Radius.CONTROL), look.px(Radius.CONTROL))
        color = "ink"
    ratio = painter.device().devicePixelRatioF()
    size = ICON_SIZE - 2
    pixmap = look.theme.pixmap(icon, color, size=size, ratio=ratio)
    side, middle = look.px(size), spot.area.center()
    painter.drawPixmap(QPointF(round(middle.x() - side / 2), round(middle.y() - side / 2)), pixmap)


def paint_words(painter: QPainter, look: TranscriptLook, spot: Spot, *, pose: PaintState) -> None:
    """Draw a button with words: the spot's name on the surface, outlined."""
    radius = look.px(Radius.CONTROL)
    painter.setPen(look.hairline_pen("edge" if is_lit(spot, pose) else "line"))
    painter.setBrush(look.color("surface"))
    half = 0.5 / painter.device().devicePixelRatioF()
    painter.drawRoundedRect(spot.area.adjusted(half, half, -half, -half), radius, radius)
    if is_lit(spot, pose):
        painter.setBrush(look.color("hover"))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.drawRoundedRect(spot.area, radius, radius)
    painter.setPen(look.color("ink"))
    painter.setFont(look.button.font)
    painter.drawText(spot.area, Qt.AlignmentFlag.AlignCenter, spot.name)


def words_area(look: TranscriptLook, words: str, x: float, y: float) -> QRectF:
    """Return the room a button with words takes."""
    return QRectF(x, y, look.button.metrics.horizontalAdvance(words) + look.px(24), look.px(30))


class HeightStack:
    """A column of heights that change."""

    def __init__(self) -> None:
        self._heights: list[float] = []
        self._tops: list[float] = [0.0]

    def __len__(self) -> int:
        return len(self._heights)

    @property
    def total(self) -> float:
        """The height of all together."""
        return self._update_tops()[-1]

    def append(self, height: float) -> None:
        """Add one at the end."""
        self._heights.append(height)

    def replace_from(self, start: int, heights: list[float]) -> None:
        """Put `heights` in the place of everything from `start` on."""
        self._heights[start:] = heights
        del self._tops[start + 1 :]

    def set_height(self, index: int, height: float) -> None:
        """Change one."""
        if self._heights[index] != height:
            self._heights[index] = height
            del self._tops[index + 1 :]

    def top_of(self, index: int) -> float:
        """Return where one begins."""
        return self._update_tops()[index]

    def index_at(self, place: float) -> int:
        """Return which one covers `place`; the first or last for a place outside. Must not be empty."""
        index = bisect_right(self._update_tops(), place) - 1
        return min(max(index, 0), len(self._heights) - 1)

    def _update_tops(self) -> list[float]:
        known_count = len(self._tops) - 1
        if known_count < len(self._heights):
            tail = accumulate(self._heights[known_count:], initial=self._tops[known_count])
            self._tops[known_count:] = tail
        return self._tops
