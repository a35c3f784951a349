"""The window's program: draw first, then look for the gateway.

On the way out it ends the gateway that it started, unless a person wants that to go on (`shell.leaving`).
"""

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import NoneType

from PySide6.QtCore import QEventLoop, Qt, QTimer
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QApplication

from app.config.environment import handed_service
from app.config.paths import RESOURCES, default_paths
from app.gui.interrupts import Interrupts
from app.gui.net.api import GatewayApi
from app.gui.net.link import GatewayLink, LinkState, finder
from app.gui.reopening import Reopening
from app.gui.shell.departure import Departure, DepartureKnown
from app.gui.shell.front import bring_to_front
from app.gui.shell.leaving import Service
from app.gui.shell.opener import Opener
from app.gui.shell.window import Window
from app.gui.single import Single
from app.gui.system_requests import Application, SystemRequests
from app.gui.theme.theme import Theme

_FAREWELL_MS = 1500
"""How long closing the window may wait for the gateway to take notice."""

_LAST_CALLS_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The parts of a window that has been shown."""

    application: QApplication
    api: GatewayApi
    window: Window
    link: GatewayLink
    departure: Departure
    reopening: Reopening

    def run(self) -> int:
        """Run until a person leaves. Returns the exit status."""
        interrupts = Interrupts(self.departure.end_unasked)
        self.departure.ended.connect(lambda: self.application.exit(0))
        code = self.application.exec()
        interrupts.close()
        self.window.hide()
        finish_calls(self.api)
        self.reopening.service = self.link.own_service
        if self.departure.ends_service:
            end_gateway(self.link, self.api)
        self.link.close()
        self.api.close()
        return code


def main(argv: list[str] | None = None) -> int:
    """Run the window until it is closed, or hand over to the one that is open. Returns the exit status."""
    argv = sys.argv if argv is None else argv
    prepared(argv)
    single = Single(default_paths())
    asked, folder = argv[1:], Path.cwd()
    if not single.claim() and single.hand_over(asked, folder):
        return 0
    program = opened(argv)
    opener = Opener(program.window, program.window.shell, program.window.stores.library)
    single.handed.connect(lambda handed: opener.take(handed.arguments, Path(handed.folder)))
    program.window.closing.connect(single.close)  # a start from now on is one of its own
    if isinstance(program.application, Application):
        _listen(program.application.requests, opener, program)
    if asked:
        QTimer.singleShot(0, lambda: opener.take(asked, folder))
    try:
        code = program.run()
    finally:
        single.close()
    if program.reopening.is_asked:
        program.reopening.start()
    return code


def _listen(requests: SystemRequests, opener: Opener, program: Program) -> None:
    requests.opened.connect(lambda arguments: opener.take(arguments, Path.cwd()))
    requests.quit_asked.connect(program.departure.quit)
    QTimer.singleShot(0, requests.begin)
    if sys.platform == "darwin":
        program.application.applicationStateChanged.connect(partial(reopen, program.window))


def reopen(window: Window, state: Qt.ApplicationState) -> None:
    """Bring a hidden window back when the program is chosen in the Dock: macOS says no more than that it is active."""
    if state is Qt.ApplicationState.ApplicationActive and window.isHidden():
        bring_to_front(window)


def opened(argv: list[str]) -> Program:
    """Show the window; the gateway is looked for when the event loop first turns."""
    application = prepared(argv)
    paths = default_paths()
    api = GatewayApi(application)
    window = Window(Theme(application), api, paths.config / "window.json")
    link = GatewayLink(api, finder(paths), window)
    link.adopt(handed_service())
    link.connected.connect(window.connected)
    link.lost.connect(window.lost)
    link.happened.connect(window.shell.receive)
    window.link_asked.connect(link.start)
    window.restart_asked.connect(link.restart)
    departure = _departure(window, link)
    application.setQuitOnLastWindowClosed(False)  # a hidden window is no end, and `departure` says when there is one
    reopening = Reopening(departure)
    window.shell.reopen_asked.connect(reopening.ask)
    window.show()
    QTimer.singleShot(0, link.open)
    return Program(application=application, api=api, window=window, link=link, departure=departure, reopening=reopening)


def _departure(window: Window, link: GatewayLink) -> Departure:
    known = DepartureKnown(
        stores=window.stores,
        service=lambda: _service(link),
        tray=window.tray,
        question=window.question,
    )
    departure = Departure(window, known)
    window.may_close, window.leave = departure.may_close, departure.quit
    departure.ended.connect(window.depart)
    departure.hidden.connect(window.tell_of_tray)
    return departure


def _service(link: GatewayLink) -> Service:
    if link.state is not LinkState.LINKED:
        return Service.NONE
    return Service.OURS if link.started_here else Service.OTHERS


def prepared(argv: list[str]) -> QApplication:
    """Return the application object with its name, style and icon; there can be only one."""
    found = QApplication.instance()
    application = found if isinstance(found, QApplication) else Application(argv)
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
    link.abandon()
    if not link.started_here:
        return
    loop = QEventLoop()
    QTimer.singleShot(_FAREWELL_MS, loop.quit)
    api.post("/shutdown", None, kind=NoneType, then=lambda _: loop.quit(), failed=lambda _: loop.quit())
    loop.exec()


if __name__ == "__main__":
    sys.exit(main())
