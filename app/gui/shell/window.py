"""The window: rail, pages, and what lies above them. It is drawn before the gateway is looked for."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QByteArray, QEvent, QMimeData, Qt, Signal
from PySide6.QtGui import (
    QAction,
    QCloseEvent,
    QDragEnterEvent,
    QDropEvent,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QResizeEvent,
)
from PySide6.QtWidgets import QApplication, QMainWindow, QMenu, QWidget

from app.core.api import Status
from app.core.errors import ErrorBody
from app.gui import phrases
from app.gui.net.api import GatewayApi
from app.gui.net.stores import Stores
from app.gui.shell.alt import AltAlone
from app.gui.shell.builders import builders
from app.gui.shell.commands import Commands, Deed, Own
from app.gui.shell.contract import Command, Page, Shell
from app.gui.shell.front import bring_to_front
from app.gui.shell.looks import Looks
from app.gui.shell.memory import recall, remember
from app.gui.shell.newer_bar import NewerBar
from app.gui.shell.notices import Notices
from app.gui.shell.pages import Pages
from app.gui.shell.palette import Palette
from app.gui.shell.paused_bar import PausedBar
from app.gui.shell.rail import Rail, engines_sign
from app.gui.shell.told import Told
from app.gui.shell.tray import Tray
from app.gui.theme.stylesheet import stylesheet
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import MINIMUM_WINDOW
from app.gui.widgets.focus import FocusRing
from app.gui.widgets.layout import Column, Line
from app.gui.widgets.panels import ErrorPanel
from app.gui.widgets.press import Look
from app.gui.widgets.question import Question, Reply
from app.gui.widgets.toast import Toast

_FIRST_SIZE = (1200, 780)


class WindowShell(Shell):
    """The window's services, for the screens."""

    def __init__(self, window: "Window") -> None:
        super().__init__(window)
        self._window = window

    def toast(self, sentence: str, undo: Callable[[], object] | None = None) -> None:
        """Say something at the foot of the window."""
        self._window.toast.say(sentence, undo)

    def confirm(self, title: str, sentence: str, deed: Command) -> None:
        """Ask over the window; the keyboard is on the answer that changes nothing."""
        replies = [Reply("Cancel", lambda: None), Reply(deed.title, deed.run, Look.DANGER)]
        self._window.question.ask(title, sentence, replies)

    def show_page(self, page: Page) -> None:
        """Bring a page to the front."""
        self._window.show_page(page)

    def copy(self, text: str, said: str = "Copied") -> None:
        """Put text on the clipboard and say so."""
        QGuiApplication.clipboard().setText(text)
        self.toast(said)


class Window(QMainWindow):
    """The one window. `link_asked` is the button that starts the service; `closing` comes before it is gone.

    What closing and quitting mean is not the window's to say: `may_close` and `leave` are replaced by who knows.
    """

    link_asked = Signal()
    restart_asked = Signal()
    closing = Signal()

    def __init__(self, theme: Theme, api: GatewayApi, memory_file: Path) -> None:
        super().__init__()
        self.theme, self._memory_file = theme, memory_file
        self._memory = recall(memory_file)
        self._alt = AltAlone(self)
        self._entries: dict[Page, QWidget] = {}
        self._has_departed = False
        self.may_close: Callable[[], bool] = lambda: True
        self.leave: Callable[[], object] = self.close
        self.setWindowTitle("Roundhouse")
        self.setMinimumSize(*MINIMUM_WINDOW)
        self.setAcceptDrops(True)
        self.shell = WindowShell(self)
        self.stores = stores = Stores(api, self.shell)
        self.tray = Tray(self.shell, stores)
        show = partial(self._come_forward, Page.MODELS)
        self._notices = Notices(stores.downloads, self.shell.toast, self.tray, show)
        self._told = Told(self.shell, stores)
        self.looks = Looks(theme, stores.preferences, self.shell)
        self.looks.recall(self._memory)
        self._commands = Commands(stores, self.shell, self.looks)
        self._deeds = self._commands.deeds(
            Own(quit=self._leave, palette=self._open_palette, undo=self._undo, restart=self.restart_asked.emit)
        )
        self.rail = Rail(theme)
        self.rail.chosen.connect(lambda name: self.show_page(Page(name)))
        made = builders(theme, stores, self.shell, restart=self.restart_asked.emit)
        self.pages = Pages(theme, made)
        self._trouble = ErrorPanel(theme)
        self._trouble_place = QWidget()
        middle = self._lay_out()
        self.toast = Toast(theme, middle, self._foot)
        self.palette_view = Palette(theme, middle, self._all_commands)
        self.question = Question(theme, middle)
        self._make_menu()
        self._focus_ring = FocusRing(theme, self)
        theme.changed.connect(self._restyle)
        stores.running.changed.connect(self._show_engines)
        stores.downloads.changed.connect(self._show_downloads)
        self._connect_tray()
        stores.updates.changed.connect(self._show_updates)
        self._restyle()
        self._show_engines()
        self._restore()

    def connected(self, _status: Status) -> None:
        """Tell every screen that the gateway answers."""
        self._trouble_place.hide()
        self.shell.is_connected = True
        self.shell.connected.emit()

    def lost(self, error: ErrorBody) -> None:
        """Say above the page why there is no gateway."""
        self.shell.is_connected = False
        self._trouble.say(error, "Start the service", self.link_asked.emit)
        self._trouble_place.show()
        self.shell.lost.emit(error)

    def show_page(self, page: Page) -> None:
        """Bring a page to the front and mark it on the rail."""
        self.stores.retry()
        widget = self.pages.show_page(page)
        self.rail.show_page(page)
        self._enter(page, widget)
        self.shell.page_shown.emit(page.value)

    def _enter(self, page: Page, widget: QWidget) -> None:
        """Give a page the focus where its focus proxy says, and remember the proxy instead of leaving it on.

        Qt takes a widget with a proxy inside for one control: Tab would leave out everything else on the page.
        """
        proxy = widget.focusProxy()
        if isinstance(proxy, QWidget):
            self._entries[page] = proxy
            widget.setFocusProxy(None)  # type: ignore[arg-type]  # the stubs forbid what Qt documents
        self._entries.get(page, widget).setFocus(Qt.FocusReason.OtherFocusReason)

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802 -- Qt's name
        """Close if that is what closing means now."""
        if not self.may_close():
            event.ignore()
            return
        self.depart()
        super().closeEvent(event)

    def depart(self) -> None:
        """Remember size, place, page and looks; once, when it is over."""
        if self._has_departed:
            return
        self._has_departed = True
        self._memory.geometry = bytes(self.saveGeometry().toBase64().data()).decode("ascii")
        self._memory.page = (self.pages.page or Page.CHAT).value
        self.looks.settle()
        self.looks.note(self._memory)
        remember(self._memory_file, self._memory)
        self.closing.emit()

    def tell_of_tray(self) -> None:
        """Say, the first time, where a window that was closed is found again."""
        if not self._memory.knows_tray:
            self._memory.knows_tray = True
            self.tray.tell("Roundhouse is still running", "Click its icon to open the window again; its menu has Quit.")

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 -- Qt's name
        """Keep what floats above the page in its place."""
        super().resizeEvent(event)
        if self.toast.isVisible():
            self.toast.place()
        if self.palette_view.isVisible():
            self.palette_view.place()
        if self.question.isVisible():
            self.question.place()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 -- Qt's name
        """Notice that Alt goes down."""
        if event.key() == Qt.Key.Key_Alt and not event.isAutoRepeat():
            self._alt.press()
        super().keyPressEvent(event)

    def keyReleaseEvent(self, event: QKeyEvent) -> None:  # noqa: N802 -- Qt's name
        """Show the menu bar, or hide it again, when Alt was pressed on its own."""
        if event.key() == Qt.Key.Key_Alt and self._alt.release() and not self.menuBar().isNativeMenuBar():
            self.menuBar().setVisible(not self.menuBar().isVisible())
        super().keyReleaseEvent(event)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802 -- Qt's name
        """Forget a held Alt when the window loses the keyboard, as with Alt+Tab."""
        if event.type() is QEvent.Type.ActivationChange:
            self._alt.release()
        super().changeEvent(event)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802 -- Qt's name
        """Welcome model files."""
        if model_files(event.mimeData()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802 -- Qt's name
        """List the model files that were dropped."""
        files = model_files(event.mimeData())
        if files:
            event.acceptProposedAction()
            self.show_page(Page.MODELS)
            self.shell.files_dropped.emit(files)

    def _lay_out(self) -> QWidget:
        middle = QWidget()
        line = Line(self.theme, middle, gap=0)
        line.addWidget(self.rail)
        column = Column(self.theme, gap=0)
        Column(self.theme, self._trouble_place, margins=(16, 16, 16, 0)).addWidget(self._trouble)
        self._trouble_place.hide()
        column.addWidget(self._trouble_place)
        column.addWidget(PausedBar(self.theme, self.stores))
        column.addWidget(NewerBar(self.theme, self.stores.updates, self.shell))
        column.addWidget(self.pages, 1)
        line.addLayout(column, 1)
        self.setCentralWidget(middle)
        return middle

    def _make_menu(self) -> None:
        bar = self.menuBar()
        menus: dict[str, QMenu] = {}
        for deed in self._deeds:
            if deed.menu not in menus:
                menus[deed.menu] = bar.addMenu(deed.menu)
            action = self._action(deed)
            menus[deed.menu].addAction(action)
            self.addAction(action)  # a hidden menu bar does not take part in shortcuts
        if not bar.isNativeMenuBar():
            bar.hide()

    def _action(self, deed: Deed) -> QAction:
        action = QAction(deed.title, self)
        if deed.keys:
            keys = [QKeySequence(deed.keys)]
            action.setShortcuts([*keys, QKeySequence("Ctrl+=")] if deed.keys == "Ctrl++" else keys)
        if deed.title == "Quit Roundhouse":
            action.setMenuRole(QAction.MenuRole.QuitRole)
        elif deed.title == "Settings" and deed.menu == "File":
            action.setMenuRole(QAction.MenuRole.PreferencesRole)
        action.triggered.connect(lambda _checked=False: deed.run())
        return action

    def _open_palette(self) -> None:
        if self.palette_view.isVisible():
            self.palette_view.close_and()
        else:
            self.palette_view.open()

    def _all_commands(self) -> list[Command]:
        seen: set[str] = set()
        found: list[Command] = []
        deeds = [Command(deed.title, deed.run, deed.icon, deed.keys) for deed in self._deeds]
        offered = [command for source in self.shell.sources for command in source()]
        for command in [*deeds, *offered, *self._commands.models(), *self._commands.settings()]:
            if command.title not in seen and command.title != "Command palette":
                seen.add(command.title)
                found.append(command)
        return found

    def _undo(self) -> None:
        if not self.toast.take_back():
            self.toast.say("There is nothing to undo.")

    def _foot(self) -> int:
        page = self.pages.page
        return self.shell.feet[page]() if page in self.shell.feet else 0

    def _restyle(self) -> None:
        application = QApplication.instance()
        if isinstance(application, QApplication):
            application.setFont(self.theme.font("body"))
            application.setPalette(self.theme.qt_palette())
            application.setStyleSheet(stylesheet(self.theme))

    def _show_engines(self) -> None:
        self.rail.buttons[Page.SERVER].set_dot(*engines_sign(self.stores.running.items))

    def _show_downloads(self) -> None:
        said = phrases.coming(self.stores.downloads.items)
        self.rail.buttons[Page.MODELS].set_dot("accent" if said else "", said)

    def _leave(self) -> None:
        self.leave()

    def _connect_tray(self) -> None:
        self.tray.opened.connect(self._come_forward)
        self.tray.quit_asked.connect(self._leave)
        self.tray.models_asked.connect(lambda: self._come_forward(Page.SERVER))

    def _come_forward(self, page: Page | None = None) -> None:
        if page is not None:
            self.show_page(page)
        bring_to_front(self)

    def _show_updates(self) -> None:
        release = self.stores.updates.release
        said = f"version {release.version} is there" if release is not None else ""
        self.rail.buttons[Page.SETTINGS].set_dot("accent" if said else "", said)

    def _restore(self) -> None:
        if not self._memory.geometry or not self.restoreGeometry(
            QByteArray.fromBase64(self._memory.geometry.encode("ascii"))
        ):
            self.resize(*_FIRST_SIZE)
        is_known = self._memory.page in set(Page)
        self.show_page(Page(self._memory.page) if is_known else Page.CHAT)


def model_files(dragged: QMimeData) -> list[Path]:
    """Return the model files among what is dragged."""
    paths = [Path(url.toLocalFile()) for url in dragged.urls() if url.isLocalFile()]
    return [path for path in paths if path.suffix.lower() == ".gguf"]
