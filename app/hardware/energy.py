"""What the processor package has used since some moment in the past, where the system tells it: RAPL on Linux.

Intel and AMD count it; reading is usually the administrator's only, since figures taken quickly enough betray what
other programs compute (CVE-2020-8694). Virtual machines have none. Cards are not counted.
"""

from collections.abc import Mapping
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")
SOURCE = "RAPL"
_MICRO = 1e6
_PACKAGE = "intel-rapl:"
"""AMD's processors are listed under this name too. Parts of a package have a second number: `intel-rapl:0:0`."""


def read_energy(folder: Path = POWERCAP) -> dict[str, tuple[int, int]]:
    """Return the counter of each package and where it begins again, in microjoules; empty where nobody tells."""
    counters: dict[str, tuple[int, int]] = {}
    for package in sorted(folder.glob(f"{_PACKAGE}*")):
        if package.name.count(":") != 1:
            continue
        try:
            counters[package.name] = (_read_int(package / "energy_uj"), _read_int(package / "max_energy_range_uj"))
        except (OSError, ValueError):
            return {}
    return counters


def joules_between(before: Mapping[str, tuple[int, int]], after: Mapping[str, tuple[int, int]]) -> float | None:
    """Return the energy used in between; None where nobody told. A counter begins again at most once."""
    if not before or before.keys() != after.keys():
        return None
    return sum((after[name][0] - value) % max(limit + 1, 1) for name, (value, limit) in before.items()) / _MICRO


def _read_int(file: Path) -> int:
    return int(file.read_text(encoding="ascii"))
