"""NVIDIA GPUs from what NVML said, and Jetson boards whose driver has no NVML.

Parts that share the processor's memory (GB10, Thor, Jetson) state none of their own; their figures are the system's. A
GPU cut into MIG instances is listed as those, never as a whole.

NVIDIA Jetson boards whose driver has no NVML: the device tree names the chip, the chip tells the rest.

What NVML, the library of NVIDIA's driver, says: recorded as plain values, judged elsewhere. Probe children only.

Every question is asked by itself: parts, partitions and old drivers leave many of them unanswered, which is no error.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from app.core.machine import Confidence, Fact, Gpu
from app.hardware.cards.pci import pci_address
from app.hardware.evidence import Evidence, NoAnswer
from app.hardware.facts import ProbePart, derived_fact, is_there, measured_fact, parse_decimal, read_text, unknown_fact
from app.hardware.limits import read_variables, with_hidden
from app.hardware.linux.cpu import product_of, read_board
from app.hardware.memory import pool_free, pool_total

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
    """Ask `nvml` (the module `pynvml`) everything. Raises NoAnswer when there is no driver to ask."""
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


_SOURCE = "NVML"
_ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada Lovelace",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
"""NVML_DEVICE_ARCH_*."""
_ATS = 2
_JETSON = "(nvgpu)"
"""Jetson's driver names its GPU so."""
_DRIVER_FLOOR = 550
_DRIVER_FLOOR_OLD_GPU = 570
_OLD_COMPUTE = 7
"""Builds made with CUDA 12.4 and later hold their kernels compressed, which drivers before 550 cannot read; GPUs before
Volta have theirs compiled by the driver, which from CUDA 12.8 on needs 570 (Ollama's filter, hardware-fit 1.3)."""
_NARROW = 8
"""PCIe lanes below which loading and work split between GPU and processor suffer noticeably."""


def nvidia_family(evidence: Evidence) -> ProbePart:
    """Return NVIDIA's GPUs and what its driver's version rules out."""
    try:
        state = evidence.read_table("nvml", NvmlState, _ask_driver)
    except NoAnswer as error:
        boards = read_tegra(evidence.root)
        absent = "" if boards else str(error).removeprefix("Unanswered: ")
        return ProbePart(gpus=boards, limits=_other_wsl_gpu(evidence), absent=absent)
    gpus = with_hidden(nvidia_gpus(state, evidence), "cuda", read_variables(evidence))
    return ProbePart(gpus=gpus, limits=[*_driver_limits(state), *_slot_limits(state)])


def _ask_driver() -> NvmlState:
    import pynvml  # noqa: PLC0415 -- may load a vendor library: probe children only

    return read_nvml(pynvml)


def nvidia_gpus(state: NvmlState, evidence: Evidence) -> list[Gpu]:
    """Return the GPUs an engine can be given: whole ones, and the instances of partitioned ones."""
    return [gpu for device in state.devices for gpu in _usable_gpus(device, state, evidence)]


def _usable_gpus(device: NvmlDevice, state: NvmlState, evidence: Evidence) -> Iterator[Gpu]:
    whole = _build_gpu(device, state, evidence)
    if not device.is_mig:
        yield whole
    for number, instance in enumerate(device.instances):
        yield _build_partition(whole, instance, number)


def _build_gpu(device: NvmlDevice, state: NvmlState, evidence: Evidence) -> Gpu:
    is_shared = _shares_memory(device)
    total = pool_total(evidence.root) if is_shared else _memory_fact(device.memory_total, device)
    return Gpu(
        id=pci_address(device.bus_id) or device.uuid or device.name or "nvidia",
        vendor="nvidia",
        name=_name_fact(device, evidence),
        memory_total=total,
        memory_free=pool_free(evidence.root) if is_shared else _free_memory(device),
        driver=_text_fact(state.driver),
        compute=_text_fact(device.compute),
        integrated=_find_integration(device, is_shared=is_shared),
        uuid=device.uuid,
        architecture=_architecture_fact(device.architecture),
        bandwidth_gb_s=_bandwidth_fact(device),
        addressable={"cuda": total},
        drives_display=_bool_fact(device.display_active),
        nvlink=_nvlink_fact(device),
        pcie_width=_link_width(device.max_pcie_width),
    )


def _build_partition(whole: Gpu, instance: NvmlDevice, number: int) -> Gpu:
    """Return a MIG instance: its parent's chip, its own memory. Bandwidth is divided in a way NVML does not tell."""
    total = _memory_fact(instance.memory_total, instance)
    return Gpu(
        id=instance.uuid or f"{whole.id}/{number}",
        vendor="nvidia",
        name=_text_fact(instance.name) if instance.name else whole.name,
        memory_total=total,
        memory_free=_free_memory(instance),
        driver=whole.driver,
        compute=whole.compute,
        integrated=whole.integrated,
        uuid=instance.uuid,
        architecture=whole.architecture,
        bandwidth_gb_s=unknown_fact(_SOURCE, "An instance has a share of its GPU's bandwidth.", unit="GB/s"),
        addressable={"cuda": total},
        drives_display=measured_fact(value=False, source="MIG"),
        nvlink=measured_fact(value=False, source="MIG", note="Instances cannot use NVLink."),
        pcie_width=whole.pcie_width,
        partition_of=whole.id,
    )


def _name_fact(device: NvmlDevice, evidence: Evidence) -> Fact[str]:
    """Return the card's name; Jetson's driver says only "Orin (nvgpu)" where the board says which."""
    product = product_of(read_board(evidence.root)) if _JETSON in device.name else ""
    return measured_fact(product, "/proc/device-tree/model") if product else _text_fact(device.name)


def _shares_memory(device: NvmlDevice) -> bool:
    """Tell parts without memory of their own: what they lack is "Not Supported", not forbidden or broken."""
    if _JETSON in device.name:  # whatever it states
        return True
    lacks = "not supported" in device.memory_error.lower() or not device.memory_error
    return device.memory_total is None and not device.is_mig and (lacks or device.addressing_mode == _ATS)


def _find_integration(device: NvmlDevice, *, is_shared: bool) -> Fact[bool]:
    if is_shared:
        return derived_fact(
            value=True, source=_SOURCE, note="The driver states no memory of its own: it shares the system's."
        )
    if device.memory_total is None and not device.is_mig:
        return unknown_fact(_SOURCE, device.memory_error)
    return derived_fact(value=False, source=_SOURCE, note="It has memory of its own.")


def _memory_fact(amount: int | None, device: NvmlDevice) -> Fact[int]:
    if amount is None:
        return unknown_fact(_SOURCE, device.memory_error or "The driver states no memory for this GPU.", unit="B")
    return measured_fact(amount, _SOURCE, unit="B")


def _free_memory(device: NvmlDevice) -> Fact[int]:
    if device.memory_free is None or device.memory_total is None or device.memory_free <= device.memory_total:
        return _memory_fact(device.memory_free, device)
    return derived_fact(device.memory_total, _SOURCE, unit="B", note="More was said to be free than there is.")


def _architecture_fact(number: int | None) -> Fact[str]:
    if number in _ARCHITECTURES:
        return measured_fact(_ARCHITECTURES[number], _SOURCE)
    return unknown_fact(_SOURCE, "The driver names no architecture that is known here.")


def _bandwidth_fact(device: NvmlDevice) -> Fact[float]:
    """Return bus width times memory clock times two: NVML's clock is half the data rate for every memory type.

    It agrees with data sheets from GDDR5 (GTX 1650: 128 bit, 4,001 MHz, 128 GB/s) to HBM3 (H100: 5,120 bit, 2,619 MHz,
    3,352 GB/s), and tells cards of one name with different memory apart.
    """
    if not device.bus_width_bits or not device.memory_clock_mhz:
        return unknown_fact(_SOURCE, "The driver states no bus width or no memory clock.", unit="GB/s")
    rate = device.bus_width_bits / 8 * device.memory_clock_mhz * 2 / 1000
    return derived_fact(
        rate, _SOURCE, unit="GB/s", note=f"{device.bus_width_bits} bit x {device.memory_clock_mhz} MHz x 2"
    )


def _nvlink_fact(device: NvmlDevice) -> Fact[bool]:
    if not device.nvlinks:
        return derived_fact(value=False, source=_SOURCE, note="The driver knows no NVLink on this GPU.")
    return measured_fact(
        any(device.nvlinks), _SOURCE, note=f"{sum(device.nvlinks)} of {len(device.nvlinks)} links are up"
    )


def _link_width(lanes: int | None) -> Fact[int]:
    return (
        measured_fact(lanes, _SOURCE, note="the most the slot and card agree on")
        if lanes
        else unknown_fact(_SOURCE, "Not said.")
    )


def _bool_fact(answer: bool | None) -> Fact[bool]:  # noqa: FBT001 -- what the driver answered, if it did
    return unknown_fact(_SOURCE, "The driver does not say.") if answer is None else measured_fact(answer, _SOURCE)


def _text_fact(text: str) -> Fact[str]:
    return measured_fact(text, _SOURCE) if text else unknown_fact(_SOURCE, "The driver does not say.")


def _other_wsl_gpu(evidence: Evidence) -> list[Fact[str]]:
    """WSL passes every GPU on as /dev/dxg; only NVIDIA's has a library there that says more."""
    if not is_there(evidence.root / "dev/dxg"):
        return []
    sentence = "WSL provides a GPU that is not from NVIDIA: only engines built for ROCm on WSL can use it."
    return [measured_fact(sentence, "/dev/dxg")]


def _driver_limits(state: NvmlState) -> list[Fact[str]]:
    major = parse_decimal(state.driver.partition(".")[0])
    if major is None or any(_JETSON in device.name for device in state.devices):
        return []  # Jetson's drivers count differently, and come with their own CUDA
    needed_driver = _driver_floor(state.devices)
    if major >= needed_driver:
        return []
    sentence = (
        f"NVIDIA driver {state.driver} is too old for current CUDA engines, which need {needed_driver} or later here."
    )
    return [measured_fact(sentence, _SOURCE)]


def _driver_floor(devices: Sequence[NvmlDevice]) -> int:
    majors = [parse_decimal(device.compute.partition(".")[0]) for device in devices]
    has_old = any(major is not None and major < _OLD_COMPUTE for major in majors)
    return _DRIVER_FLOOR_OLD_GPU if has_old else _DRIVER_FLOOR


def _slot_limits(state: NvmlState) -> list[Fact[str]]:
    return [
        measured_fact(
            f"{device.name} is connected by {device.max_pcie_width} PCIe lanes: it loads models slowly, and "
            "sharing work with the processor or another GPU is slow.",
            _SOURCE,
        )
        for device in state.devices
        if device.max_pcie_width and device.max_pcie_width < _NARROW
    ]


_CHIPS = {
    "nvidia,tegra210": ("5.3", "Maxwell"),
    "nvidia,tegra186": ("6.2", "Pascal"),
    "nvidia,tegra194": ("7.2", "Volta"),
    "nvidia,tegra234": ("8.7", "Ampere"),
    "nvidia,tegra264": ("11.0", "Blackwell"),
}
"""By the device tree's "compatible": CUDA compute capability and architecture (NVIDIA's table of CUDA GPUs; 11.0 is
Thor's from CUDA 13 on)."""
_DEVICES = ("dev/nvmap", "dev/nvhost-gpu", "dev/nvgpu")
"""Without any of them no program here can reach the GPU: a container that was not given it."""


def read_tegra(root: Path) -> list[Gpu]:
    """Return the GPU of a Jetson board, or nothing on any other computer."""
    compatible = (read_text(root / "proc/device-tree/compatible") or "").split("\x00")
    chip = next((name for name in compatible if name in _CHIPS), None)
    if chip is None or not any(is_there(root / device) for device in _DEVICES):
        return []
    capability, architecture = _CHIPS[chip]
    total = pool_total(root)
    return [
        Gpu(
            id=chip,
            vendor="nvidia",
            name=measured_fact(product_of(read_board(root)) or chip, "/proc/device-tree/model"),
            memory_total=total,
            memory_free=pool_free(root),
            driver=_release_fact(root),
            compute=_table_fact(capability),
            integrated=derived_fact(
                value=True, source="/proc/device-tree/compatible", note="Jetson: one memory for both"
            ),
            architecture=_table_fact(architecture),
            addressable={"cuda": total},
        )
    ]


def _table_fact(text: str) -> Fact[str]:
    return Fact(value=text, source="/proc/device-tree/compatible", confidence=Confidence.TABLE)


def _release_fact(root: Path) -> Fact[str]:
    """Return Linux for Tegra's release: "R36" of "# R36 (release), REVISION: 4.3, ..."."""
    words = (read_text(root / "etc/nv_tegra_release") or "").replace("#", "").split()
    if words:
        return measured_fact(f"L4T {words[0]}", "/etc/nv_tegra_release")
    return unknown_fact("/etc/nv_tegra_release", "The file is missing.")
