"""What closing and quitting mean, from how things stand. Pure; `departure` does what is said here.

    closing   keeps the service where a person wants that, and asks once what they want; with an icon in the tray the
              window is only hidden, so that there is a way back to it
    quitting  ends everything that was started from here, icon and service; answers in progress are asked about first

A service that was there before this window, one kept by the system among them, is not ours to end.
"""

from dataclasses import dataclass
from enum import StrEnum


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
