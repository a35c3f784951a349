"""After each load: what was predicted against what the engine logged and the system says, lane by lane."""

import msgspec
from PySide6.QtCore import QObject, Signal

from app.core.advice import LoadTruth
from app.core.errors import ErrorBody
from app.gui.net.api import GatewayApi
from app.gui.screens.machine.wording import COMPONENTS
from app.gui.shell.contract import Shell

_RESIDENT = "Whole process"
_CLOSE, _FAR = 0.02, 0.05
"""The median and the 90th percentile that predictions of memory are held to."""


class Lane(msgspec.Struct, frozen=True):
    """One component, in bytes: what was predicted and what it turned out to be."""

    name: str
    predicted: int
    measured: int

    @property
    def error(self) -> float | None:
        """How far the prediction was off, as a share of the measured; None where nothing was measured."""
        return self.predicted / self.measured - 1 if self.measured else None

    @property
    def color(self) -> str:
        """The colour of a token for how close it came."""
        error = abs(self.error) if self.error is not None else 1.0
        return "ok" if error <= _CLOSE else "warn" if error <= _FAR else "bad"

    @property
    def error_words(self) -> str:
        """How far it was off: "+1.2 %", "exact"."""
        if self.error is None:
            return "nothing measured" if self.predicted else "exact"
        return "exact" if self.predicted == self.measured else f"{self.error:+.1%}".replace("%", " %")


class LoadRow(msgspec.Struct, frozen=True):
    """One load with its lanes, all on one scale of bytes."""

    truth: LoadTruth
    lanes: list[Lane]

    @property
    def scale(self) -> int:
        """The largest figure among the lanes."""
        return max((max(lane.predicted, lane.measured) for lane in self.lanes), default=0)

    @property
    def total(self) -> Lane | None:
        """The lane that says most: all of it, else the whole process."""
        return self.lanes[-1] if self.lanes and self.lanes[-1].name in {COMPONENTS["total"], _RESIDENT} else None


def load_row(truth: LoadTruth) -> LoadRow:
    """Return the lanes of what was both predicted and measured, in the order they are stacked."""
    both = [key for key in COMPONENTS if key in truth.predicted and key in truth.logged]
    lanes = [Lane(COMPONENTS[key], truth.predicted[key], truth.logged[key]) for key in both]
    if "total" not in truth.logged and "total" in truth.predicted and truth.resident is not None:
        lanes.append(Lane(_RESIDENT, truth.predicted["total"], truth.resident))
    return LoadRow(truth, [lane for lane in lanes if lane.predicted or lane.measured])


class Loads(QObject):
    """The loads the gateway remembers, latest first."""

    changed = Signal()

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(shell)
        self._api = api
        self.rows: list[LoadRow] = []
        self.is_known = False
        self.error: ErrorBody | None = None

    def read(self) -> None:
        """Fetch them anew."""
        self._api.get("/loads", list[LoadTruth], self._took, self._failed)

    def _took(self, truths: list[LoadTruth]) -> None:
        latest = sorted(truths, key=lambda truth: truth.at, reverse=True)
        self.rows = [load_row(truth) for truth in latest]
        self.is_known, self.error = True, None
        self.changed.emit()

    def _failed(self, error: ErrorBody) -> None:
        self.error = error
        self.changed.emit()
