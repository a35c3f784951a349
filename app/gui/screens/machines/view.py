"""The page of other computers: the switch, the code of this one, the form for another's, and a card for each."""

from collections.abc import Callable
from functools import partial

from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.machines import MachineStanding, ModelLoad, NearbyMachine
from app.core.translation import LazyText, tr
from app.gui.net.remote_lists import Stores
from app.gui.screens.machines.model import (
    ENABLED,
    SHARES,
    MachinesModel,
    describe_load,
    describe_loan,
    describe_own,
    describe_place,
    describe_rights,
    describe_state,
)
from app.gui.shell.contract import PageId as Pages
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook, Toggle
from app.gui.widgets.fields import Field
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import HBox, Surface, VBox
from app.gui.widgets.panels import EmptyState, ErrorPanel, PageFrame
from app.gui.widgets.rows import CardList, ControlRow, ListRow, RowList, SwitchCard
from app.gui.widgets.status import Dot, Skeleton
from app.gui.widgets.text import Label, Paragraph

_ABOUT = LazyText(
    "Paired computers list each other's models and can use them. They connect over TLS, and each accepts only the "
    "other's certificate: there is no account, and no server in between."
)
_ON = LazyText("Paired computers can use this one's models, and theirs are in your list. Nobody else can connect.")
_OFF = LazyText("No other computer can connect, and none is contacted. Both computers need this switched on.")
_SHARES = LazyText("A paired computer that downloads a model which is here fetches its files from this one.")
_KEEPS = LazyText("Paired computers download their models from the hub, also those that are here.")
_HOST_EXAMPLE = "desk.local"
_CODE_EXAMPLE = "1234-5678"
_CODE_WIDTH = 140
_FIELD_WIDTH = 320
_DOTS = {True: "ok", False: "bad", None: "edge"}


class MachinesScreen(PageFrame):
    """Shows a `MachinesModel`."""

    def __init__(self, theme: Theme, stores: Stores, shell: Shell) -> None:
        super().__init__(theme, tr("Other computers"))
        self.model = MachinesModel(stores, shell)
        back = partial(shell.show_page, Pages.SETTINGS)
        self.head.addWidget(Button(theme, tr("Settings"), look=ButtonLook.QUIET, icon="chevron-left", action=back))
        self.enabled = SwitchCard(theme, tr("Use models of your other computers"), action=self.model.set_enabled)
        self.sharing = SwitchCard(theme, tr("Give model files to them"), action=self.model.set_sharing)
        self.error, self._skeleton = ErrorPanel(theme), Skeleton(theme, 3, is_card=True)
        self._own = Paragraph(theme, role="meta", color="ink-2")
        self._problem = Paragraph(theme, role="meta", color="bad")
        self.code, self.form = CodeCard(theme, self.model), PairForm(theme, self.model)
        self._nothing = EmptyState(
            theme,
            "monitor",
            tr("No computer is paired yet"),
            tr("Show a code on one computer, then enter it on the other with the first one's name or address."),
        )
        self._nearby_title = Label(theme, tr("On this network"), weight=500)
        self.nearby = RowList(theme, tr("Computers on this network"))
        self._paired_title = Label(theme, tr("Paired"), weight=500)
        self._list = CardList(theme)
        self.body.addWidget(Paragraph(theme, _ABOUT.tr(), color="ink-2"))
        for widget in (
            self.enabled,
            self.sharing,
            self.error,
            self._own,
            self._problem,
            self.code,
            self.form,
            self._nearby_title,
            self.nearby,
            self._skeleton,
            self._nothing,
            self._paired_title,
            self._list,
        ):
            self.body.addWidget(widget)
        self.body.addStretch(1)
        self.model.changed.connect(self._show_machines)
        self._show_machines()

    def find_card(self, name: str) -> "MachineEntryCard":
        """Return the card of a computer. Raises KeyError."""
        card = self._list.rows[name]
        assert isinstance(card, MachineEntryCard)  # noqa: S101 -- made by this class
        return card

    def _show_machines(self) -> None:
        model, state = self.model, self.model.state
        is_on = model.is_on
        consequence = _ON.tr() if is_on else _OFF.tr()
        why_fixed = model.why_fixed(ENABLED)
        self.enabled.show_switch(is_on=is_on, consequence=consequence, why_fixed=why_fixed)
        self.enabled.switch.setEnabled(model.preferences.is_known and not why_fixed)
        self._show_sharing(is_on=is_on)
        self._skeleton.setVisible(not model.store.is_known and model.store.error is None)
        self._nothing.setVisible(model.store.is_known and is_on and not state.machines)
        self.error.show_problem(model.problem)
        for paragraph, text in ((self._own, describe_own(state)), (self._problem, state.problem)):
            paragraph.setText(text)
            paragraph.setVisible(is_on and bool(text))
        self.code.setVisible(is_on)
        self.form.setVisible(is_on)
        nearby = state.nearby if is_on else []
        self._nearby_title.setVisible(bool(nearby))
        self.nearby.setVisible(bool(nearby))
        self.nearby.sync(
            {f"{machine.fingerprint} {machine.host}": machine for machine in nearby},
            lambda machine: NearbyRow(self.theme, machine, self.form.fill_host),
            NearbyRow.show_machine,
        )
        self._paired_title.setVisible(is_on and bool(state.machines))
        self._list.sync(
            {machine.name: machine for machine in state.machines if is_on},
            lambda machine: MachineEntryCard(self.theme, model, machine.name),
            MachineEntryCard.show_machine,
        )

    def _show_sharing(self, *, is_on: bool) -> None:
        shares, why_fixed = self.model.shares_files, self.model.why_fixed(SHARES)
        self.sharing.setVisible(is_on)
        consequence = _SHARES.tr() if shares else _KEEPS.tr()
        self.sharing.show_switch(is_on=shares, consequence=consequence, why_fixed=why_fixed)
        self.sharing.switch.setEnabled(not why_fixed)


class CodeCard(Surface):
    """Shows a code by which one other computer may be paired with this one, and for how long it counts."""

    def __init__(self, theme: Theme, model: MachinesModel) -> None:
        super().__init__(theme)
        self._model = model
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, margins=(16, 12, 16, 12), gap=8)
        box.addWidget(Label(theme, tr("Let another computer pair"), weight=500))
        self._help = Paragraph(theme, role="meta", color="ink-2")
        self.digits = Label(theme, "", role="hero")
        self.digits.setAccessibleName(tr("Code of this computer"))
        buttons = QWidget()
        flow = FlowLayout(theme, buttons, gap=8)
        self.show_button = Button(theme, tr("Show a code"), action=model.show_code)
        self.hide_button = Button(theme, tr("Hide the code"), look=ButtonLook.QUIET, action=model.hide_code)
        flow.addWidget(self.show_button)
        flow.addWidget(self.hide_button)
        for widget in (self.digits, self._help, buttons):
            box.addWidget(widget)
        model.changed.connect(self._show_code)
        self._show_code()

    def _show_code(self) -> None:
        code, seconds = self._model.code, self._model.seconds_left
        self.digits.setText(code)
        self.digits.setVisible(bool(code))
        self.hide_button.setVisible(bool(code))
        self.show_button.set_text(tr("Show another code") if code else tr("Show a code"))
        minutes = f"{seconds // 60}:{seconds % 60:02}"
        self._help.setText(
            tr("Enter it on the other computer. It works once, for the next {minutes}.", minutes=minutes)
            if code
            else tr("Enter the code on the other computer, with this computer's name or address.")
        )


class PairForm(Surface):
    """Takes the address of another computer, and the code that it shows."""

    def __init__(self, theme: Theme, model: MachinesModel) -> None:
        super().__init__(theme)
        self._model = model
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, margins=(16, 12, 16, 12), gap=8)
        box.addWidget(Label(theme, tr("Pair with a computer that shows a code"), weight=500))
        line = HBox(theme, gap=8)
        self.host = Field(theme, tr("Name or address of the other computer"), placeholder=_HOST_EXAMPLE)
        self.host.setMaximumWidth(theme.px(_FIELD_WIDTH))
        self.code = Field(theme, tr("Code on the other screen"), placeholder=_CODE_EXAMPLE)
        self.code.setFixedWidth(theme.px(_CODE_WIDTH))
        self.pair = Button(theme, tr("Pair"), name=tr("Pair with the other computer"), action=self._submit)
        for field in (self.host, self.code):
            field.returnPressed.connect(self._submit)
            field.textChanged.connect(self._show_button)
        line.addWidget(self.host, 1)
        line.addWidget(self.code)
        line.addWidget(self.pair)
        line.addStretch(1)
        box.addLayout(line)
        model.added.connect(self._clear)
        model.changed.connect(self._show_button)
        self._show_button()

    def fill_host(self, machine: NearbyMachine) -> None:
        """Take the address of a computer that announced itself; its code is typed next."""
        self.host.setText(f"{machine.host}:{machine.port}")
        self.code.setFocus()

    def _submit(self) -> None:
        if self.pair.isEnabled():
            self._model.pair_machine(self.host.text().strip(), self.code.text().strip())

    def _show_button(self) -> None:
        is_filled = bool(self.host.text().strip() and self.code.text().strip())
        self.pair.set_text(tr("Pairing…") if self._model.is_pairing else tr("Pair"))
        self.pair.setEnabled(is_filled and not self._model.is_pairing)

    def _clear(self) -> None:
        self.host.clear()
        self.code.clear()


class NearbyRow(ListRow):
    """A computer that announces itself: what it says of itself, and a way to pair with it."""

    def __init__(self, theme: Theme, machine: NearbyMachine, choose: Callable[[NearbyMachine], object]) -> None:
        super().__init__(theme, machine.name)
        self._machine = machine
        name = tr("Pair with {name}", name=machine.name)
        self.choose = Button(theme, tr("Pair…"), look=ButtonLook.QUIET, name=name)
        self.choose.set_action(lambda: choose(self._machine))
        self.tail.addWidget(self.choose)

    def show_machine(self, machine: NearbyMachine) -> None:
        """Show what it says now."""
        self._machine = machine
        self.show_text(machine.name, describe_place(machine))


class MachineEntryCard(Surface):
    """One computer: whether it answers, its models, waking and revoking it."""

    def __init__(self, theme: Theme, model: MachinesModel, name: str) -> None:
        super().__init__(theme)
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, margins=(0, 4, 0, 12), gap=4)
        self.row = ListRow(theme, name)
        self._dot = Dot(theme)
        self.row.lead.addWidget(self._dot)
        self.wake = Button(
            theme,
            tr("Wake"),
            look=ButtonLook.QUIET,
            icon="power",
            name=tr("Wake {name}", name=name),
            action=partial(model.wake_machine, name),
        )
        self.revoke = Button(
            theme,
            tr("Revoke"),
            look=ButtonLook.QUIET,
            name=tr("Revoke {name}", name=name),
            action=partial(model.revoke_machine, name),
        )
        self.row.tail.addWidget(self.wake)
        self.row.tail.addWidget(self.revoke)
        box.addWidget(self.row)
        inner = VBox(theme, margins=(16, 0, 16, 0), gap=8)
        box.addLayout(inner)
        self._place = Paragraph(theme, role="meta", color="ink-2")
        self._problem = Paragraph(theme, role="meta", color="bad")
        self.models = RowList(theme, tr("Models of {name}", name=name))
        self._rights = Paragraph(theme, role="meta", color="ink-2")
        for widget in (self._place, self._rights, self._problem, self.models):
            inner.addWidget(widget)
        title = tr("Lend memory to {name}", name=name)
        self._loan = ControlRow(theme, title, "")
        self.lends = Toggle(theme, title)
        self.lends.clicked.connect(lambda: model.lend_memory(name, lends=self.lends.isChecked()))
        self._loan.tools.addWidget(self.lends)
        self._loan.add_problem_line()
        box.addWidget(self._loan)

    def show_machine(self, machine: MachineStanding) -> None:
        """Show what is so now."""
        state = describe_state(machine)
        self.row.show_text(machine.name, state)
        self._dot.show_state(_DOTS[machine.is_reachable], state)
        self.wake.setVisible(bool(machine.mac) and machine.is_reachable is not True)
        self._place.setText(describe_place(machine))
        self._problem.setText(machine.problem)
        self._problem.setVisible(bool(machine.problem))
        rights = describe_rights(machine)
        self._rights.setText(rights)
        self._rights.setVisible(bool(rights))
        self.lends.setChecked(machine.lends_memory)
        self._loan.help.setText(describe_loan(machine))
        self.models.sync({load.name: load for load in machine.models}, self._make_row, self._show_load)
        self.models.setVisible(bool(machine.models))

    def _make_row(self, load: ModelLoad) -> ListRow:
        return ListRow(self.theme, load.name)

    @staticmethod
    def _show_load(row: ListRow, load: ModelLoad) -> None:
        row.show_text(load.name, describe_load(load))
