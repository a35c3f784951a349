"""What NVML, the library of NVIDIA's driver, says: recorded as plain values, judged elsewhere. Probe children only.

Every question is asked by itself: parts, partitions and old drivers leave many of them unanswered, which is no error.
"""

from typing import Any

import msgspec

from app.hardware.evidence import NoAnswer

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
        raise NoAnswer(str(error)) from error
    try:
        return NvmlState(
            driver=_as_text(_call_nvml(nvml, "nvmlSystemGetDriverVersion")),
            cuda=_as_int(_call_nvml(nvml, "nvmlSystemGetCudaDriverVersion_v2")),
            devices=[_read_device(nvml, handle) for handle in _device_handles(nvml)],
        )
    finally:
        nvml.nvmlShutdown()


def _device_handles(nvml: Any) -> list[Any]:  # noqa: ANN401 -- as above
    count = _as_int(_call_nvml(nvml, "nvmlDeviceGetCount")) or 0
    handles = (_call_nvml(nvml, "nvmlDeviceGetHandleByIndex", index) for index in range(count))
    return [handle for handle in handles if handle is not None]


def _read_device(nvml: Any, handle: Any) -> NvmlDevice:  # noqa: ANN401 -- as above
    mig = _call_nvml(nvml, "nvmlDeviceGetMigMode", handle)
    compute = _call_nvml(nvml, "nvmlDeviceGetCudaComputeCapability", handle)
    display = _as_int(_call_nvml(nvml, "nvmlDeviceGetDisplayActive", handle))
    return msgspec.structs.replace(
        _read_instance(nvml, handle),
        bus_id=_as_text(getattr(_call_nvml(nvml, "nvmlDeviceGetPciInfo", handle), "busId", "")),
        compute=f"{compute[0]}.{compute[1]}" if compute else "",
        architecture=_as_int(_call_nvml(nvml, "nvmlDeviceGetArchitecture", handle)),
        bus_width_bits=_as_int(_call_nvml(nvml, "nvmlDeviceGetMemoryBusWidth", handle)),
        memory_clock_mhz=_as_int(_call_nvml(nvml, "nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_MEM)),
        max_pcie_width=_as_int(_call_nvml(nvml, "nvmlDeviceGetMaxPcieLinkWidth", handle)),
        nvlinks=_link_states(nvml, handle),
        display_active=None if display is None else bool(display),
        addressing_mode=_as_int(_call_nvml(nvml, "nvmlDeviceGetAddressingMode", handle)),
        is_mig=bool(mig and mig[0]),
        instances=_read_instances(nvml, handle) if mig and mig[0] else [],
    )


def _read_instance(nvml: Any, handle: Any) -> NvmlDevice:  # noqa: ANN401 -- as above
    """Ask what a whole GPU and a partition both know."""
    total, free, error = _read_memory(nvml, handle)
    return NvmlDevice(
        name=_as_text(_call_nvml(nvml, "nvmlDeviceGetName", handle)),
        uuid=_as_text(_call_nvml(nvml, "nvmlDeviceGetUUID", handle)),
        memory_total=total,
        memory_free=free,
        memory_error=error,
    )


def _read_instances(nvml: Any, handle: Any) -> list[NvmlDevice]:  # noqa: ANN401 -- as above
    count = _as_int(_call_nvml(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle)) or 0
    handles = (_call_nvml(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, index) for index in range(count))
    return [_read_instance(nvml, instance) for instance in handles if instance is not None]


def _read_memory(nvml: Any, handle: Any) -> tuple[int | None, int | None, str]:  # noqa: ANN401 -- as above
    """Return (total, free, why not). The second version takes out what the driver reserves; old drivers lack it."""
    why = ""
    for arguments in ({"version": nvml.nvmlMemory_v2}, {}):
        try:
            info = nvml.nvmlDeviceGetMemoryInfo(handle, **arguments)
        except (nvml.NVMLError, TypeError, AttributeError) as error:
            why = str(error)
            continue
        if info.total:
            return int(info.total), int(info.free), ""
    return None, None, why


def _link_states(nvml: Any, handle: Any) -> list[bool]:  # noqa: ANN401 -- as above
    states = []
    for link in range(_MAX_LINKS):
        state = _as_int(_call_nvml(nvml, "nvmlDeviceGetNvLinkState", handle, link))
        if state is None:
            break
        states.append(bool(state))
    return states


def _call_nvml(nvml: Any, name: str, *arguments: Any) -> Any:  # noqa: ANN401 -- as above
    try:
        return getattr(nvml, name)(*arguments)
    except (nvml.NVMLError, AttributeError):  # AttributeError: a binding older or newer than the question
        return None


def _as_int(value: Any) -> int | None:  # noqa: ANN401 -- as above
    return value if isinstance(value, int) else None


def _as_text(value: str | bytes | None) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value or ""
