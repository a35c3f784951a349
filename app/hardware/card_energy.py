"""Who asks the child that says what NVIDIA's cards have used."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from app.hardware.child_answers import ENERGY
from app.hardware.energy import EnergyCounters
from app.hardware.standing_child import StandingChild, probe_command


class CardEnergyReader:
    """Asks a child what NVIDIA's cards have used; entering starts nothing, leaving ends the child."""

    def __init__(self, argv: Sequence[str] | None = None) -> None:
        self._argv = argv
        self._child = StandingChild(EnergyCounters, subject="The energy of cards")

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the child."""
        await self._child.close()

    async def read_counters(self) -> EnergyCounters:
        """Return the counter of each whole card, by its UUID; empty where nobody tells."""
        return await self._child.ask(self._argv or probe_command(ENERGY)) or {}
