"""The way out of the window: does what `leaving` says, and asks a person where that says to ask."""

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication, QWidget

from app.gui.net.remote_lists import Stores
from app.gui.shell.front import bring_to_front
from app.gui.shell.quit_policy import (
    QuitSituation,
    QuitStep,
    ServiceOwner,
    decide_on_close,
    decide_on_quit,
    step_keeping_service,
)
from app.gui.shell.tray import Tray
from app.gui.widgets.buttons import ButtonLook
from app.gui.widgets.question import QuestionDialog, QuestionReply

KEEP_SETTING, ASK_SETTING = "window.keep_serving", "window.ask_on_close"
_STAYS_IN_TRAY = "Editors and other programs can go on using the endpoint. Roundhouse stays in the system tray."
_STAYS_UNSEEN = "Editors and other programs can go on using the endpoint, until you stop the service."
_CUT = "Quitting cuts {} off; what is written so far is kept in {} chat."


@dataclass(frozen=True, slots=True, kw_only=True)
class QuitContext:
    """What decides, and what shows it."""

    stores: Stores
    service: Callable[[], ServiceOwner]
    tray: Tray
    question: QuestionDialog


class QuitFlow(QObject):
    """Owns the leaving. `program_ended` comes once, when the program is to end; `ends_service` says with what."""

    program_ended = Signal()
    window_hidden = Signal()
    """The window was hidden, and the icon in the tray is the way back."""

    def __init__(self, window: QWidget, context: QuitContext) -> None:
        super().__init__(window)
        self._window, self._context = window, context
        self.ends_service = True
        self._has_left = False

    def may_close(self) -> bool:
        """Tell whether a window that is being closed may close now; what is to be done instead is begun."""
        if self._has_left or _is_session_ending():  # whoever logs out must not be kept from it
            self._end_program(ends_service=not self._keeps_serving)
        else:
            self._perform_step(decide_on_close(self._current_situation()))
        return self._has_left

    def quit(self) -> None:
        """End the program, and the service if it is ours; ask first if that cuts answers off."""
        self._perform_step(decide_on_quit(self._current_situation()))

    def end_without_asking(self) -> None:
        """End as the settings say: a signal does not wait for an answer."""
        self._end_program(ends_service=not self._keeps_serving)

    def leave_service(self) -> None:
        """End the program and let the service go on, whatever the settings say: somebody follows at once."""
        self._end_program(ends_service=False)

    @property
    def _keeps_serving(self) -> bool:
        return self._context.stores.preferences.get(KEEP_SETTING, False) is True

    def _current_situation(self) -> QuitSituation:
        context = self._context
        return QuitSituation(
            service=context.service(),
            has_tray=context.tray.is_there,
            asks=context.stores.preferences.get(ASK_SETTING, True) is True,
            keeps_serving=self._keeps_serving,
            answering=sum(engine.in_flight for engine in context.stores.running.active()),
        )

    def _perform_step(self, step: QuitStep) -> None:
        match step:
            case QuitStep.HIDE:
                self._window.hide()
                self.window_hidden.emit()
            case QuitStep.LEAVE:
                self._end_program(ends_service=False)
            case QuitStep.END:
                self._end_program(ends_service=True)
            case QuitStep.ASK_SERVICE:
                self._ask_service()
            case QuitStep.ASK_ANSWERS:
                self._ask_answers()

    def _end_program(self, *, ends_service: bool) -> None:
        if self._has_left:
            return
        self._has_left = True
        self.ends_service = ends_service
        self._context.tray.hide_icon()
        self.program_ended.emit()

    def _ask_service(self) -> None:
        sentence = _STAYS_IN_TRAY if self._context.tray.is_there else _STAYS_UNSEEN
        replies = [
            QuestionReply("Keep serving", lambda: self._apply_answer(keeps=True), ButtonLook.PRIMARY),
            QuestionReply("Stop everything", lambda: self._apply_answer(keeps=False)),
            QuestionReply("Cancel", lambda: None, ButtonLook.QUIET),
        ]
        self._context.question.ask("Keep serving without the window?", sentence, replies, offers_memory=True)

    def _apply_answer(self, *, keeps: bool) -> None:
        context = self._context
        if context.question.remembers.isChecked():
            context.stores.preferences.change(KEEP_SETTING, keeps)
            context.stores.preferences.change(ASK_SETTING, False)  # noqa: FBT003 -- the setting's value
        now = self._current_situation()
        self._perform_step(step_keeping_service(now) if keeps else decide_on_quit(now))

    def _ask_answers(self) -> None:
        count = self._current_situation().answering
        is_one = count == 1
        title = "An answer is still being written" if is_one else f"{count} answers are still being written"
        bring_to_front(self._window)
        replies = [
            QuestionReply("Keep working", lambda: None, ButtonLook.PRIMARY),
            QuestionReply("Quit anyway", lambda: self._end_program(ends_service=True), ButtonLook.DANGER),
        ]
        self._context.question.ask(title, _CUT.format(*(("it", "its") if is_one else ("them", "their"))), replies)


def _is_session_ending() -> bool:
    application = QApplication.instance()
    return isinstance(application, QApplication) and application.isSavingSession()
