"""Cards as an ExLlama worker is told of them: how full each may get, and whether matrices are cut over them.

And as the libraries are told: V3 gigabytes to use of each card, V2 bytes to leave on it. Standard library only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MIB, GIB = 1024**2, 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class CardPlacement:
    """`budgets`, in bytes, is empty where the library is to see for itself what is free."""

    cuts_matrices: bool = False
    budgets: tuple[int, ...] = ()

    @property
    def card_gigabytes(self) -> list[float] | None:
        """What each card may be filled to, as V3 and V2's tensor parallelism take it; None to let them look."""
        return [size / GIB for size in self.budgets] or None

    def bytes_to_leave(self, free: Sequence[int], least: Sequence[int]) -> list[int] | None:
        """Return what V2 is to leave free on each card to keep within the budgets: no less than `least`."""
        if not self.budgets:
            return None
        budgets = (*self.budgets, *(0 for _ in free[len(self.budgets) :]))
        return [max(minimum, size - budget) for size, budget, minimum in zip(free, budgets, least, strict=True)]


def read_placement(config: Mapping[str, Any]) -> CardPlacement:
    """Return what the adapter decided."""
    return CardPlacement(cuts_matrices=bool(config["cuts_matrices"]), budgets=tuple(map(int, config["card_bytes"])))
