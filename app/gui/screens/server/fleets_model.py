"""State of the fleets: how each replica stands, and what can be done with it now."""

from PySide6.QtCore import QObject, Signal

from app.client.http import quote_segment
from app.core.errors import ErrorBody
from app.core.events import Event, FleetsChanged
from app.core.fleets import Fleet, FleetReplica, ReplicaState, RollFleet
from app.core.translation import LazyText, tr
from app.gui.net.api import GatewayApi
from app.gui.net.remote import RemoteList
from app.gui.net.remote_lists import Stores
from app.gui.shell.contract import Shell

STATES = {
    ReplicaState.READY: LazyText("Ready"),
    ReplicaState.STARTING: LazyText("Starting"),
    ReplicaState.DRAINING: LazyText("Finishing its answers"),
    ReplicaState.DRAINED: LazyText("Drained"),
    ReplicaState.FAILED: LazyText("Not answering"),
    ReplicaState.STOPPED: LazyText("Stopped"),
}
_RESTING = frozenset({ReplicaState.DRAINING, ReplicaState.DRAINED})


class FleetStore(RemoteList[Fleet]):
    """The fleets."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, "/fleets", list[Fleet])

    def is_outdated_by(self, event: Event) -> bool:
        """Tell whether a fleet or a replica is not what it was."""
        return isinstance(event, FleetsChanged)


class FleetsModel(QObject):
    """Fleets and what is done with them."""

    changed = Signal()
    failed = Signal(object)

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(shell)
        self._api = stores.api
        self.store = FleetStore(stores.api, shell)
        self.store.changed.connect(self.changed)

    @property
    def items(self) -> list[Fleet]:
        """Every fleet, by name."""
        return self.store.items

    def switch_fleet(self, fleet: Fleet) -> None:
        """Stop a fleet once its answers are done, or start it again."""
        self._post(fleet, "start" if fleet.is_stopped else "stop")

    def roll_fleet(self, fleet: Fleet) -> None:
        """Have its engines started anew, one after the other."""
        self._post(fleet, "roll", RollFleet())

    def switch_replica(self, fleet: Fleet, replica: FleetReplica) -> None:
        """Give a replica no new requests, or some again."""
        what = "resume" if is_resting(replica) else "drain"
        self._post(fleet, f"replicas/{quote_segment(replica.name)}/{what}")

    def _post(self, fleet: Fleet, what: str, body: RollFleet | None = None) -> None:
        path = f"/fleets/{quote_segment(fleet.model)}/{what}"
        self._api.post(path, body, kind=Fleet, then=lambda _fleet: self.store.read(), on_error=self._show_error)

    def _show_error(self, error: ErrorBody) -> None:
        self.failed.emit(error)


def is_resting(replica: FleetReplica) -> bool:
    """Tell whether a replica gets no new requests because a person wanted that."""
    return replica.state in _RESTING


def can_roll(fleet: Fleet) -> bool:
    """Tell whether the engines of a fleet can be started anew one after the other."""
    active = [replica for replica in fleet.replicas if not is_resting(replica)]
    is_free = not fleet.is_stopped and not fleet.rolling
    return is_free and len(active) > 1 and any(replica.is_local for replica in active)


def fleet_facts(fleet: Fleet) -> str:
    """Return what is told of a fleet in one quiet line."""
    if fleet.rolling:
        return fleet.rolling
    if fleet.is_stopped:
        return tr("Stopped; its engines use no memory.")
    ready = sum(replica.state is ReplicaState.READY for replica in fleet.replicas)
    return tr(
        "{ready} of {all} replicas answer, behind {router}", ready=ready, all=len(fleet.replicas), router=fleet.router
    )


def replica_facts(replica: FleetReplica) -> str:
    """Return what is told of a replica in one quiet line."""
    where = replica.weights if replica.is_local else tr("elsewhere")
    state = replica.problem or STATES[replica.state].tr()
    return " · ".join(part for part in (replica.engine, where, replica.url, state) if part)
