"""State of a race in the window: who could run and what that takes, the run under way, what came of it, the way back.

Nothing is installed but what a person switched on here, having seen its size.
"""

from types import NoneType
from urllib.parse import quote

import msgspec
from PySide6.QtCore import QObject, Signal

from app.benchmark.markdown import format_seconds
from app.core import words
from app.core.benchmarks import BenchmarkSettings, RaceCandidate, RaceEntry, RacePlan, RaceResult, StartRace, Workload
from app.core.errors import ErrorBody
from app.core.events import Event, RaceChanged
from app.core.models import ModelSettings
from app.core.translation import tr
from app.gui.net.api import GatewayApi
from app.gui.net.model_settings import change_model_settings
from app.gui.shell.contract import Shell

LEAST_RUNNERS = 2
"""A race has two."""
_MINUTE = 60


class RaceModel(QObject):
    """One race at a time. `problem` is why the last thing that was asked for came to nothing."""

    changed = Signal()

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(shell)
        self._api, self._shell = api, shell
        self.plan: RacePlan | None = None
        self.installs: set[str] = set()
        """Engines that are to be installed first."""
        self.is_planning = False
        self.progress: RaceChanged | None = None
        self.result: RaceResult | None = None
        self.problem: ErrorBody | None = None
        self.workload = Workload.CHAT
        shell.event_received.connect(self._take)

    def open_plan(self, model: str, workload: str) -> None:
        """Fetch who could run, unless a race runs."""
        if self.progress is not None or not model:
            return
        self.plan, self.result, self.problem, self.is_planning = None, None, None, True
        self.installs.clear()
        self.workload = Workload(workload)
        self.changed.emit()
        path = f"/races/plan?model={quote(model, safe='')}&workload={self.workload.value}"
        self._api.get(path, RacePlan, self._store_plan, self._store_problem)

    def close_plan(self) -> None:
        """Turn away from plan and result."""
        self.plan = self.result = self.problem = None
        self.changed.emit()

    def choose_install(self, engine: str, *, is_on: bool) -> None:
        """Have an engine installed for the race, or not."""
        (self.installs.add if is_on else self.installs.discard)(engine)
        self.changed.emit()

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
        known = [part.measure_s for part in runners if part.measure_s is not None]
        is_whole = len(known) == len(runners)
        times = _about(sum(known))
        sentences = [tr("Measuring takes {duration}.", duration=times)] if is_whole else []
        missing = [part for part in runners if not part.is_installed]
        if missing:
            sentences.append(
                tr(
                    "To be installed first: {names}, {size} to download, {duration} at 50 Mbit/s.",
                    names=", ".join(part.name for part in missing),
                    size=words.format_bytes(sum(part.download_bytes for part in missing) or None),
                    duration=_about(sum(part.download_s for part in missing)),
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
        missing = [part.engine for part in self.runners if not part.is_installed]
        request = StartRace(model=self.plan.model, settings=BenchmarkSettings(workload=self.workload), installs=missing)
        self._api.post("/races", request, kind=RaceChanged, then=lambda _: None, failed=self._store_problem)

    def cancel(self) -> None:
        """Stop the race; nothing is changed."""
        self._api.send_request(
            "DELETE", "/races/job", None, kind=NoneType, then=self._finish_cancel, failed=self._store_problem
        )

    def undo(self) -> None:
        """Set the engine of before again."""
        result = self.result
        if result is None or not result.is_change:
            return

        def finish_undo(_before: ModelSettings) -> None:
            self.result = msgspec.structs.replace(result, is_change=False)
            self._shell.show_toast(tr("{model} is run as before the race.", model=result.model))
            self.changed.emit()

        change_model_settings(
            self._api,
            result.model,
            lambda own: msgspec.structs.replace(own, engine=result.set_before),
            then=finish_undo,
            failed=self._store_problem,
        )

    def dismiss_problem(self) -> None:
        """Say no more about what went wrong."""
        self.problem = None
        self.changed.emit()

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

    def entry_texts(self, entry: RaceEntry) -> tuple[str, str]:
        """Return the strong and the quiet line of how an engine did."""
        if entry.e2e_s is None:
            return entry.engine, entry.problem
        ratio = entry.ratio
        facts = [
            tr("whole answer {duration}", duration=format_seconds(entry.e2e_s)),
            ""
            if ratio is None or self.result is None or entry.engine == self.result.engine_before
            else tr(
                "{ratio} times that of {engine} ({low} to {high})",
                ratio=f"{ratio.value:.2f}",
                engine=self.result.engine_before,
                low=f"{ratio.low:.2f}",
                high=f"{ratio.high:.2f}",
            ),
            entry.note,
        ]
        return entry.engine, " · ".join(filter(None, facts))

    def _take(self, event: Event) -> None:
        if not isinstance(event, RaceChanged):
            return
        was_running = self.progress is not None
        self.progress = None if event.done else event
        if event.done and event.error and was_running and event.code != "cancelled":
            self.problem = ErrorBody(code=event.code, sentence=event.error)
        elif event.done and event.result is not None:
            self.plan, self.result = None, event.result
            if was_running:
                self._shell.show_toast(event.result.sentence, self.undo if event.result.is_change else None)
        self.changed.emit()

    def _store_plan(self, plan: RacePlan) -> None:
        self.plan, self.is_planning = plan, False
        self.changed.emit()

    def _finish_cancel(self, _nothing: None) -> None:
        self.progress = self.problem = None
        self.changed.emit()

    def _store_problem(self, error: ErrorBody) -> None:
        self.problem, self.progress, self.is_planning = error, None, False
        self.changed.emit()


def _about(duration_s: float) -> str:
    """Return what is only estimated, in whole minutes."""
    minutes = round(duration_s / _MINUTE)
    return tr("about {minutes} min", minutes=minutes) if minutes > 1 else tr("about a minute or less")
