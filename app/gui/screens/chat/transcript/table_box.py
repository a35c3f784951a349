"""Tables: rows with hairlines between them. The boxes of a long table share the columns of its first."""

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QPainter

from app.gui.markdown.inline import table_of
from app.gui.markdown.pieces import Piece, Rich, Style, Table
from app.gui.screens.chat.transcript.box import Box, Pose, Spot, Verb, wide_length
from app.gui.screens.chat.transcript.lines import Lines, rich_formats
from app.gui.screens.chat.transcript.look import Look, Tone
from app.gui.screens.chat.transcript.text_box import clipped, indent_of, paint_quote

_PAD_X = 12
_PAD_Y = 7
_LEAST = 48


class _Cell:
    """One cell: where its text begins in the box's text, and its lines once set."""

    def __init__(self, rich: Rich, start: int, tone: Tone) -> None:
        self.rich, self.start, self.tone = rich, start, tone
        self.end = start + wide_length(rich.text)
        self.area = QRectF()
        self.lines: Lines | None = None


class TableBox(Box):
    """A run of rows. Only the first box of a table shows the header."""

    def __init__(self, piece: Piece, leader: "TableBox | None") -> None:
        super().__init__()
        self.piece = piece
        self.gap = 12 if piece.is_first else 0
        self._leader = leader
        self._table: Table | None = None
        self._cells: list[list[_Cell]] = []
        self._spots: list[Spot] = []
        self.widths: list[float] = []

    @property
    def leader(self) -> "TableBox":
        """The first box of the table."""
        return self._leader or self

    @property
    def table(self) -> Table:
        """The rows shown here."""
        if self._table is None:
            found = table_of(self.piece)
            self._table = found if self.piece.is_first else Table(found.rows[1:], found.aligns)
        return self._table

    @property
    def text(self) -> str:  # type: ignore[override]  # read-only here: it comes from the piece
        """Cells with tabs between them, rows on lines."""
        return "\u2028".join("\t".join(cell.text for cell in row) for row in self.table.rows)

    def guess(self, look: Look, width: float) -> float:
        """Count the rows."""
        del width
        rows = self.piece.source.count("\n") - (0 if self.piece.is_first else 1)
        return max(1, rows) * (look.body.line_height + 2 * look.px(_PAD_Y))

    def lay_out(self, look: Look, width: float) -> None:
        """Divide the width among the columns, then set every cell."""
        indent = indent_of(self.piece, look)
        self._make_cells(look)
        if self._leader is not None:
            self._leader.ensure(look, width)
            self.widths = self._leader.widths
        else:
            self.widths = self._divide(look, width - indent)
        y = 0.0
        for row in self._cells:
            y += self._set_row(row, look, indent, y)
        self.height, self.natural = y, width
        self._spots = [spot for row in self._cells for cell in row for spot in _links(cell)]

    def release(self) -> None:
        """Forget the cells."""
        super().release()
        self._cells = []

    def paint(self, painter: QPainter, look: Look, pose: Pose) -> None:
        """Draw the rows, the header strong."""
        if self.piece.quote:
            paint_quote(painter, look, self, self.piece)
        left = indent_of(self.piece, look)
        right = left + sum(self.widths)
        for place, row in enumerate(self._cells):
            for cell in row:
                if cell.lines is not None:
                    cell.lines.draw(painter, cell.area.topLeft(), look, clipped(pose.marked, cell.start, cell.end))
            bottom = max((cell.area.bottom() for cell in row), default=0.0) + look.px(_PAD_Y)
            is_header = place == 0 and self.piece.is_first
            painter.setPen(look.hairline("edge" if is_header else "line"))
            painter.drawLine(QPointF(left, bottom), QPointF(right, bottom))

    def offset_at(self, point: QPointF) -> int:
        """Find the cell nearest to the place."""
        best: _Cell | None = None
        for row in self._cells:
            if row and (best is None or row[0].area.top() <= point.y()):
                best = next((cell for cell in reversed(row) if cell.area.left() <= point.x()), row[0])
        if best is None or best.lines is None:
            return 0
        return best.start + best.lines.offset_at(point.x() - best.area.left(), point.y() - best.area.top())

    def spots(self) -> list[Spot]:
        """Return the links."""
        return self._spots

    def _make_cells(self, look: Look) -> None:
        self._cells, at = [], 0
        for place, row in enumerate(self.table.rows):
            tone = look.strong if place == 0 and self.piece.is_first else look.body
            made = []
            for rich in row:
                cell = _Cell(rich, at, tone)
                made.append(cell)
                at = cell.end + 1
            self._cells.append(made)

    def _divide(self, look: Look, room: float) -> list[float]:
        """Give each column what it wants, or its share of what there is."""
        columns = max((len(row) for row in self._cells), default=0)
        pad = 2 * look.px(_PAD_X)
        wanted = [float(look.px(_LEAST))] * columns
        for row in self._cells:
            for place, cell in enumerate(row):
                wanted[place] = max(wanted[place], cell.tone.metrics.horizontalAdvance(cell.rich.text) + pad + 1)
        if sum(wanted) <= room:
            return wanted
        return _squeezed(wanted, room)

    def _set_row(self, row: Sequence[_Cell], look: Look, left: float, top: float) -> float:
        pad_x, pad_y = look.px(_PAD_X), look.px(_PAD_Y)
        height = 0.0
        for place, cell in enumerate(row[: len(self.widths)]):
            room = self.widths[place] - 2 * pad_x
            cell.lines = Lines(cell.rich.text, cell.tone, rich_formats(cell.rich, cell.tone, look), width=room)
            shift = _shift(self.table.aligns, place, room - cell.lines.natural)
            cell.area = QRectF(left + pad_x + shift, top + pad_y, room, cell.lines.height)
            height = max(height, cell.lines.height)
            left += self.widths[place]
        for cell in row:
            cell.area.setHeight(height)
        return height + 2 * pad_y


def _links(cell: _Cell) -> list[Spot]:
    lines = cell.lines
    if lines is None:
        return []
    return [
        Spot(area.translated(cell.area.topLeft()), Verb.OPEN_LINK, f"Open {span.link}", span.link)
        for span in cell.rich.spans
        if span.link.startswith(("http://", "https://")) and span.style is not Style.CODE
        for area in lines.areas(span.start, span.start + span.length)
    ]


def _shift(aligns: Sequence[str], place: int, spare: float) -> float:
    align = aligns[place] if place < len(aligns) else ""
    return max(0.0, spare) * {"right": 1.0, "center": 0.5}.get(align, 0.0)


def _squeezed(wanted: list[float], room: float) -> list[float]:
    """Keep columns that ask for less than an equal share; the others divide the rest by what they ask for."""
    share = room / len(wanted)
    small = sum(width for width in wanted if width <= share)
    large = sum(width for width in wanted if width > share)
    return [width if width <= share else width * (room - small) / large for width in wanted]
