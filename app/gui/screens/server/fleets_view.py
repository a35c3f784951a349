"""Models that several replicas serve: each fleet with its replicas, and what can be done with them."""

from PySide6.QtWidgets import QSizePolicy

from app.core.fleets import Fleet, FleetReplica, ReplicaState
from app.core.translation import tr
from app.gui.screens.server.fleets_model import FleetsModel, can_roll, fleet_facts, is_resting, replica_facts
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook
from app.gui.widgets.layout import Surface, VBox
from app.gui.widgets.panels import Section
from app.gui.widgets.rows import ListRow, RowList
from app.gui.widgets.status import Dot

_COLORS = {ReplicaState.READY: "ok", ReplicaState.FAILED: "bad", ReplicaState.STARTING: "warn"}


class FleetRow(ListRow):
    """One fleet: how many of its replicas answer, and the whole of it stopped, started, or started anew."""

    def __init__(self, theme: Theme, model: FleetsModel, fleet: Fleet) -> None:
        super().__init__(theme)
        self._fleet = fleet
        self.roll = Button(
            theme,
            tr("Restart one by one"),
            look=ButtonLook.QUIET,
            name=tr("Restart the engines of {name} one by one", name=fleet.model),
            action=lambda: model.roll_fleet(self._fleet),
        )
        self.switch = Button(theme, tr("Stop"), look=ButtonLook.QUIET, action=lambda: model.switch_fleet(self._fleet))
        self.tail.addWidget(self.roll)
        self.tail.addWidget(self.switch)

    def show_fleet(self, fleet: Fleet) -> None:
        """Show how it stands."""
        self._fleet = fleet
        self.show_text(fleet.model, fleet_facts(fleet))
        self.roll.setVisible(can_roll(fleet))
        self.switch.set_text(tr("Start") if fleet.is_stopped else tr("Stop"))
        name = fleet.model
        words = tr("Start the fleet {name}", name=name) if fleet.is_stopped else tr("Stop the fleet {name}", name=name)
        self.switch.setAccessibleName(words)


class ReplicaRow(ListRow):
    """One replica."""

    def __init__(self, theme: Theme, model: FleetsModel, fleet: Fleet, replica: FleetReplica) -> None:
        super().__init__(theme)
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
        self.tail.addWidget(self.switch)

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
        box.addWidget(self.head)
        box.addWidget(self.replicas)

    def show_fleet(self, fleet: Fleet) -> None:
        """Show how it stands."""
        self.head.show_fleet(fleet)
        self.replicas.sync(
            {replica.name: replica for replica in fleet.replicas},
            lambda replica: ReplicaRow(self._theme, self._model, fleet, replica),
            lambda row, replica: row.show_replica(fleet, replica),
        )


class FleetsSection(Section):
    """Shows a `FleetsModel`; hidden while there is no fleet."""

    def __init__(self, theme: Theme, model: FleetsModel) -> None:
        super().__init__(theme, tr("Fleets"))
        self._theme, self.model = theme, model
        self._cards: dict[str, FleetCard] = {}
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
        self.setVisible(bool(fleets))
