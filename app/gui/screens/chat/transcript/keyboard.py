"""The keyboard in the transcript.

Up and Down scroll. Alt Up and Alt Down choose a message, Left and Right an action in it, Return does it, Delete
deletes the message; the menu key lists all of them. What is chosen is told to screen readers as the description of the
transcript.
"""

from functools import partial

from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QAccessible, QAccessibleEvent, QContextMenuEvent, QKeyEvent, QKeySequence

from app.core.translation import tr
from app.gui.screens.chat.transcript.box import Spot, Verb
from app.gui.screens.chat.transcript.scroll_area import TranscriptScrollArea
from app.gui.widgets.menus import Menu
from app.markdown.formulas import speak_formulas

_ANNOUNCED_CHARACTERS = 2000
"""Characters of a message told to a screen reader at once."""
_BY_KEYS = frozenset(
    {Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason, Qt.FocusReason.ShortcutFocusReason}
)
_ICONS = {
    Verb.COPY: "copy",
    Verb.COPY_CODE: "copy",
    Verb.COPY_CSV: "table",
    Verb.COPY_TABLE: "copy",
    Verb.EDIT: "pencil",
    Verb.READ_ALOUD: "volume-2",
    Verb.SAVE_FILE: "arrow-down",
    Verb.REGENERATE: "rotate-ccw",
    Verb.CONTINUE: "step-forward",
    Verb.REGENERATE_WITH: "boxes",
    Verb.COMPARE: "columns-2",
    Verb.FORK: "git-fork",
    Verb.DELETE: "trash-2",
    Verb.OPEN_LINK: "external-link",
    Verb.WRAP_CODE: "wrap-text",
}


class KeyboardHandler:
    """What the keys have chosen in one transcript."""

    def __init__(self, area: TranscriptScrollArea) -> None:
        self.spot: Spot | None = None
        self._area = area

    def take_focus(self, reason: Qt.FocusReason) -> None:
        """Choose the last visible message."""
        if reason in _BY_KEYS and self._area.document.turns:
            bottom = self._area.offset + self._area.viewport().height()
            self._choose_turn(self._area.document.visible_turns(self._area.offset, bottom)[-1])

    def lose_focus(self, reason: Qt.FocusReason) -> None:
        """Choose nothing, unless a menu is opened."""
        if reason is not Qt.FocusReason.PopupFocusReason:
            self._area.current, self.spot = None, None
            self._area.viewport().update()

    def handle_key(self, event: QKeyEvent) -> bool:
        """Handle a key; return False for one that is not ours."""
        if event.matches(QKeySequence.StandardKey.Copy):
            return self._area.copy_selection()
        if event.matches(QKeySequence.StandardKey.SelectAll):
            self._area.document.select_all()
            self._area.viewport().update()
            return True
        key, alt = event.key(), bool(event.modifiers() & Qt.KeyboardModifier.AltModifier)
        if alt and key in {Qt.Key.Key_Up, Qt.Key.Key_Down}:
            self._step_turn(-1 if key == Qt.Key.Key_Up else 1)
        elif key in {Qt.Key.Key_Left, Qt.Key.Key_Right} and self._area.current is not None:
            self._step_spot(-1 if key == Qt.Key.Key_Left else 1)
        elif key in {Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space} and self.spot is not None:
            self._activate_spot()
        elif key == Qt.Key.Key_Delete and self._area.current is not None:
            self._delete_turn(self._area.current)
        elif key in {Qt.Key.Key_Home, Qt.Key.Key_End}:
            self._to_edge(is_end=key == Qt.Key.Key_End)
        else:
            return False
        return True

    def open_menu(self, event: QContextMenuEvent) -> None:
        """List what can be done with the message below the pointer, or the chosen one."""
        document = self._area.document
        if not document.turns:
            return
        by_keys = event.reason() is QContextMenuEvent.Reason.Keyboard
        page = self._area.to_page(QPointF(event.pos()))
        chosen_turn = self._area.current if by_keys else document.turn_at(page.y())
        turn = len(document.turns) - 1 if chosen_turn is None else chosen_turn
        menu = Menu(self._area.theme, self._area, tr("Message actions"))
        if document.selection_text():
            menu.add_entry(tr("Copy selection"), self._area.copy_selection, icon="copy")
        for spot in self._spots_of(turn):
            menu.add_entry(spot.name, partial(self._area.perform_action, turn, spot), icon=_ICONS.get(spot.verb, ""))
        menu.aboutToHide.connect(menu.deleteLater)
        at = self._area.mapToGlobal(QPoint(self._area.width() // 2, self._area.height() // 2))
        menu.popup(at if by_keys else event.globalPos())

    def _step_turn(self, step: int) -> None:
        current, last = self._area.current, len(self._area.document.turns) - 1
        if last >= 0:
            self._choose_turn(min(max(0, (last + 1 if current is None else current) + step), last))

    def _choose_turn(self, turn: int) -> None:
        area = self._area
        area.current, self.spot = turn, None
        top = area.document.turn_top(turn)
        height = area.document.turns[turn].height
        if top < area.offset or top + height > area.offset + area.viewport().height():
            area.scroll_to(min(top, max(0.0, top + height - area.viewport().height())))
        message = area.document.turns[turn].view.message
        who = tr("You") if area.document.turns[turn].is_question else tr("Answer")
        self._announce_words(f"{who}: {speak_formulas(message.content[:_ANNOUNCED_CHARACTERS])}")

    def _step_spot(self, step: int) -> None:
        if self._area.current is None:
            return
        spots = self._spots_of(self._area.current)
        if not spots:
            return
        matches = [spot for spot in spots if self.spot and (spot.verb, spot.value) == (self.spot.verb, self.spot.value)]
        at = spots.index(matches[0]) if matches else (-1 if step > 0 else 0)
        self.spot = spots[(at + step) % len(spots)]
        self._announce_words(self.spot.name)

    def _activate_spot(self) -> None:
        if self._area.current is not None and self.spot is not None:
            self._area.perform_action(self._area.current, self.spot)

    def _delete_turn(self, turn: int) -> None:
        for spot in self._spots_of(turn):
            if spot.verb is Verb.DELETE:
                self._area.perform_action(turn, spot)
                return

    def _to_edge(self, *, is_end: bool) -> None:
        if is_end:
            self._area.jump_to_end()
        else:
            self._area.scroll_to(0)

    def _spots_of(self, turn: int) -> list[Spot]:
        entry = self._area.document.turns[turn]
        entry.lay_out_between(0, entry.height)
        return list(entry.spots_between(0, entry.height))

    def _announce_words(self, words: str) -> None:
        self._area.setAccessibleDescription(words)
        QAccessible.updateAccessibility(QAccessibleEvent(self._area, QAccessible.Event.DescriptionChanged))
        self._area.viewport().update()
