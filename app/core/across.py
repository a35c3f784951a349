"""A model over several machines: the machines that may hold layers, what each has, and how the layers would lie."""

import msgspec

HERE = "here"
"""What the machine that loads the model is called among the others."""


class TunnelMember(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another machine and the certificate by which it is known; no other is believed."""

    name: str
    address: str
    """Host and port of its tunnel; empty for one that only calls us."""
    certificate: str
    """In PEM."""


class MemberState(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine answered just now, and how the way to it measured."""

    name: str
    address: str = ""
    problem: str = ""
    """Why it can hold no layers, in a sentence; empty where it can."""
    free_bytes: int = 0
    """What models may take there."""
    bandwidth_gb_s: float | None = None
    """Of its memory."""
    version: str = ""
    """Of llama.cpp: both ends must have the same."""
    latency_ms: float | None = None
    """There and back, over the tunnel."""
    link_mb_s: float | None = None


class TunnelState(msgspec.Struct, frozen=True, kw_only=True):
    """This machine's end of the tunnel, and the others."""

    certificate: str
    """What other machines are given to know this one by, in PEM."""
    listens: str
    """Where others reach this machine's memory; empty while it is not lent."""
    members: list[MemberState]


class AcrossRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which model over which machines, beside this one; `context` as for a load."""

    model: str
    across: list[str]
    context: int | None = None


class LayerShare(msgspec.Struct, frozen=True, kw_only=True):
    """The layers of one machine: their bytes, what it has free, and the time each token takes there."""

    name: str
    layers: int
    needed_bytes: int
    free_bytes: int
    token_ms: float | None = None
    arithmetic: str = ""

    @property
    def fits(self) -> bool:
        """Whether there is room for them."""
        return self.needed_bytes <= self.free_bytes


class AcrossPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How a model lies over machines, this one first. The speed is an estimate: figures of memory and of the link."""

    model: str
    context: int
    shares: list[LayerShare]
    fits: bool
    sentence: str
    reasons: list[str] = []
    tokens_per_second: float | None = None
