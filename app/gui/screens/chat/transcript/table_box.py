"""Tables: rows with hairlines between them. The boxes of a long table share the columns of its first."""

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QPainter

from app.core.translation import tr
from app.gui.markdown.pieces import LINE_BREAK, MarkdownPiece, RichTable, RichText, TextStyle, table_of, wide_length
from app.gui.screens.chat.transcript.box import Box, PaintState, Spot, Verb
from app.gui.screens.chat.transcript.look import Tone, TranscriptLook
from app.gui.screens.chat.transcript.text_box import clip_range, indent_of, paint_quote
from app.gui.screens.chat.transcript.text_lines import TextLines, plain_width, rich_formats

_PAD_X = 12
_PAD_Y = 7
_LEAST = 48


class _TableCell:
    """One cell: where its text begins in the box's text, and its lines once set."""

    def __init__(self, rich: RichText, start: int, tone: Tone) -> None:
        self.rich, self.start, self.tone = rich, start, tone
        self.end = start + wide_length(rich.text)
        self.area = QRectF()
        self.lines: TextLines | None = None


class TableBox(Box):
    """A run of rows. Only the first box of a table shows the header."""

    def __init__(self, piece: MarkdownPiece, leader: "TableBox | None") -> None:
        super().__init__()
        self.piece = piece
        self.gap = 12 if piece.is_first else 0
        self._leader = leader
        self._table: RichTable | None = None
        self._cells: list[list[_TableCell]] = []
        self._spots: list[Spot] = []
        self.widths: list[float] = []

    @property
    def leader(self) -> "TableBox":
        """The first box of the table."""
        return self._leader or self

    @property
    def table(self) -> RichTable:
        """The rows shown here."""
        if self._table is None:
            whole_table = table_of(self.piece)
            self._table = whole_table if self.piece.is_first else RichTable(whole_table.rows[1:], whole_table.aligns)
        return self._table

    @property
    def text(self) -> str:  # type: ignore[override]  # read-only here: it comes from the piece
        """Cells with tabs between them, rows on lines."""
        return "\u2028".join("\t".join(cell.text for cell in row) for row in self.table.rows)

    def guess_height(self, look: TranscriptLook, width: float) -> float:
        """Count the rows."""
        del width
        rows = self.piece.source.count("\n") - (0 if self.piece.is_first else 1)
        return max(1, rows) * (look.body.line_height + 2 * look.px(_PAD_Y))

    def lay_out(self, look: TranscriptLook, width: float) -> None:
        """Divide the width among the columns, then set every cell."""
        indent = indent_of(self.piece, look)
        self._make_cells(look)
        if self._leader is not None:
            self._leader.ensure_layout(look, width)
            self.widths = self._leader.widths
        else:
            self.widths = self._divide_width(look, width - indent)
        y = 0.0
        for row in self._cells:
            y += self._set_row(row, look, indent, y)
        self.height, self.natural = y, width
        self._spots = [spot for row in self._cells for cell in row for spot in _link_spots(cell)]

    def drop_layout(self) -> None:
        """Forget the cells."""
        super().drop_layout()
        self._cells = []

    def paint(self, painter: QPainter, look: TranscriptLook, pose: PaintState) -> None:
        """Draw the rows, the header strong."""
        if self.piece.quote:
            paint_quote(painter, look, self, self.piece)
        left = indent_of(self.piece, look)
        right = left + sum(self.widths)
        for place, row in enumerate(self._cells):
            for cell in row:
                if cell.lines is not None:
                    cell.lines.draw_at(
                        painter, cell.area.topLeft(), look, clip_range(pose.selection, cell.start, cell.end)
                    )
            bottom = max((cell.area.bottom() for cell in row), default=0.0) + look.px(_PAD_Y)
            is_header = place == 0 and self.piece.is_first
            painter.setPen(look.hairline_pen("edge" if is_header else "line"))
            painter.drawLine(QPointF(left, bottom), QPointF(right, bottom))

    def offset_at(self, point: QPointF) -> int:
        """Find the cell nearest to the place."""
        best: _TableCell | None = None
        for row in self._cells:
            if row and (best is None or row[0].area.top() <= point.y()):
                best = next((cell for cell in reversed(row) if cell.area.left() <= point.x()), row[0])
        if best is None or best.lines is None:
            return 0
        return best.start + best.lines.offset_at(point.x() - best.area.left(), point.y() - best.area.top())

    def copy_text(self, start: int, end: int) -> str:
        """Return the cells of a part with tabs between them, formulas as they were written."""
        at, rows = 0, []
        for row in self.table.rows:
            texts = []
            for rich in row:
                stop = at + wide_length(rich.text)
                if at < end and start < stop:
                    texts.append(rich.copy_text(max(0, start - at), min(end, stop) - at))
                at = stop + 1
            if texts:
                rows.append("\t".join(texts))
        return "\n".join(rows).replace(LINE_BREAK, " ")

    def list_spots(self) -> list[Spot]:
        """Return the links."""
        return self._spots

    def _make_cells(self, look: TranscriptLook) -> None:
        self._cells, at = [], 0
        for place, row in enumerate(self.table.rows):
            tone = look.strong if place == 0 and self.piece.is_first else look.body
            row_cells = []
            for rich in row:
                cell = _TableCell(rich, at, tone)
                row_cells.append(cell)
                at = cell.end + 1
            self._cells.append(row_cells)

    def _divide_width(self, look: TranscriptLook, room: float) -> list[float]:
        """Give each column what it wants, or its share of what there is."""
        columns = max((len(row) for row in self._cells), default=0)
        pad = 2 * look.px(_PAD_X)
        widths = [float(look.px(_LEAST))] * columns
        for row in self._cells:
            for place, cell in enumerate(row):
                widths[place] = max(widths[place], plain_width(cell.rich, cell.tone) + pad + 1)
        if sum(widths) <= room:
            return widths
        return _squeeze_columns(widths, room)

    def _set_row(self, row: Sequence[_TableCell], look: TranscriptLook, left: float, top: float) -> float:
        pad_x, pad_y = look.px(_PAD_X), look.px(_PAD_Y)
        height = 0.0
        for place, cell in enumerate(row[: len(self.widths)]):
            room = self.widths[place] - 2 * pad_x
            formats = rich_formats(cell.rich, cell.tone, look)
            cell.lines = TextLines(cell.rich.text, cell.tone, formats, width=room, formulas=cell.rich.formulas)
            shift = _align_shift(self.table.aligns, place, room - cell.lines.natural)
            cell.area = QRectF(left + pad_x + shift, top + pad_y, room, cell.lines.height)
            height = max(height, cell.lines.height)
            left += self.widths[place]
        for cell in row:
            cell.area.setHeight(height)
        return height + 2 * pad_y


def _link_spots(cell: _TableCell) -> list[Spot]:
    lines = cell.lines
    if lines is None:
        return []
    return [
        Spot(area.translated(cell.area.topLeft()), Verb.OPEN_LINK, tr("Open {link}", link=span.link), span.link)
        for span in cell.rich.spans
        if span.link.startswith(("http://", "https://")) and span.style is not TextStyle.CODE
        for area in lines.range_areas(span.start, span.start + span.length)
    ]


def _align_shift(aligns: Sequence[str], place: int, spare: float) -> float:
    align = aligns[place] if place < len(aligns) else ""
    return max(0.0, spare) * {"right": 1.0, "center": 0.5}.get(align, 0.0)


def _squeeze_columns(widths: list[float], room: float) -> list[float]:
    """Keep columns that ask for less than an equal share; the others divide the rest by what they ask for."""
    share = room / len(widths)
    small = sum(width for width in widths if width <= share)
    large = sum(width for width in widths if width > share)
    return [width if width <= share else width * (room - small) / large for width in widths]
