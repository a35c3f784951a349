"""What scrolls: a document, how far it is scrolled, and what pressing a spot in it does.

The mouse and the keys steer this; the widget around them draws it.
"""

from PySide6.QtCore import QPointF, Signal
from PySide6.QtWidgets import QAbstractScrollArea

from app.core.translation import tr
from app.gui.screens.chat.transcript.box import Spot, Verb
from app.gui.screens.chat.transcript.document import TranscriptDocument
from app.gui.screens.chat.transcript.look import FindThumbnail, TranscriptLook, find_nothing
from app.gui.screens.chat.transcript.table_box import csv_of, markdown_of
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import RoundButton
from app.gui.widgets.links import open_link

_MARGIN = 300
"""Unscaled pixels laid out above and below the view."""
_ROUNDS = 12


class TranscriptScrollArea(QAbstractScrollArea):
    """A document in a scroll area. What is not done here goes out as `action_requested`: verb, message, value."""

    action_requested = Signal(str, str, str)
    copy_requested = Signal(str)
    """Text for the clipboard."""

    def __init__(self, theme: Theme, find_thumbnail: FindThumbnail = find_nothing) -> None:
        super().__init__()
        self.theme, self.find_thumbnail = theme, find_thumbnail
        self.document = TranscriptDocument(TranscriptLook(theme, find_thumbnail))
        self.sticks = True
        """Whether the view follows the end."""
        self.current: int | None = None
        """The turn chosen with the keys."""
        self.column_left = 0
        self.is_arranging = False
        self.to_end = RoundButton(theme, "arrow-down", tr("Jump to the latest message"), action=self.jump_to_end)
        self.to_end.setParent(self)
        self.to_end.hide()

    @property
    def offset(self) -> int:
        """How far the view is scrolled."""
        return self.verticalScrollBar().value()

    def jump_to_end(self) -> None:
        """Go to the end and stay there."""
        self.sticks = True
        self.arrange()

    def scroll_to(self, y: float) -> None:
        """Scroll so that a place is at the top of the view."""
        self.sticks = False
        self.arrange(y)

    def arrange(self, y: float | None = None) -> None:
        """Lay out what is visible and set the scroll bar; `y` is the place to show at the top."""
        document, view = self.document, self.viewport().height()
        anchor = document.anchor_at(self.offset if y is None else y)
        margin = self.theme.px(_MARGIN)
        for _ in range(_ROUNDS):
            lowest = max(0.0, document.height - view)
            top = lowest if self.sticks else min(max(0.0, document.place_of(anchor)), lowest)
            if not document.lay_out_between(top - margin, top + view + margin):
                break
        self._set_bar(round(max(0.0, document.height - view)), round(top))
        self.to_end.setVisible(not self.sticks and document.height > view)
        self.viewport().update()

    def perform_action(self, turn: int, spot: Spot) -> None:
        """Do what a spot says."""
        entry = self.document.turns[turn]
        if spot.verb is Verb.OPEN_LINK:
            open_link(spot.value)
        elif spot.verb is Verb.COPY_CODE:
            self.copy_requested.emit(entry.code_source(spot.value))
        elif spot.verb in {Verb.COPY_TABLE, Verb.COPY_CSV}:
            write = markdown_of if spot.verb is Verb.COPY_TABLE else csv_of
            self.copy_requested.emit(write(entry.table_pieces(spot.value)))
        elif spot.verb in {Verb.WRAP_CODE, Verb.FOLD, Verb.FOLD_CALL, Verb.FOLD_SOURCES, Verb.SHOW_CAUSE}:
            self._toggle_spot(turn, spot)
        else:
            self.action_requested.emit(spot.verb.value, entry.view.message.id, spot.value)

    def copy_selection(self) -> bool:
        """Offer the selected text for the clipboard; return whether there is any."""
        text = self.document.selection_text()
        if text:
            self.copy_requested.emit(text)
        return bool(text)

    def to_page(self, point: QPointF) -> QPointF:
        """Return the place in the document below a point of the viewport."""
        return QPointF(point.x() - self.column_left, point.y() + self.offset)

    def _toggle_spot(self, turn: int, spot: Spot) -> None:
        entry = self.document.turns[turn]
        card = entry.code_card(spot.value) if spot.verb is Verb.WRAP_CODE else None
        if card is not None:
            card.wraps, card.scroll_x = not card.wraps, 0.0
            entry.drop_layouts()
        elif spot.verb is Verb.FOLD:
            entry.toggle_fold()
        elif spot.verb is Verb.FOLD_CALL:
            entry.toggle_call(spot.value)
        elif spot.verb is Verb.FOLD_SOURCES:
            entry.toggle_sources()
        else:
            entry.toggle_cause()
        self.document.clear_selection()
        self.document.update_height(turn)
        self.sticks = False
        self.arrange()

    def _set_bar(self, lowest: int, value: int) -> None:
        self.is_arranging = True
        bar = self.verticalScrollBar()
        bar.setPageStep(max(1, self.viewport().height() - self.theme.px(48)))
        bar.setSingleStep(self.theme.px(48))
        bar.setRange(0, lowest)
        bar.setValue(value)
        self.is_arranging = False
