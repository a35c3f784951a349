"""NVIDIA GPUs from what NVML said, and Jetson boards whose driver has no NVML.

Parts that share the processor's memory (GB10, Thor, Jetson) state none of their own; their figures are the system's. A
GPU cut into MIG instances is listed as those, never as a whole.
"""

from collections.abc import Iterator, Sequence

from app.core.machine import Fact, Gpu
from app.hardware.cards.nvml import NvmlDevice, NvmlState, read_nvml
from app.hardware.cards.pci import pci_address
from app.hardware.cards.tegra import read_tegra
from app.hardware.cards.unified import pool_free, pool_total
from app.hardware.cards.visible import with_hidden
from app.hardware.evidence import Evidence, NoAnswer
from app.hardware.facts import derived_fact, is_there, measured_fact, parse_decimal, unknown_fact
from app.hardware.limits import read_variables
from app.hardware.linux.cpu import product_of, read_board
from app.hardware.part import ProbePart

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
        integrated=_integrated_fact(device, is_shared=is_shared),
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


def _integrated_fact(device: NvmlDevice, *, is_shared: bool) -> Fact[bool]:
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
    needed = _driver_floor(state.devices)
    if major >= needed:
        return []
    sentence = f"NVIDIA driver {state.driver} is too old for current CUDA engines, which need {needed} or later here."
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
