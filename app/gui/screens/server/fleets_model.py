"""State of the fleets: how each replica stands, what can be done with it now, and a fleet that is to be started."""

from pathlib import Path

import tomlkit
from PySide6.QtCore import QObject, Signal

from app.client.http import quote_segment
from app.core.engines import EngineState
from app.core.errors import ErrorBody
from app.core.events import Event, FleetsChanged
from app.core.fleets import EXAMPLE_FILE, AddReplica, Fleet, FleetReplica, ReplicaState, RollFleet, StartFleet
from app.core.models import ModelInfo
from app.core.translation import LazyText, tr, tr_plural
from app.gui.net.api import GatewayApi
from app.gui.net.remote import RemoteList
from app.gui.net.remote_lists import Stores
from app.gui.shell.contract import Command, Shell

STATES = {
    ReplicaState.READY: LazyText("Ready"),
    ReplicaState.STARTING: LazyText("Starting"),
    ReplicaState.DRAINING: LazyText("Finishing its answers"),
    ReplicaState.DRAINED: LazyText("Drained"),
    ReplicaState.FAILED: LazyText("Not answering"),
    ReplicaState.STOPPED: LazyText("Stopped"),
}
_RESTING = frozenset({ReplicaState.DRAINING, ReplicaState.DRAINED})
_LARGEST_FILE = 64 << 10
"""Bytes of a fleet file that is opened: any that a person wrote is far smaller."""


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
    started = Signal()
    """What was written is served now, or will be once its engines are loaded."""

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(shell)
        self._api, self._library, self._running_models, self._shell = stores.api, stores.library, stores.running, shell
        self.store = FleetStore(stores.api, shell)
        self.is_starting = False
        """Whether a fleet file was sent and is not answered yet."""
        self.problem: ErrorBody | None = None
        """What is wrong with the fleet that is to be started."""
        self.store.changed.connect(self.changed)
        self._library.changed.connect(self.changed)

    @property
    def items(self) -> list[Fleet]:
        """Every fleet, by name."""
        return self.store.items

    @property
    def weights(self) -> list[str]:
        """The models of this computer that engines of a fleet can be started with."""
        return [model.name for model in self._library.items if model.chats and not (model.attached or model.problem)]

    @property
    def example(self) -> str:
        """A fleet file to begin with: two engines of the model that runs, or of the first there is."""
        ready_models = [status.model for status in self._running_models.active() if status.state is EngineState.READY]
        names = self.weights
        serves = next((name for name in ready_models if name in names), next(iter(names), ""))
        return EXAMPLE_FILE.format(serves=tomlkit.item(serves).as_string())

    def start_fleet(self, text: str, key: str) -> None:
        """Serve what a fleet file says; `key` is what its replicas elsewhere ask for."""
        self.is_starting, self.problem = True, None
        request = StartFleet(text=text, key=key)
        self._api.post("/fleets", request, kind=ModelInfo, then=self._finish_start, on_error=self._refuse_start)
        self.changed.emit()

    def read_file(self, path: Path) -> str:
        """Return the text of a fleet file; empty for one that cannot be read, and then `problem` says why."""
        self.problem = None
        try:
            if path.stat().st_size > _LARGEST_FILE:
                raise ValueError(tr("it is larger than 64 KiB"))  # noqa: TRY301 -- said as every other cause is
            return path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            sentence = tr("{file} cannot be read: {reason}.", file=path.name, reason=reason)
            self.problem = ErrorBody(code="unreadable_file", sentence=sentence)
            return ""
        finally:
            self.changed.emit()

    def forget_problem(self) -> None:
        """Say no longer what was wrong with a fleet that is not started after all."""
        self.problem = None
        self.changed.emit()

    def _finish_start(self, _model: ModelInfo) -> None:
        self.is_starting = False
        self.store.read()
        self.started.emit()
        self.changed.emit()

    def _refuse_start(self, error: ErrorBody) -> None:
        self.is_starting, self.problem = False, error
        self.changed.emit()

    def switch_fleet(self, fleet: Fleet) -> None:
        """Stop a fleet once its answers are done, or start it again."""
        self._post(fleet, "start" if fleet.is_stopped else "stop")

    def roll_fleet(self, fleet: Fleet, serves: str = "") -> None:
        """Have its engines started anew, one after the other, with the weights of `serves` if they are others."""
        self._post(fleet, "roll", RollFleet(serves="" if serves == weights_of(fleet) else serves))

    def add_engine(self, fleet: Fleet) -> None:
        """Have another engine on this computer answer too."""
        self._post(fleet, "replicas", AddReplica())

    def remove_replica(self, fleet: Fleet, replica: FleetReplica) -> None:
        """Take a replica out for good, once that is confirmed."""

        def send_removal() -> None:
            self._api.send_request(
                "DELETE",
                f"/fleets/{quote_segment(fleet.model)}/replicas/{quote_segment(replica.name)}",
                None,
                kind=Fleet,
                then=lambda _fleet: self.store.read(),
                on_error=self._show_error,
            )

        sentence = tr("It gets no new requests, and leaves the fleet once its answers are done.")
        title = tr("Remove replica {name} of {fleet}?", name=replica.name, fleet=fleet.model)
        self._shell.confirm(title, sentence, Command(tr("Remove"), send_removal, icon="trash-2"))

    def switch_replica(self, fleet: Fleet, replica: FleetReplica) -> None:
        """Give a replica no new requests, or some again."""
        what = "resume" if is_resting(replica) else "drain"
        self._post(fleet, f"replicas/{quote_segment(replica.name)}/{what}")

    def _post(self, fleet: Fleet, what: str, body: RollFleet | AddReplica | None = None) -> None:
        path = f"/fleets/{quote_segment(fleet.model)}/{what}"
        self._api.post(path, body, kind=Fleet, then=lambda _fleet: self.store.read(), on_error=self._show_error)

    def _show_error(self, error: ErrorBody) -> None:
        self.failed.emit(error)


def is_resting(replica: FleetReplica) -> bool:
    """Tell whether a replica gets no new requests because a person wanted that."""
    return replica.state in _RESTING


def weights_of(fleet: Fleet) -> str:
    """Return the model whose weights its engines on this computer have; empty where it has none here."""
    return next((replica.weights for replica in fleet.replicas if replica.is_local), "")


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
        return tr("Stopped. Its engines use no memory once their answers are done.")
    ready = sum(replica.state is ReplicaState.READY for replica in fleet.replicas)
    return tr(
        "{ready} of {all} replicas answer, behind {router}", ready=ready, all=len(fleet.replicas), router=fleet.router
    )


def replica_facts(replica: FleetReplica) -> str:
    """Return what is told of a replica in one quiet line."""
    where = replica.weights if replica.is_local else tr("elsewhere")
    state = replica.problem or STATES[replica.state].tr()
    load = "" if not replica.load else tr_plural("{count} request", "{count} requests", replica.load)
    return " · ".join(part for part in (state, load, replica.engine, where, replica.url) if part)
