"""Computers of one person: what is known of a paired machine, and what travels about them between our programs."""

import base64
import hashlib
from typing import Annotated

import msgspec

DOMAIN = ".machine.invalid"
"""Ends the host name that a paired machine has in addresses of ours: its address may change, who it is does not.

`.invalid` is reserved (RFC 2606), so no resolver ever has such a name.
"""
_ID_DIGITS = 16
"""64 bits of the certificate's hash name a machine; whether it is that machine, all 256 decide."""

MachineName = Annotated[
    str, msgspec.Meta(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")
]
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
MacAddress = Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{2}(:[0-9a-f]{2}){5})?$")]
Certificate = Annotated[str, msgspec.Meta(min_length=64, max_length=4096)]


class MachineCard(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine says of itself when it is paired. `certificate` is DER, in base64."""

    name: MachineName
    certificate: Certificate
    port: Port
    """Where it listens for paired machines; 0 where it does not."""
    mac: MacAddress = ""
    """Of the network card it was paired over: what wakes it."""


class PairedMachine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that is trusted, and where it was last."""

    name: MachineName
    certificate: Certificate
    host: str
    port: Port
    mac: MacAddress = ""
    paired_at: float = 0.0
    is_confirmed: bool = True
    """Whether it has answered since it was paired: until then it may not know that it was."""
    lends_memory: bool = False
    """Whether this machine lends it memory for layers of its models."""
    is_memory_only: bool = False
    """Whether it may ask for memory and nothing else: its certificate was carried over by hand and not by a code."""

    @property
    def certificate_der(self) -> bytes:
        """Its certificate."""
        return base64.b64decode(self.certificate)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of its certificate, in hex."""
        return hashlib.sha256(self.certificate_der).hexdigest()

    @property
    def id(self) -> str:
        """What it is called where its name could change."""
        return self.fingerprint[:_ID_DIGITS]

    @property
    def url(self) -> str:
        """The address its endpoint has here, whatever its own is now."""
        return f"https://{self.id}{DOMAIN}"


class ChangeMachine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person allows a paired machine."""

    lends_memory: bool
    """Whether this machine lends it memory."""


class MachineCode(msgspec.Struct, frozen=True, kw_only=True):
    """A code that another machine may be paired by, and for how many seconds."""

    code: str
    seconds: float


class PairMachine(msgspec.Struct, frozen=True, kw_only=True):
    """Pair with the machine that shows `code`. `host` is an address or name, with a port if that is not the usual."""

    host: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    code: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class ModelLoad(msgspec.Struct, frozen=True, kw_only=True):
    """How busy a model is. `tokens_per_s` is what its last answers measured; None where there were none."""

    name: str
    is_loaded: bool = False
    in_flight: int = 0
    slots: int = 1
    load_s: float | None = None
    tokens_per_s: float | None = None


class MachineStanding(msgspec.Struct, frozen=True, kw_only=True):
    """A paired machine as it is now. Never its certificate, of which the fingerprint is what people compare."""

    name: str
    fingerprint: str
    host: str
    port: int
    mac: str = ""
    paired_at: float = 0.0
    is_reachable: bool | None = None
    """None: it was not asked since this service started."""
    problem: str = ""
    shares_files: bool = False
    """Whether it gives files of models to this one, so that they need not come from the hub."""
    lends_memory: bool = False
    """Whether this machine lends it memory."""
    is_lender: bool = False
    """Whether it lends this machine memory, by what it said last."""
    is_memory_only: bool = False
    """Whether it may ask for memory and nothing else; pairing it by a code lets it ask models too."""
    models: list[ModelLoad] = []
    """By the names they have in the list here."""


class NearbyMachine(msgspec.Struct, frozen=True, kw_only=True):
    """A computer that announced itself on this network. Nothing of it is proved before the two are paired."""

    name: MachineName
    fingerprint: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]
    host: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]


class MachineList(msgspec.Struct, frozen=True, kw_only=True):
    """This machine, as others see it, and those it is paired with. `port` is 0 while it does not listen for them."""

    name: str
    fingerprint: str
    port: int
    problem: str = ""
    """Why it does not listen although it should, or what became of a pairing that was not finished."""
    is_pairing: bool = False
    """Whether a code is shown here that still counts."""
    machines: list[MachineStanding]
    nearby: list[NearbyMachine] = []
    """Those that announce themselves on this network and are not paired."""


class WakeMachine(msgspec.Struct, frozen=True, kw_only=True):
    """Wake a paired machine."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
