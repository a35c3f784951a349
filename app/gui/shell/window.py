"""The window: rail, pages, and what lies above them. It is drawn before the gateway is looked for."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QByteArray, QEvent, QMimeData, QPoint, QRect, QSize, Qt, Signal
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
from app.core.translation import tr
from app.gui import phrases
from app.gui.net.api import GatewayApi
from app.gui.net.remote_lists import Stores
from app.gui.shell.alt_key import AltKeyWatcher
from app.gui.shell.appearance import Appearance, load_memory, save_memory
from app.gui.shell.banner import PauseBanner, VersionBanner
from app.gui.shell.command_palette import CommandPalette
from app.gui.shell.commands import MenuAction, WindowActions, WindowCommands
from app.gui.shell.contract import Command, PageId, Shell
from app.gui.shell.front import bring_to_front
from app.gui.shell.notice_toaster import DownloadNotifier, NoticeToaster
from app.gui.shell.page_builders import PageStack, make_builders
from app.gui.shell.rail import Rail, engines_sign
from app.gui.shell.tray import Tray
from app.gui.theme.stylesheet import make_stylesheet
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import MINIMUM_WINDOW
from app.gui.widgets.buttons import ButtonLook
from app.gui.widgets.focus_ring import FocusRing
from app.gui.widgets.layout import HBox, VBox
from app.gui.widgets.panels import ErrorPanel
from app.gui.widgets.question import QuestionDialog, QuestionReply
from app.gui.widgets.toast import Toast

_FIRST_SIZE = (1200, 780)


class WindowShell(Shell):
    """The window's services, for the screens."""

    def __init__(self, window: "MainWindow") -> None:
        super().__init__(window)
        self._window = window

    def show_toast(self, sentence: str, undo: Callable[[], object] | None = None) -> None:
        """Say something at the foot of the window."""
        self._window.toast.show_message(sentence, undo)

    def show_offer(self, sentence: str, command: Command) -> None:
        """Say something at the foot of the window, with a button for what may be done next."""
        self._window.toast.show_offer(sentence, command.title, command.run)

    def confirm(self, title: str, sentence: str, command: Command) -> None:
        """Ask over the window; the keyboard is on the answer that changes nothing."""
        replies = [
            QuestionReply(tr("Cancel"), lambda: None),
            QuestionReply(command.title, command.run, ButtonLook.DANGER),
        ]
        self._window.question.ask(title, sentence, replies)

    def show_page(self, page: PageId) -> None:
        """Bring a page to the front."""
        self._window.show_page(page)

    def copy_text(self, text: str, message: str = "") -> None:
        """Put text on the clipboard and say so, in these words if there are some."""
        QGuiApplication.clipboard().setText(text)
        self.show_toast(message or tr("Copied"))


class MainWindow(QMainWindow):
    """The one window. `link_requested` is the button that starts the service; `closing` comes before it is gone.

    What closing and quitting mean is not the window's to say: `may_close` and `leave` are replaced by who knows.
    """

    link_requested = Signal()
    restart_requested = Signal()
    closing = Signal()

    def __init__(self, theme: Theme, api: GatewayApi, memory_file: Path) -> None:
        super().__init__()
        self.theme, self._memory_file = theme, memory_file
        theme.changed.connect(self._restyle)  # before whatever colours itself: a new stylesheet takes colours back
        self._memory = load_memory(memory_file)
        self._alt = AltKeyWatcher(self)
        self._entries: dict[PageId, QWidget] = {}
        self._has_departed = False
        self.may_close: Callable[[], bool] = lambda: True
        self.leave: Callable[[], object] = self.close
        self.setWindowTitle("Roundhouse")
        self.setMinimumSize(*MINIMUM_WINDOW)
        self.setAcceptDrops(True)
        self.shell = WindowShell(self)
        self.stores = stores = Stores(api, self.shell)
        self.tray = Tray(self.shell, stores)
        show = partial(self._come_forward, PageId.MODELS)
        self._download_notifier = DownloadNotifier(stores, self.shell, self.tray, show)
        self._notice_toaster = NoticeToaster(self.shell, stores)
        self.appearance = Appearance(theme, stores.preferences, self.shell)
        self.appearance.restore_from(self._memory)
        self._commands = WindowCommands(stores, self.shell, self.appearance)
        self._menu_actions = self._commands.menu_actions(
            WindowActions(
                quit=self._request_leave,
                palette=self._open_palette,
                undo=self._undo_last,
                restart=self.restart_requested.emit,
            )
        )
        self.rail = Rail(theme)
        self.rail.chosen.connect(lambda name: self.show_page(PageId(name)))
        page_makers = make_builders(theme, stores, self.shell, restart=self.restart_requested.emit)
        self.pages = PageStack(theme, page_makers)
        self._trouble = ErrorPanel(theme)
        self._trouble_place = QWidget()
        self._middle = middle = self._lay_out()
        self.toast = Toast(theme, middle, self._foot_area)
        self.palette_view = CommandPalette(theme, middle, self._all_commands, self.shell.searches)
        self.question = QuestionDialog(theme, middle)
        self._make_menu()
        self._focus_ring = FocusRing(theme, self)
        stores.running.changed.connect(self._show_engines)
        stores.downloads.changed.connect(self._show_downloads)
        self._connect_tray()
        stores.updates.changed.connect(self._show_updates)
        self._restyle()
        self._show_engines()
        self._restore_state()

    def mark_connected(self, _status: Status) -> None:
        """Tell every screen that the gateway answers."""
        self._trouble_place.hide()
        self.shell.is_connected = True
        self.shell.connected.emit()

    def show_disconnected(self, error: ErrorBody) -> None:
        """Say above the page why there is no gateway."""
        self.shell.is_connected = False
        self._trouble.show_error(error, tr("Start the service"), self.link_requested.emit)
        self._trouble_place.show()
        self.shell.disconnected.emit(error)

    def show_page(self, page: PageId) -> None:
        """Bring a page to the front and mark it on the rail."""
        self.stores.retry()
        widget = self.pages.show_page(page)
        self.rail.show_page(page)
        self._focus_page(page, widget)
        self.shell.page_shown.emit(page.value)

    def _focus_page(self, page: PageId, widget: QWidget) -> None:
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
        self.save_state()
        super().closeEvent(event)

    def save_state(self) -> None:
        """Remember size, place, page and looks; once, when it is over."""
        if self._has_departed:
            return
        self._has_departed = True
        self._memory.geometry = bytes(self.saveGeometry().toBase64().data()).decode("ascii")
        self._memory.page = (self.pages.page or PageId.CHAT).value
        self.appearance.save_pending()
        self.appearance.save_to(self._memory)
        save_memory(self._memory_file, self._memory)
        self.closing.emit()

    def explain_tray(self) -> None:
        """Say, the first time, where a window that was closed is found again."""
        if not self._memory.knows_tray:
            self._memory.knows_tray = True
            self.tray.show_message(
                tr("Roundhouse is still running"), tr("Click its icon to open the window again; its menu has Quit.")
            )

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 -- Qt's name
        """Keep what floats above the page in its place."""
        super().resizeEvent(event)
        if self.toast.isVisible():
            self.toast.place_at_foot()
        if self.palette_view.isVisible():
            self.palette_view.fit_window()
        if self.question.isVisible():
            self.question.fit_window()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 -- Qt's name
        """Notice that Alt goes down."""
        if event.key() == Qt.Key.Key_Alt and not event.isAutoRepeat():
            self._alt.start_watching()
        super().keyPressEvent(event)

    def keyReleaseEvent(self, event: QKeyEvent) -> None:  # noqa: N802 -- Qt's name
        """Show the menu bar, or hide it again, when Alt was pressed on its own."""
        if event.key() == Qt.Key.Key_Alt and self._alt.stop_watching() and not self.menuBar().isNativeMenuBar():
            self.menuBar().setVisible(not self.menuBar().isVisible())
        super().keyReleaseEvent(event)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802 -- Qt's name
        """Forget a held Alt when the window loses the keyboard, as with Alt+Tab."""
        if event.type() is QEvent.Type.ActivationChange:
            self._alt.stop_watching()
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
            self.show_page(PageId.MODELS)
            self.shell.files_dropped.emit(files)

    def _lay_out(self) -> QWidget:
        middle = QWidget()
        line = HBox(self.theme, middle, gap=0)
        line.addWidget(self.rail)
        column = VBox(self.theme, gap=0)
        VBox(self.theme, self._trouble_place, margins=(16, 16, 16, 0)).addWidget(self._trouble)
        self._trouble_place.hide()
        column.addWidget(self._trouble_place)
        column.addWidget(PauseBanner(self.theme, self.stores))
        column.addWidget(VersionBanner(self.theme, self.stores.updates, self.shell))
        column.addWidget(self.pages, 1)
        line.addLayout(column, 1)
        self.setCentralWidget(middle)
        return middle

    def _make_menu(self) -> None:
        bar = self.menuBar()
        menus: dict[str, QMenu] = {}
        for menu_action in self._menu_actions:
            if menu_action.menu not in menus:
                menus[menu_action.menu] = bar.addMenu(menu_action.menu)
            action = self._make_action(menu_action)
            menus[menu_action.menu].addAction(action)
            self.addAction(action)  # a hidden menu bar does not take part in shortcuts
        if not bar.isNativeMenuBar():
            bar.hide()

    def _make_action(self, menu_action: MenuAction) -> QAction:
        action = QAction(menu_action.title, self)
        if menu_action.keys:
            keys = [QKeySequence(menu_action.keys)]
            action.setShortcuts([*keys, QKeySequence("Ctrl+=")] if menu_action.keys == "Ctrl++" else keys)
        action.setMenuRole(menu_action.role)
        action.triggered.connect(lambda _is_checked=False: menu_action.run())
        return action

    def _open_palette(self) -> None:
        if self.palette_view.isVisible():
            self.palette_view.close_then()
        else:
            self.palette_view.open()

    def _all_commands(self) -> list[Command]:
        seen_titles: set[str] = set()
        commands: list[Command] = []
        menu_commands = [
            Command(menu_action.title, menu_action.run, menu_action.icon, menu_action.keys)
            for menu_action in self._menu_actions
        ]
        offered_commands = [command for source in self.shell.sources for command in source()]
        for command in [*menu_commands, *offered_commands, *self._commands.own_commands()]:
            if command.title not in seen_titles and command.run != self._open_palette:
                seen_titles.add(command.title)
                commands.append(command)
        return commands

    def _undo_last(self) -> None:
        if not self.toast.undo_last():
            self.toast.show_message(tr("There is nothing to undo."))

    def _foot_area(self) -> QRect:
        """Return what a toast stands above: what the page keeps at its foot, else the edge below the page."""
        page = self.pages.page
        if page in self.shell.feet:
            area = self.shell.feet[page]()
            return area.translated(-self._middle.mapTo(self, QPoint(0, 0)))
        return QRect(self.pages.mapTo(self._middle, QPoint(0, self.pages.height())), QSize(self.pages.width(), 0))

    def _restyle(self) -> None:
        application, sheet = QApplication.instance(), make_stylesheet(self.theme)
        if isinstance(application, QApplication) and application.styleSheet() != sheet:  # Qt looks at every widget anew
            application.setFont(self.theme.font("body"))
            application.setPalette(self.theme.qt_palette())
            application.setStyleSheet(sheet)

    def _show_engines(self) -> None:
        self.rail.buttons[PageId.SERVER].set_dot(*engines_sign(self.stores.running.items))

    def _show_downloads(self) -> None:
        summary = phrases.downloads_summary(self.stores.downloads.items)
        self.rail.buttons[PageId.MODELS].set_dot("accent" if summary else "", summary)

    def _request_leave(self) -> None:
        self.leave()

    def _connect_tray(self) -> None:
        self.tray.window_requested.connect(self._come_forward)
        self.tray.quit_requested.connect(self._request_leave)
        self.tray.models_requested.connect(lambda: self._come_forward(PageId.SERVER))

    def _come_forward(self, page: PageId | None = None) -> None:
        if page is not None:
            self.show_page(page)
        bring_to_front(self)

    def _show_updates(self) -> None:
        release = self.stores.updates.release
        summary = tr("version {version} is available", version=release.version) if release is not None else ""
        self.rail.buttons[PageId.SETTINGS].set_dot("accent" if summary else "", summary)

    def _restore_state(self) -> None:
        if not self._memory.geometry or not self.restoreGeometry(
            QByteArray.fromBase64(self._memory.geometry.encode("ascii"))
        ):
            self.resize(*_FIRST_SIZE)
        is_known = self._memory.page in set(PageId)
        self.show_page(PageId(self._memory.page) if is_known else PageId.CHAT)


def model_files(mime_data: QMimeData) -> list[Path]:
    """Return the model files among what is dragged."""
    paths = [Path(url.toLocalFile()) for url in mime_data.urls() if url.isLocalFile()]
    return [path for path in paths if path.suffix.lower() == ".gguf"]
