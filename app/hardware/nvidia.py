"""NVIDIA GPUs through NVML, the driver's own library (nvidia-ml-py). Runs in a probe child only.

Parts whose memory NVML cannot state (GB10, Jetson: one pool shared with the CPU) are kept, marked integrated, with
their memory unknown rather than zero.
"""

from typing import Any

from app.core.machine import Fact, Gpu
from app.hardware.facts import derived, measured, unknown

_SOURCE = "NVML"


class NoDriver(Exception):
    """NVML is not there: no NVIDIA driver. Not an error, an absence."""


def read_nvidia(nvml: Any) -> list[Gpu]:  # noqa: ANN401 -- the binding has no types; tests pass a recorded one
    """Return every NVIDIA GPU `nvml` (the module `pynvml`) lists. Raises NoDriver when there is no driver to ask."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise NoDriver(str(error)) from error
    try:
        driver = measured(_text(nvml.nvmlSystemGetDriverVersion()), _SOURCE)
        return [_gpu(nvml, nvml.nvmlDeviceGetHandleByIndex(i), driver) for i in range(nvml.nvmlDeviceGetCount())]
    finally:
        nvml.nvmlShutdown()


def _gpu(nvml: Any, handle: Any, driver: Fact[str]) -> Gpu:  # noqa: ANN401 -- as above
    total, free = _memory(nvml, handle)
    has_memory = total.value is not None
    return Gpu(
        id=_text(nvml.nvmlDeviceGetPciInfo(handle).busId).lower(),
        vendor="nvidia",
        name=measured(_text(nvml.nvmlDeviceGetName(handle)), _SOURCE),
        memory_total=total,
        memory_free=free,
        driver=driver,
        compute=_compute(nvml, handle),
        integrated=derived(not has_memory, _SOURCE, note="NVML states no memory of its own: it shares the system's"),
    )


def _memory(nvml: Any, handle: Any) -> tuple[Fact[int], Fact[int]]:  # noqa: ANN401 -- as above
    for arguments in ({"version": nvml.nvmlMemory_v2}, {}):  # older drivers know only the first version
        try:
            found = nvml.nvmlDeviceGetMemoryInfo(handle, **arguments)
        except (nvml.NVMLError, TypeError):
            continue
        if found.total:
            return measured(int(found.total), _SOURCE, unit="B"), measured(int(found.free), _SOURCE, unit="B")
    missing: Fact[int] = unknown(_SOURCE, "The driver states no memory for this GPU.", unit="B")
    return missing, missing


def _compute(nvml: Any, handle: Any) -> Fact[str]:  # noqa: ANN401 -- as above
    try:
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    except nvml.NVMLError as error:
        return unknown(_SOURCE, str(error))
    return measured(f"{major}.{minor}", _SOURCE)


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
