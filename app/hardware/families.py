"""The probe families of each system. Each runs alone in a child process, so a driver library can crash only itself.

A family is a function of one `Evidence`; "base" (system, processor, memory) comes first and must answer.
"""

from collections.abc import Callable, Mapping

from app.hardware import apple, linux
from app.hardware.bandwidth import measured_bandwidth
from app.hardware.cpu import read_cpu
from app.hardware.evidence import Evidence
from app.hardware.memory import read_memory
from app.hardware.nvidia import nvidia_family
from app.hardware.part import Part
from app.hardware.system import read_system

Family = Callable[[Evidence], Part]


def _base(evidence: Evidence) -> Part:
    return Part(os=read_system(evidence), cpu=read_cpu(evidence), memory=read_memory(evidence))


def _apple(_evidence: Evidence) -> Part:
    return Part(gpus=apple.read_apple())


FAMILIES: Mapping[str, Mapping[str, Family]] = {
    "linux": linux.FAMILIES,
    "macos": {"base": _base, "apple": _apple},
    "windows": {"base": _base, "nvidia": nvidia_family},
}


BANDWIDTH = "bandwidth"
"""A second of reading memory with every core: only when asked for."""


def families_of(system: str) -> Mapping[str, Family]:
    """Return the families that make sense on "linux", "macos" or "windows"; any other system is read like Linux."""
    return FAMILIES.get(system, FAMILIES["linux"])


def family(system: str, name: str) -> Family:
    """Return one family, those that run only on demand included. Raises KeyError for a name there is not."""
    return _bandwidth if name == BANDWIDTH else families_of(system)[name]


def _bandwidth(evidence: Evidence) -> Part:
    base = families_of(evidence.system)["base"](evidence)
    if base.cpu is None or base.memory is None:
        return Part(absent="Nothing is known of processor and memory.")
    return Part(bandwidth_gb_s=measured_bandwidth(evidence, base.cpu, base.memory.available.value or 0))
