"""State of the calibration: what was learned before, and the run that is under way.

How far a run has come arrives as events; after its last one, what was learned is read again.
"""

import time
from types import NoneType
from typing import Any

import msgspec
from PySide6.QtCore import QObject, Signal

from app.core.advice import Calibration
from app.core.errors import ErrorBody
from app.core.events import CalibrationChanged
from app.core.machine import Machine
from app.core.translation import tr, tr_plural
from app.gui.net.api import GatewayApi
from app.gui.net.remote import RemoteList
from app.gui.phrases import time_ago
from app.gui.screens.machine.wording import backend_words
from app.gui.shell.contract import Shell

_MICRO = 1e6
_DISTURBED = "calibration_disturbed"
"""The code of a run that was refused because other programs disturbed it: nothing failed, the earlier result stays."""


class CalibrationRow(msgspec.Struct, frozen=True):
    """What was learned with one engine on one device, in words."""

    key: str
    title: str
    quiet: str
    efficiency: float


class CalibrationModel(QObject):
    """The owner of what the page knows of calibrations."""

    changed = Signal()
    run_finished = Signal()
    """A run ended well: predictions are others now."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(shell)
        self._api = api
        self._calibrations = RemoteList(api, shell, "/calibration", list[Calibration])
        self.progress: CalibrationChanged | None = None
        """How the run under way has come; None when none is."""
        self._problem: ErrorBody | None = None
        """Why the last run came to nothing."""
        self._calibrations.changed.connect(self.changed)
        shell.event_received.connect(self._handle_event)
        shell.connected.connect(self._forget_run)

    @property
    def is_running(self) -> bool:
        """Whether one is under way."""
        return self.progress is not None

    @property
    def items(self) -> list[Calibration]:
        """What was learned."""
        return self._calibrations.items

    @property
    def error(self) -> ErrorBody | None:
        """Why the last run came to nothing, or why it is not known what was learned."""
        return self._problem or self._calibrations.error

    def start(self) -> None:
        """Begin a run, unless one is under way; it takes about a minute."""
        if self.is_running:
            return
        self.progress, self._problem = CalibrationChanged(stage=tr("Getting ready")), None
        self.changed.emit()
        self._api.post("/calibrate", None, kind=NoneType, then=lambda _: None, on_error=self._store_error)

    def cancel(self) -> None:
        """End the run; what was learned before stays."""
        self._api.send_request(
            "DELETE", "/calibrate", None, kind=NoneType, then=self._finish_cancel, on_error=self._store_error
        )

    def list_rows(self, machine: Machine | None, now: float | None = None) -> list[CalibrationRow]:
        """Return what was learned, latest first, by the device's name. `now` is in Unix seconds."""
        latest = sorted(self.items, key=lambda item: item.measured_at, reverse=True)
        return [_make_row(item, machine, time.time() if now is None else now) for item in latest]

    def _handle_event(self, event: Any) -> None:  # noqa: ANN401 -- an Event, as a Qt signal carries it
        if not isinstance(event, CalibrationChanged):
            return
        if not event.done:
            self.progress = event
            self.changed.emit()
            return
        self.progress = None
        if event.error:
            self._problem = _describe_problem(event)
            self.changed.emit()
            return
        self._problem = None
        self._calibrations.refresh()
        self.run_finished.emit()

    def _finish_cancel(self, _nothing: None) -> None:
        self.progress = None
        self.changed.emit()

    def _store_error(self, error: ErrorBody) -> None:
        self._problem, self.progress = error, None
        self.changed.emit()

    def _forget_run(self) -> None:
        """Forget a run of a gateway that is gone; one that goes on speaks up again."""
        self.progress = None


def _describe_problem(event: CalibrationChanged) -> ErrorBody:
    if event.code == _DISTURBED:
        return ErrorBody(code=event.code, sentence=event.error)
    return ErrorBody(code="calibration", sentence=tr("Calibration failed."), detail=event.error)


def _make_row(item: Calibration, machine: Machine | None, now: float) -> CalibrationRow:
    engine = " ".join(filter(None, (item.engine, item.version, backend_words(item.backend))))
    share, bandwidth = item.efficiency * 100, item.bandwidth_gb_s
    reached_text = tr("{share:.0f} % of {bandwidth:,.0f} GB/s", share=share, bandwidth=bandwidth)
    layer = tr("{duration:.0f} µs per layer", duration=item.layer_seconds * _MICRO)
    answers = tr_plural("{count} answer", "{count} answers", item.samples) if item.samples else ""
    expected_gb_s = item.expected_gb_s
    table = tr("device table: {bandwidth:,.0f} GB/s", bandwidth=expected_gb_s) if expected_gb_s is not None else ""
    facts = [reached_text, table, layer, answers, time_ago(now - item.measured_at)]
    if item.disturbances:
        facts = [tr("Disturbed, not used for predictions"), *(sentence.rstrip(".") for sentence in item.disturbances)]
    return CalibrationRow(
        key=f"{item.device} {engine}",
        title=tr("{device} with {engine}", device=_device_name(item.device, machine), engine=engine),
        quiet=" · ".join(filter(None, facts)),
        efficiency=item.efficiency,
    )


def _device_name(device: str, machine: Machine | None) -> str:
    if machine is None:
        return device
    if device == "cpu":
        return machine.cpu.model.value or tr("Processor")
    return next((gpu.name.value or device for gpu in machine.gpus if gpu.id == device), device)
