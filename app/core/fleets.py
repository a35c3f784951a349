"""Fleets: one model that several replicas serve alike, behind a router: what is asked of them and how they stand."""

from enum import StrEnum
from typing import Annotated

import msgspec

from app.core.models import MAX_SLOTS

_Name = Annotated[str, msgspec.Meta(max_length=256)]


EXAMPLE_FILE = """model = "team"
serves = {serves}
replicas = 2
"""
"""A fleet file to begin with; `serves` is the name of a model that is here, as a string of TOML."""


class ReplicaState(StrEnum):
    """How one replica stands."""

    READY = "ready"
    STARTING = "starting"
    DRAINING = "draining"
    """It gets no new requests, and answers those that it has."""
    DRAINED = "drained"
    """It gets no requests until it is put back."""
    FAILED = "failed"
    """It does not answer, or its engine could not be started; `problem` says why."""
    STOPPED = "stopped"
    """Its fleet was stopped."""


class LocalReplica(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An engine that Roundhouse starts on this computer. None: as for the model whose weights it has."""

    engine: _Name | None = None
    slots: Annotated[int, msgspec.Meta(ge=1, le=MAX_SLOTS)] | None = None
    context: Annotated[int, msgspec.Meta(ge=256, le=4_194_304)] | None = None
    threads: Annotated[int, msgspec.Meta(ge=1, le=512)] | None = None
    card: Annotated[str, msgspec.Meta(pattern=r"^GPU-[0-9A-Za-z-]{1,64}$")] | None = None
    """UUID of the card it is put on."""


class StartFleet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Serve one model over replicas: `text` is a fleet file (docs/guide/fleet.md), `key` what all replicas ask for."""

    text: str
    key: str = ""

    def __repr__(self) -> str:
        """Leave out the key: what is shown may be logged."""
        return f"StartFleet({self.text!r})"


class AddReplica(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Add a replica to a fleet: one that answers at `url`, or with an empty one an engine on this computer."""

    url: Annotated[str, msgspec.Meta(max_length=2048)] = ""
    local: LocalReplica = LocalReplica()


class RollFleet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Have the engines of a fleet started anew one after the other, with the weights of `serves` if that is given."""

    serves: _Name = ""


class FleetReplica(msgspec.Struct, frozen=True, kw_only=True):
    """One replica as it stands now; `problem` is a sentence, empty for one that answers."""

    url: str
    problem: str = ""
    name: str = ""
    """What it is called in its fleet."""
    state: ReplicaState = ReplicaState.READY
    is_local: bool = False
    """Whether its engine is Roundhouse's own, on this computer."""
    engine: str = ""
    weights: str = ""
    """The model of this computer whose weights a local one has."""
    slots: int | None = None
    load: int | None = None
    """Requests that the router counts with it now; None while no router runs, or it does not have it."""


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """One model served over replicas, with a router in front of them."""

    model: str
    router: str
    policy: str
    replicas: list[FleetReplica]
    is_stopped: bool = False
    rolling: str = ""
    """What a change of its engines does now, or why it ended before its end; empty otherwise."""
    requests: int = 0
    """Being answered or waiting here."""
