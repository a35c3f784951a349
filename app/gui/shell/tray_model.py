"""What the icon in the system's tray says: one sign, one line, and a line for each model that is there."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.core import words
from app.core.api import GUIDE
from app.core.engines import EngineState, EngineStatus
from app.core.memory import Pause
from app.gui import phrases
from app.gui.net.stores import BUSY_STATES

MOST_LINES = 8
"""A menu longer than this is no glance any more."""


class Sign(StrEnum):
    """What the icon shows at a glance."""

    OFF = "off"
    """The service does not answer."""
    IDLE = "idle"
    READY = "ready"
    COMING = "coming"
    PAUSED = "paused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrayLook:
    """Everything the icon and its menu show."""

    sign: Sign
    line: str
    models: tuple[str, ...] = ()

    @property
    def tip(self) -> str:
        """What is shown when the pointer rests on the icon."""
        return f"Roundhouse: {self.line}"


def tray_look(*, is_connected: bool, running: Sequence[EngineStatus], pause: Pause) -> TrayLook:
    """Return what to show for the engines there are."""
    if not is_connected:
        return TrayLook(sign=Sign.OFF, line="The service is not running")
    models = tuple(_line(one) for one in running)
    if len(models) > MOST_LINES:
        models = (*models[: MOST_LINES - 1], f"and {len(models) - MOST_LINES + 1} more")
    return TrayLook(sign=_sign(running, pause), line=_summary(running, pause), models=models)


def _sign(running: Sequence[EngineStatus], pause: Pause) -> Sign:
    states = {one.state for one in running}
    if pause.is_paused:
        return Sign.PAUSED
    if states & BUSY_STATES:
        return Sign.COMING
    if EngineState.READY in states:
        return Sign.READY
    return Sign.FAILED if EngineState.FAILED in states else Sign.IDLE


def _summary(running: Sequence[EngineStatus], pause: Pause) -> str:
    here = [one for one in running if one.state is not EngineState.FAILED]
    held = sum(one.memory_bytes or 0 for one in here)
    if not here:
        return "Paused" if pause.is_paused else "No model is loaded"
    count = f"{len(here)} models" if len(here) > 1 else "1 model"
    said = f"{count}, {words.size(held)}" if held else count
    return f"Paused, finishing with {said}" if pause.is_paused else said


def _line(status: EngineStatus) -> str:
    name = "Guide" if status.model == GUIDE else status.model
    if status.state is not EngineState.READY:
        return f"{name}: {phrases.state(status)[1]}"
    facts = [words.size(status.memory_bytes)] if status.memory_bytes is not None else []
    facts += ["answering"] if status.in_flight else []
    return f"{name}: {', '.join(facts)}" if facts else name
