"""State of self-tuning in the window: the run under way, what was tried and how it did, and the way back."""

import msgspec

from app.benchmark.markdown import format_seconds
from app.core.benchmarks import CandidateResult, StartTune, TuneResult, Workload
from app.core.events import TuneChanged
from app.core.translation import tr
from app.gui.net.api import GatewayApi
from app.gui.screens.benchmarks.measuring import MeasurementModel
from app.gui.shell.contract import Shell

LONG_SEARCH_S = 600.0
"""Two minutes are enough for a few settings only where each answer takes long."""


class TuneModel(MeasurementModel[TuneChanged, TuneResult]):
    """One model's settings at a time."""

    kind, path = TuneChanged, "/tunings/job"

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell)
        self.last_request: StartTune | None = None
        """What was begun here last."""

    def start(self, model: str, workload: str, concurrency: int = 1) -> None:
        """Begin, unless one runs; with several requests at once slots are tried too."""
        if model:
            self._begin_search(StartTune(model=model, workload=Workload(workload), concurrency=concurrency))

    def search_longer(self) -> None:
        """Begin again what was begun last, for long enough to try everything."""
        if self.last_request is not None:
            self._begin_search(msgspec.structs.replace(self.last_request, duration_s=LONG_SEARCH_S))

    def _begin_search(self, request: StartTune) -> None:
        if self.progress is not None:
            return
        self.last_request = request
        self.problem = self.result = None
        self.progress = TuneChanged(model=request.model, stage=tr("Getting ready"), fraction=0.0)
        self.changed.emit()
        self._api.post("/tunings", request, kind=TuneChanged, then=lambda _: None, on_error=self.store_problem)

    def undo(self) -> None:
        """Set again what was set before."""
        result = self.result
        if result is not None and result.is_change:
            self._change_back(result, msgspec.structs.replace(result, is_change=False))

    def close_result(self) -> None:
        """Turn away from the result."""
        self.result = self.problem = None
        self.changed.emit()

    @property
    def figures(self) -> list[tuple[str, str, str]]:
        """Name, value now, and the value of before where it is another, of each figure."""
        result = self.result
        if result is None:
            return []
        before, after = result.before, result.after
        rows = (
            (tr("First token"), before.ttft_s, after.ttft_s),
            (tr("Per token"), before.tpot_s, after.tpot_s),
            (tr("Whole answer"), before.e2e_s, after.e2e_s),
        )
        return [
            (name, format_seconds(new), "" if new == old else tr("{value} before", value=format_seconds(old)))
            for name, old, new in rows
        ]

    def entry_texts(self, entry: CandidateResult) -> tuple[str, str]:
        """Return the strong and the quiet line of a setting that was tried."""
        ratio = entry.ratio
        facts = [
            tr("used") if entry.is_kept else "",
            ""
            if ratio is None
            else tr(
                "whole answers in {ratio} times the time ({low} to {high})",
                ratio=f"{ratio.value:.2f}",
                low=f"{ratio.low:.2f}",
                high=f"{ratio.high:.2f}",
            ),
            entry.problem,
        ]
        return entry.name, " · ".join(filter(None, facts))
