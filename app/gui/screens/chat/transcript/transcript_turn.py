"""One message as boxes: folded thinking, text, progress or failure, and the quiet line with its actions.

A turn that was never seen has no boxes, only a guess of its height; it reads its text when it comes near the view.

A text turned into boxes, whole or while it arrives. Boxes of finished pieces are kept for good.
"""

from collections.abc import Callable, Iterator, Sequence
from math import ceil

from msgspec.structs import replace
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter

from app.core.chats import MessageStatus, Role
from app.core.translation import tr
from app.gui.markdown.pieces import MarkdownPiece, PieceKind
from app.gui.markdown.splitter import MarkdownSplitter
from app.gui.phrases import quiet_line, thinking_title
from app.gui.screens.chat.transcript.box import Box, HeightStack, PaintState, Spot, Verb
from app.gui.screens.chat.transcript.code_box import CodeBox, CodeCard
from app.gui.screens.chat.transcript.files_box import FilesBox
from app.gui.screens.chat.transcript.formula_box import FormulaBox
from app.gui.screens.chat.transcript.look import Tone, TranscriptLook
from app.gui.screens.chat.transcript.note_boxes import Action, FoldBox, FootBox, ProgressBox, TroubleBox
from app.gui.screens.chat.transcript.table_box import TableBox
from app.gui.screens.chat.transcript.text_box import RuleBox, TextBox
from app.gui.screens.chat.turns import TurnView
from app.gui.theme.tokens import Radius
from app.markdown.formulas import block_tex, draw_formula


class BoxFlow:
    """The boxes of one text. Everything before `frozen` will never change."""

    def __init__(self, *, tone: Tone | None = None, is_literal: bool = False, name: str = "text") -> None:
        self.boxes: list[Box] = []
        self.frozen = 0
        self.length = 0
        self._tone, self._is_literal = tone, is_literal
        self._cutter = MarkdownSplitter(is_literal=is_literal)
        self._pieces: list[MarkdownPiece] = []
        self._cards: dict[str, CodeCard] = {}
        self._name = name

    def feed(self, text: str) -> None:
        """Take more text; the boxes from `frozen` on are made anew where they differ."""
        self.length += len(text)
        self._replace_boxes(self._cutter.feed(text), self._cutter.preview_tail())

    def finish(self, text: str = "") -> None:
        """Take the last text; everything is frozen then."""
        self.length += len(text)
        done = self._cutter.feed(text) if text else []
        self._replace_boxes([*done, *self._cutter.finish()], [])

    def set_tone(self, tone: Tone | None) -> None:
        """Use another tone, when the theme changed."""
        if self._tone is not None:
            self._tone = tone
            self.boxes = []
            pieces, self._pieces, self.frozen = self._pieces, [], 0
            self._cards = {}
            self._replace_boxes(pieces, self._cutter.preview_tail())

    def code_source(self, key: str) -> str:
        """Return the source of one code block; nothing for a key of another text."""
        parts = []
        for piece in self._pieces:
            if piece.kind is PieceKind.CODE and self._card_key(piece) == key:
                parts += ["" if piece.is_first or piece.is_glued else "\n", piece.source]
        return "".join(parts)

    def table_pieces(self, key: str) -> list[MarkdownPiece]:
        """Return the pieces of one table; none for a key of another text."""
        return [piece for piece in self._pieces if piece.kind is PieceKind.TABLE and self._card_key(piece) == key]

    def code_card(self, key: str) -> CodeCard | None:
        """Return what the boxes of one code block share."""
        return self._cards.get(key)

    def _card_key(self, piece: MarkdownPiece) -> str:
        return f"{self._name} {piece.group}"

    def _replace_boxes(self, done: list[MarkdownPiece], tail: list[MarkdownPiece]) -> None:
        old = dict(enumerate(zip(self._pieces[self.frozen :], self.boxes[self.frozen :], strict=True)))
        del self._pieces[self.frozen :], self.boxes[self.frozen :]
        for place, piece in enumerate([*done, *tail]):
            previous = old.get(place)
            is_same = previous is not None and previous[0] == piece
            box = previous[1] if previous is not None and is_same else self._make_box(piece)
            box.bars_above = self._pieces[-1].quote if self._pieces else 0
            self._pieces.append(piece)
            self.boxes.append(box)
        self.frozen += len(done)

    def _make_box(self, piece: MarkdownPiece) -> Box:
        above = self.boxes[-1] if self.boxes and not piece.is_first else None
        if piece.kind is PieceKind.CODE:
            key = self._card_key(piece)
            card = self._cards.setdefault(key, CodeCard(key))
            return CodeBox(piece, card, above if isinstance(above, CodeBox) else None)
        if piece.kind is PieceKind.TABLE:
            leader = above.leader if isinstance(above, TableBox) else None
            return TableBox(piece, leader, self._card_key(piece))
        if piece.kind is PieceKind.RULE:
            return RuleBox(piece)
        if piece.kind is PieceKind.MATH:
            return _make_formula_box(piece, self._tone)
        return TextBox(piece, self._tone, shrinks=self._is_literal)


def _make_formula_box(piece: MarkdownPiece, tone: Tone | None) -> Box:
    """Return the formula as it looks; the source as code where it cannot be drawn."""
    drawing = draw_formula(block_tex(piece.source), is_display=True)
    if drawing is not None:
        return FormulaBox(piece, drawing, tone)
    return TextBox(replace(piece, kind=PieceKind.TEXT, is_literal=True), tone)


GAP = 28
_ANSWER_GAP = 0
_PAD_X, _PAD_Y = 16, 10
FILES_GUESS = 60
_SHARE = 0.8
"""A question takes at most this share of the column."""


def _question_actions(view: TurnView) -> tuple[Action, ...]:
    answer = ((Verb.REGENERATE, tr("Answer this question"), "rotate-ccw"),) if view.is_last else ()
    return (
        *answer,
        (Verb.EDIT, tr("Edit"), "pencil"),
        (Verb.FORK, tr("Fork: new chat from here"), "git-fork"),
        (Verb.COPY, tr("Copy message"), "copy"),
        (Verb.DELETE, tr("Delete message"), "trash-2"),
    )


def _answer_actions(view: TurnView) -> tuple[Action, ...]:
    return (
        *(((Verb.CONTINUE, tr("Continue answer"), "step-forward"),) if view.can_continue else ()),
        (Verb.REGENERATE, tr("Regenerate answer"), "rotate-ccw"),
        (Verb.REGENERATE_WITH, tr("Regenerate with another model…"), "boxes"),
        *(((Verb.COMPARE, tr("Compare the answers side by side"), "columns-2"),) if view.branches > 1 else ()),
        (Verb.EDIT, tr("Edit answer"), "pencil"),
        (Verb.FORK, tr("Fork: new chat from here"), "git-fork"),
        _voice_action(view),
        (Verb.COPY, tr("Copy answer"), "copy"),
        (Verb.DELETE, tr("Delete answer"), "trash-2"),
    )


def _voice_action(view: TurnView) -> Action:
    if view.is_read_aloud:
        return (Verb.READ_ALOUD, tr("Stop reading aloud"), "square")
    return (Verb.READ_ALOUD, tr("Read aloud"), "volume-2")


def _omission_words(view: TurnView) -> str:
    """Return that the last answer was made without this message."""
    if not view.is_left_out:
        return ""
    if view.is_summarised:
        return tr("Summarised for the last answer: the context was full")
    return tr("Left out of the last answer: the context was full")


def _answer_words(view: TurnView) -> str:
    """Return which model wrote an answer, how it ended and how fast it was."""
    message = view.message
    state = tr("Stopped") if message.status is MessageStatus.STOPPED else tr("Edited") if message.is_edited else ""
    return " · ".join(filter(None, (view.model_title, state, quiet_line(message.timings))))


def _copy_only() -> tuple[Action, ...]:
    return ((Verb.COPY, tr("Copy"), "copy"),)


class TranscriptTurn:
    """One message in the transcript. Places are counted from the turn's own top left corner.

    Thousands are made when a chat is opened and few are ever seen: everything below is set by `build_boxes`.
    """

    boxes: Sequence[Box] = ()
    is_built = False
    stack: HeightStack
    _body: BoxFlow
    _thoughts: BoxFlow
    _fold: FoldBox
    _foot: FootBox
    _notes: Sequence[Box] = ()
    _read: tuple[int, int] = (0, 0)
    _restarts = 0
    _is_open = False

    def __init__(self, view: TurnView, look: TranscriptLook) -> None:
        self.view = view
        self.look = look
        self._width = 0.0

    @property
    def is_question(self) -> bool:
        """Whether the user wrote it."""
        return self.view.message.role is Role.USER

    @property
    def height(self) -> float:
        """The height, guessed as far as it was not seen."""
        return self.stack.total if self.is_built else self._guess_height()

    @property
    def gap(self) -> float:
        """The space above the turn: the actions of a question already keep its answer apart."""
        return self.look.px(GAP if self.is_question else _ANSWER_GAP)

    @property
    def text(self) -> str:
        """What is written in it, as it was written."""
        live = self.view.live
        return "".join(live.content) if live else self.view.message.content

    @property
    def body_box(self) -> int:
        """The index of the first box of the text."""
        return self._head_count()

    def show_view(self, view: TurnView) -> None:
        """Show another state of the same message."""
        before, self.view = self.view, view
        if not self.is_built:
            return
        if before.live is not None and view.live is None:
            self._finish_answer(view)
        elif before.live is None and (view.live is not None or before.message.content != view.message.content):
            self.is_built = False
            return
        self._compose_boxes()

    def pull_text(self) -> bool:
        """Read what the model appended since the last time; return whether there was anything."""
        live = self.view.live
        if live is None or not self.is_built:
            return False
        if live.restarts != self._restarts:
            self._restarts, self.is_built = live.restarts, False
            self.build_boxes()
            return True
        thoughts, text = live.reasoning[self._read[0] :], live.content[self._read[1] :]
        self._read = (len(live.reasoning), len(live.content))
        is_other = bool(self._notes) or live.progress is not None or not (self._thoughts.length or not thoughts)
        start = self._head_count() + self._body.frozen
        if thoughts:
            start = 1 + self._thoughts.frozen if self._is_open else start
            self._thoughts.feed("".join(thoughts))
        if text:
            self._body.feed("".join(text))
        if is_other:
            self._compose_boxes()
        else:
            self._set_fold()
            self._recompose_from(start)
        return True

    def build_boxes(self) -> None:
        """Read the text, if that was not done."""
        if self.is_built:
            return
        self.is_built = True
        message = self.view.message
        self._body = BoxFlow(is_literal=self.is_question)
        self._thoughts = BoxFlow(tone=self.look.thought, name="thought")
        self._fold, self._foot = FoldBox(), FootBox(())
        self.stack = HeightStack()
        self._read = (0, 0)
        if self.view.live is None:
            self._body.finish(message.content)
            if message.reasoning:
                self._thoughts.finish(message.reasoning)
            self._compose_boxes()
        elif not self.pull_text():
            self._compose_boxes()

    def resize(self, look: TranscriptLook, width: float) -> None:
        """Take another width or another state of the theme."""
        is_new = look is not self.look
        self.look, self._width = look, width
        if not self.is_built:
            return
        if is_new:
            self._thoughts.set_tone(look.thought)
        for box in self.boxes:
            box.drop_layout()
        self._compose_boxes()

    def lay_out_between(self, top: float, bottom: float) -> bool:
        """Lay out what lies between two places; return whether the height changed."""
        self.build_boxes()
        before = self.stack.total
        index = self.stack.index_at(top)
        while index < len(self.boxes) and self.stack.top_of(index) < bottom:
            self.boxes[index].ensure_layout(self.look, self._box_width(index))
            self.stack.set_height(index, self._space_above(index) + self.boxes[index].height)
            index += 1
        return self.stack.total != before

    def drop_layouts(self) -> None:
        """Forget layouts, keep heights."""
        for box in self.boxes:
            box.drop_layout()

    def toggle_fold(self) -> None:
        """Show or hide the thinking."""
        self._is_open = not self._is_open
        self._compose_boxes()

    def toggle_cause(self) -> None:
        """Show or hide why it failed."""
        for box in self._notes:
            if isinstance(box, TroubleBox):
                box.is_open = not box.is_open
                box.drop_layout()
        self._compose_boxes()

    def code_source(self, key: str) -> str:
        """Return the source of the code block with this key."""
        return self._thoughts.code_source(key) or self._body.code_source(key)

    def table_pieces(self, key: str) -> list[MarkdownPiece]:
        """Return the pieces of the table with this key."""
        return self._thoughts.table_pieces(key) or self._body.table_pieces(key)

    def code_card(self, key: str) -> CodeCard | None:
        """Return what the boxes of a code block share."""
        return self._thoughts.code_card(key) or self._body.code_card(key)

    def box_corner(self, index: int) -> QPointF:
        """Return where a box begins."""
        return QPointF(self._box_x(index), self.stack.top_of(index) + self._space_above(index))

    def box_at(self, y: float) -> int:
        """Return which box covers a place."""
        return self.stack.index_at(y)

    def spots_between(self, top: float, bottom: float) -> Iterator[Spot]:
        """Return what can be pressed between two places."""
        for index in self._indexes_between(top, bottom):
            corner = self.box_corner(index)
            for spot in self.boxes[index].list_spots():
                yield spot.translate_by(corner.x(), corner.y())

    def paint(self, painter: QPainter, top: float, bottom: float, pose: Callable[[int], PaintState]) -> None:
        """Paint what lies between two places; `pose` says how each box looks."""
        if self.is_question and self._body.boxes:
            self._paint_bubble(painter)
        for index in self._indexes_between(top, bottom):
            box = self.boxes[index]
            box.ensure_layout(self.look, self._box_width(index))
            corner = self.box_corner(index)
            painter.translate(corner)
            box.paint(painter, self.look, pose(index))
            painter.translate(-corner)

    def _indexes_between(self, top: float, bottom: float) -> Iterator[int]:
        index = self.stack.index_at(top) if self.boxes else 0
        while index < len(self.boxes) and self.stack.top_of(index) < bottom:
            yield index
            index += 1

    def _finish_answer(self, view: TurnView) -> None:
        """Close a complete answer, keeping its boxes if they show what was stored."""
        self.pull_rest()
        same = self._body.length == len(view.message.content)
        if not same or self._thoughts.length != len(view.message.reasoning):
            self.is_built = False
            self.build_boxes()
            return
        self._body.finish()
        self._thoughts.finish()

    def pull_rest(self) -> None:
        """Read what had not been read when the answer ended. The view has changed already, so read from it."""
        message = self.view.message
        self._thoughts.feed(message.reasoning[self._thoughts.length :])
        self._body.feed(message.content[self._body.length :])

    def _compose_boxes(self) -> None:
        """Put the parts below each other."""
        self._notes = self._make_notes()
        self._set_foot()
        self._set_fold()
        self._recompose_from(0)

    def _recompose_from(self, start: int) -> None:
        head: list[Box] = []
        if self._thoughts.length:
            head = [self._fold, *(self._thoughts.boxes if self._is_open else ())]
        self.boxes = [*head, *self._body.boxes, *self._notes, self._foot]
        self.stack.replace_from(start, [self._box_extent(index) for index in range(start, len(self.boxes))])

    def _box_extent(self, index: int) -> float:
        box = self.boxes[index]
        height = box.height if box.is_laid else box.height or box.guess_height(self.look, self._box_width(index))
        return self._space_above(index) + height

    def _make_notes(self) -> list[Box]:
        view = self.view
        if view.live is not None and view.live.progress is not None:
            return [ProgressBox(view.live.progress)]
        if view.message.attachments:
            return [self._make_files_box()]
        if view.trouble is None:
            return []
        trouble_box = next(
            (box for box in self._notes if isinstance(box, TroubleBox) and box.trouble == view.trouble), None
        )
        return [trouble_box or TroubleBox(view.trouble)]

    def _make_files_box(self) -> FilesBox:
        files = self.view.message.attachments
        box = next((box for box in self._notes if isinstance(box, FilesBox) and box.attachments == files), None)
        return box or FilesBox(files)

    def _set_fold(self) -> None:
        live = self.view.live
        is_running = live is not None and live.thinking_since is not None and live.thought_s is None
        words = thinking_title(live.thought_s if live else self.view.thought_s, is_running=is_running)
        if words != self._fold.words or self._fold.is_open != self._is_open:
            self._fold.words, self._fold.is_open = words, self._is_open
            self._fold.drop_layout()

    def _set_foot(self) -> None:
        view = self.view
        is_done = view.message.status is not MessageStatus.GENERATING
        actions = (
            ()
            if not is_done
            else _copy_only()
            if view.is_busy
            else _question_actions(view)
            if self.is_question
            else _answer_actions(view)
        )
        foot = FootBox(actions)
        words = "" if self.is_question or not is_done else _answer_words(view)
        words = " · ".join(filter(None, (_omission_words(view), words)))
        foot.words, foot.branch, foot.branches = words, view.branch, view.branches
        self._foot = foot

    def _head_count(self) -> int:
        if not self._thoughts.length:
            return 0
        return 1 + (len(self._thoughts.boxes) if self._is_open else 0)

    def _space_above(self, index: int) -> float:
        """Return the space above a box."""
        px = self.look.px
        pad = px(_PAD_Y) if self.is_question else 0
        if index == 0:
            return self.gap + pad
        is_below = self.boxes[index] is self._foot or self.boxes[index] in self._notes
        gap = self.boxes[index].gap
        if index == self._head_count() and not is_below:
            gap = 16 if self._is_open else 8
        return px(gap) + (pad if is_below else 0)

    def _is_text(self, index: int) -> bool:
        return self.boxes[index] is not self._foot and self.boxes[index] not in self._notes

    def _box_width(self, index: int) -> float:
        px = self.look.px
        if self.is_question and self._is_text(index):
            return max(1.0, int(self._width * _SHARE) - 2 * px(_PAD_X))
        if 0 < index < self._head_count():
            return self._width - px(22)
        return self._width

    def _box_x(self, index: int) -> float:
        if self.is_question and self._is_text(index):
            return self._width - self._bubble_width() + self.look.px(_PAD_X)
        return self.look.px(22) if 0 < index < self._head_count() else 0.0

    def _bubble_width(self) -> float:
        pad = 2 * self.look.px(_PAD_X)
        texts = self._body.boxes
        widest = max((box.natural if box.is_laid else self._width for box in texts), default=0.0)
        return min(ceil(widest) + 1 + pad, int(self._width * _SHARE))

    def _paint_bubble(self, painter: QPainter) -> None:
        width = self._bubble_width()
        top = self.gap
        foot = len(self.boxes) - 1 - len(self._notes)
        bottom = self.stack.top_of(foot) + self.look.px(_PAD_Y)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self.look.color("accent-soft"))
        radius = self.look.px(Radius.COMPOSER)
        painter.drawRoundedRect(QRectF(self._width - width, top, width, bottom - top), radius, radius)

    def _guess_height(self) -> float:
        """Guess from the length of the text, without reading it."""
        look, message = self.look, self.view.message
        share = _SHARE if self.is_question else 1.0
        letters = max(1.0, self._width * share / look.answer.letter_width)
        lines = ceil(len(message.content) / letters) + 1
        files = look.px(FILES_GUESS) if message.attachments else 0
        return lines * look.answer.line_height + look.px(GAP + 40) + files
