"""What processors and cards have used since some moment in the past, where the system tells it.

RAPL counts the processor's package on Linux. Intel and AMD have it; reading is usually the administrator's only, since
figures taken quickly enough betray what other programs compute (CVE-2020-8694). Virtual machines have none. What NVIDIA
cards use is told by a child that stays: NVML is the driver's library, and could crash who loads it.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

POWERCAP = Path("/sys/class/powercap")
RAPL = "RAPL"
_MICRO = 1e6
_PACKAGE = "intel-rapl:"
"""AMD's processors are listed under this name too. Parts of a package have a second number: `intel-rapl:0:0`."""


class EnergyCounter(msgspec.Struct, frozen=True, kw_only=True):
    """What one part of the computer has used so far, in microjoules."""

    value_uj: int
    limit_uj: int = 0
    """After which it begins again at zero; 0 where it never does."""
    source: str
    """Who counts: "RAPL", "NVML", or who tells the power that was added up."""

    def microjoules_since(self, before: "EnergyCounter") -> int | None:
        """Return what was used since `before`; None where it was set back, as when a driver is loaded anew."""
        used_uj = self.value_uj - before.value_uj
        if used_uj < 0 and self.limit_uj:
            used_uj += self.limit_uj + 1  # it begins again at most once
        return None if used_uj < 0 else used_uj


EnergyCounters = dict[str, EnergyCounter]


def read_energy(folder: Path = POWERCAP) -> EnergyCounters:
    """Return the counter of each of the processor's packages; empty where nobody tells."""
    counters: EnergyCounters = {}
    for package in sorted(folder.glob(f"{_PACKAGE}*")):
        if package.name.count(":") != 1:
            continue
        try:
            value, limit = _read_int(package / "energy_uj"), _read_int(package / "max_energy_range_uj")
        except (OSError, ValueError):
            return {}
        counters[package.name] = EnergyCounter(value_uj=value, limit_uj=limit, source=RAPL)
    return counters


def joules_between(before: Mapping[str, EnergyCounter], after: Mapping[str, EnergyCounter]) -> float | None:
    """Return the energy used in between; None where nobody told, or not of all parts both times."""
    if not before or before.keys() != after.keys():
        return None
    total = 0
    for name, counter in after.items():
        used_uj = counter.microjoules_since(before[name])
        if used_uj is None or counter.source != before[name].source:
            return None
        total += used_uj
    return total / _MICRO


def describe_sources(counters: Mapping[str, EnergyCounter]) -> str:
    """Return who counts, as receipts say it; empty for nobody."""
    return " + ".join(dict.fromkeys(counter.source for counter in counters.values()))


def _read_int(file: Path) -> int:
    return int(file.read_text(encoding="ascii"))
