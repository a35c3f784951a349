"""After each load: what was predicted against what the engine logged and the system says, lane by lane."""

import msgspec

from app.core.advice import EstimateAccuracy
from app.core.translation import LazyText, tr
from app.gui.net.api import GatewayApi
from app.gui.net.remote import RemoteList
from app.gui.screens.machine.wording import COMPONENTS
from app.gui.shell.contract import Shell

_TOGETHER, _PROCESS = LazyText("Together"), LazyText("Whole process")
_LEAST = 0.0005
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
            return tr("nothing measured") if self.predicted else tr("exact")
        if self.predicted == self.measured:
            return tr("exact")
        return f"{self.error:+.1%}".replace("%", " %") if abs(self.error) >= _LEAST else tr("under 0.1 %")


class LoadRow(msgspec.Struct, frozen=True):
    """One load with its lanes, all on one scale of bytes. `together` is the sum of what the engine logged."""

    truth: EstimateAccuracy
    lanes: list[Lane]
    together: Lane | None = None

    @property
    def scale(self) -> int:
        """The largest figure among the lanes."""
        return max((max(lane.predicted, lane.measured) for lane in self.lanes), default=0)


def load_row(truth: EstimateAccuracy) -> LoadRow:
    """Return a lane for each component that was predicted and logged, their sum, and the process as a whole.

    An engine logs its buffers and not what its process takes besides, so the sum is of those components only; the
    whole prediction is held against what the system says of the process.
    """
    both = [key for key in COMPONENTS if key != "total" and key in truth.predicted and key in truth.logged]
    lanes = [Lane(COMPONENTS[key].tr(), truth.predicted[key], truth.logged[key]) for key in both]
    lanes = [lane for lane in lanes if lane.predicted or lane.measured]
    if not lanes:
        return LoadRow(truth, [])
    together = Lane(_TOGETHER.tr(), sum(lane.predicted for lane in lanes), sum(lane.measured for lane in lanes))
    whole = truth.predicted.get("total")
    process = [Lane(_PROCESS.tr(), whole, truth.resident)] if whole and truth.resident else []
    return LoadRow(truth, [*lanes, together, *process], together)


class LoadStore(RemoteList[EstimateAccuracy]):
    """The loads the gateway remembers."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, "/loads", list[EstimateAccuracy])

    @property
    def rows(self) -> list[LoadRow]:
        """The loads, latest first."""
        return [load_row(truth) for truth in sorted(self.items, key=lambda truth: truth.at, reverse=True)]
