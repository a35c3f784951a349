"""State of the what-if: the wishes, the advice that answers them, the plan that is looked at, and its estimate.

Every change of a wish asks anew; what was answered before stays until the new answer is there.

What is wished for on the machine page, as values: the controls, and what a counterfactual does to them.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from PySide6.QtCore import QObject, Signal

from app.core import words
from app.core.advice import Counterfactual, Estimate, EstimateRequest, Intent, Plan, PlanRequest, ServicePlan
from app.core.engines import EngineState
from app.core.errors import ErrorBody
from app.core.hub import MachineAdvice
from app.core.models import ModelInfo
from app.core.translation import LazyText, tr
from app.gui import phrases
from app.gui.net.api import ErrorHandler, GatewayCall
from app.gui.net.remote_lists import Stores
from app.gui.net.request_debouncer import RequestDebouncer
from app.gui.shell.contract import Shell

INTENTS = {
    Intent.CHAT: LazyText("Chat"),
    Intent.CODING: LazyText("Coding"),
    Intent.AGENT: LazyText("An agent"),
    Intent.RAG: LazyText("Questions about documents"),
    Intent.STRUCTURED: LazyText("Structured output"),
    Intent.BATCH: LazyText("Overnight batches"),
    Intent.TEAM: LazyText("A team"),
    Intent.API: LazyText("An API"),
    Intent.FLEET: LazyText("A fleet"),
    Intent.APP: LazyText("My own program"),
    Intent.BROWSER: LazyText("A browser or phone"),
}
CONTEXTS = (4096, 8192, 16384, 32768, 65536, 131072, 262144)
KV_TYPES = {"f16": LazyText("16-bit (f16)"), "q8_0": LazyText("8-bit (q8_0)"), "q4_0": LazyText("4-bit (q4_0)")}
MOST_PEOPLE = 10_000
AUTOMATIC = ""


class PlanForm(msgspec.Struct, frozen=True, kw_only=True):
    """What the controls say. None is left to the advisor; an empty `model` means no particular one."""

    model: str = ""
    intent: Intent = Intent.CHAT
    users: int = 1
    context: int | None = None
    kv_type: str | None = None

    def make_request(self) -> PlanRequest:
        """Return the question to the gateway."""
        return PlanRequest(
            model=self.model, intent=self.intent, users=self.users, context=self.context, kv_type=self.kv_type
        )


def apply_counterfactual(form: PlanForm, change: dict[str, str | int], *, quantization: str = "") -> PlanForm | None:
    """Return the wishes after a counterfactual's change, or None if a control for any of it is missing.

    `quantization` is the present one of a model that is only a name: there another can be put in its place.
    """
    if quantization and "quantization" in change:
        other = str(change["quantization"])
        rest = {key: value for key, value in change.items() if key != "quantization"}
        change = {**rest, "model": requantize_name(form.model, quantization, other)}
    try:
        changed_form = msgspec.convert({**msgspec.structs.asdict(form), **change}, PlanForm)
    except msgspec.ValidationError:
        return None
    return changed_form if set(change) <= set(PlanForm.__struct_fields__) and changed_form != form else None


def requantize_name(model: str, present: str, other: str) -> str:
    """Return a model's name with another quantisation at its end: "qwen3 8b", "qwen3-8b-q4_k_m" -> "…-Q8_0"."""
    stem = model[: -len(present)].rstrip("-_.: ") if model.casefold().endswith(present.casefold()) else model
    return f"{stem}-{other}"


def change_words(counterfactual: Counterfactual) -> str:
    """Return what applying it does, for the sentence that offers a way back."""
    return ", ".join(f"{_NAMES.get(key, key)} {_format_value(value)}" for key, value in counterfactual.change.items())


def context_options(present: int | None, largest: int | None) -> list[tuple[str, str]]:
    """Return the contexts to choose from: the round ones, the present one, and the largest that fits."""
    sizes = sorted({*CONTEXTS, *(size for size in (present, largest) if size)})
    titles = {size: words.format_tokens(size) for size in sizes}
    if largest:
        titles[largest] = tr("{context} (most that fits)", context=titles[largest])
    return [(AUTOMATIC, tr("Automatic")), *((str(size), title) for size, title in titles.items())]


_NAMES = {
    "kv_type": LazyText("KV cache"),
    "context": LazyText("Context"),
    "users": LazyText("Users"),
    "model": LazyText("Model"),
    "intent": LazyText("Use case"),
    "quantization": LazyText("Quantisation"),
}


def _format_value(value: str | int) -> str:
    return words.format_tokens(value) if isinstance(value, int) else value


_TYPING_REST_MS = 600
"""A model's name is looked up somewhere: half a name is worth no search."""


class WhatIf(QObject):
    """Everything the what-if shows. `toast_requested` is a sentence in passing and the way back from it."""

    changed = Signal()
    toast_requested = Signal(str, object)

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(shell)
        self._api, self._running_models = stores.api, stores.running
        self.library, self._preferences = stores.library, stores.preferences
        self.form = PlanForm()
        self._is_touched = self._has_begun = False
        self.advice: MachineAdvice | None = None
        self.error: ErrorBody | None = None
        self.estimate: Estimate | None = None
        self.estimate_error: ErrorBody | None = None
        self._chosen_key: tuple[str, ...] = ()
        self._plan_request = RequestDebouncer(self._ask_plan, self)
        self._estimate_request = RequestDebouncer(self._ask_estimate, self)
        self._plan_request.answered.connect(self._set_advice)
        self._plan_request.refused.connect(self._store_error)
        self._estimate_request.answered.connect(self._set_estimate)
        self._estimate_request.refused.connect(self._store_estimate_error)
        self._plan_request.waiting_changed.connect(self.changed)
        self._estimate_request.waiting_changed.connect(self.changed)
        self._sources = self.library, self._preferences, self._running_models
        for source in self._sources:
            source.changed.connect(self._start_with_default)
        self.library.changed.connect(self.changed)
        self._start_with_default()

    @property
    def own_models(self) -> list[ModelInfo]:
        """The models that can run here; what an endpoint serves takes nothing of this machine."""
        return [model for model in self.library.items if not model.problem and not model.attached]

    @property
    def is_asking(self) -> bool:
        """Whether an answer is still to come."""
        return self._plan_request.is_waiting or self._estimate_request.is_waiting

    @property
    def usable_plans(self) -> list[Plan]:
        """The best plan, and the others that can be followed here."""
        plans = self.advice.plans if self.advice else []
        return [plan for place, plan in enumerate(plans) if plan.obtainable or not (place or plan.refused)]

    @property
    def recommendation(self) -> str:
        """The model that is recommended where none was asked for and why, or why there is none; empty otherwise."""
        if self.advice is None or self.form.model:
            return ""
        best = next(iter(self.advice.recommended), None)
        return tr("{model}: {reason}", model=best.name, reason=best.reason) if best else self.advice.note

    @property
    def better_plans(self) -> list[Plan]:
        """Plans that would be better, if what is missing could be had."""
        return [plan for plan in self.advice.plans if plan.is_preferred] if self.advice else []

    @property
    def service(self) -> ServicePlan | None:
        """How several people are served at once; None where one is."""
        return self.advice.service if self.advice else None

    @property
    def plan_refusals(self) -> list[Plan]:
        """Engines one might think of, and why not."""
        visible = {key_of(plan) for plan in (*self.usable_plans, *self.better_plans)}
        return [plan for plan in self.advice.plans if key_of(plan) not in visible] if self.advice else []

    @property
    def current_plan(self) -> Plan | None:
        """The plan whose sums are shown: the one that is looked at, else the best."""
        usable = self.usable_plans
        return next((plan for plan in usable if key_of(plan) == self._chosen_key), usable[0] if usable else None)

    @property
    def can_reset(self) -> bool:
        """Whether anything but the model differs from how the page began."""
        return self.form != PlanForm(model=self.form.model)

    def title_of(self, model: str) -> str:
        """Return what a model is called: its title if it is in the library, else the name itself."""
        return next((phrases.model_title(item) for item in self.library.items if item.name == model), model)

    def submit_form(self, form: PlanForm, *, is_typing: bool = False) -> None:
        """Take other wishes and ask."""
        self._is_touched = self._has_begun = True
        if form == self.form:
            return
        self.form = form
        if is_typing:
            self._plan_request.send_later(form.make_request(), rest_ms=_TYPING_REST_MS)
        else:
            self._plan_request.send_later(form.make_request())

    def reset_form(self) -> None:
        """Leave everything but the model to the advisor again."""
        before = self.form
        self.submit_form(PlanForm(model=before.model))
        self.toast_requested.emit(tr("Your choices were reset."), lambda: self.submit_form(before))

    def can_apply(self, counterfactual: Counterfactual) -> bool:
        """Tell whether the controls can show it."""
        return self._form_after(counterfactual) is not None

    def apply_change(self, counterfactual: Counterfactual) -> None:
        """Set the controls as a counterfactual says; Undo sets them back."""
        before, form = self.form, self._form_after(counterfactual)
        if form is not None:
            self.submit_form(form)
            self.toast_requested.emit(
                tr("Applied: {changes}.", changes=change_words(counterfactual)),
                lambda: self.submit_form(before),
            )

    def _form_after(self, counterfactual: Counterfactual) -> PlanForm | None:
        is_a_file = any(item.name == self.form.model for item in self.library.items)
        present = (
            self.current_plan.quantization
            if self.current_plan is not None and self.form.model and not is_a_file
            else ""
        )
        return apply_counterfactual(self.form, counterfactual.change, quantization=present)

    def look_at(self, plan: Plan) -> None:
        """Show the sums of another plan."""
        self._chosen_key = key_of(plan)
        self._update_estimate()
        self.changed.emit()

    def ask_again(self) -> None:
        """Ask anew without a rest: something but the wishes has changed, or an answer failed."""
        if self._has_begun:
            self._plan_request.send_now(self.form.make_request())

    def _start_with_default(self) -> None:
        """Take the model that runs, the usual one or any as the first wish, until somebody has wished."""
        if self._is_touched or not all(source.is_known or source.error for source in self._sources):
            return
        model = self._first_model()
        if model != self.form.model or not self._has_begun:
            self._has_begun = True
            self.form = PlanForm(model=model)
            self.ask_again()

    def _first_model(self) -> str:
        names = [model.name for model in self.own_models if not model.is_builtin]
        ready = [status.model for status in self._running_models.items if status.state is EngineState.READY]
        usual = str(self._preferences.get("models.default", ""))
        return next((name for name in (*ready, usual, *names) if name in names), "")

    def _ask_plan(self, body: Any, then: Callable[[Any], object], on_error: ErrorHandler) -> GatewayCall:  # noqa: ANN401 -- as `RequestSender`
        return self._api.post("/plan", body, kind=MachineAdvice, then=then, on_error=on_error)

    def _ask_estimate(self, body: Any, then: Callable[[Any], object], on_error: ErrorHandler) -> GatewayCall:  # noqa: ANN401 -- as `RequestSender`
        return self._api.post("/estimate", body, kind=Estimate, then=then, on_error=on_error)

    def _set_advice(self, advice: MachineAdvice) -> None:
        self.advice, self.error = advice, None
        self._update_estimate()

    def _store_error(self, error: ErrorBody) -> None:
        self.advice, self.error, self.estimate = None, error, None
        self._estimate_request.cancel_request()

    def _update_estimate(self) -> None:
        """Take the estimate the plan carries, or ask for it; without a model there is none."""
        plan = self.current_plan
        self.estimate_error = None
        model = (plan.model if plan else "") or self.form.model
        if plan is None or plan.estimate is not None or not model:
            self.estimate = plan.estimate if plan else None
            self._estimate_request.cancel_request()
            return
        self._estimate_request.send_now(
            EstimateRequest(
                model=model,
                context=plan.context or None,
                kv_type=plan.kv_type or None,
                slots=plan.parallelism.slots,
                engine=plan.engine,
            )
        )

    def _set_estimate(self, estimate: Estimate) -> None:
        self.estimate, self.estimate_error = estimate, None

    def _store_estimate_error(self, error: ErrorBody) -> None:
        self.estimate, self.estimate_error = None, error


def key_of(plan: Plan) -> tuple[str, ...]:
    """Return what makes a plan the same one in the next answer."""
    return plan.engine, plan.backend, plan.format, plan.quantization
