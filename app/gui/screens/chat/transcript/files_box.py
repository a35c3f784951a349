"""Files in a conversation, below the words or the call that they belong to: pictures as pictures, others by name."""

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter

from app.core.attachments import Attachment, AttachmentKind
from app.core.translation import tr
from app.gui.screens.chat.draft_files import attachment_facts
from app.gui.screens.chat.file_cards import draw_thumbnail, kind_icon
from app.gui.screens.chat.transcript.box import Box, PaintState, Spot, Verb, is_lit
from app.gui.screens.chat.transcript.look import TranscriptLook
from app.gui.theme.tokens import ICON_SIZE, Radius

_PICTURE = 96
_DRAWN = 320
"""The longer edge of a picture that was drawn for an answer: as large as the small pictures that are kept."""
_CARD_WIDTH, _CARD_HEIGHT = 220, 48
_GAP = 8
_PAD = 12
_MIDDLE = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft


class FilesBox(Box):
    """Cards from the right, as questions are, or large ones from the left in an answer; pressing one saves a copy."""

    gap = 8

    def __init__(self, attachments: Sequence[Attachment], *, is_answer: bool = False) -> None:
        super().__init__()
        self.attachments, self._is_answer = list(attachments), is_answer
        self._spots: list[Spot] = []

    def guess_height(self, look: TranscriptLook, width: float) -> float:
        """Return the height, which follows from the width."""
        return self._place_cards(look, width)[1]

    def lay_out(self, look: TranscriptLook, width: float) -> None:
        """Set rows of cards, each against the edge."""
        self._spots, self.height = self._place_cards(look, width)
        self.natural = width

    def paint(self, painter: QPainter, look: TranscriptLook, pose: PaintState) -> None:
        """Draw the cards."""
        for attachment, spot in zip(self.attachments, self._spots, strict=False):
            pixmap = look.find_thumbnail(attachment)
            if pixmap is not None and attachment.kind is AttachmentKind.PICTURE:
                draw_thumbnail(painter, pixmap, spot.area, look.px(Radius.CARD))
            else:
                self._paint_card(painter, look, attachment, spot)
            if is_lit(spot, pose):
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(look.color("hover"))
                painter.drawRoundedRect(spot.area, look.px(Radius.CARD), look.px(Radius.CARD))

    def list_spots(self) -> list[Spot]:
        """Return the cards."""
        return self._spots

    def _place_cards(self, look: TranscriptLook, width: float) -> tuple[list[Spot], float]:
        rows: list[list[tuple[Attachment, float, float]]] = [[]]
        used_width = 0.0
        gap = float(look.px(_GAP))
        for attachment in self.attachments:
            wide, tall = self._size_of(attachment, look, width)
            if rows[-1] and used_width + wide > width:
                rows.append([])
                used_width = 0.0
            rows[-1].append((attachment, wide, tall))
            used_width += wide + gap
        spots, y = [], 0.0
        for row in rows:
            x = 0.0 if self._is_answer else width - sum(wide + gap for _, wide, _ in row) + gap
            height = max((tall for _, _, tall in row), default=0.0)
            for attachment, wide, tall in row:
                spots.append(_make_spot(attachment, QRectF(x, y + height - tall, wide, tall)))
                x += wide + gap
            y += height + gap
        return spots, max(0.0, y - gap)

    def _size_of(self, attachment: Attachment, look: TranscriptLook, width: float) -> tuple[float, float]:
        if attachment.kind is not AttachmentKind.PICTURE:
            return min(width, float(look.px(_CARD_WIDTH))), float(look.px(_CARD_HEIGHT))
        if not self._is_answer:
            return min(width, float(look.px(_PICTURE))), float(look.px(_PICTURE))
        own_width, own_height = attachment.width or _DRAWN, attachment.height or _DRAWN
        scale = min(look.px(_DRAWN) / max(own_width, own_height), width / own_width)
        return max(1.0, own_width * scale), max(1.0, own_height * scale)

    def _paint_card(self, painter: QPainter, look: TranscriptLook, attachment: Attachment, spot: Spot) -> None:
        area, pad = spot.area, look.px(_PAD)
        painter.setPen(look.hairline_pen())
        painter.setBrush(look.color("surface"))
        half = 0.5 / painter.device().devicePixelRatioF()
        painter.drawRoundedRect(area.adjusted(half, half, -half, -half), look.px(Radius.CARD), look.px(Radius.CARD))
        ratio = painter.device().devicePixelRatioF()
        icon, side = look.theme.pixmap(kind_icon(attachment), "ink-2", ratio=ratio), look.px(ICON_SIZE)
        middle = area.center().y()
        is_picture = attachment.kind is AttachmentKind.PICTURE
        edge = area.center().x() - side / 2 if is_picture else area.left() + pad
        painter.drawPixmap(QPointF(round(edge), round(middle - side / 2)), icon)
        left = area.left() + pad + side + look.px(8)
        room = area.right() - pad - left
        if room <= 0 or is_picture:
            return
        for tone, text, top in (
            (look.button, attachment.name, middle - look.button.line_height + look.px(2)),
            (look.meta, attachment_facts(attachment), middle),
        ):
            painter.setFont(tone.font)
            painter.setPen(tone.color)
            elided_text = tone.metrics.elidedText(text, Qt.TextElideMode.ElideMiddle, room)
            painter.drawText(QRectF(left, top, room, tone.line_height), _MIDDLE, elided_text)


def _make_spot(attachment: Attachment, area: QRectF) -> Spot:
    name = tr("Save a copy of {name} ({facts})", name=attachment.name, facts=attachment_facts(attachment))
    return Spot(area, Verb.SAVE_FILE, name, attachment.id)
