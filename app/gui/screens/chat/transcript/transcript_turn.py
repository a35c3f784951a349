"""One message as boxes: folded thinking, text, progress or failure, and the quiet line with its actions.

A turn that was never seen has no boxes, only a guess of its height; it reads its text when it comes near the view.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter

from app.core.attachments import Attachment
from app.core.chats import MessageStatus, Role
from app.core.documents import AnswerDocuments
from app.core.tool_calls import AnswerToolCall
from app.core.translation import tr
from app.gui.markdown.pieces import MarkdownPiece
from app.gui.phrases import quiet_line, thinking_title
from app.gui.screens.chat.transcript.actions_box import ActionsBox, select_shown
from app.gui.screens.chat.transcript.box import Box, HeightStack, PaintState, Spot, Verb
from app.gui.screens.chat.transcript.box_flow import BoxFlow
from app.gui.screens.chat.transcript.call_box import CallBox
from app.gui.screens.chat.transcript.code_box import CodeCard
from app.gui.screens.chat.transcript.files_box import FilesBox
from app.gui.screens.chat.transcript.look import TranscriptLook
from app.gui.screens.chat.transcript.note_boxes import Action, FoldBox, FootBox, ProgressBox, TroubleBox
from app.gui.screens.chat.transcript.sources_box import SourcesBox
from app.gui.screens.chat.transcript.text_box import TextBox
from app.gui.screens.chat.turns import TurnView
from app.gui.theme.tokens import Radius

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


@dataclass(slots=True, eq=False)
class _PlacedCall:
    """A call's box, how many boxes of the text stand before it (None while that text has not come), and its files."""

    box: CallBox
    place: int | None
    files: FilesBox | None = None


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
    _calls: dict[str, "_PlacedCall"]
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
        is_other = self._show_calls(list(live.calls.values())) or is_other
        start = self._head_count() + (0 if self._calls else self._body.frozen)
        if thoughts:
            start = 1 + self._thoughts.frozen if self._is_open else start
            self._thoughts.feed("".join(thoughts))
        if text:
            self._feed_body("".join(text))
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
        self._calls = {}
        if self.view.live is None:
            self._show_calls(message.calls)
            self._feed_body(message.content)
            self._body.finish()
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

    def toggle_call(self, call: str) -> None:
        """Show or hide what a tool was called with and returned."""
        box = self._calls[call].box
        box.is_open = not box.is_open
        box.drop_layout()
        self._compose_boxes()

    def toggle_sources(self) -> None:
        """Show or hide the passages that the answer was given."""
        for box in self._notes:
            if isinstance(box, SourcesBox):
                box.is_open = not box.is_open
                box.drop_layout()
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
        self._show_calls(message.calls)
        self._thoughts.feed(message.reasoning[self._thoughts.length :])
        self._feed_body(message.content[self._body.length :])

    def _show_calls(self, calls: Sequence[AnswerToolCall]) -> bool:
        """Place the calls that are new, and show how far the others have come; return whether anything changed."""
        has_changed = False
        for call in calls:
            placed_call = self._calls.get(call.id)
            if placed_call is None:
                # Where its place in the text is behind us, it stands at the end of what is there.
                place = len(self._body.boxes) if call.at <= self._body.length else None
                self._calls[call.id] = _PlacedCall(CallBox(call), place)
                has_changed = True
            else:
                has_changed = placed_call.box.show_call(call) or has_changed
            has_changed = self._show_call_files(self._calls[call.id]) or has_changed
        return has_changed

    def _show_call_files(self, placed_call: _PlacedCall) -> bool:
        """Show the files that a call made below it; return whether there are others than before."""
        call_files = [file for file in self._attachments if file.hash in placed_call.box.call.files]
        if call_files == (placed_call.files.attachments if placed_call.files else []):
            return False
        placed_call.files = FilesBox(call_files, is_answer=True) if call_files else None
        return True

    @property
    def _attachments(self) -> Sequence[Attachment]:
        live = self.view.live
        return live.attachments if live is not None else self.view.message.attachments

    def _feed_body(self, text: str) -> None:
        """Take more of the text, and note between which of its boxes calls stand."""
        for placed_call in self._calls.values():
            if placed_call.place is not None or placed_call.box.call.at > self._body.length + len(text):
                continue
            cut = placed_call.box.call.at - self._body.length
            if cut > 0:
                self._body.feed(text[:cut])
                text = text[cut:]
            placed_call.place = len(self._body.boxes)
        if text:
            self._body.feed(text)

    def _compose_boxes(self) -> None:
        """Put the parts below each other."""
        self._notes = self._make_notes()
        self._set_foot()
        self._set_fold()
        self._recompose_from(0)

    def _recompose_from(self, start: int) -> None:
        self._mark_citations()
        head: list[Box] = []
        if self._thoughts.length:
            head = [self._fold, *(self._thoughts.boxes if self._is_open else ())]
        self.boxes = [*head, *self._body_with_calls(), *self._notes, self._foot]
        self.stack.replace_from(start, [self._box_extent(index) for index in range(start, len(self.boxes))])

    def _mark_citations(self) -> None:
        """Have the numbers of passages in the text open them."""
        numbers = frozenset(str(source.number) for source in self.view.message.documents.sources)
        for box in self._body.boxes if numbers else ():
            if isinstance(box, TextBox) and box.citations != numbers:
                box.citations = numbers
                box.drop_layout()

    def _body_with_calls(self) -> list[Box]:
        """Return the boxes of the text with those of the calls where they were made."""
        boxes: list[Box] = []
        at = 0
        for placed_call in self._calls.values():
            place = len(self._body.boxes) if placed_call.place is None else placed_call.place
            boxes += self._body.boxes[at:place]
            boxes.append(placed_call.box)
            if placed_call.files is not None:
                boxes.append(placed_call.files)
            at = max(at, place)
        return [*boxes, *self._body.boxes[at:]]

    def _box_extent(self, index: int) -> float:
        box = self.boxes[index]
        height = box.height if box.is_laid else box.height or box.guess_height(self.look, self._box_width(index))
        return self._space_above(index) + height

    def _make_notes(self) -> list[Box]:
        view = self.view
        if view.live is not None and view.live.progress is not None:
            return [ProgressBox(view.live.progress)]
        if self.is_question and view.message.attachments:
            return [self._make_files_box()]
        sources = [*self._make_actions_boxes(), *self._make_sources_boxes()]
        if view.trouble is None:
            return [*sources]
        trouble_box = next(
            (box for box in self._notes if isinstance(box, TroubleBox) and box.trouble == view.trouble), None
        )
        return [*sources, trouble_box or TroubleBox(view.trouble)]

    def _make_actions_boxes(self) -> list[Box]:
        actions = select_shown(self.view.message.actions)
        box = next((box for box in self._notes if isinstance(box, ActionsBox) and box.actions == actions), None)
        return [box or ActionsBox(actions)] if actions else []

    def _make_sources_boxes(self) -> list[SourcesBox]:
        documents = self.view.message.documents
        if documents == AnswerDocuments():
            return []
        box = next((box for box in self._notes if isinstance(box, SourcesBox) and box.documents == documents), None)
        return [box or SourcesBox(documents)]

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
