"""What races, trials and self-tuning share in the window: a run that is followed, stopped, and can be undone."""

from types import NoneType
from typing import ClassVar, Generic, TypeVar

import msgspec
from PySide6.QtCore import QObject, Signal

from app.core.benchmarks import RaceResult, TuneResult
from app.core.errors import ErrorBody
from app.core.events import Event, RaceChanged, TrialChanged, TuneChanged
from app.core.models import ModelSettings, list_changes
from app.core.translation import tr
from app.core.trials import TrialResult
from app.gui.net.api import GatewayApi
from app.gui.net.model_settings import change_model_settings
from app.gui.shell.contract import Shell

E = TypeVar("E", RaceChanged, TrialChanged, TuneChanged)
R = TypeVar("R", RaceResult, TrialResult, TuneResult)


class MeasurementModel(QObject, Generic[E, R]):
    """One run at a time. `problem` is why the last thing that was asked for came to nothing."""

    changed = Signal()
    kind: ClassVar[type[RaceChanged] | type[TrialChanged] | type[TuneChanged]]
    path: ClassVar[str]
    """Of the job: where it is stopped."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(shell)
        self._api, self._shell = api, shell
        self.progress: E | None = None
        self.result: R | None = None
        self.problem: ErrorBody | None = None
        shell.event_received.connect(self._take)

    def cancel(self) -> None:
        """Stop the run; nothing is changed."""
        self._api.send_request(
            "DELETE", self.path, None, kind=NoneType, then=self._finish_cancel, on_error=self.store_problem
        )

    def dismiss_problem(self) -> None:
        """Say no more about what went wrong."""
        self.problem = None
        self.changed.emit()

    def undo(self) -> None:
        """Set again what was set before."""

    def store_problem(self, error: ErrorBody) -> None:
        """Show why something came to nothing."""
        self.problem, self.progress = error, None
        self.changed.emit()

    def _finish_cancel(self, _nothing: None) -> None:
        self.progress = self.problem = None
        self.changed.emit()

    def _change_back(self, result: RaceResult | TuneResult, undone_result: R) -> None:
        """Set again what it changed, and nothing that was changed since; once that is done, the result is `undone`."""
        before = result.settings_before
        values = {name: getattr(before, name) for name in list_changes(before, result.settings)}

        def finish_undo(_before: ModelSettings) -> None:
            self.result = undone_result
            self._shell.show_toast(tr("{model} is run as before.", model=result.model))
            self.changed.emit()

        change_model_settings(
            self._api,
            result.model,
            lambda own: msgspec.structs.replace(own, **values),
            then=finish_undo,
            on_error=self.store_problem,
        )

    def _take(self, event: Event) -> None:
        if not isinstance(event, self.kind):
            return
        was_running = self.progress is not None
        self.progress = None if event.done else event  # type: ignore[assignment]  # of the kind that was asked for
        if event.done and event.error and was_running and event.code != "cancelled":
            self.problem = ErrorBody(code=event.code, sentence=event.error)
        elif event.done and event.result is not None:
            self.result = event.result  # type: ignore[assignment]  # as above
            self._finish_run()
            if was_running:
                self._shell.show_toast(event.result.sentence, self.undo if event.result.is_change else None)
        self.changed.emit()

    def _finish_run(self) -> None:
        """Put away what led to a result that is there now."""
