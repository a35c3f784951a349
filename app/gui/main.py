"""The window's program: draw first, then look for the gateway.

On the way out it ends the gateway that it started, unless a person wants that to go on (`shell.quit_flow`).

Ctrl-C in the terminal, and being asked to end, close the window in good order.

Qt's event loop never lets Python's signal handlers run; a byte that the interpreter writes to a socket does.

What the system asks of a running application by events instead of arguments: to open files and links, and to quit.

macOS hands over a double-clicked file and a followed link this way, also those it started the program for. They are
taken like what a later start hands over. A request to quit (from the Dock) would otherwise only close the window.
"""

import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import NoneType

from PySide6.QtCore import QEvent, QEventLoop, QObject, QSocketNotifier, Qt, QTimer, Signal
from PySide6.QtGui import QFileOpenEvent, QIcon
from PySide6.QtWidgets import QApplication, QMessageBox

from app.config.environment import predecessor_service
from app.config.paths import RESOURCES, default_paths
from app.config.privacy import check_owner
from app.core.errors import EnvironmentFault
from app.gui.net.api import GatewayApi
from app.gui.net.link import GatewayLink, LinkState, make_finder
from app.gui.shell.front import bring_to_front
from app.gui.shell.open_handler import OpenHandler
from app.gui.shell.quit_flow import QuitContext, QuitFlow, ServiceOwner, WindowReopener
from app.gui.shell.window import MainWindow
from app.gui.single_instance import SingleInstance
from app.gui.theme.theme import Theme

_ENDS = (signal.SIGINT, signal.SIGTERM)


class Interrupts(QObject):
    """Calls `then` in the event loop when this process is asked to end. Make one, in the main thread."""

    def __init__(self, then: Callable[[], object], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._then = then
        self._receiver, self._sender = socket.socketpair()
        for end in (self._receiver, self._sender):
            end.settimeout(0)
        self._before = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        self._handlers = {number: signal.signal(number, lambda *_: None) for number in _ENDS}
        self._notifier = QSocketNotifier(self._receiver.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._read_signals)

    def close(self) -> None:
        """Put everything back as it was."""
        self._notifier.setEnabled(False)
        signal.set_wakeup_fd(self._before)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._receiver.close()
        self._sender.close()

    def _read_signals(self) -> None:
        signal_bytes = self._receiver.recv(64)
        if any(number in signal_bytes for number in _ENDS):
            self._then()


class SystemRequests(QObject):
    """What was asked. Until `start_forwarding` it is kept: the first events come before there is a window."""

    arguments_received = Signal(list)
    """Paths and addresses (`str`), as a program's arguments would be."""
    quit_requested = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._early: list[str] | None = []

    def start_forwarding(self) -> None:
        """Tell what came so far, and from now on everything at once."""
        early, self._early = self._early, None
        if early:
            self.arguments_received.emit(early)

    def handle_event(self, event: QEvent) -> bool:
        """Take an event of the application; return whether it was for us."""
        if isinstance(event, QFileOpenEvent):
            self._open_argument(event.file() or bytes(event.url().toEncoded().data()).decode("ascii"))
        elif event.type() is QEvent.Type.Quit and self._early is None:
            self.quit_requested.emit()
        else:
            return False
        return True

    def _open_argument(self, argument: str) -> None:
        if argument and self._early is None:
            self.arguments_received.emit([argument])
        elif argument and self._early is not None:
            self._early.append(argument)


class DesktopApplication(QApplication):
    """The application, which passes on what the system asks. A filter would be asked about every event there is."""

    def __init__(self, argv: list[str]) -> None:
        self.requests = SystemRequests()  # first: events come while the application is being made
        super().__init__(argv)

    def event(self, event: QEvent) -> bool:
        """Take what is asked of the application itself."""
        return self.requests.handle_event(event) or super().event(event)


_FAREWELL_MS = 1500
"""How long closing the window may wait for the gateway to take notice."""

_LAST_CALLS_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowProgram:
    """The parts of a window that has been shown."""

    application: QApplication
    api: GatewayApi
    window: MainWindow
    link: GatewayLink
    quit_flow: QuitFlow
    reopener: WindowReopener

    def run(self) -> int:
        """Run until a person leaves. Returns the exit status."""
        interrupts = Interrupts(self.quit_flow.end_without_asking)
        self.quit_flow.program_ended.connect(lambda: self.application.exit(0))
        code = self.application.exec()
        interrupts.close()
        self.window.hide()
        finish_calls(self.api)
        self.reopener.service = self.link.own_service
        if self.quit_flow.ends_service:
            end_gateway(self.link, self.api)
        self.link.close()
        self.api.close()
        return code


def main(argv: list[str] | None = None) -> int:
    """Run the window until it is closed, or hand over to the one that is open. Returns the exit status."""
    argv = sys.argv if argv is None else argv
    application, paths = prepare_application(argv), default_paths()
    try:
        check_owner(paths)
    except EnvironmentFault as fault:  # whoever owns the folders may have a window and a service there
        explain_failure(fault, application)
        return 1
    single = SingleInstance(paths)
    arguments, folder = argv[1:], Path.cwd()
    if not single.claim() and single.hand_over(arguments, folder):
        return 0
    program = open_window(argv)
    opener = OpenHandler(program.window, program.window.shell, program.window.stores.library)
    single.message_received.connect(lambda message: opener.handle_arguments(message.arguments, Path(message.folder)))
    program.window.closing.connect(single.close)  # a start from now on is one of its own
    if isinstance(program.application, DesktopApplication):
        _connect_requests(program.application.requests, opener, program)
    if arguments:
        QTimer.singleShot(0, lambda: opener.handle_arguments(arguments, folder))
    try:
        code = program.run()
    finally:
        single.close()
    if program.reopener.is_requested:
        program.reopener.start_window()
    return code


def explain_failure(fault: EnvironmentFault, application: QApplication) -> None:
    """Say in a box of its own why there will be no window, until a person closes it; in the terminal as well."""
    sys.stderr.write(f"{fault} {fault.hint}\n")
    box = QMessageBox(QMessageBox.Icon.Warning, application.applicationName(), str(fault))
    box.setInformativeText(fault.hint)
    box.exec()


def _connect_requests(requests: SystemRequests, opener: OpenHandler, program: WindowProgram) -> None:
    requests.arguments_received.connect(lambda arguments: opener.handle_arguments(arguments, Path.cwd()))
    requests.quit_requested.connect(program.quit_flow.quit)
    QTimer.singleShot(0, requests.start_forwarding)
    if sys.platform == "darwin":
        program.application.applicationStateChanged.connect(partial(reopen_window, program.window))


def reopen_window(window: MainWindow, state: Qt.ApplicationState) -> None:
    """Bring a hidden window back when the program is chosen in the Dock: macOS says no more than that it is active."""
    if state is Qt.ApplicationState.ApplicationActive and window.isHidden():
        bring_to_front(window)


def open_window(argv: list[str]) -> WindowProgram:
    """Show the window; the gateway is looked for when the event loop first turns."""
    application = prepare_application(argv)
    paths = default_paths()
    api = GatewayApi(application)
    window = MainWindow(Theme(application), api, paths.config / "window.json")
    link = GatewayLink(api, make_finder(paths), window)
    link.adopt_service(predecessor_service())
    link.connected.connect(window.mark_connected)
    link.disconnected.connect(window.show_disconnected)
    link.event_received.connect(window.shell.broadcast_event)
    window.link_requested.connect(link.start_gateway)
    window.restart_requested.connect(link.restart_gateway)
    quit_flow = _make_quit_flow(window, link)
    application.setQuitOnLastWindowClosed(False)  # a hidden window is no end, and `quit_flow` says when there is one
    reopener = WindowReopener(quit_flow)
    window.shell.reopen_requested.connect(reopener.request_reopen)
    window.show()
    QTimer.singleShot(0, link.open)
    return WindowProgram(
        application=application, api=api, window=window, link=link, quit_flow=quit_flow, reopener=reopener
    )


def _make_quit_flow(window: MainWindow, link: GatewayLink) -> QuitFlow:
    context = QuitContext(
        stores=window.stores,
        service=lambda: _service_owner(link),
        tray=window.tray,
        question=window.question,
    )
    quit_flow = QuitFlow(window, context)
    window.may_close, window.leave = quit_flow.may_close, quit_flow.quit
    quit_flow.program_ended.connect(window.save_state)
    quit_flow.window_hidden.connect(window.explain_tray)
    return quit_flow


def _service_owner(link: GatewayLink) -> ServiceOwner:
    if link.state is not LinkState.LINKED:
        return ServiceOwner.NONE
    return ServiceOwner.OURS if link.is_own_gateway else ServiceOwner.OTHERS


def prepare_application(argv: list[str]) -> QApplication:
    """Return the application object with its name, style and icon; there can be only one."""
    instance = QApplication.instance()
    application = instance if isinstance(instance, QApplication) else DesktopApplication(argv)
    application.setApplicationName("Roundhouse")
    application.setDesktopFileName("roundhouse")
    application.setStyle("Fusion")
    application.setWindowIcon(QIcon(str(RESOURCES / "icons" / "train-front.svg")))
    return application


def finish_calls(api: GatewayApi) -> None:
    """Let what was asked last, a setting or a new title, reach the gateway; for a moment only."""
    if not api.under_way:
        return
    loop = QEventLoop()
    QTimer.singleShot(_LAST_CALLS_MS, loop.quit)
    api.idle.connect(loop.quit)
    loop.exec()


def end_gateway(link: GatewayLink, api: GatewayApi) -> None:
    """Ask the gateway that this window started to shut down; one that was there before is not ours to end."""
    link.close()
    link.abandon_start()
    if not link.is_own_gateway:
        return
    loop = QEventLoop()
    QTimer.singleShot(_FAREWELL_MS, loop.quit)
    api.post("/shutdown", None, kind=NoneType, then=lambda _: loop.quit(), on_error=lambda _: loop.quit())
    loop.exec()


if __name__ == "__main__":
    sys.exit(main())
