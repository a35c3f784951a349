"""The probe families. Each runs alone in a child process, so that a driver library can crash or hang only itself."""

import sys
from collections.abc import Callable

import msgspec

from app.core.machine import Cpu, Gpu, Memory, OperatingSystem
from app.hardware.apple import read_apple
from app.hardware.cpu import read_cpu
from app.hardware.memory import read_memory
from app.hardware.nvidia import NoDriver, read_nvidia
from app.hardware.sysfs_gpus import read_sysfs_gpus
from app.hardware.system import read_system


class Part(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What one family found. `absent` says why there was nothing to ask."""

    os: OperatingSystem | None = None
    cpu: Cpu | None = None
    memory: Memory | None = None
    gpus: list[Gpu] = []
    absent: str = ""


def _base() -> Part:
    return Part(os=read_system(), cpu=read_cpu(), memory=read_memory())


def _nvidia() -> Part:
    import pynvml  # noqa: PLC0415 -- may load a vendor library: probe children only

    try:
        return Part(gpus=read_nvidia(pynvml))
    except NoDriver as error:
        return Part(absent=str(error))


def _sysfs() -> Part:
    return Part(gpus=read_sysfs_gpus())


def _apple() -> Part:
    return Part(gpus=read_apple())


FAMILIES: dict[str, Callable[[], Part]] = {"base": _base, "nvidia": _nvidia, "sysfs": _sysfs, "apple": _apple}


def families_here() -> tuple[str, ...]:
    """Return the families that make sense on this operating system; "base" is always first."""
    if sys.platform == "darwin":
        return ("base", "apple")
    if sys.platform == "win32":
        return ("base", "nvidia")
    return ("base", "nvidia", "sysfs")
