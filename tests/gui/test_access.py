"""The window for the keyboard and the screen reader: names, order, the ring, and room at twice the size."""

from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QAccessible, QAccessibleInterface
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from app.core.errors import ErrorBody
from app.gui.screens.models.model_row_view import ModelRowView
from app.gui.screens.models.view import ModelsScreen
from app.gui.shell.contract import PageId
from app.gui.shell.window import MainWindow
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, Pressable
from app.gui.widgets.panels import PageFrame as PageView
from tests.demo import data
from tests.demo.api import DemoApi

Make = Callable[[PageId], MainWindow]
MOUSE_BUTTONS = "app.gui.widgets.focus_ring.QGuiApplication.mouseButtons"
REFUSED = ErrorBody(code="storage", sentence="The disk is full.", hint="Make room.", detail="ENOSPC")
INTERACTIVE = {
    QAccessible.Role.Button,
    QAccessible.Role.CheckBox,
    QAccessible.Role.RadioButton,
    QAccessible.Role.ComboBox,
    QAccessible.Role.EditableText,
    QAccessible.Role.List,
    QAccessible.Role.ListItem,
    QAccessible.Role.Link,
    QAccessible.Role.Slider,
    QAccessible.Role.SpinBox,
    QAccessible.Role.MenuItem,
    QAccessible.Role.PageTab,
}
STATES: dict[str, dict[str, object]] = {
    "usual": {},
    "empty": {"GET /models": [], "GET /running": []},
    "failing": {
        "GET /models": REFUSED,
        "GET /machine": REFUSED,
        "GET /settings": REFUSED,
        "GET /running": [data.FAILED],
    },
}


def walk(item: QAccessibleInterface) -> Iterator[QAccessibleInterface]:
    yield item
    for place in range(item.childCount()):
        child = item.child(place)
        if not child.state().invisible:
            yield from walk(child)


def list_unnamed(window: QWidget) -> list[str]:
    items = []
    for item in walk(QAccessible.queryAccessibleInterface(window)):
        is_operated = item.role() in INTERACTIVE or item.state().focusable
        if is_operated and not item.text(QAccessible.Text.Name).strip():
            items.append(f"{item.role()} {type(item.object()).__name__}")
    return items


@pytest.mark.slow(cases=5)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("page", PageId)
def test_everything_that_can_be_operated_has_a_name(make_window: Make, api: DemoApi, page: PageId, state: str) -> None:
    api.replies |= STATES[state]
    assert list_unnamed(make_window(page)) == []


def test_a_control_without_a_name_would_be_found(make_window: Make, theme: Theme) -> None:
    window = make_window(PageId.SERVER)
    nameless = Button(theme, "")
    nameless.setParent(window.centralWidget())
    nameless.show()
    assert list_unnamed(window) == ["Role.Button Button"]


def test_the_palette_and_the_toast_are_named_too(make_window: Make) -> None:
    window = make_window(PageId.SERVER)
    window.toast.show_message("Done.", lambda: None)
    window.palette_view.open()
    assert list_unnamed(window) == []


def reachable(window: QWidget) -> set[QWidget]:
    return {
        widget
        for widget in window.findChildren(Pressable)
        if widget.isVisible() and widget.isEnabled() and widget.focusPolicy() & Qt.FocusPolicy.TabFocus
    }


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("page", PageId)
def test_tab_reaches_every_control_of_a_page(make_window: Make, api: DemoApi, page: PageId) -> None:
    window = make_window(page)
    QApplication.processEvents()
    api.flush()  # what was asked for by what came first
    expected_widgets = reachable(window)
    reached_widgets: set[QWidget | None] = set()
    for _ in range(3 * len(expected_widgets) + 40):
        if not window.isActiveWindow():  # a window of another test that goes away takes the keyboard with it
            window.activateWindow()
            QApplication.processEvents()
        QTest.keyClick(QApplication.focusWidget() or window, Qt.Key.Key_Tab)
        reached_widgets.add(QApplication.focusWidget())
    expected_widgets &= reachable(window)  # a timer may have taken something away
    # A group of exclusive buttons is one stop: its arrows reach the others.
    grouped_buttons = {
        button for button in expected_widgets if isinstance(button, Pressable) and button.group() is not None
    }
    assert expected_widgets - grouped_buttons <= reached_widgets
    assert grouped_buttons & reached_widgets


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(
    "page", [PageId.MODELS, PageId.SERVER, PageId.CONNECT, PageId.MACHINE, PageId.ENGINES, PageId.SETTINGS]
)
def test_no_page_outgrows_the_smallest_window_at_twice_the_size(make_window: Make, theme: Theme, page: PageId) -> None:
    theme.set_percent(200)
    window = make_window(page)
    theme.set_percent(200)
    window.resize(1024, 640)
    QApplication.processEvents()
    result_page = window.pages.currentWidget()
    assert isinstance(result_page, PageView)
    area = result_page.scroller
    content = area.widget()
    assert content is not None
    assert content.width() <= area.viewport().width()


def test_a_failure_is_read_whole_at_twice_the_size_in_the_smallest_window(
    make_window: Make, api: DemoApi, theme: Theme
) -> None:
    api.replies |= STATES["failing"] | {"GET /models": data.MODELS}
    window = make_window(PageId.MODELS)
    theme.set_percent(200)
    window.resize(1024, 640)
    QApplication.processEvents()
    wrongs = [row._wrong for row in window.findChildren(ModelRowView) if row._wrong.isVisible()]
    assert len(wrongs) == 2, "one file is broken, one engine has failed"
    for label in wrongs:
        assert label.heightForWidth(label.width()) <= label.height()


@pytest.fixture
def no_button(monkeypatch: pytest.MonkeyPatch) -> None:
    """Qt tells of a button that a test before pressed and never let go."""
    monkeypatch.setattr(MOUSE_BUTTONS, lambda: Qt.MouseButton.NoButton)


@pytest.mark.usefixtures("no_button")
def test_the_ring_stands_outside_what_the_keyboard_reached(make_window: Make) -> None:
    window = make_window(PageId.SERVER)
    ring = window._focus_ring
    QTest.keyClick(window, Qt.Key.Key_Tab)
    focus_widget = QApplication.focusWidget()
    assert focus_widget is not None
    assert ring.ring.isVisible()
    outside, control = ring.ring.mapToGlobal(QPoint(0, 0)), focus_widget.mapToGlobal(QPoint(0, 0))
    assert outside.x() < control.x()
    assert outside.y() < control.y()


def test_the_pointer_brings_no_ring(make_window: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    window = make_window(PageId.SERVER)
    pressed_button = Qt.MouseButton.LeftButton
    monkeypatch.setattr(MOUSE_BUTTONS, lambda: pressed_button)
    window.rail.buttons[PageId.MODELS].setFocus(Qt.FocusReason.MouseFocusReason)
    assert not window._focus_ring.ring.isVisible()


@pytest.mark.usefixtures("no_button")
def test_the_ring_outlives_what_it_was_drawn_round(make_window: Make, api: DemoApi) -> None:
    window = make_window(PageId.MODELS)
    page = window.pages.currentWidget()
    assert isinstance(page, ModelsScreen)
    row = page.findChildren(ModelRowView)[0]
    next(button for button in row.findChildren(Button) if button.isVisible()).setFocus(Qt.FocusReason.TabFocusReason)
    api.replies["GET /models"] = []
    page.model.library.read()
    api.flush()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    window.rail.buttons[PageId.MODELS].setFocus(Qt.FocusReason.TabFocusReason)
    assert window._focus_ring.ring.isVisible()
