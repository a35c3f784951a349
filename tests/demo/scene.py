"""What a picture is taken of: a page, what the demo gateway answers, what happens before, and in which looks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QWidget

from app.gui.shell.contract import PageId
from app.gui.shell.window import MainWindow
from app.gui.theme.theme import Mode
from app.gui.widgets.panels import PageFrame as PageView
from tests.demo import data
from tests.demo.api import DemoApi

SMALL, USUAL, LARGE = (1024, 640), (1280, 800), (2560, 1440)
Replies = Mapping[str, object]
Act = Callable[[MainWindow, DemoApi], object]


@dataclass(frozen=True, slots=True)
class SceneLook:
    """How a scene is drawn."""

    mode: Mode = "light"
    percent: int = 100
    size: tuple[int, int] = USUAL
    is_mirrored: bool = False

    @property
    def suffix(self) -> str:
        """The end of the file's name."""
        width, height = self.size
        return f"{self.mode}-{self.percent}-{width}x{height}" + ("-rtl" if self.is_mirrored else "")


@dataclass(frozen=True, slots=True)
class Scene:
    """One state of one page."""

    name: str
    page: PageId
    replies: Replies = field(default_factory=data.gateway_replies)
    act: Act = lambda _window, _api: None
    is_online: bool = True
    looks: tuple[SceneLook, ...] = (SceneLook("light"), SceneLook("dark"))


EVERY_LOOK = tuple(
    SceneLook(mode, percent, size) for mode in ("light", "dark") for percent in (100, 200) for size in (SMALL, LARGE)
)
BOTH = (SceneLook("light"), SceneLook("dark"))
USUAL_LOOKS = (*BOTH, *EVERY_LOOK)


def scroll_to(kind: type[QWidget]) -> Act:
    """Return what brings the first widget of a kind to the top."""

    def scroll_page(window: MainWindow, _api: DemoApi) -> None:
        page = window.pages.currentWidget()
        if isinstance(page, PageView) and (widgets := page.findChildren(kind)):
            content = page.scroller.widget()
            top = widgets[0].mapTo(content, QPoint(0, 0)).y() if content else 0
            page.scroller.verticalScrollBar().setValue(top - window.theme.px(24))

    return scroll_page


def scroll_down(window: MainWindow, _api: DemoApi) -> None:
    """Show the end of the page."""
    page = window.pages.currentWidget()
    if isinstance(page, PageView):
        bar = page.scroller.verticalScrollBar()
        bar.setValue(bar.maximum())
