"""What surrounds an answer's text: folded thinking, progress before the first word, a failure, the quiet line below."""

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter

from app.core.translation import LazyText, tr
from app.gui.screens.chat.transcript.box import Box, PaintState, Spot, Verb, is_lit, paint_spot, paint_words, words_area
from app.gui.screens.chat.transcript.look import TranscriptLook
from app.gui.screens.chat.transcript.text_lines import TextLines
from app.gui.screens.chat.turns import AnswerTrouble, TroubleRemedy, TurnProgress
from app.gui.theme.tokens import Radius

_FOLD_HEIGHT = 28
_FOOT_HEIGHT = 28
_ICON = 26
_PAD = 16
_BAR = 4
_BAR_WIDTH = 220
_REMEDY_WORDS = {
    TroubleRemedy.TRY_AGAIN: LazyText("Try again"),
    TroubleRemedy.LOAD_AGAIN: LazyText("Load again"),
    TroubleRemedy.CHOOSE_MODEL: LazyText("Choose another model"),
    TroubleRemedy.CUT_OLDEST: LazyText("Leave out the oldest messages"),
    TroubleRemedy.SUMMARISE: LazyText("Summarise the oldest messages"),
}
Action = tuple[Verb, str, str]
"""A verb, its name, its icon."""
_MIDDLE = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft


def _failure_buttons(trouble: AnswerTrouble) -> list[tuple[Verb, str, str]]:
    """Return the buttons of a failure as verb, words and object: what may mend it first."""
    offers = [(Verb.LOAD_OTHERWISE, offer.label, offer.kind) for offer in trouble.offers]
    mend = [(Verb.MEND, tr("Do this automatically from now on"), "")] if offers else []
    return [*offers, *((Verb(remedy.value), _REMEDY_WORDS[remedy].tr(), "") for remedy in trouble.remedies), *mend]


class FoldBox(Box):
    """The title of thinking; pressing it shows or hides the thoughts."""

    gap = 0

    def __init__(self) -> None:
        super().__init__()
        self.words = ""
        self.is_open = False
        self._spots: list[Spot] = []

    def guess_height(self, look: TranscriptLook, width: float) -> float:
        """Return its height, which is always the same."""
        del width
        return look.px(_FOLD_HEIGHT)

    def lay_out(self, look: TranscriptLook, width: float) -> None:
        """Take as much width as the words need."""
        words = look.body.metrics.horizontalAdvance(self.words)
        self.height, self.natural = look.px(_FOLD_HEIGHT), min(width, words + look.px(40))
        name = (
            tr("{words}: hide the thoughts", words=self.words)
            if self.is_open
            else tr("{words}: show the thoughts", words=self.words)
        )
        self._spots = [Spot(QRectF(0, 0, self.natural, self.height), Verb.FOLD, name)]

    def paint(self, painter: QPainter, look: TranscriptLook, pose: PaintState) -> None:
        """Draw the arrow and the words."""
        if not self._spots:
            return
        lit = is_lit(self._spots[0], pose)
        side = look.px(16)
        icon = "chevron-down" if self.is_open else "chevron-right"
        pixmap = look.theme.pixmap(icon, "ink" if lit else "ink-3", size=16, ratio=painter.device().devicePixelRatioF())
        painter.drawPixmap(QPointF(0, round((self.height - side) / 2)), pixmap)
        painter.setFont(look.body.font)
        painter.setPen(look.color("ink" if lit else "ink-2"))
        painter.drawText(QRectF(look.px(22), 0, self.natural, self.height), _MIDDLE, self.words)

    def list_spots(self) -> list[Spot]:
        """Return the title itself."""
        return self._spots


class ProgressBox(Box):
    """What is being done before the first word comes."""

    gap = 8

    def __init__(self, progress: TurnProgress) -> None:
        super().__init__()
        self.progress = progress

    def guess_height(self, look: TranscriptLook, width: float) -> float:
        """Return its height, which is always the same."""
        del width
        return look.px(36)

    def lay_out(self, look: TranscriptLook, width: float) -> None:
        """Take the whole width."""
        self.height, self.natural = look.px(36), width

    def paint(self, painter: QPainter, look: TranscriptLook, pose: PaintState) -> None:
        """Draw the words and, below them, a bar as long as it is known to be."""
        del pose
        painter.setFont(look.body.font)
        painter.setPen(look.color("ink-2"))
        painter.drawText(QRectF(0, 0, self._width, look.px(24)), _MIDDLE, self.progress.words)
        fraction = self.progress.fraction
        if fraction is None:
            return
        width, height = min(self._width, look.px(_BAR_WIDTH)), look.px(_BAR)
        track = QRectF(0, look.px(28), width, height)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(look.color("line"))
        painter.drawRoundedRect(track, height / 2, height / 2)
        painter.setBrush(look.color("accent"))
        track.setWidth(max(height, width * fraction))
        painter.drawRoundedRect(track, height / 2, height / 2)


class TroubleBox(Box):
    """A failure in place: the sentence, the hint, the cause when unfolded, and the buttons."""

    gap = 12

    def __init__(self, trouble: AnswerTrouble) -> None:
        super().__init__()
        self.trouble = trouble
        self.is_open = False
        self._parts: list[tuple[TextLines, float]] = []
        self._spots: list[Spot] = []
        self._cause_top = 0.0

    def guess_height(self, look: TranscriptLook, width: float) -> float:
        """Guess two lines and a row of buttons."""
        del width
        return look.px(112)

    def lay_out(self, look: TranscriptLook, width: float) -> None:
        """Set the words, then the buttons below them."""
        pad = look.px(_PAD)
        left, room = pad + look.px(28), width - 2 * pad - look.px(28)
        self._parts, self._spots, y = [], [], float(pad - look.px(2))
        for text, tone in ((self.trouble.sentence, look.strong), (self.trouble.hint, look.body)):
            if text:
                y = self._add_lines(TextLines(text, tone, [], width=room), y)
        if self.trouble.cause:
            y = self._lay_cause(look, left, room, y)
        self.height = self._lay_buttons(look, left, left + room, y + look.px(8)) + pad
        self.natural = width

    def paint(self, painter: QPainter, look: TranscriptLook, pose: PaintState) -> None:
        """Draw the soft card, the sign, the words and the buttons."""
        radius, pad = look.px(Radius.CARD), look.px(_PAD)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(look.color("bad-soft"))
        painter.drawRoundedRect(QRectF(0, 0, self._width, self.height), radius, radius)
        ratio = painter.device().devicePixelRatioF()
        painter.drawPixmap(QPointF(pad, pad), look.theme.pixmap("triangle-alert", "bad", ratio=ratio))
        for lines, top in self._parts:
            lines.draw_at(painter, QPointF(pad + look.px(28), top), look, None)
        for spot in self._spots:
            if spot.verb is Verb.SHOW_CAUSE:
                painter.setFont(look.body.font)
                painter.setPen(look.color("ink" if is_lit(spot, pose) else "ink-2"))
                painter.drawText(spot.area, _MIDDLE, spot.name)
            else:
                paint_words(painter, look, spot, pose=pose)

    def list_spots(self) -> list[Spot]:
        """Return the buttons."""
        return self._spots

    def _lay_buttons(self, look: TranscriptLook, left: float, right: float, y: float) -> float:
        """Set the buttons in rows as long as there is room; return where they end."""
        x, row, presses = float(left), look.px(30), _failure_buttons(self.trouble)
        for verb, words, value in presses:
            area = words_area(look, words, x, y)
            if x > left and area.right() > right:
                x, y = float(left), y + row + look.px(4)
                area = words_area(look, words, x, y)
            self._spots.append(Spot(area, verb, words, value))
            x += area.width() + look.px(8)
        return y + (row if presses else 0)

    def _lay_cause(self, look: TranscriptLook, left: float, room: float, y: float) -> float:
        words = tr("Hide the cause ▴") if self.is_open else tr("Show the cause ▾")
        width = look.body.metrics.horizontalAdvance(words)
        height = look.px(24)
        self._spots.append(Spot(QRectF(left, y, width + 4, height), Verb.SHOW_CAUSE, words))
        y += height
        if self.is_open:
            y = self._add_lines(
                TextLines(self.trouble.cause.replace("\n", "\u2028"), look.code, [], width=room), y + look.px(4)
            )
        return y

    def _add_lines(self, lines: TextLines, top: float) -> float:
        self._parts.append((lines, top))
        return top + lines.height


class FootBox(Box):
    """The quiet line below a message; its actions appear when the message is pointed at or chosen with the keys."""

    gap = 4

    def __init__(self, actions: tuple[Action, ...]) -> None:
        super().__init__()
        self.words = ""
        self.branch, self.branches = 1, 1
        self._actions = actions
        self._spots: list[Spot] = []
        self._branch_area = QRectF()

    def guess_height(self, look: TranscriptLook, width: float) -> float:
        """Return the height of one line, or of two where the words leave no room for what can be pressed."""
        return look.px(_FOOT_HEIGHT) * (1 if self._fits_one_line(look, width) else 2)

    def lay_out(self, look: TranscriptLook, width: float) -> None:
        """Place the words at the left; the versions at the right, where they stay, and the actions before them."""
        self.height, self.natural = self.guess_height(look, width), 0.0
        side = look.px(_ICON)
        top, x = self.height - (look.px(_FOOT_HEIGHT) + side) / 2, width
        self._spots = []
        if self.branches > 1:
            x = self._place_branches(look, x, top, side) - look.px(8)
        actions = []
        for verb, name, _icon in reversed(self._actions):
            x -= side
            actions.append(Spot(QRectF(x, top, side, side), verb, name))
        self._spots = [*actions[::-1], *self._spots]

    def paint(self, painter: QPainter, look: TranscriptLook, pose: PaintState) -> None:
        """Draw the words always, the actions when asked for."""
        painter.setFont(look.meta.font)
        painter.setPen(look.color("ink-3"))
        words = look.meta.metrics.elidedText(self.words, Qt.TextElideMode.ElideRight, int(self._width))
        painter.drawText(QRectF(0, 0, self._width, look.px(_FOOT_HEIGHT)), _MIDDLE, words)
        icons = {verb: icon for verb, _name, icon in self._actions}
        icons |= {Verb.PREVIOUS_BRANCH: "chevron-left", Verb.NEXT_BRANCH: "chevron-right"}
        for spot in self._spots:
            is_branch = spot.verb in {Verb.PREVIOUS_BRANCH, Verb.NEXT_BRANCH}
            if pose.is_active or is_branch:
                paint_spot(painter, look, spot, icon=icons[spot.verb], pose=pose)
        if self.branches > 1:
            painter.setPen(look.color("ink-2"))
            painter.setFont(look.meta.font)
            painter.drawText(self._branch_area, Qt.AlignmentFlag.AlignCenter, f"{self.branch}/{self.branches}")

    def list_spots(self) -> list[Spot]:
        """Return actions and branches."""
        return self._spots

    def _fits_one_line(self, look: TranscriptLook, width: float) -> bool:
        """Whether words, actions and versions stand beside each other."""
        if not self.words:
            return True
        side = look.px(_ICON)
        needed_width = look.meta.metrics.horizontalAdvance(self.words) + side * len(self._actions)
        if self.branches > 1:
            needed_width += self._branch_room(look) + 2 * side + look.px(8)
        return needed_width + look.px(8) <= width

    def _branch_room(self, look: TranscriptLook) -> float:
        return look.meta.metrics.horizontalAdvance(f"{self.branches}/{self.branches}") + look.px(4)

    def _place_branches(self, look: TranscriptLook, right: float, top: float, side: float) -> float:
        """Place both arrows with the count between them; return where they begin."""
        words = self._branch_room(look)
        left = right - words - 2 * side
        before = Spot(QRectF(left, top, side, side), Verb.PREVIOUS_BRANCH, tr("Previous version"))
        after = Spot(QRectF(right - side, top, side, side), Verb.NEXT_BRANCH, tr("Next version"))
        self._branch_area = QRectF(left + side, top, words, side)
        self._spots = [before, after]
        return left
