"""The way out of the window: what closing and quitting mean, from how things stand, and doing it.

    closing   keeps the service where a person wants that, and asks once what they want; with an icon in the tray the
              window is only hidden, so that there is a way back to it
    quitting  ends everything that was started from here, icon and service; answers in progress are asked about first

A service that was there before this window, one kept by the system among them, is not ours to end. After an update the
window closes and opens again, as whatever version lies in its place by then.
"""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication, QWidget

from app.client.discovery import BackgroundProcess
from app.config.environment import HANDED_SERVICE
from app.config.programs import child_environment, window_command
from app.core.translation import LazyText, tr, tr_plural
from app.gui.net.remote_lists import Stores
from app.gui.shell.front import bring_to_front
from app.gui.shell.tray import Tray
from app.gui.widgets.buttons import ButtonLook
from app.gui.widgets.question import QuestionDialog, QuestionReply


class ServiceOwner(StrEnum):
    """Whose the service is."""

    NONE = "none"
    """None answers; one that is just starting is known to nobody else, and ends with us."""
    OURS = "ours"
    OTHERS = "others"


class QuitStep(StrEnum):
    """What to do next."""

    HIDE = "hide"
    """The window goes, the icon in the tray stays."""
    LEAVE = "leave"
    """The program ends, the service goes on."""
    END = "end"
    """The program ends, and the service with it if it is ours."""
    ASK_SERVICE = "ask_service"
    ASK_ANSWERS = "ask_answers"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuitSituation:
    """How things stand when a person wants to leave."""

    service: ServiceOwner
    has_tray: bool = False
    asks: bool = True
    """The setting: whether closing asks what is to become of the service."""
    keeps_serving: bool = False
    """The setting: what becomes of it otherwise."""
    answering: int = 0
    """Answers in progress, of whichever program."""


def decide_on_close(now: QuitSituation) -> QuitStep:
    """Return what closing the window does."""
    if now.service is ServiceOwner.NONE:
        return QuitStep.END
    if now.service is ServiceOwner.OTHERS:
        return step_keeping_service(now)
    if now.asks:
        return QuitStep.ASK_SERVICE
    return step_keeping_service(now) if now.keeps_serving else decide_on_quit(now)


def decide_on_quit(now: QuitSituation) -> QuitStep:
    """Return what quitting does."""
    is_cut = now.service is ServiceOwner.OURS and now.answering > 0
    return QuitStep.ASK_ANSWERS if is_cut else QuitStep.END


def step_keeping_service(now: QuitSituation) -> QuitStep:
    """Return how the window goes while the service stays."""
    return QuitStep.HIDE if now.has_tray else QuitStep.LEAVE


KEEP_SETTING, ASK_SETTING = "window.keep_serving", "window.ask_on_close"
_STAYS_IN_TRAY = LazyText(
    "Editors and other programs can go on using the endpoint. Roundhouse stays in the system tray."
)
_STAYS_UNSEEN = LazyText("Editors and other programs can go on using the endpoint until you stop the service.")


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
        sentence = (_STAYS_IN_TRAY if self._context.tray.is_there else _STAYS_UNSEEN).tr()
        replies = [
            QuestionReply(tr("Keep serving"), lambda: self._apply_answer(keeps=True), ButtonLook.PRIMARY),
            QuestionReply(tr("Stop everything"), lambda: self._apply_answer(keeps=False)),
            QuestionReply(tr("Cancel"), lambda: None, ButtonLook.QUIET),
        ]
        self._context.question.ask(tr("Keep serving without the window?"), sentence, replies, offers_memory=True)

    def _apply_answer(self, *, keeps: bool) -> None:
        context = self._context
        if context.question.remembers.isChecked():
            context.stores.preferences.change(KEEP_SETTING, keeps)
            context.stores.preferences.change(ASK_SETTING, False)  # noqa: FBT003 -- the setting's value
        now = self._current_situation()
        self._perform_step(step_keeping_service(now) if keeps else decide_on_quit(now))

    def _ask_answers(self) -> None:
        count = self._current_situation().answering
        title = tr_plural("An answer is still being written", "{count} answers are still being written", count)
        sentence = tr_plural(
            "Quitting cuts it off; what is written so far stays in its chat.",
            "Quitting cuts them off; what is written so far stays in their chats.",
            count,
        )
        bring_to_front(self._window)
        replies = [
            QuestionReply(tr("Keep working"), lambda: None, ButtonLook.PRIMARY),
            QuestionReply(tr("Quit anyway"), lambda: self._end_program(ends_service=True), ButtonLook.DANGER),
        ]
        self._context.question.ask(title, sentence, replies)


def _is_session_ending() -> bool:
    application = QApplication.instance()
    return isinstance(application, QApplication) and application.isSavingSession()


class WindowReopener(QObject):
    """Whether that was asked for. The service goes on meanwhile."""

    def __init__(self, quit_flow: QuitFlow) -> None:
        super().__init__(quit_flow)
        self._quit_flow = quit_flow
        self.is_requested = False
        self.service: int | None = None
        """The service that this window started: whoever follows ends it as this one would have."""

    def request_reopen(self) -> None:
        """Leave, to come again."""
        self.is_requested = True
        self._quit_flow.leave_service()

    def start_window(self) -> None:
        """Open the window, as a program of its own. Raises OSError."""
        service_environment = {HANDED_SERVICE: str(self.service or "")}  # empty: ours came from a window before us
        BackgroundProcess(
            window_command(),
            stdin=subprocess.DEVNULL,
            env=child_environment({"PYINSTALLER_RESET_ENVIRONMENT": "1", **service_environment}),
            start_new_session=sys.platform != "win32",
        )
