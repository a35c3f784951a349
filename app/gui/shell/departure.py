"""The way out of the window: does what `leaving` says, and asks a person where that says to ask."""

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication, QWidget

from app.gui.net.stores import Stores
from app.gui.shell.front import bring_to_front
from app.gui.shell.leaving import Service, Situation, Step, keeping, on_close, on_quit
from app.gui.shell.tray import Tray
from app.gui.widgets.press import Look
from app.gui.widgets.question import Question, Reply

KEEPS, ASKS = "window.keep_serving", "window.ask_on_close"
_STAYS_IN_TRAY = "Editors and other programs can go on using the endpoint. Roundhouse stays in the system tray."
_STAYS_UNSEEN = "Editors and other programs can go on using the endpoint, until you stop the service."
_CUT = "Quitting cuts {} off; what is written so far is kept in {} chat."


@dataclass(frozen=True, slots=True, kw_only=True)
class DepartureKnown:
    """What decides, and what shows it."""

    stores: Stores
    service: Callable[[], Service]
    tray: Tray
    question: Question


class Departure(QObject):
    """Owns the leaving. `ended` comes once, when the program is to end; `ends_service` says with what."""

    ended = Signal()
    hidden = Signal()
    """The window was hidden, and the icon in the tray is the way back."""

    def __init__(self, window: QWidget, known: DepartureKnown) -> None:
        super().__init__(window)
        self._window, self._known = window, known
        self.ends_service = True
        self._has_left = False

    def may_close(self) -> bool:
        """Tell whether a window that is being closed may close now; what is to be done instead is begun."""
        if self._has_left or _is_session_ending():  # whoever logs out must not be kept from it
            self._leave(ends_service=not self._keeps)
        else:
            self._do(on_close(self._situation()))
        return self._has_left

    def quit(self) -> None:
        """End the program, and the service if it is ours; ask first if that cuts answers off."""
        self._do(on_quit(self._situation()))

    def end_unasked(self) -> None:
        """End as the settings say: a signal does not wait for an answer."""
        self._leave(ends_service=not self._keeps)

    def leave_service(self) -> None:
        """End the program and let the service go on, whatever the settings say: somebody follows at once."""
        self._leave(ends_service=False)

    @property
    def _keeps(self) -> bool:
        return self._known.stores.preferences.get(KEEPS, False) is True

    def _situation(self) -> Situation:
        known = self._known
        return Situation(
            service=known.service(),
            has_tray=known.tray.is_there,
            asks=known.stores.preferences.get(ASKS, True) is True,
            keeps_serving=self._keeps,
            answering=sum(one.in_flight for one in known.stores.running.active()),
        )

    def _do(self, step: Step) -> None:
        match step:
            case Step.HIDE:
                self._window.hide()
                self.hidden.emit()
            case Step.LEAVE:
                self._leave(ends_service=False)
            case Step.END:
                self._leave(ends_service=True)
            case Step.ASK_SERVICE:
                self._ask_service()
            case Step.ASK_ANSWERS:
                self._ask_answers()

    def _leave(self, *, ends_service: bool) -> None:
        if self._has_left:
            return
        self._has_left = True
        self.ends_service = ends_service
        self._known.tray.hide()
        self.ended.emit()

    def _ask_service(self) -> None:
        sentence = _STAYS_IN_TRAY if self._known.tray.is_there else _STAYS_UNSEEN
        replies = [
            Reply("Keep serving", lambda: self._answer(keeps=True), Look.PRIMARY),
            Reply("Stop everything", lambda: self._answer(keeps=False)),
            Reply("Cancel", lambda: None, Look.QUIET),
        ]
        self._known.question.ask("Keep serving without the window?", sentence, replies, offers_memory=True)

    def _answer(self, *, keeps: bool) -> None:
        known = self._known
        if known.question.remembers.isChecked():
            known.stores.preferences.change(KEEPS, keeps)
            known.stores.preferences.change(ASKS, False)  # noqa: FBT003 -- the setting's value
        now = self._situation()
        self._do(keeping(now) if keeps else on_quit(now))

    def _ask_answers(self) -> None:
        count = self._situation().answering
        is_one = count == 1
        title = "An answer is still being written" if is_one else f"{count} answers are still being written"
        bring_to_front(self._window)
        replies = [
            Reply("Keep working", lambda: None, Look.PRIMARY),
            Reply("Quit anyway", lambda: self._leave(ends_service=True), Look.DANGER),
        ]
        self._known.question.ask(title, _CUT.format(*(("it", "its") if is_one else ("them", "their"))), replies)


def _is_session_ending() -> bool:
    application = QApplication.instance()
    return isinstance(application, QApplication) and application.isSavingSession()
