"""What goes on beside a round of requests: other programs, swap, heat, energy, and the engine's memory.

All are counters of the system, read before and after, so that watching itself takes nothing from what is watched.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import psutil

from app.gateway.advising.quiet_rounds import ProcessorTimes, read_processor_times
from app.hardware.energy import EnergyCounters, joules_between, read_energy
from app.supervisor.run import resident_bytes

_THROTTLES = Path("/sys/devices/system/cpu")


class SystemCounters(msgspec.Struct, frozen=True, kw_only=True):
    """All counters at one moment."""

    processors: ProcessorTimes
    swapped_bytes: int = 0
    throttles: int = 0
    energy: EnergyCounters = {}
    engine_bytes: int = 0
    """What the engine's processes have in memory."""

    def other_share(self, before: "SystemCounters") -> float:
        """Return the share of all processors that others took since `before`."""
        return self.processors.other_share(before.processors)

    def joules(self, before: "SystemCounters") -> float | None:
        """Return the energy used since `before`; None where nobody tells."""
        return joules_between(before.energy, self.energy)


ReadCounters = Callable[[Sequence[int]], SystemCounters]


def read_counters(pids: Sequence[int] = ()) -> SystemCounters:
    """Return the counters now; `pids` are the engine's. Reads files: for a thread."""
    return SystemCounters(
        processors=read_processor_times(pids),
        swapped_bytes=_swap_bytes(),
        throttles=count_throttles(_THROTTLES),
        energy=read_energy(),
        engine_bytes=resident_bytes(pids),
    )


def count_throttles(folder: Path) -> int:
    """Return how often packages were slowed down because of their heat, as Linux counts; 0 where nobody counts."""
    total = 0
    for file in folder.glob("cpu[0-9]*/thermal_throttle/package_throttle_count"):
        try:
            total += int(file.read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
    return total


def _swap_bytes() -> int:
    try:
        swap = psutil.swap_memory()
    except (OSError, RuntimeError):  # a container without /proc/vmstat
        return 0
    return int(swap.sin + swap.sout)
