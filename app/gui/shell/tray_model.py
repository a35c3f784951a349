"""What the icon in the system's tray says: one sign, one line, and a line for each model that is there."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.core import words
from app.core.api import GUIDE
from app.core.engines import EngineState, EngineStatus, Pause
from app.core.translation import tr, tr_plural
from app.gui import phrases
from app.gui.net.remote_lists import BUSY_STATES

MOST_LINES = 8
"""A menu longer than this is no glance any more."""


class TraySign(StrEnum):
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

    sign: TraySign
    line: str
    models: tuple[str, ...] = ()

    @property
    def tip(self) -> str:
        """What is shown when the pointer rests on the icon."""
        return f"Roundhouse: {self.line}"


def tray_look(*, is_connected: bool, statuses: Sequence[EngineStatus], pause: Pause) -> TrayLook:
    """Return what to show for the engines there are."""
    if not is_connected:
        return TrayLook(sign=TraySign.OFF, line=tr("The service is not running"))
    models = tuple(_model_line(engine) for engine in statuses)
    if len(models) > MOST_LINES:
        models = (*models[: MOST_LINES - 1], tr("and {count} more", count=len(models) - MOST_LINES + 1))
    return TrayLook(sign=_choose_sign(statuses, pause), line=_summary_line(statuses, pause), models=models)


def _choose_sign(statuses: Sequence[EngineStatus], pause: Pause) -> TraySign:
    states = {engine.state for engine in statuses}
    if pause.is_paused:
        return TraySign.PAUSED
    if states & BUSY_STATES:
        return TraySign.COMING
    if EngineState.READY in states:
        return TraySign.READY
    return TraySign.FAILED if EngineState.FAILED in states else TraySign.IDLE


def _summary_line(statuses: Sequence[EngineStatus], pause: Pause) -> str:
    here = [engine for engine in statuses if engine.state is not EngineState.FAILED]
    held_bytes = sum(engine.memory_bytes or 0 for engine in here)
    if not here:
        return tr("Paused") if pause.is_paused else tr("No model is loaded")
    count = tr_plural("{count} model", "{count} models", len(here))
    summary = f"{count}, {words.format_bytes(held_bytes)}" if held_bytes else count
    return tr("Paused, finishing with {summary}", summary=summary) if pause.is_paused else summary


def _model_line(status: EngineStatus) -> str:
    name = tr("Guide") if status.model == GUIDE else status.model
    if status.state is not EngineState.READY:
        return f"{name}: {phrases.engine_state(status)[1]}"
    facts = [words.format_bytes(status.memory_bytes)] if status.memory_bytes is not None else []
    facts += [tr("answering")] if status.in_flight else []
    return f"{name}: {', '.join(facts)}" if facts else name
