"""The probe families of Linux."""

from collections.abc import Callable, Mapping

from app.hardware.evidence import Evidence
from app.hardware.limits import read_limits
from app.hardware.linux_cpu import read_linux_cpu
from app.hardware.memory import read_linux_memory
from app.hardware.npu import read_npus
from app.hardware.nvidia import nvidia_family
from app.hardware.part import Part
from app.hardware.sysfs_gpus import sysfs_family
from app.hardware.system import read_system
from app.hardware.vulkan import vulkan_family


def _base(evidence: Evidence) -> Part:
    system, cpu, memory = read_system(evidence), read_linux_cpu(evidence), read_linux_memory(evidence)
    return Part(
        os=system,
        cpu=cpu,
        memory=memory,
        npus=read_npus(evidence),
        limits=read_limits(evidence, system, cpu, memory),
    )


FAMILIES: Mapping[str, Callable[[Evidence], Part]] = {
    "base": _base,
    "nvidia": nvidia_family,
    "sysfs": sysfs_family,
    "vulkan": vulkan_family,
}
