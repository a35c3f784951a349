"""The probe families of Linux."""

from collections.abc import Callable, Mapping

from app.hardware.cards.nvidia import nvidia_family
from app.hardware.cards.vulkan import vulkan_family
from app.hardware.evidence import Evidence
from app.hardware.limits import read_limits
from app.hardware.linux.cpu import read_linux_cpu
from app.hardware.linux.gpus import sysfs_family
from app.hardware.linux.npu import read_npus
from app.hardware.linux.system import read_system
from app.hardware.memory import read_linux_memory
from app.hardware.part import ProbePart


def _base_family(evidence: Evidence) -> ProbePart:
    system, cpu, memory = read_system(evidence), read_linux_cpu(evidence), read_linux_memory(evidence)
    return ProbePart(
        os=system,
        cpu=cpu,
        memory=memory,
        npus=read_npus(evidence),
        limits=read_limits(evidence, system, cpu, memory),
    )


FAMILIES: Mapping[str, Callable[[Evidence], ProbePart]] = {
    "base": _base_family,
    "nvidia": nvidia_family,
    "sysfs": sysfs_family,
    "vulkan": vulkan_family,
}
