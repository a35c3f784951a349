"""What a turn is made of: boxes below each other, each laid out when it comes into view.

A box knows the height it will probably have before it is laid out, its text for selecting and copying, and the spots in
it that can be pressed.
"""

from dataclasses import dataclass
from enum import StrEnum

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QPainter

from app.gui.screens.chat.transcript.look import TranscriptLook
from app.gui.screens.chat.transcript.text_lines import Range


class Verb(StrEnum):
    """What pressing a spot asks for."""

    OPEN_LINK = "open_link"
    COPY_CODE = "copy_code"
    WRAP_CODE = "wrap_code"
    FOLD = "fold"
    COPY = "copy"
    EDIT = "edit"
    REGENERATE = "regenerate"
    PREVIOUS_BRANCH = "previous_branch"
    NEXT_BRANCH = "next_branch"
    SHOW_CAUSE = "show_cause"
    TRY_AGAIN = "try_again"
    LOAD_AGAIN = "load_again"
    LOAD_OTHERWISE = "load_otherwise"
    MEND = "mend"
    CHOOSE_MODEL = "choose_model"


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


@dataclass(frozen=True, slots=True)
class PaintState:
    """How a box is painted this time: what is selected in it, what is lit, and whether its turn shows its actions."""

    selection: Range | None = None
    lit_spot: Spot | None = None
    is_active: bool = False


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

    def list_spots(self) -> list[Spot]:
        """Return what can be pressed; places are within the box."""
        return []


def wide_cut(text: str, start: int, end: int) -> str:
    """Return the part of `text` between two positions counted in UTF-16 units, as Qt counts."""
    if text.isascii():
        return text[start:end]
    return text.encode("utf-16-le")[start * 2 : end * 2].decode("utf-16-le", "ignore")


def wide_length(text: str) -> int:
    """Return the length of `text` in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
