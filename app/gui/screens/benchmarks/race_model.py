"""State of a race in the window: who could run and what that takes, the run under way, what came of it, the way back.

Nothing is installed but what a person switched on here, having seen its size.
"""

from urllib.parse import quote

import msgspec

from app.benchmark.markdown import format_seconds
from app.benchmark.plots import BarPlot, race_plot
from app.core import words
from app.core.benchmarks import (
    WORKLOAD_TITLES,
    BenchmarkSettings,
    RaceCandidate,
    RaceEntry,
    RacePlan,
    RaceResult,
    StartRace,
    Workload,
)
from app.core.errors import ErrorBody
from app.core.events import RaceChanged
from app.core.translation import tr
from app.gui.net.api import GatewayApi
from app.gui.screens.benchmarks.measuring import MeasurementModel
from app.gui.shell.contract import Shell

LEAST_RUNNERS = 2
"""A race has two."""
_MINUTE = 60


class RaceModel(MeasurementModel[RaceChanged, RaceResult]):
    """One race at a time."""

    kind, path = RaceChanged, "/races/job"

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell)
        self.plan: RacePlan | None = None
        self.installs: set[str] = set()
        """Engines that are to be installed first."""
        self.is_planning = False
        self.workload = Workload.CHAT
        self._names: dict[str, str] = {}
        """Engine -> what people call it, of the last plan."""

    def open_plan(self, model: str, workload: str) -> None:
        """Fetch who could run, unless a race runs."""
        if self.progress is not None or not model:
            return
        self.plan, self.result, self.problem, self.is_planning = None, None, None, True
        self.installs.clear()
        self.workload = Workload(workload)
        self.changed.emit()
        path = f"/races/plan?model={quote(model, safe='')}&workload={self.workload.value}"
        self._api.get(path, RacePlan, self._store_plan, self.store_problem)

    def close_plan(self) -> None:
        """Turn away from plan and result."""
        self.plan = self.result = self.problem = None
        self.changed.emit()

    def choose_install(self, engine: str, *, is_on: bool) -> None:
        """Have an engine installed for the race, or not."""
        (self.installs.add if is_on else self.installs.discard)(engine)
        self.changed.emit()

    @property
    def plan_title(self) -> str:
        """What would be measured, and with what; empty without a plan."""
        return f"{self.plan.model} · {WORKLOAD_TITLES[self.workload]}" if self.plan is not None else ""

    @property
    def runners(self) -> list[RaceCandidate]:
        """Who would run."""
        candidates = self.plan.candidates if self.plan is not None else []
        return [part for part in candidates if part.is_installed or part.engine in self.installs]

    @property
    def can_start(self) -> bool:
        """Whether there are two to race."""
        return self.progress is None and len(self.runners) >= LEAST_RUNNERS

    @property
    def summary(self) -> str:
        """What would be done and what it takes, in sentences."""
        runners = self.runners
        if len(runners) < LEAST_RUNNERS:
            return tr("A race needs two engines. Switch another one on to install it.")
        known_seconds = [part.measure_s for part in runners if part.measure_s is not None]
        is_whole = len(known_seconds) == len(runners)
        times = _about(sum(known_seconds))
        sentences = [tr("Measuring takes {duration}.", duration=times)] if is_whole else []
        missing_parts = [part for part in runners if not part.is_installed]
        if missing_parts:
            sentences.append(
                tr(
                    "To be installed first: {names}, {size} to download, {duration} at 50 Mbit/s.",
                    names=", ".join(part.name for part in missing_parts),
                    size=words.format_bytes(sum(part.download_bytes for part in missing_parts) or None),
                    duration=_about(sum(part.download_s for part in missing_parts)),
                )
            )
        return " ".join(sentences)

    def start(self) -> None:
        """Begin with what is switched on."""
        if self.plan is None or not self.can_start:
            return
        self.problem = self.result = None
        self.progress = RaceChanged(model=self.plan.model, stage=tr("Getting ready"), fraction=0.0)
        self.changed.emit()
        missing_engines = [part.engine for part in self.runners if not part.is_installed]
        request = StartRace(
            model=self.plan.model, settings=BenchmarkSettings(workload=self.workload), installs=missing_engines
        )
        self._api.post("/races", request, kind=RaceChanged, then=lambda _: None, on_error=self.store_problem)

    def undo(self) -> None:
        """Set again what was set before."""
        result = self.result
        if result is not None and result.is_change:
            self._change_back(result, msgspec.structs.replace(result, is_change=False))

    def store_problem(self, error: ErrorBody) -> None:
        """Show why something came to nothing."""
        self.is_planning = False
        super().store_problem(error)

    def candidate_texts(self, part: RaceCandidate) -> tuple[str, str]:
        """Return the strong and the quiet line of an engine that could run."""
        facts = [
            tr("used now") if part.is_current else "",
            tr("not installed") if not part.is_installed else part.version,
            "" if part.is_installed else tr("{size} to download", size=words.format_bytes(part.download_bytes or None)),
            tr("measured as {version} before: it was updated", version=part.measured_version)
            if part.is_installed and part.measured_version and part.measured_version != part.version
            else "",
            ""
            if part.measure_s is None
            else tr("{duration} to measure", duration=words.format_duration(part.measure_s)),
        ]
        return part.name, " · ".join(filter(None, facts))

    def name_engine(self, engine: str) -> str:
        """Return what people call an engine; its id where nobody said."""
        return self._names.get(engine, engine)

    @property
    def plot(self) -> BarPlot | None:
        """A bar for each engine of the result; None for fewer than two."""
        return None if self.result is None else race_plot(self.result, self.name_engine)

    def entry_texts(self, entry: RaceEntry) -> tuple[str, str]:
        """Return the strong and the quiet line of how an engine did."""
        name, result = self.name_engine(entry.engine), self.result
        if entry.e2e_s is None:
            return name, entry.problem
        ratio = entry.ratio
        facts = [
            tr("used from now on") if result is not None and result.is_change and entry.engine == result.winner else "",
            tr("whole answer {duration}", duration=format_seconds(entry.e2e_s)),
            ""
            if ratio is None or result is None or entry.engine == result.engine_before
            else tr(
                "{ratio} times that of {engine} ({low} to {high})",
                ratio=f"{ratio.value:.2f}",
                engine=self.name_engine(result.engine_before),
                low=f"{ratio.low:.2f}",
                high=f"{ratio.high:.2f}",
            ),
            entry.note,
        ]
        return name, " · ".join(filter(None, facts))

    def _store_plan(self, plan: RacePlan) -> None:
        self.plan, self.is_planning = plan, False
        self._names = {part.engine: part.name for part in plan.candidates}
        self.changed.emit()

    def _finish_run(self) -> None:
        self.plan = None


def _about(duration_s: float) -> str:
    """Return what is only estimated, in whole minutes."""
    minutes = round(duration_s / _MINUTE)
    return tr("about {minutes} min", minutes=minutes) if minutes > 1 else tr("about a minute or less")
