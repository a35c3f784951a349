"""What an answer was given of documents: a line that unfolds to files and passages; a passage can be opened."""

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter

from app.core.documents import AnswerDocuments
from app.core.guide import MANUAL
from app.core.translation import tr, tr_plural
from app.core.words import format_tokens
from app.gui.phrases import describe_passage_place, drop_commands
from app.gui.screens.chat.transcript.box import Box, PaintState, Spot, Verb, is_lit
from app.gui.screens.chat.transcript.look import TranscriptLook
from app.gui.screens.chat.transcript.text_lines import TextLines
from app.gui.theme.tokens import ICON_SIZE, Radius

_ROW = 36
_LINE = 30
_PAD = 14
_MIDDLE = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft


class SourcesBox(Box):
    """The files and passages of one answer, with about how many tokens they take."""

    gap = 12

    def __init__(self, documents: AnswerDocuments) -> None:
        super().__init__()
        self.documents = documents
        self.is_open = False
        self._spots: list[Spot] = []
        self._file_areas: list[QRectF] = []
        self._note: tuple[TextLines, float] | None = None

    @property
    def title(self) -> str:
        """How many files and passages there are, and their tokens."""
        files, count = self.documents.files, len(self.documents.sources)
        if not files and not count:
            return tr("No passage of your documents was found")
        if not files and all(source.collection == MANUAL for source in self.documents.sources):
            return tr("From the manual: {place}", place=self.documents.sources[0].heading.replace(" > ", " · "))
        parts = [tr("{name}, whole", name=file.name) for file in files[:1]]
        if len(files) > 1:
            parts = [tr_plural("{count} whole file", "{count} whole files", len(files))]
        if count:
            parts.append(tr_plural("{count} passage of your documents", "{count} passages of your documents", count))
        return tr(
            "{passages} · ≈ {tokens} tokens", passages=" · ".join(parts), tokens=format_tokens(self.documents.tokens)
        )

    def guess_height(self, look: TranscriptLook, width: float) -> float:
        """Return the height of a line."""
        del width
        return look.px(_ROW)

    def lay_out(self, look: TranscriptLook, width: float) -> None:
        """Set the line, then the passages below it."""
        self.natural, self._note = width, None
        name = (
            tr("{title}: hide them", title=self.title) if self.is_open else tr("{title}: show them", title=self.title)
        )
        self._spots = [Spot(QRectF(0, 0, width, look.px(_ROW)), Verb.FOLD_SOURCES, name)]
        y = float(look.px(_ROW))
        self._file_areas.clear()
        if self.is_open:
            for _ in self.documents.files:
                self._file_areas.append(QRectF(look.px(4), y, width - 2 * look.px(4), look.px(_LINE)))
                y += look.px(_LINE)
            for source in self.documents.sources:
                area = QRectF(look.px(4), y, width - 2 * look.px(4), look.px(_LINE))
                words = tr("Open passage {number}: {place}", number=source.number, place=describe_passage_place(source))
                self._spots.append(Spot(area, Verb.OPEN_SOURCE, words, str(source.number)))
                y += look.px(_LINE)
            if self.documents.note:
                lines = TextLines(drop_commands(self.documents.note), look.meta, [], width=width - 2 * look.px(_PAD))
                self._note = (lines, y + look.px(4))
                y += lines.height + look.px(4)
            y += look.px(8)
        self.height = y

    def paint(self, painter: QPainter, look: TranscriptLook, pose: PaintState) -> None:
        """Draw the card, the line and the passages."""
        radius, half = look.px(Radius.CARD), 0.5 / painter.device().devicePixelRatioF()
        painter.setPen(look.hairline_pen("line"))
        painter.setBrush(look.color("surface"))
        painter.drawRoundedRect(
            QRectF(0, 0, self._width, self.height).adjusted(half, half, -half, -half), radius, radius
        )
        for spot in self._spots:
            if is_lit(spot, pose):
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(look.color("hover"))
                painter.drawRoundedRect(spot.area, radius, radius)
        self._paint_head(painter, look)
        for file, area in zip(self.documents.files, self._file_areas, strict=False):
            words = tr("{name} · ≈ {tokens} tokens", name=file.name, tokens=format_tokens(file.tokens))
            self._paint_row(painter, look, ("", words), area)
        for source, spot in zip(self.documents.sources, self._spots[1:], strict=False):
            place, tokens = describe_passage_place(source), format_tokens(source.tokens)
            words = tr("{name} · ≈ {tokens} tokens", name=place, tokens=tokens)
            self._paint_row(painter, look, (f"[{source.number}]", words), spot.area)
        if self._note is not None:
            self._note[0].draw_at(painter, QPointF(look.px(_PAD), self._note[1]), look, None)

    def list_spots(self) -> list[Spot]:
        """Return the line and the passages."""
        return self._spots

    def _paint_head(self, painter: QPainter, look: TranscriptLook) -> None:
        pad, side, ratio = look.px(_PAD), look.px(ICON_SIZE), painter.device().devicePixelRatioF()
        row = look.px(_ROW)
        middle = round((row - side) / 2)
        painter.drawPixmap(QPointF(pad, middle), look.theme.pixmap("book-open", "ink-3", ratio=ratio))
        chevron = "chevron-down" if self.is_open else "chevron-right"
        right = self._width - pad - side
        painter.drawPixmap(QPointF(round(right), middle), look.theme.pixmap(chevron, "ink-3", ratio=ratio))
        left = pad + side + look.px(8)
        painter.setFont(look.body.font)
        painter.setPen(look.color("ink-2"))
        room = max(0.0, right - look.px(8) - left)
        words = look.body.metrics.elidedText(self.title, Qt.TextElideMode.ElideRight, room)
        painter.drawText(QRectF(left, 0, room, row), _MIDDLE, words)

    def _paint_row(self, painter: QPainter, look: TranscriptLook, words: tuple[str, str], area: QRectF) -> None:
        number, place = words
        left = look.px(_PAD)
        wide = look.body.metrics.horizontalAdvance("[00]") + look.px(8)
        painter.setFont(look.body.font)
        painter.setPen(look.color("ink-3"))
        painter.drawText(QRectF(left, area.top(), wide, area.height()), _MIDDLE, number)
        painter.setPen(look.color("ink"))
        room = max(0.0, self._width - left - wide - look.px(_PAD))
        place = look.body.metrics.elidedText(place, Qt.TextElideMode.ElideMiddle, room)
        painter.drawText(QRectF(left + wide, area.top(), room, area.height()), _MIDDLE, place)
