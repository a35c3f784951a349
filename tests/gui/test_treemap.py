"""A treemap fills its area to scale, can be gone through with the keyboard, and says what each part is."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.gui.theme.theme import Theme
from app.gui.widgets.treemap import Treemap, TreemapCell, TreemapGroup, squarify_amounts

AREA = QRectF(0, 0, 640, 260)
BETWEEN = QPoint(1, 1)
"""In the gap round the parts; Qt's tests take (0, 0) for the middle."""
GROUPS = [
    TreemapGroup("Small", "part-2", [TreemapCell("c", "Gamma", 10, "10 B")]),
    TreemapGroup(
        "Large",
        "part-1",
        [
            TreemapCell("a", "Alpha", 60, "60 B"),
            TreemapCell("b", "Beta", 20, "20 B"),
            TreemapCell("", "2 smaller", 5, "5 B"),
        ],
    ),
]


def size(area: QRectF) -> float:
    return area.width() * area.height()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(1, 1e12), min_size=1, max_size=30))
def test_every_amount_has_its_share_of_the_area_and_none_overlap(amounts: list[float]) -> None:
    amounts = sorted(amounts, reverse=True)
    places = squarify_amounts(amounts, AREA)
    assert len(places) == len(amounts)
    for amount, place in zip(amounts, places, strict=True):
        assert size(place) == pytest.approx(size(AREA) * amount / sum(amounts), rel=1e-6, abs=1e-3)
        assert AREA.adjusted(-0.01, -0.01, 0.01, 0.01).contains(place)
    for first, other in combinations(places, 2):
        assert size(first.intersected(other)) < 1


def test_equal_amounts_are_nearly_square() -> None:
    for place in squarify_amounts([1.0] * 12, QRectF(0, 0, 400, 300)):
        assert 0.5 < place.width() / place.height() < 2


@pytest.mark.parametrize("area", [QRectF(), QRectF(0, 0, 100, 0), QRectF(0, 0, 0, 100)])
def test_no_room_and_nothing_to_show_harm_nobody(area: QRectF) -> None:
    assert len(squarify_amounts([3.0, 2.0, 1.0], area)) == 3
    assert squarify_amounts([], area) == []


@pytest.fixture
def treemap(qtbot: QtBot, theme: Theme) -> Treemap:
    treemap = Treemap(theme, "Models")
    qtbot.addWidget(treemap)
    treemap.resize(640, 260)
    treemap.show_groups(GROUPS)
    treemap.show()
    return treemap


def list_chosen(treemap: Treemap) -> list[str]:
    keys: list[str] = []
    treemap.chosen.connect(lambda key, _where: keys.append(key))
    return keys


def test_the_largest_group_comes_first(treemap: Treemap) -> None:
    assert [cell.key for cell in treemap.cells] == ["a", "b", "", "c"]
    assert treemap.accessibleDescription() == "Alpha, 60 B"


def test_keys_go_from_part_to_part_and_return_chooses(treemap: Treemap) -> None:
    keys = list_chosen(treemap)
    QTest.keyClick(treemap, Qt.Key.Key_Right)
    QTest.keyClick(treemap, Qt.Key.Key_Return)
    assert keys == ["b"]
    assert treemap.accessibleDescription() == "Beta, 20 B"
    QTest.keyClick(treemap, Qt.Key.Key_Up)
    QTest.keyClick(treemap, Qt.Key.Key_Left)
    QTest.keyClick(treemap, Qt.Key.Key_Space)
    assert keys == ["b", "c"]


def test_arrows_are_mirrored_where_people_read_from_the_right(treemap: Treemap) -> None:
    treemap.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
    treemap.show_groups(GROUPS)
    QTest.keyClick(treemap, Qt.Key.Key_Left)
    assert treemap.current == GROUPS[1].cells[1]
    first = treemap._places[0][0]
    assert first.center().x() > treemap.width() / 2


def test_a_press_chooses_what_is_there_but_not_a_heap(treemap: Treemap) -> None:
    keys = list_chosen(treemap)
    for place, _, _ in treemap._places:
        QTest.mouseClick(treemap, Qt.MouseButton.LeftButton, pos=place.center().toPoint())
    assert keys == ["a", "b", "c"]
    QTest.mouseClick(treemap, Qt.MouseButton.LeftButton, pos=BETWEEN)
    assert keys == ["a", "b", "c"]


def test_the_keyboard_stays_on_its_part_when_others_come(treemap: Treemap) -> None:
    QTest.keyClick(treemap, Qt.Key.Key_Right)
    treemap.show_groups([TreemapGroup("New", "part-3", [TreemapCell("n", "New", 500, "500 B")]), *GROUPS])
    assert treemap.current is not None
    assert treemap.current.key == "b"
    treemap.show_groups([])
    assert treemap.current is None
    assert treemap.accessibleDescription() == ""
    QTest.keyClick(treemap, Qt.Key.Key_Right)
    QTest.keyClick(treemap, Qt.Key.Key_Return)


def point_at(treemap: Treemap, at: QPoint) -> None:
    """Move the pointer there, whatever other windows lie at that place of the screen."""
    button, none = Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier
    QApplication.sendEvent(treemap, QMouseEvent(QEvent.Type.MouseMove, QPointF(at), QPointF(at), button, button, none))


def test_the_pointer_shows_what_can_be_pressed(treemap: Treemap) -> None:
    place = treemap._places[0][0]
    point_at(treemap, place.center().toPoint())
    assert treemap.cursor().shape() is Qt.CursorShape.PointingHandCursor
    point_at(treemap, BETWEEN)
    assert treemap.cursor().shape() is Qt.CursorShape.ArrowCursor
    treemap.grab()
