"""The processor: each system says it differently; and how many threads an engine should compute with here."""

from functools import cache

from app.core.machine import Cpu
from app.hardware.evidence import Evidence, live_evidence
from app.hardware.linux.cpu import read_linux_cpu
from app.hardware.macos.sysctl import ask_mac_cpu
from app.hardware.windows.cpu import ask_windows_cpu


def read_cpu(evidence: Evidence) -> Cpu:
    """Return the processor's facts."""
    if evidence.system == "macos":
        return ask_mac_cpu(evidence)
    if evidence.system == "windows":
        return ask_windows_cpu(evidence)
    return read_linux_cpu(evidence)


@cache
def engine_threads() -> int | None:
    """Return how many threads an engine should compute with here: fast cores, as far as we may use them.

    Slow cores and second threads of a core make matrix products wait for the slowest; a control group's quota is
    invisible to an engine, which then starts more threads than may run.
    """
    cpu = read_cpu(live_evidence())
    cores = cpu.performance_cores.value or cpu.physical_cores.value
    usable = cpu.usable_cores.value
    if cores is None or usable is None:
        return None
    return max(1, min(cores, int(usable)))
