"""State of the what-if: the wishes, the advice that answers them, the plan that is looked at, and its estimate.

Every change of a wish asks anew; what was answered before stays until the new answer is there.
"""

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, Signal

from app.core.advice import Advice, Counterfactual, Estimate, EstimateRequest, Plan
from app.core.engines import EngineState
from app.core.errors import ErrorBody
from app.gui import phrases
from app.gui.net.api import Call, Failed
from app.gui.net.live import LiveQuestion
from app.gui.net.stores import Stores
from app.gui.screens.machine.wishes import Wishes, applied, change_words
from app.gui.shell.contract import Shell

_TYPING_REST_MS = 600
"""A model's name is looked up somewhere: half a name is worth no search."""


class WhatIf(QObject):
    """Everything the what-if shows. `said` is a sentence in passing and the way back from it."""

    changed = Signal()
    said = Signal(str, object)

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(shell)
        self._api, self._running = stores.api, stores.running
        self.library, self._preferences = stores.library, stores.preferences
        self.wishes = Wishes()
        self._is_touched = self._has_begun = False
        self.advice: Advice | None = None
        self.error: ErrorBody | None = None
        self.estimate: Estimate | None = None
        self.estimate_error: ErrorBody | None = None
        self._looked_at: tuple[str, ...] = ()
        self._plan = LiveQuestion(self._ask_plan, self)
        self._sums = LiveQuestion(self._ask_estimate, self)
        self._plan.answered.connect(self._advised)
        self._plan.refused.connect(self._refused)
        self._sums.answered.connect(self._summed)
        self._sums.refused.connect(self._not_summed)
        self._plan.waiting.connect(self.changed)
        self._sums.waiting.connect(self.changed)
        self._sources = self.library, self._preferences, self._running
        for source in self._sources:
            source.changed.connect(self._begin)
        self.library.changed.connect(self.changed)
        self._begin()

    @property
    def is_asking(self) -> bool:
        """Whether an answer is still to come."""
        return self._plan.is_waiting or self._sums.is_waiting

    @property
    def usable(self) -> list[Plan]:
        """Plans that could be followed, best first."""
        return [plan for plan in self.advice.plans if not plan.refused] if self.advice else []

    @property
    def refused(self) -> list[Plan]:
        """Engines one might think of, and why not."""
        return [plan for plan in self.advice.plans if plan.refused] if self.advice else []

    @property
    def shown(self) -> Plan | None:
        """The plan whose sums are shown: the one that is looked at, else the best."""
        usable = self.usable
        return next((plan for plan in usable if key_of(plan) == self._looked_at), usable[0] if usable else None)

    @property
    def can_reset(self) -> bool:
        """Whether anything but the model differs from how the page began."""
        return self.wishes != Wishes(model=self.wishes.model)

    def title_of(self, model: str) -> str:
        """Return what a model is called: its title if it is in the library, else the name itself."""
        return next((phrases.title(item) for item in self.library.items if item.name == model), model)

    def wish(self, wishes: Wishes, *, is_typing: bool = False) -> None:
        """Take other wishes and ask."""
        self._is_touched = self._has_begun = True
        if wishes == self.wishes:
            return
        self.wishes = wishes
        if is_typing:
            self._plan.put(wishes.request(), rest_ms=_TYPING_REST_MS)
        else:
            self._plan.put(wishes.request())

    def reset(self) -> None:
        """Leave everything but the model to the advisor again."""
        before = self.wishes
        self.wish(Wishes(model=before.model))
        self.said.emit("Your choices were reset.", lambda: self.wish(before))

    def can_apply(self, counterfactual: Counterfactual) -> bool:
        """Tell whether the controls can show it."""
        return self._applied(counterfactual) is not None

    def apply(self, counterfactual: Counterfactual) -> None:
        """Set the controls as a counterfactual says; Undo sets them back."""
        before, wishes = self.wishes, self._applied(counterfactual)
        if wishes is not None:
            self.wish(wishes)
            self.said.emit(f"{change_words(counterfactual)} was applied.", lambda: self.wish(before))

    def _applied(self, counterfactual: Counterfactual) -> Wishes | None:
        is_a_file = any(item.name == self.wishes.model for item in self.library.items)
        present = self.shown.quantization if self.shown is not None and self.wishes.model and not is_a_file else ""
        return applied(self.wishes, counterfactual.change, quantization=present)

    def look_at(self, plan: Plan) -> None:
        """Show the sums of another plan."""
        self._looked_at = key_of(plan)
        self._sum_up()
        self.changed.emit()

    def ask(self) -> None:
        """Ask anew without a rest: something but the wishes has changed, or an answer failed."""
        if self._has_begun:
            self._plan.put_now(self.wishes.request())

    def _begin(self) -> None:
        """Take the model that runs, the usual one or any as the first wish, until somebody has wished."""
        if self._is_touched or not all(source.is_known or source.error for source in self._sources):
            return
        model = self._first_model()
        if model != self.wishes.model or not self._has_begun:
            self._has_begun = True
            self.wishes = Wishes(model=model)
            self.ask()

    def _first_model(self) -> str:
        known = [model.name for model in self.library.items if not model.problem and not model.is_builtin]
        ready = [status.model for status in self._running.items if status.state is EngineState.READY]
        usual = str(self._preferences.get("models.default", ""))
        return next((name for name in (*ready, usual, *known) if name in known), "")

    def _ask_plan(self, body: Any, then: Callable[[Any], object], failed: Failed) -> Call:  # noqa: ANN401 -- as `Ask`
        return self._api.post("/plan", body, kind=Advice, then=then, failed=failed)

    def _ask_estimate(self, body: Any, then: Callable[[Any], object], failed: Failed) -> Call:  # noqa: ANN401 -- as `Ask`
        return self._api.post("/estimate", body, kind=Estimate, then=then, failed=failed)

    def _advised(self, advice: Advice) -> None:
        self.advice, self.error = advice, None
        self._sum_up()

    def _refused(self, error: ErrorBody) -> None:
        self.advice, self.error, self.estimate = None, error, None
        self._sums.forget()

    def _sum_up(self) -> None:
        """Take the estimate the plan carries, or ask for it; without a model there is none."""
        plan = self.shown
        self.estimate_error = None
        model = (plan.model if plan else "") or self.wishes.model
        if plan is None or plan.estimate is not None or not model:
            self.estimate = plan.estimate if plan else None
            self._sums.forget()
            return
        self._sums.put_now(
            EstimateRequest(
                model=model,
                context=plan.context or None,
                kv_type=plan.kv_type or None,
                slots=plan.parallelism.slots,
                engine=plan.engine,
            )
        )

    def _summed(self, estimate: Estimate) -> None:
        self.estimate, self.estimate_error = estimate, None

    def _not_summed(self, error: ErrorBody) -> None:
        self.estimate, self.estimate_error = None, error


def key_of(plan: Plan) -> tuple[str, ...]:
    """Return what makes a plan the same one in the next answer."""
    return plan.engine, plan.backend, plan.format, plan.quantization
