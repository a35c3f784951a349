"""The parts every page is made of."""

import gc
import sys

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, Qt
from PySide6.QtGui import QColor, QEnterEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.core.errors import ErrorBody
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import FOCUS_RING
from app.gui.widgets.buttons import Button
from app.gui.widgets.fields import CopyField, Field
from app.gui.widgets.flow_layout import FlowLayout, PairLayout
from app.gui.widgets.focus_ring import FocusRing
from app.gui.widgets.layout import HBox, Surface
from app.gui.widgets.menus import DropDown, Menu
from app.gui.widgets.panels import ErrorPanel, Fold
from app.gui.widgets.rows import ListRow, RowList, Tag
from app.gui.widgets.text import ElidedLabel, Label, reads_from_right
from app.gui.widgets.toast import Toast

REFUSED = ErrorBody(code="storage", sentence="The disk is full.", hint="Make room.", detail="ENOSPC")


def test_long_words_give_way_and_are_whole_in_the_tip(theme: Theme, qtbot: QtBot) -> None:
    label = ElidedLabel(theme, "a very long name " * 10)
    qtbot.addWidget(label)
    label.resize(80, 20)
    label.grab()
    assert label.toolTip() == label.text()
    label.resize(4000, 20)
    label.grab()
    assert label.toolTip() == ""


@pytest.mark.parametrize(("text", "is_rtl"), [("Guide", False), ("علّام", True), ("7B علّام", False), ("42 שלום", True)])
def test_the_first_letter_decides_the_direction(text: str, is_rtl: bool) -> None:  # noqa: FBT001 -- a parameter of a test
    assert reads_from_right(text) is is_rtl


def test_labels_show_markup_as_it_is(theme: Theme, qtbot: QtBot) -> None:
    label = Label(theme, "<b>bold</b> & more")
    qtbot.addWidget(label)
    assert label.textFormat() is Qt.TextFormat.PlainText


def test_an_error_unfolds_its_cause(theme: Theme, qtbot: QtBot) -> None:
    panel = ErrorPanel(theme)
    qtbot.addWidget(panel)
    panel.show_error(REFUSED)
    fold = panel.findChild(Fold)
    assert isinstance(fold, Fold)
    assert not panel._cause.isVisible()
    fold.toggle()
    assert panel._cause.isVisible()
    assert panel._cause.text() == "ENOSPC"
    panel.show_error(ErrorBody(code="c", sentence="No cause."))
    assert not fold.isVisible()


def test_a_toast_leaves_unless_somebody_is_on_it(theme: Theme, qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(600, 400)
    window.show()
    toast = Toast(theme, window)
    done_steps: list[str] = []
    toast.show_message("Gone.", lambda: done_steps.append("undone"))
    toast._time_is_up()
    assert not toast.isVisible()
    toast.show_message("Gone again.", lambda: done_steps.append("undone"))
    toast._undo.click()
    assert done_steps == ["undone"]
    assert not toast.isVisible()


@pytest.mark.parametrize("percent", [100, 200])
def test_a_toast_shows_three_lines_and_the_whole_in_its_tip(theme: Theme, qtbot: QtBot, percent: int) -> None:
    theme.set_percent(percent)
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(1024, 640)
    window.show()
    toast = Toast(theme, window)
    sentence = "OpenVINO is used from now on: its answers take at most 0.89 times as long as with llama.cpp. " * 6
    toast.show_message(sentence.strip(), lambda: None)
    assert toast._words.text().endswith(" …")
    assert toast._words.toolTip() == toast.accessibleName() == sentence.strip()
    assert toast.height() <= window.height() / 4
    toast.show_message("Done.")
    assert (toast._words.text(), toast._words.toolTip()) == ("Done.", "")


def test_return_presses_and_hover_fades(theme: Theme, qtbot: QtBot) -> None:
    presses: list[int] = []
    button = Button(theme, "Go", action=lambda: presses.append(1))
    qtbot.addWidget(button)
    button.move(500, 500)  # away from the pointer, which rests in the corner
    button.show()
    QTest.keyClick(button, Qt.Key.Key_Return)
    QTest.keyClick(button, Qt.Key.Key_Space)
    assert presses == [1, 1]
    QApplication.sendEvent(button, QEnterEvent(QPointF(1, 1), QPointF(1, 1), QPointF(1, 1)))
    assert button.hover == 1.0, "at once when motion is reduced"
    theme.set_reduce_motion(reduce=False)
    QApplication.sendEvent(button, QEvent(QEvent.Type.Leave))
    assert button.hover > 0.0
    qtbot.waitUntil(lambda: button.hover == 0.0)


def test_a_copy_field_keeps_its_value_and_says_it(theme: Theme, qtbot: QtBot) -> None:
    copied_texts: list[str] = []
    field = CopyField(theme, "Key", copied_texts.append)
    qtbot.addWidget(field)
    field.set_value("abc")
    field.click()
    assert copied_texts == ["abc"]
    assert field.accessibleName() == "Key: abc"


def test_two_things_stand_beside_each_other_while_there_is_room(theme: Theme, qtbot: QtBot) -> None:
    host = QWidget()
    qtbot.addWidget(host)
    pair = PairLayout(theme, room=200, gap=16)
    host.setLayout(pair)
    first, second = Label(theme, "First"), Button(theme, "Second")
    pair.addWidget(first)
    pair.addWidget(second)
    host.resize(600, 100)
    host.show()
    assert second.x() > first.x()
    host.resize(200, 100)
    QApplication.processEvents()
    assert second.x() == 0
    assert second.y() > first.y()


def test_a_flow_wraps_and_mirrors(theme: Theme, qtbot: QtBot) -> None:
    host = QWidget()
    qtbot.addWidget(host)
    flow = FlowLayout(theme, host)
    buttons = [Button(theme, f"Button {number}") for number in range(4)]
    for button in buttons:
        flow.addWidget(button)
    host.resize(2000, 100)
    host.show()
    assert len({button.y() for button in buttons}) == 1
    host.resize(buttons[0].width() + 10, 400)
    QApplication.processEvents()
    assert len({button.y() for button in buttons}) == 4
    host.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
    QApplication.processEvents()
    assert buttons[0].geometry().right() == host.width() - 1


class CountedFlow(FlowLayout):
    """A layout that counts how often it is asked for its height."""

    questions = 0

    def heightForWidth(self, width: int) -> int:  # noqa: N802 -- Qt's name
        self.questions += 1
        return super().heightForWidth(width)


def test_a_height_is_worked_out_once_until_something_changes(theme: Theme, qtbot: QtBot) -> None:
    host = QWidget()
    qtbot.addWidget(host)
    pair, flow = PairLayout(theme), CountedFlow(theme)
    flow.addWidget(Label(theme, "First"))
    pair.addLayout(flow)
    pair.addWidget(Button(theme, "Second"))
    host.setLayout(pair)
    assert len({pair.heightForWidth(400) for _ in range(9)}) == 1
    assert flow.questions == 1
    pair.invalidate()
    pair.heightForWidth(400)
    assert flow.questions == 2


def test_what_changes_inside_changes_the_height_at_once(theme: Theme, qtbot: QtBot) -> None:
    host = QWidget()
    qtbot.addWidget(host)
    flow = FlowLayout(theme, host)
    buttons = [Button(theme, f"Button {number}") for number in range(3)]
    for button in buttons:
        flow.addWidget(button)
    host.show()
    width = buttons[0].sizeHint().width() + 1
    line = flow.heightForWidth(2000)
    three = flow.heightForWidth(width)
    buttons[1].hide()
    two = flow.heightForWidth(width)
    assert line < two < three
    buttons[1].show()
    assert flow.heightForWidth(width) == three
    flow.removeWidget(buttons[2])
    assert flow.heightForWidth(width) == two
    buttons[1].setMinimumHeight(300)
    assert flow.heightForWidth(width) > 300
    buttons[1].setText("A button of many more words than there were " * 4)
    buttons[0].hide()
    assert flow.heightForWidth(width) == 300


def test_a_change_of_an_inner_layout_reaches_those_around_it(theme: Theme, qtbot: QtBot) -> None:
    host = QWidget()
    qtbot.addWidget(host)
    pair, flow = PairLayout(theme), FlowLayout(theme)
    buttons = [Button(theme, f"Button {number}") for number in range(3)]
    for button in buttons:
        flow.addWidget(button)
    pair.addLayout(flow)
    host.setLayout(pair)
    host.show()
    width = buttons[0].sizeHint().width() + 1
    before = pair.heightForWidth(width)
    buttons[2].hide()
    QApplication.processEvents()
    assert pair.heightForWidth(width) < before
    flow.addWidget(Button(theme, "Button 3"))
    QApplication.processEvents()
    assert pair.heightForWidth(width) == before


def test_rows_that_leave_are_taken_away(theme: Theme, qtbot: QtBot) -> None:
    rows = RowList(theme, "Rows")
    qtbot.addWidget(rows)
    made_rows: list[str] = []

    def make(text: str) -> Label:
        made_rows.append(text)
        return Label(theme, text)

    rows.sync({"a": "a", "b": "b"}, make, lambda _row, _text: None)
    first = rows.rows["a"]
    rows.sync({"c": "c", "a": "a"}, make, lambda _row, _text: None)
    assert made_rows == ["a", "b", "c"]
    assert list(rows.rows) == ["c", "a"]
    assert rows.rows["a"] is first
    assert not [label for label in rows.findChildren(Label) if label.text() == "b" and not label.isHidden()]


def test_qt_calls_do_not_lose_references(theme: Theme, qtbot: QtBot) -> None:
    """PySide6 6.12.0 on Python 3.11 lost one to None or True per call, until the interpreter aborted."""
    widget = QWidget()
    qtbot.addWidget(widget)
    line = HBox(theme, widget)
    gc.collect()
    before = [sys.getrefcount(value) for value in (None, True, False)]
    for number in range(20_000):
        widget.setEnabled(bool(number % 2))
        widget.isVisible()
        widget.update()
        line.setSpacing(number % 3)
        theme.changed.emit()
    gc.collect()
    after = [sys.getrefcount(value) for value in (None, True, False)]
    lost_counts = [old - new for old, new in zip(before, after, strict=True)]
    assert max(lost_counts) < 1000, "one in twenty calls would already show"


def test_a_choice_is_made_from_its_menu(theme: Theme, qtbot: QtBot) -> None:
    choice = DropDown(theme, "Appearance", [("system", "System"), ("dark", "Dark")])
    qtbot.addWidget(choice)
    choice.show()
    choice.click()
    menu = choice.findChild(Menu)
    assert isinstance(menu, Menu)
    assert [action.text() for action in menu.actions()] == ["System", "Dark"]
    with qtbot.waitSignal(choice.chosen) as choice_signal:
        menu.actions()[1].trigger()
    assert choice_signal.args == ["dark"]
    assert choice.accessibleName() == "Appearance: Dark"


def test_a_tag_is_still_seen_on_the_row_below_the_pointer(qtbot: QtBot, theme: Theme) -> None:
    card, row, tag = Surface(theme), ListRow(theme, "Qwen3 8B", "quiet"), Tag(theme, "Q4_K_M")
    HBox(theme, card).addWidget(row)
    row.add_tag(tag)
    qtbot.addWidget(card)
    card.resize(600, 80)
    card.show()
    for mode in ("light", "dark"):
        theme.set_mode("dark" if mode == "dark" else "light")
        row._set_hovered(is_hovered=True)
        image, area = card.grab().toImage(), QRect(tag.mapTo(card, QPoint(0, 0)), tag.size())
        inside = QColor(image.pixel(area.center().x(), area.top() + 2)).lightness()
        beside = QColor(image.pixel(area.right() + 8, area.center().y())).lightness()
        assert abs(inside - beside) >= 8, mode


def test_a_field_with_the_keyboard_has_one_outline(qtbot: QtBot, theme: Theme) -> None:
    page = QWidget()
    qtbot.addWidget(page)
    box = HBox(theme, page, margins=(24, 24, 24, 24))
    field, press = Field(theme, "Name"), Button(theme, "Press")
    box.addWidget(field)
    box.addWidget(press)
    ring = FocusRing(theme, page)
    with qtbot.waitActive(page):
        page.show()
        page.activateWindow()
    field.setFocus(Qt.FocusReason.TabFocusReason)
    grow = ring.ring.geometry().width() - field.width()
    press.setFocus(Qt.FocusReason.TabFocusReason)
    assert (grow, ring.ring.geometry().width() - press.width()) == (2 * FOCUS_RING, 2 * (FOCUS_RING + 2))


def test_a_toast_with_a_button_stays_within_a_narrow_foot(theme: Theme, qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(900, 600)
    window.show()
    foot = QRect(100, 500, 420, 80)
    toast = Toast(theme, window, lambda: foot)
    toast.show_message("A model with a name that is as long as names of models are was downloaded.", lambda: None)
    assert toast.width() <= foot.width()
    toast.place_at_foot()
    assert foot.left() <= toast.x()
    assert toast.x() + toast.width() <= foot.left() + foot.width()
