"""State of a shadow trial in the window: what is set against the model, the run, what came of it, the switch and back.

Answers in words are those of the last trial, of requests whose words the inspector still keeps. Earlier trials have
hashes and lengths alone, and nothing can be switched by them.
"""

import time
from collections.abc import Callable
from urllib.parse import quote

from app.benchmark.markdown import format_seconds
from app.core import words
from app.core.benchmarks import RacePlan
from app.core.events import TrialChanged
from app.core.translation import tr
from app.core.trials import StartTrial, TrialAnswer, TrialComparison, TrialResult, TrialSide, TrialSwitch, TrialWords
from app.gui import phrases
from app.gui.net.api import GatewayApi
from app.gui.screens.benchmarks.measuring import MeasurementModel
from app.gui.shell.contract import Shell

_ENGINE = "engine:"
"""Before an engine's id among names of models, none of which begins so."""


class TrialModel(MeasurementModel[TrialChanged, TrialResult]):
    """One trial at a time."""

    kind, path = TrialChanged, "/trials/job"

    def __init__(self, api: GatewayApi, shell: Shell, clock: Callable[[], float] = time.time) -> None:
        super().__init__(api, shell)
        self._clock = clock
        self.earlier: list[TrialResult] = []
        """Those that can be shown, newest first."""
        self.words: dict[str, TrialWords] = {}
        """Answers of the shown trial in words, by the request's id."""
        self.is_earlier = False
        """Whether the shown trial is one of those."""
        self.model = self.against = ""
        """Who is asked; nobody until the trial is opened. `against` may be an engine, behind `_ENGINE`."""
        self.engine_options: list[tuple[str, str]] = []
        """Other engines here that read the model's files, with their words."""
        self.is_switched = False

    def open_form(self, model: str) -> None:
        """Have a person choose what is set against a model, unless a trial runs."""
        if self.progress is None:
            self.model, self.result, self.problem, self.engine_options = model, None, None, []
            self._api.get(f"/races/plan?model={quote(model, safe='')}", RacePlan, self._store_engines, lambda _: None)
            self._api.get("/trials", list[TrialResult], self._show_earlier, lambda _: None)
            self.changed.emit()

    def show_result(self, result: TrialResult) -> None:
        """Show an earlier trial."""
        self.result, self.is_earlier, self.words = result, True, {}
        self.changed.emit()

    def close_form(self) -> None:
        """Turn away from form and result."""
        self.model, self.result, self.problem = "", None, None
        self.changed.emit()

    def choose(self, against: str) -> None:
        """Choose what is set against it."""
        self.against = against
        self.changed.emit()

    def start(self) -> None:
        """Begin, unless one runs."""
        if self.progress is not None or not self.model or not self.against:
            return
        self.problem, self.result, self.words = None, None, {}
        self.is_switched = self.is_earlier = False
        self.progress = TrialChanged(model=self.model, stage=tr("Getting ready"), fraction=0.0)
        self.changed.emit()
        is_engine = self.against.startswith(_ENGINE)
        request = StartTrial(
            model=self.model,
            against="" if is_engine else self.against,
            engine=self.against.removeprefix(_ENGINE) if is_engine else "",
        )
        self._api.post("/trials", request, kind=TrialChanged, then=lambda _: None, on_error=self.store_problem)

    def switch(self) -> None:
        """Have the second take the first's place."""
        self._api.post("/trials/switch", None, kind=TrialSwitch, then=self._show_switch, on_error=self.store_problem)

    def undo(self) -> None:
        """Take the switch back."""
        self._api.post("/trials/undo", None, kind=TrialSwitch, then=self._show_undo, on_error=self.store_problem)

    @property
    def side_titles(self) -> tuple[str, str]:
        """What both sides of the result are called: by the model, or by the engine where the model is the same."""
        if self.result is None:
            return "", ""
        first, second = self.result.first.target, self.result.second.target
        return (first.model, second.model) if first.model != second.model else (first.engine, second.engine)

    def side_texts(self, side: TrialSide) -> tuple[str, str]:
        """Return the strong and the quiet line of one side."""
        target = side.target
        facts = [
            target.quantization,
            f"{target.engine} {target.engine_version}".strip(),
            "" if side.ttft_s is None else tr("first token {duration}", duration=format_seconds(side.ttft_s)),
            "" if side.tokens_s is None else words.format_rate(side.tokens_s),
            "" if side.valid_calls is None else tr("{share} of tool calls valid", share=f"{side.valid_calls:.0%}"),
            "" if side.valid_json is None else tr("{share} of JSON valid", share=f"{side.valid_json:.0%}"),
            words.format_bytes(side.memory.engine_bytes) if side.memory.engine_bytes else "",
            side.error,
        ]
        return target.model, " · ".join(filter(None, facts))

    def request_texts(self, part: TrialComparison) -> tuple[str, str]:
        """Return the strong and the quiet line of one request."""
        title = tr("Request of {count} characters", count=part.prompt_length)
        return title, " · ".join(filter(None, [_place_text(part), _error_text(part.first), _error_text(part.second)]))

    def earlier_texts(self, result: TrialResult) -> tuple[str, str]:
        """Return the strong and the quiet line of an earlier trial."""
        first, second = result.first.target, result.second.target
        other = second.model if second.model != first.model else second.engine
        strong = tr("{first} against {second}", first=first.model, second=other)
        return strong, " · ".join(filter(None, [phrases.time_ago(self._clock() - result.at), result.sentence]))

    def _finish_run(self) -> None:
        self.is_earlier = False
        self._api.get("/trials/words", list[TrialWords], self._show_words, lambda _: None)

    def _show_words(self, answers: list[TrialWords]) -> None:
        if not self.is_earlier:
            self.words = {part.id: part for part in answers}
            self.changed.emit()

    def _store_engines(self, plan: RacePlan) -> None:
        self.engine_options = [
            (f"{_ENGINE}{part.engine}", tr("The same model on {engine}", engine=part.name))
            for part in plan.candidates
            if part.is_installed and not part.is_current
        ]
        self.changed.emit()

    def _show_earlier(self, results: list[TrialResult]) -> None:
        self.earlier = results
        self.changed.emit()

    def _show_switch(self, switch: TrialSwitch) -> None:
        self.is_switched = True
        self._shell.show_toast(switch.sentence, self.undo)
        self.changed.emit()

    def _show_undo(self, switch: TrialSwitch) -> None:
        self.is_switched = False
        self._shell.show_toast(switch.sentence)
        self.changed.emit()


def _place_text(part: TrialComparison) -> str:
    if part.diverges_at is None:
        return tr("equal") if part.is_equal else ""
    return tr(
        "different from character {character}, token {token}",
        character=part.diverges_at + 1,
        token=(part.diverges_at_token or 0) + 1,
    )


def _error_text(answer: TrialAnswer) -> str:
    if answer.calls > answer.valid_calls:
        return tr("{count} of {calls} tool calls valid", count=answer.valid_calls, calls=answer.calls)
    return answer.error
