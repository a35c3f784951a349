"""A model over several computers: which are chosen, how its layers would lie, loading it there, and where they lie."""

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QSizePolicy

from app.client.http import quote_segment
from app.core import words
from app.core.across import HERE, AcrossPlan, AcrossRequest, LayerShare, MachineMemory
from app.core.engines import EngineState, EngineStatus
from app.core.errors import ErrorBody
from app.core.events import EngineChanged
from app.core.machines import WakeMachine
from app.core.models import LoadModel, LoadOptions, ModelInfo
from app.core.translation import LazyText, tr
from app.gui import phrases
from app.gui.net.remote_lists import Stores
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook, Toggle
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import Surface, VBox
from app.gui.widgets.panels import ErrorPanel, Section
from app.gui.widgets.rows import ListRow, RowList
from app.gui.widgets.text import Label, Paragraph

if TYPE_CHECKING:
    from app.gui.net.api import GatewayCall

_ABOUT = LazyText(
    "A model too large for one computer can be split between several: each holds some of its layers and computes "
    "them, over a connection that only your paired computers can use. "
    "Every token waits for the network, so one computer with enough memory is usually faster."
)
_NO_LENDER = LazyText("None of these computers can hold a part of it now.")
_COMING = frozenset({EngineState.STARTING, EngineState.LOADING})


class AcrossModel(QObject):
    """One model at a time; where it lies is the gateway's to say."""

    changed = Signal()

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(shell)
        self._api, self._machines, self._running_models, self._shell = (
            stores.api,
            stores.machines,
            stores.running,
            shell,
        )
        self.model: ModelInfo | None = None
        self.context: int | None = None
        """How much it is to have; None leaves it to the gateway."""
        self.lenders: list[MachineMemory] | None = None
        """What each paired computer lends; None before they were asked."""
        self.chosen: list[str] = []
        self.plan: AcrossPlan | None = None
        self.problem: ErrorBody | None = None
        self._measure_call: GatewayCall | None = None
        self._plan_call: GatewayCall | None = None
        self._load_call: GatewayCall | None = None
        self._running_models.changed.connect(self.changed)
        self._machines.changed.connect(self.changed)

    @property
    def is_offered(self) -> bool:
        """Whether it is a model of this computer, and another is paired."""
        model = self.model
        is_own = model is not None and model.chats and not (model.attached or model.problem)
        listing = self._machines.value
        return is_own and listing is not None and bool(listing.machines)

    @property
    def is_measuring(self) -> bool:
        """Whether the computers are being asked."""
        return self._measure_call is not None

    @property
    def is_planning(self) -> bool:
        """Whether the plan is being made."""
        return self._plan_call is not None

    @property
    def is_loading(self) -> bool:
        """Whether the other computers are making room."""
        return self._load_call is not None

    @property
    def is_coming(self) -> bool:
        """Whether the engines of all computers are reading their layers."""
        status = self.status
        return status is not None and bool(status.placement) and status.state in _COMING

    @property
    def can_load(self) -> bool:
        """Whether there is a plan that fits."""
        is_free = not (self.is_loading or self.is_coming)
        return self.plan is not None and self.plan.fits and self.plan.is_started and is_free

    @property
    def status(self) -> EngineStatus | None:
        """How the model runs now; None where it does not."""
        return self._running_models.of(self.model.name) if self.model is not None else None

    def open_model(self, model: ModelInfo | None) -> None:
        """Turn to a model, or to none, and forget what was chosen; loading goes on meanwhile."""
        for call in (self._measure_call, self._plan_call):
            if call is not None:
                call.cancel()
        self._measure_call = self._plan_call = self._load_call = None
        self.model, self.lenders, self.chosen, self.plan, self.problem = model, None, [], None, None
        if self.is_offered:
            self.measure()
        self.changed.emit()

    def follow_form(self, model: ModelInfo | None, context: int | None) -> None:
        """Turn to what a form says; the computers stay chosen, and each is asked what it lends to another model."""
        before, self.model, self.context = (self.model, self.context), model, context
        if _name_of(model) != _name_of(before[0]):
            if self._measure_call is not None:
                self._measure_call.cancel()
            self._measure_call = self.lenders = self.problem = None
        if self.is_offered and self.lenders is None and self.problem is None:
            self.measure()
        if (model, context) != before:
            self._fetch_plan()

    def measure(self) -> None:
        """Ask each paired computer what it lends now, and have the way to it measured."""
        if self._measure_call is None and self.model is not None:
            path = f"/machines/memory?model={quote_segment(self.model.name)}"
            self._measure_call = self._api.get(path, list[MachineMemory], self._show_lenders, self._refuse_measuring)
        self.changed.emit()

    def choose_machine(self, name: str, *, is_chosen: bool) -> None:
        """Spread the model over a computer too, or not any more, and plan anew."""
        others = [other for other in self.chosen if other != name]
        self.chosen = [*others, name] if is_chosen else others
        self._fetch_plan()

    def load_across(self) -> None:
        """Load the model over the computers that are chosen."""
        if self.can_load:
            self._load(tuple(self.chosen))

    def load_here(self) -> None:
        """Load the model on this computer alone again."""
        self._load(())

    def stop_loading(self) -> None:
        """Let the other computers go, which are making room or reading their layers."""
        if self._load_call is not None:
            self._load_call.cancel()
            self._load_call = None
        elif self.model is not None and self.is_coming:
            self._running_models.unload(self.model.name, self.changed.emit, self._show_problem)
        self.changed.emit()

    def wake_machine(self, name: str) -> None:
        """Send a computer the packet that wakes it."""

        def finish_wake(_nothing: None) -> None:
            self._shell.show_toast(tr("The packet that wakes {name} was sent.", name=name))

        self._api.post(
            "/machines/wake", WakeMachine(name=name), kind=type(None), then=finish_wake, on_error=self._show_problem
        )

    def can_wake(self, lender: MachineMemory) -> bool:
        """Tell whether a computer is away and its network card known."""
        machines = self._machines.value.machines if self._machines.value is not None else []
        return lender.is_away and any(machine.name == lender.name and machine.mac for machine in machines)

    def _load(self, across: tuple[str, ...]) -> None:
        if self.model is None or self._load_call is not None:
            return
        self.problem = None
        options = LoadOptions(context=self.context, across=across)
        body = LoadModel(model=self.model.name, options=options, wait=False)
        self._load_call = self._api.post(
            "/load", body, kind=EngineStatus, then=self._finish_loading, on_error=self._refuse_loading
        )
        self.changed.emit()

    def _fetch_plan(self) -> None:
        if self._plan_call is not None:
            self._plan_call.cancel()
        self._plan_call = self.plan = self.problem = None
        if self.model is not None and self.is_offered and self.chosen and self._measure_call is None:
            request = AcrossRequest(model=self.model.name, across=self.chosen, context=self.context)
            self._plan_call = self._api.post(
                "/plan/across", request, kind=AcrossPlan, then=self._show_plan, on_error=self._refuse_plan
            )
        self.changed.emit()

    def _show_lenders(self, lenders: list[MachineMemory]) -> None:
        self._measure_call, self.lenders, self.problem = None, lenders, None
        able = {lender.name for lender in lenders if not lender.problem}
        self.chosen = [name for name in self.chosen if name in able]
        self._fetch_plan()

    def _show_plan(self, plan: AcrossPlan) -> None:
        self._plan_call, self.plan = None, plan
        self.changed.emit()

    def _finish_loading(self, status: EngineStatus) -> None:
        self._load_call = None
        self._running_models.take(EngineChanged(status=status))
        self.changed.emit()

    def _refuse_measuring(self, error: ErrorBody) -> None:
        self._measure_call = None
        self._show_problem(error)

    def _refuse_plan(self, error: ErrorBody) -> None:
        self._plan_call = None
        self._show_problem(error)

    def _refuse_loading(self, error: ErrorBody) -> None:
        self._load_call = None
        self._show_problem(error)

    def _show_problem(self, error: ErrorBody) -> None:
        self.problem = error
        self.changed.emit()


def _name_of(model: ModelInfo | None) -> str:
    return "" if model is None else model.name


class AcrossSection(Section):
    """Shows an `AcrossModel`; hidden where no other computer is paired."""

    def __init__(self, theme: Theme, model: AcrossModel) -> None:
        super().__init__(theme, tr("Over several computers"))
        self._theme, self._model = theme, model
        card = Surface(theme)
        card.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, card, margins=(16, 16, 16, 16), gap=12)
        self.placement = Paragraph(theme, weight=500)
        self.lenders = RowList(theme, tr("Computers"))
        self.lenders.fill = "sunken"
        self.waiting = Paragraph(theme, color="ink-2")
        self.sentence = Paragraph(theme, weight=500)
        self.shares = RowList(theme, tr("Where the layers would lie"))
        self.shares.fill = "sunken"
        self.reasons = Paragraph(theme, role="meta", color="ink-2")
        self.error = ErrorPanel(theme)
        for widget in (
            Paragraph(theme, _ABOUT.tr(), color="ink-2"),
            self.placement,
            self.lenders,
            self.waiting,
            self.sentence,
            self.shares,
            self.reasons,
            self.error,
        ):
            box.addWidget(widget)
        box.addLayout(self._make_buttons())
        self.body.addWidget(card)
        model.changed.connect(self.show_state)
        self.show_state()

    def _make_buttons(self) -> FlowLayout:
        theme, model = self._theme, self._model
        buttons = FlowLayout(theme, gap=8)
        self.load = Button(theme, tr("Load over these computers"), action=model.load_across)
        self.stop = Button(theme, tr("Cancel"), name=tr("Stop loading over these computers"), action=model.stop_loading)
        self.load_here = Button(theme, tr("Load on this computer alone"), look=ButtonLook.QUIET, action=model.load_here)
        self.again = Button(theme, tr("Ask again"), look=ButtonLook.QUIET, icon="refresh-cw", action=model.measure)
        for button in (self.load, self.stop, self.load_here, self.again):
            buttons.addWidget(button)
        return buttons

    def show_state(self) -> None:
        """Show what the model has."""
        model = self._model
        self.setVisible(model.is_offered)
        self._show_status()
        lenders = model.lenders or []
        self.lenders.sync(
            {lender.name: lender for lender in lenders},
            lambda lender: LenderRow(self._theme, model, lender.name),
            LenderRow.show_lender,
        )
        self.lenders.setVisible(bool(lenders))
        waiting_words = self._waiting_words()
        self.waiting.setText(waiting_words)
        self.waiting.setVisible(bool(waiting_words))
        self._show_plan()
        self.again.setEnabled(not model.is_measuring)
        is_busy = model.is_loading or model.is_coming
        self.load.setVisible(not is_busy)
        self.load.setEnabled(model.can_load)
        self.stop.setVisible(is_busy)

    def _show_status(self) -> None:
        status, problem = self._model.status, self._model.problem
        placement = status.placement if status is not None and status.failure is None else ""
        self.placement.setText(placement)
        self.placement.setVisible(bool(placement))
        self.load_here.setVisible(status is not None and bool(status.placement))
        if problem is not None:
            self.error.show_error(problem, tr("Ask again"), self._model.measure)
        elif status is not None and status.placement and status.failure is not None:
            failure = status.failure
            loss_error = ErrorBody(code=failure.code, sentence=failure.sentence, hint=failure.hint)
            self.error.show_error(loss_error, tr("Ask again"), self._model.measure)
        else:
            self.error.hide()

    def _waiting_words(self) -> str:
        model = self._model
        status = model.status
        if model.is_loading:
            return tr("The other computers are making room…")
        if model.is_coming and status is not None:
            return phrases.progress_words(status.stage or tr("Loading"), status.progress, None)
        if model.is_measuring:
            return tr("Asking the computers, and measuring the way to them…")
        if model.is_planning:
            return tr("Calculating…")
        if model.lenders and all(lender.problem for lender in model.lenders):
            return _NO_LENDER.tr()
        return ""

    def _show_plan(self) -> None:
        plan = self._model.plan
        self.sentence.setText(plan.sentence if plan is not None else "")
        self.sentence.set_color("ink" if plan is None or plan.fits else "bad")
        self.reasons.setText("\n".join(plan.reasons) if plan is not None else "")
        shares = {share.name: share for share in plan.shares} if plan is not None else {}
        self.shares.sync(shares, lambda _: ShareRow(self._theme), ShareRow.show_share)
        for widget in (self.sentence, self.reasons, self.shares):
            widget.setVisible(plan is not None)


class FactsRow(ListRow):
    """A row whose quiet words wrap: figures that are cut off say nothing."""

    def __init__(self, theme: Theme, name: str = "") -> None:
        super().__init__(theme, name)
        self.facts = Paragraph(theme, role="meta")
        self.words.addWidget(self.facts)

    def show_facts(self, name: str, facts: str, *, is_wrong: bool = False) -> None:
        """Show them now."""
        self.show_text(name, "")
        self.facts.setText(facts)
        self.facts.set_color("warn" if is_wrong else "ink-2")
        self.setAccessibleDescription(facts)


class LenderRow(FactsRow):
    """A paired computer: what it lends and how the way to it measured, or why it cannot; a switch that chooses it."""

    def __init__(self, theme: Theme, model: AcrossModel, name: str) -> None:
        super().__init__(theme, name)
        self._model, self._name = model, name
        self.wake = Button(theme, tr("Wake"), look=ButtonLook.QUIET, icon="power", name=tr("Wake {name}", name=name))
        self.wake.set_action(lambda: model.wake_machine(name))
        self.toggle = Toggle(theme, tr("Layers on {name}", name=name))
        self.toggle.clicked.connect(lambda: model.choose_machine(name, is_chosen=self.toggle.isChecked()))
        self.tail.addWidget(self.wake)
        self.tail.addWidget(self.toggle)

    def show_lender(self, lender: MachineMemory) -> None:
        """Show what it said."""
        problem = f"{lender.problem} {phrases.drop_commands(lender.hint)}".strip()
        self.show_facts(lender.name, problem if lender.problem else describe_lender(lender), is_wrong=bool(problem))
        self.wake.setVisible(self._model.can_wake(lender))
        self.toggle.setEnabled(not lender.problem)
        self.toggle.setChecked(self._name in self._model.chosen)


class ShareRow(FactsRow):
    """The layers of one computer: which, what they take, and what each token takes there."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(theme)
        self._time = Label(theme, role="meta", color="ink-2")
        self.tail.addWidget(self._time)

    def show_share(self, share: LayerShare) -> None:
        """Show it now."""
        self.show_facts(describe_layers(share), describe_share(share))
        self._time.setText("" if share.token_ms is None else tr("{time:.1f} ms a token", time=share.token_ms))
        self._time.setToolTip(share.arithmetic)


def describe_lender(lender: MachineMemory) -> str:
    """Say what a computer lends, and how the way to it measured."""
    facts = [tr("{size} free", size=words.format_bytes(lender.free_bytes))]
    if lender.bandwidth_gb_s:
        facts.append(tr("memory {rate:.0f} GB/s", rate=lender.bandwidth_gb_s))
    if lender.latency_ms is not None and lender.link_mb_s is not None:
        facts.append(describe_link(lender.latency_ms, lender.link_mb_s))
    return " · ".join(facts)


def describe_link(latency_ms: float, link_mb_s: float) -> str:
    """Say how the way to a computer measured."""
    return tr("{time:.2f} ms there and back, {rate:.0f} MB/s", time=latency_ms, rate=link_mb_s)


def describe_layers(share: LayerShare) -> str:
    """Say which layers a computer would hold; they are counted from 1."""
    name = tr("This computer") if share.name == HERE else share.name
    first, last = share.first_layer + 1, share.first_layer + share.layers
    return tr("{name}: layers {first} to {last}", name=name, first=first, last=last)


def describe_share(share: LayerShare) -> str:
    """Say what the layers of a computer take, of what it has free."""
    needed_words, free = words.format_bytes(share.needed_bytes), words.format_bytes(share.free_bytes)
    facts = [tr("{needed} of {free} free", needed=needed_words, free=free)]
    if share.latency_ms is not None and share.link_mb_s is not None:
        facts.append(describe_link(share.latency_ms, share.link_mb_s))
    return " · ".join(facts)
