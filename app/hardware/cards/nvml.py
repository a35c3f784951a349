"""What NVML, the library of NVIDIA's driver, says: recorded as plain values, judged elsewhere. Probe children only.

Every question is asked by itself: parts, partitions and old drivers leave many of them unanswered, which is no error.
"""

from typing import Any

import msgspec

from app.hardware.evidence import Unanswered

_MAX_LINKS = 18
"""NVLink connections of one GPU: 18 on Hopper and Blackwell, fewer before."""


class NvmlDevice(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU or MIG instance. None: the driver did not answer; `memory_error` says why it did not state memory."""

    name: str = ""
    bus_id: str = ""
    uuid: str = ""
    memory_total: int | None = None
    memory_free: int | None = None
    memory_error: str = ""
    compute: str = ""
    architecture: int | None = None
    bus_width_bits: int | None = None
    memory_clock_mhz: int | None = None
    max_pcie_width: int | None = None
    nvlinks: list[bool] = []
    """Whether each link is up; empty on a GPU without NVLink."""
    display_active: bool | None = None
    addressing_mode: int | None = None
    """2 is ATS: the GPU uses the processor's page tables."""
    is_mig: bool = False
    instances: list["NvmlDevice"] = []


class NvmlState(msgspec.Struct, frozen=True, kw_only=True):
    """The driver's version ("580.65.06"), the newest CUDA it can run (13000 is 13.0), and its devices."""

    driver: str
    cuda: int | None = None
    devices: list[NvmlDevice] = []


def read_nvml(nvml: Any) -> NvmlState:  # noqa: ANN401 -- the binding has no types; tests pass a recorded one
    """Ask `nvml` (the module `pynvml`) everything. Raises Unanswered when there is no driver to ask."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise Unanswered(str(error)) from error
    try:
        return NvmlState(
            driver=_text(_asked(nvml, "nvmlSystemGetDriverVersion")),
            cuda=_number(_asked(nvml, "nvmlSystemGetCudaDriverVersion_v2")),
            devices=[_device(nvml, handle) for handle in _handles(nvml)],
        )
    finally:
        nvml.nvmlShutdown()


def _handles(nvml: Any) -> list[Any]:  # noqa: ANN401 -- as above
    count = _number(_asked(nvml, "nvmlDeviceGetCount")) or 0
    found = (_asked(nvml, "nvmlDeviceGetHandleByIndex", index) for index in range(count))
    return [handle for handle in found if handle is not None]


def _device(nvml: Any, handle: Any) -> NvmlDevice:  # noqa: ANN401 -- as above
    mig = _asked(nvml, "nvmlDeviceGetMigMode", handle)
    compute = _asked(nvml, "nvmlDeviceGetCudaComputeCapability", handle)
    display = _number(_asked(nvml, "nvmlDeviceGetDisplayActive", handle))
    return msgspec.structs.replace(
        _instance(nvml, handle),
        bus_id=_text(getattr(_asked(nvml, "nvmlDeviceGetPciInfo", handle), "busId", "")),
        compute=f"{compute[0]}.{compute[1]}" if compute else "",
        architecture=_number(_asked(nvml, "nvmlDeviceGetArchitecture", handle)),
        bus_width_bits=_number(_asked(nvml, "nvmlDeviceGetMemoryBusWidth", handle)),
        memory_clock_mhz=_number(_asked(nvml, "nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_MEM)),
        max_pcie_width=_number(_asked(nvml, "nvmlDeviceGetMaxPcieLinkWidth", handle)),
        nvlinks=_links(nvml, handle),
        display_active=None if display is None else bool(display),
        addressing_mode=_number(_asked(nvml, "nvmlDeviceGetAddressingMode", handle)),
        is_mig=bool(mig and mig[0]),
        instances=_instances(nvml, handle) if mig and mig[0] else [],
    )


def _instance(nvml: Any, handle: Any) -> NvmlDevice:  # noqa: ANN401 -- as above
    """Ask what a whole GPU and a partition both know."""
    total, free, error = _memory(nvml, handle)
    return NvmlDevice(
        name=_text(_asked(nvml, "nvmlDeviceGetName", handle)),
        uuid=_text(_asked(nvml, "nvmlDeviceGetUUID", handle)),
        memory_total=total,
        memory_free=free,
        memory_error=error,
    )


def _instances(nvml: Any, handle: Any) -> list[NvmlDevice]:  # noqa: ANN401 -- as above
    count = _number(_asked(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle)) or 0
    found = (_asked(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, index) for index in range(count))
    return [_instance(nvml, instance) for instance in found if instance is not None]


def _memory(nvml: Any, handle: Any) -> tuple[int | None, int | None, str]:  # noqa: ANN401 -- as above
    """Return (total, free, why not). The second version takes out what the driver reserves; old drivers lack it."""
    why = ""
    for arguments in ({"version": nvml.nvmlMemory_v2}, {}):
        try:
            found = nvml.nvmlDeviceGetMemoryInfo(handle, **arguments)
        except (nvml.NVMLError, TypeError, AttributeError) as error:
            why = str(error)
            continue
        if found.total:
            return int(found.total), int(found.free), ""
    return None, None, why


def _links(nvml: Any, handle: Any) -> list[bool]:  # noqa: ANN401 -- as above
    states = []
    for link in range(_MAX_LINKS):
        state = _number(_asked(nvml, "nvmlDeviceGetNvLinkState", handle, link))
        if state is None:
            break
        states.append(bool(state))
    return states


def _asked(nvml: Any, name: str, *arguments: Any) -> Any:  # noqa: ANN401 -- as above
    try:
        return getattr(nvml, name)(*arguments)
    except (nvml.NVMLError, AttributeError):  # AttributeError: a binding older or newer than the question
        return None


def _number(value: Any) -> int | None:  # noqa: ANN401 -- as above
    return value if isinstance(value, int) else None


def _text(value: str | bytes | None) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value or ""
