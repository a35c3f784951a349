"""Models that several replicas serve: each fleet with its replicas, and what can be done with them."""

from PySide6.QtWidgets import QSizePolicy

from app.core.fleets import Fleet, FleetReplica, ReplicaState
from app.core.translation import tr
from app.gui.screens.server.fleet_form import FleetForm
from app.gui.screens.server.fleets_model import (
    FleetsModel,
    can_roll,
    fleet_facts,
    is_resting,
    replica_facts,
    weights_of,
)
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook, IconButton
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import Surface, VBox
from app.gui.widgets.menus import DropDown
from app.gui.widgets.panels import Section
from app.gui.widgets.rows import ListRow, RowList
from app.gui.widgets.status import Dot
from app.gui.widgets.text import Label

_WIDEST = 260
"""Of the names of models in the list of weights."""
_COLORS = {ReplicaState.READY: "ok", ReplicaState.FAILED: "bad", ReplicaState.STARTING: "warn"}


class FleetRow(ListRow):
    """One fleet: how many of its replicas answer, and the whole of it stopped or started."""

    def __init__(self, theme: Theme, model: FleetsModel, fleet: Fleet) -> None:
        super().__init__(theme)
        self._fleet = fleet
        self.switch = Button(theme, tr("Stop"), look=ButtonLook.QUIET, action=lambda: model.switch_fleet(self._fleet))
        self.tail.addWidget(self.switch)

    def show_fleet(self, fleet: Fleet) -> None:
        """Show how it stands."""
        self._fleet = fleet
        self.show_text(fleet.model, fleet_facts(fleet))
        self.switch.set_text(tr("Start") if fleet.is_stopped else tr("Stop"))
        name = fleet.model
        words = tr("Start the fleet {name}", name=name) if fleet.is_stopped else tr("Stop the fleet {name}", name=name)
        self.switch.setAccessibleName(words)


class ReplicaRow(ListRow):
    """One replica."""

    def __init__(self, theme: Theme, model: FleetsModel, fleet: Fleet, replica: FleetReplica) -> None:
        super().__init__(theme, wraps=True)
        self._fleet, self._replica = fleet, replica
        self._dot = Dot(theme)
        self.lead.addWidget(self._dot)
        self.switch = Button(
            theme,
            tr("Drain"),
            look=ButtonLook.QUIET,
            action=lambda: model.switch_replica(self._fleet, self._replica),
        )
        self.switch.setToolTip(tr("Finish the answers it is writing, and give it no new requests"))
        self.remove = IconButton(
            theme,
            "trash-2",
            tr("Remove replica {name} of {fleet}", name=replica.name, fleet=fleet.model),
            action=lambda: model.remove_replica(self._fleet, self._replica),
        )
        self.tail.addWidget(self.switch)
        self.tail.addWidget(self.remove)

    def show_replica(self, fleet: Fleet, replica: FleetReplica) -> None:
        """Show how it stands."""
        self._fleet, self._replica = fleet, replica
        facts = replica_facts(replica)
        self.show_text(tr("Replica {name}", name=replica.name), facts)
        self._dot.show_state(_COLORS.get(replica.state, "edge"), facts)
        self.switch.setVisible(not fleet.is_stopped)
        is_out = is_resting(replica)
        self.switch.set_text(tr("Resume") if is_out else tr("Drain"))
        self.switch.setAccessibleName(_switch_words(fleet, replica, is_out=is_out))


def _switch_words(fleet: Fleet, replica: FleetReplica, *, is_out: bool) -> str:
    if is_out:
        return tr("Resume replica {name} of {fleet}", name=replica.name, fleet=fleet.model)
    return tr("Drain replica {name} of {fleet}", name=replica.name, fleet=fleet.model)


class EngineChanges(FlowLayout):
    """What is done with all engines of a fleet on this computer: started anew, with other weights too, and one more."""

    def __init__(self, theme: Theme, model: FleetsModel, fleet: Fleet) -> None:
        super().__init__(theme, gap=8, is_centred=True)
        self._model, self._fleet = model, fleet
        name = fleet.model
        self.label = Label(theme, tr("Weights"), role="meta", color="ink-2")
        self.weights = DropDown(theme, tr("Weights of the engines of {name}", name=name), [], widest=_WIDEST)
        self.weights.chosen.connect(lambda _value: self._show_words())
        self.roll = Button(theme, "", look=ButtonLook.QUIET, action=self._roll_fleet)
        self.add = Button(
            theme,
            tr("Add an engine"),
            look=ButtonLook.QUIET,
            icon="plus",
            name=tr("Add an engine to {name}", name=name),
            action=lambda: model.add_engine(self._fleet),
        )
        for widget in (self.label, self.weights, self.roll, self.add):
            self.addWidget(widget)
        self.weights.set_value(weights_of(fleet))

    def show_fleet(self, fleet: Fleet) -> None:
        """Show what can be done now; weights that were chosen and not used yet stay chosen."""
        before, now = weights_of(self._fleet), weights_of(fleet)
        self._fleet = fleet
        if before != now:
            self.weights.set_value(now)
        self.weights.set_options([(name, name) for name in dict.fromkeys(filter(None, (now, *self._model.weights)))])
        for widget in (self.label, self.weights, self.roll):
            widget.setVisible(can_roll(fleet))
        self.add.setVisible(not fleet.is_stopped)
        self._show_words()

    def _roll_fleet(self) -> None:
        self._model.roll_fleet(self._fleet, self.weights.value)

    def _show_words(self) -> None:
        name, weights = self._fleet.model, self.weights.value
        is_same = weights == weights_of(self._fleet)
        self.roll.set_text(tr("Restart one by one") if is_same else tr("Change one by one"))
        self.roll.setAccessibleName(
            tr("Restart the engines of {name} one by one", name=name)
            if is_same
            else tr("Give the engines of {name} the weights of {weights}, one by one", name=name, weights=weights)
        )


class FleetCard(Surface):
    """One fleet with its replicas."""

    def __init__(self, theme: Theme, model: FleetsModel, fleet: Fleet) -> None:
        super().__init__(theme)
        self._theme, self._model = theme, model
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, margins=(0, 4, 0, 4))
        self.head = FleetRow(theme, model, fleet)
        self.replicas = RowList(theme, tr("Replicas of {name}", name=fleet.model))
        self.replicas.fill = self.replicas.outline = ""
        self.changes = EngineChanges(theme, model, fleet)
        box.addWidget(self.head)
        box.addWidget(self.replicas)
        foot = VBox(theme, margins=(16, 4, 16, 8))
        foot.addLayout(self.changes)
        box.addLayout(foot)

    def show_fleet(self, fleet: Fleet) -> None:
        """Show how it stands."""
        self.head.show_fleet(fleet)
        self.changes.show_fleet(fleet)
        self.replicas.sync(
            {replica.name: replica for replica in fleet.replicas},
            lambda replica: ReplicaRow(self._theme, self._model, fleet, replica),
            lambda row, replica: row.show_replica(fleet, replica),
        )


class FleetsSection(Section):
    """Shows a `FleetsModel`."""

    def __init__(self, theme: Theme, model: FleetsModel) -> None:
        super().__init__(theme, tr("Fleets"))
        self._theme, self.model = theme, model
        self._cards: dict[str, FleetCard] = {}
        self.form = FleetForm(theme, model)
        self.start = Button(theme, tr("Start a fleet…"), look=ButtonLook.QUIET, icon="plus", action=self._open_form)
        self.head.addWidget(self.start)
        self._none = Surface(theme)
        self._none.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        about = tr("For many people at once: one model on several engines, behind a router.")
        row = ListRow(theme, tr("No fleet"), about)
        VBox(theme, self._none, margins=(0, 4, 0, 4)).addWidget(row)
        self.body.addWidget(self.form)
        self.body.addWidget(self._none)
        model.changed.connect(self._show_fleets)
        self._show_fleets()

    def _show_fleets(self) -> None:
        fleets = {fleet.model: fleet for fleet in self.model.items}
        for name in self._cards.keys() - fleets.keys():
            self._cards.pop(name).deleteLater()
        for name, fleet in fleets.items():
            if name not in self._cards:
                self._cards[name] = FleetCard(self._theme, self.model, fleet)
                self.body.addWidget(self._cards[name])
            self._cards[name].show_fleet(fleet)
        self._none.setVisible(not fleets and self.form.isHidden())

    def _open_form(self) -> None:
        self.form.open()
        self._show_fleets()
