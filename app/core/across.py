"""A model over several machines: what paired machines lend, and how the layers would lie."""

import msgspec

HERE = "here"
"""What the machine that loads the model is called among the others."""


class MachineMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What a paired machine lends this one, by its answer just now, and how the way to it measured."""

    name: str
    address: str = ""
    problem: str = ""
    """Why it can hold no layers, in a sentence; empty where it can."""
    hint: str = ""
    free_bytes: int = 0
    """What models may take there."""
    bandwidth_gb_s: float | None = None
    """Of its memory."""
    version: str = ""
    """Of the engine: all must have the same."""
    backend: str = ""
    """What it computes with there."""
    latency_ms: float | None = None
    """There and back, over the tunnel."""
    link_mb_s: float | None = None
    is_away: bool = False
    """Whether it does not answer at all: it may be asleep."""


class AcrossRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which model over which paired machines, beside this one; `context` as for a load."""

    model: str
    across: list[str]
    context: int | None = None


class LayerShare(msgspec.Struct, frozen=True, kw_only=True):
    """The layers of one machine: their bytes, what it has free, and the time each token takes there."""

    name: str
    first_layer: int = 0
    """Counted from 0."""
    layers: int
    needed_bytes: int
    free_bytes: int
    token_ms: float | None = None
    arithmetic: str = ""
    latency_ms: float | None = None
    """There and back to it; None for this machine."""
    link_mb_s: float | None = None

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
    engine: str = "llama.cpp"
    engine_name: str = "llama.cpp"
    slots: int = 1
    pool: str = "system"
    """The memory that it takes of this machine: the system's, or a card's by its id."""
    is_started: bool = True
    """False: it is a plan alone, since Roundhouse does not start this engine on other computers."""

    @property
    def placement(self) -> str:
        """Where the layers lie, in a sentence; counted from 1."""
        parts = (
            f"{share.first_layer + 1} to {share.first_layer + share.layers} {_where(share)}" for share in self.shares
        )
        return f"Layers {', '.join(parts)}."


def _where(share: LayerShare) -> str:
    return "on this computer" if share.name == HERE else f"on {share.name}"
