"""The memory engines share: what there is, who holds it, which loads wait for whom; and whether all is paused."""

import msgspec


class MemoryHolder(msgspec.Struct, frozen=True, kw_only=True):
    """One engine in one pool. `bytes` is None while nobody knows; estimated until the engine says what it took."""

    model: str
    bytes: int | None
    is_pinned: bool = False
    is_busy: bool = False
    is_idle: bool = False
    """Neither of the two: it is on its way in or out."""


class MemoryPool(msgspec.Struct, frozen=True, kw_only=True):
    """One memory, in bytes. Engines may take `limit` of it together, what they have included."""

    id: str
    name: str
    limit: int
    head_room: int
    """Left free besides."""
    holders: list[MemoryHolder] = []

    @property
    def bytes_in_use(self) -> int:
        """What engines hold, as far as it is known."""
        return sum(holder.bytes or 0 for holder in self.holders)


class WaitingLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A model that waits for room. `needs` in bytes by pool, None if nobody knows."""

    model: str
    seconds: float
    needs: dict[str, int] | None
    waits_for: list[str] = []
    """Models that hold what it needs and are in use, or on their way in or out."""


class MemoryState(msgspec.Struct, frozen=True, kw_only=True):
    """All of it, and the ceiling on the number of models; 0 is none."""

    pools: list[MemoryPool]
    waiting: list[WaitingLoad] = []
    max_loaded: int = 0


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a person wants the memory for something else: no model is loaded until they say so."""

    is_paused: bool = False
    since: float | None = None
    """Unix seconds."""
    finishing: list[str] = []
    """Models that still write answers which had begun; they go when those are done."""
    comes_back: list[str] = []
    """Models that are loaded again on resuming, what was used last first."""
