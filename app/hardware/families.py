"""The probe families of each system. Each runs alone in a child process, so a driver library can crash only itself.

A family is a function of one `Evidence`; "base" (system, processor, memory) comes first and must answer.
"""

from collections.abc import Callable, Mapping

from app.hardware.bandwidth import probe_bandwidth
from app.hardware.evidence import Evidence
from app.hardware.facts import ProbePart
from app.hardware.linux.families import FAMILIES as LINUX
from app.hardware.macos.families import FAMILIES as MACOS
from app.hardware.windows.families import FAMILIES as WINDOWS

Family = Callable[[Evidence], ProbePart]


FAMILIES: Mapping[str, Mapping[str, Family]] = {
    "linux": LINUX,
    "macos": MACOS,
    "windows": WINDOWS,
}

BANDWIDTH = "bandwidth"
"""A second of reading memory with every core: only when asked for."""


def families_of(system: str) -> Mapping[str, Family]:
    """Return the families that make sense on "linux", "macos" or "windows"; any other system is read like Linux."""
    return FAMILIES.get(system, FAMILIES["linux"])


def find_family(system: str, name: str) -> Family:
    """Return one family, those that run only on demand included. Raises KeyError for a name there is not."""
    return _bandwidth_family if name == BANDWIDTH else families_of(system)[name]


def _bandwidth_family(evidence: Evidence) -> ProbePart:
    base = families_of(evidence.system)["base"](evidence)
    if base.cpu is None or base.memory is None:
        return ProbePart(absent="Nothing is known of processor and memory.")
    return probe_bandwidth(evidence, base.cpu, base.memory.available.value or 0)
