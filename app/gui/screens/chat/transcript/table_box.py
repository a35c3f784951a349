"""Tables: rows with hairlines between them. The boxes of a long table share the columns of its first.

The first one copies the whole table: as Markdown, or as CSV for spreadsheets.
"""

import csv
import io
from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter

from app.core.translation import tr
from app.gui.markdown.pieces import LINE_BREAK, MarkdownPiece, RichTable, RichText, TextStyle, table_of, wide_length
from app.gui.screens.chat.transcript.box import Box, PaintState, Spot, Verb, is_lit, paint_spot
from app.gui.screens.chat.transcript.look import Tone, TranscriptLook
from app.gui.screens.chat.transcript.text_box import clip_marks, clip_range, indent_of, paint_quote
from app.gui.screens.chat.transcript.text_lines import TextLines, plain_width, rich_formats
from app.gui.theme.tokens import Radius

_PAD_X = 12
_PAD_Y = 7
_LEAST = 48
_SPOT = 26
_COPIES = {Verb.COPY_TABLE: "copy", Verb.COPY_CSV: "table"}


class _TableCell:
    """One cell: where its text begins in the box's text, and its lines once set."""

    def __init__(self, rich: RichText, start: int, tone: Tone) -> None:
        self.rich, self.start, self.tone = rich, start, tone
        self.end = start + wide_length(rich.text)
        self.area = QRectF()
        self.lines: TextLines | None = None


class TableBox(Box):
    """A run of rows. Only the first box of a table shows the header. `key` tells the table from others of its turn."""

    def __init__(self, piece: MarkdownPiece, leader: "TableBox | None", key: str = "") -> None:
        super().__init__()
        self.piece, self.key = piece, key
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
        links = [spot for row in self._cells for cell in row for spot in _link_spots(cell)]
        self._spots = [*(self._copy_spots(look, indent, width) if self.piece.is_first else ()), *links]

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
                    selection = clip_range(pose.selection, cell.start, cell.end)
                    marks = clip_marks(pose.marks, cell.start, cell.end)
                    cell.lines.draw_at(painter, cell.area.topLeft(), look, selection, marks)
            bottom = max((cell.area.bottom() for cell in row), default=0.0) + look.px(_PAD_Y)
            is_header = place == 0 and self.piece.is_first
            painter.setPen(look.hairline_pen("edge" if is_header else "line"))
            painter.drawLine(QPointF(left, bottom), QPointF(right, bottom))
        copies = [spot for spot in self._spots if spot.verb in _COPIES]
        if pose.is_active or any(is_lit(spot, pose) for spot in copies):
            _paint_copies(painter, look, copies, pose)

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

    def _copy_spots(self, look: TranscriptLook, left: float, width: float) -> list[Spot]:
        """Return the buttons that copy the table: beside it if there is room, else on the end of its header."""
        side = look.px(_SPOT)
        x = min(left + sum(self.widths) + look.px(4), width - 2 * side)
        return [
            Spot(QRectF(x, look.px(2), side, side), Verb.COPY_TABLE, tr("Copy table as Markdown"), self.key),
            Spot(QRectF(x + side, look.px(2), side, side), Verb.COPY_CSV, tr("Copy table as CSV"), self.key),
        ]

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


def markdown_of(pieces: Sequence[MarkdownPiece]) -> str:
    """Return the source of a table of several pieces, each of which begins with the header and the line below it."""
    lines = [line for piece in pieces for line in piece.source.strip("\n").split("\n")[0 if piece.is_first else 2 :]]
    return "\n".join(lines)


def csv_of(pieces: Sequence[MarkdownPiece]) -> str:
    """Return a table of several pieces as CSV (RFC 4180): what is read in its cells, formulas as TeX."""
    rows = [row for piece in pieces for row in table_of(piece).rows[0 if piece.is_first else 1 :]]
    stream = io.StringIO()
    csv.writer(stream).writerows([[_cell_words(cell) for cell in row] for row in rows])
    return stream.getvalue()


def _cell_words(cell: RichText) -> str:
    return cell.copy_text(0, wide_length(cell.text)).replace(LINE_BREAK, "\n")


def _paint_copies(painter: QPainter, look: TranscriptLook, spots: Sequence[Spot], pose: PaintState) -> None:
    """Draw the buttons on the ground: they may lie on the end of the header."""
    for spot in spots:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(look.color("ground"))
        painter.drawRoundedRect(spot.area, look.px(Radius.CONTROL), look.px(Radius.CONTROL))
        paint_spot(painter, look, spot, icon=_COPIES[spot.verb], pose=pose)


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
