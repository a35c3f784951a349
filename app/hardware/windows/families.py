"""The probe families of Windows: what each asks, and which pure function judges the answers.

None of these calls can be made where this project is tested: their layouts are checked, their answers replayed.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from app.hardware.cards.nvidia import nvidia_family
from app.hardware.cards.vulkan import vulkan_family
from app.hardware.evidence import Evidence, NoAnswer
from app.hardware.facts import ProbePart
from app.hardware.limits import variable_limits
from app.hardware.windows.calls import (
    ACCELERATOR_CLASS,
    DISPLAY_CLASS,
    read_device_class,
    read_windows_memory,
    read_windows_system,
)
from app.hardware.windows.cpu import ask_windows_cpu, ask_windows_memory
from app.hardware.windows.dxgi import read_adapters, read_usage
from app.hardware.windows.gpus import windows_gpus
from app.hardware.windows.system import windows_gpu_limits, windows_limits, windows_npus, windows_system
from app.hardware.windows.values import (
    AdapterUsage,
    DeviceClass,
    DxgiAdapter,
    WindowsMemory,
    WindowsSystem,
)

T = TypeVar("T")


def _base_family(evidence: Evidence) -> ProbePart:
    system = _ask_or_none(evidence, "windows_system", WindowsSystem, read_windows_system) or WindowsSystem()
    cpu, memory = ask_windows_cpu(evidence), ask_windows_memory(evidence)
    accelerators = _ask_or_none(evidence, "accelerators", DeviceClass, lambda: read_device_class(ACCELERATOR_CLASS))
    return ProbePart(
        os=windows_system(system),
        cpu=cpu,
        memory=memory,
        npus=windows_npus(accelerators or DeviceClass()),
        limits=[*variable_limits(evidence), *windows_limits(system, cpu, memory)],
    )


def _display_family(evidence: Evidence) -> ProbePart:
    """Look at the adapters. Drivers are loaded for it, and can take long to wake a card that sleeps."""
    try:
        adapters = evidence.read_table("dxgi", list[DxgiAdapter], read_adapters)
    except NoAnswer as error:
        return ProbePart(absent=str(error))
    display = _ask_or_none(evidence, "display_drivers", DeviceClass, lambda: read_device_class(DISPLAY_CLASS))
    usage = _ask_or_none(evidence, "gpu_usage", list[AdapterUsage], read_usage)
    memory = _ask_or_none(evidence, "windows_memory", WindowsMemory, read_windows_memory)
    gpus = windows_gpus(adapters, display or DeviceClass(), usage or [], memory=memory)
    return ProbePart(gpus=gpus, limits=windows_gpu_limits(gpus, memory.total if memory else 0))


def _ask_or_none(evidence: Evidence, table: str, kind: type[T], reader: Callable[[], T]) -> T | None:
    try:
        return evidence.read_table(table, kind, reader)
    except NoAnswer:
        return None


FAMILIES: Mapping[str, Callable[[Evidence], ProbePart]] = {
    "base": _base_family,
    "nvidia": nvidia_family,
    "display": _display_family,
    "vulkan": vulkan_family,
}
