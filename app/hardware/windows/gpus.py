"""The GPUs of a Windows machine: DXGI's adapters, put right by the registry and by the memory the system never got.

`Win32_VideoController.AdapterRAM` is not used anywhere: it ends at 4 GiB. Shared memory is system memory a GPU may
borrow; it makes an integrated GPU's reach, and adds to nothing.
"""

from collections.abc import Sequence

import msgspec

from app.core.machine import Confidence, Fact, Gpu
from app.hardware import devices
from app.hardware.cards.intel import is_before_xe
from app.hardware.facts import derived_fact, measured_fact, unknown_fact
from app.hardware.windows.cpu import carve_out_bytes
from app.hardware.windows.values import AdapterUsage, DeviceClass, DeviceDriver, DxgiAdapter, WindowsMemory

_VENDORS = {0x10DE: "nvidia", 0x1002: "amd", 0x1022: "amd", 0x8086: "intel", 0x4D4F4351: "qualcomm", 0x5143: "qualcomm"}
"""PCI vendors; Qualcomm's Adreno is on no PCI bus and gives "QCOM" as ACPI does."""
_SOFTWARE_FLAG = 0x2
_SOFTWARE_KIND, _INDIRECT_KIND, _HYBRID_DISCRETE, _HYBRID_INTEGRATED = 0x4, 0x40, 0x10, 0x20
"""DXGI_ADAPTER_FLAG_SOFTWARE; bits of D3DKMT_ADAPTERTYPE."""
_SOLE_KIND = {"qualcomm": "Qualcomm makes no cards.", "nvidia": "On Windows NVIDIA's GPUs have memory of their own."}
_MIB = 1 << 20
_DXGI = "DXGI"
_LEAST_SIZE = 64 * _MIB
"""Smaller registry sizes are leftovers of basic display drivers (hardware-fit 1.3)."""
_FIRMWARE_SLACK = 64 * _MIB
"""The firmware's own share of the gap may be missing from what the driver calls dedicated; it is a few MiB."""
_INTEL_IGPU = [0, 2, 0]
"""Intel's integrated graphics have always been device 2 of bus 0."""
_SMALLEST_CARD = 1 << 30
"""No graphics card with less than 1 GiB has been sold for a decade."""
_DISAGREE = 8
"""A registry size that differs by more than an eighth is worth saying; drivers keep a few per cent for themselves."""


def windows_gpus(
    adapters: Sequence[DxgiAdapter],
    display: DeviceClass,
    usage: Sequence[AdapterUsage],
    *,
    memory: WindowsMemory | None,
) -> list[Gpu]:
    """Return the GPUs engines may use, each once. `memory` tells carve-outs and what an integrated GPU can borrow."""
    used_by_luid = {entry.luid: entry for entry in usage}
    known_adapters = _gpus_by_id(adapters)
    carved_adapter = _find_carve_out(list(known_adapters.values()), memory)
    return [
        _build_gpu(
            _AdapterRecord(identity, adapter, _driver_of(adapter, display), used_by_luid.get(adapter.luid)),
            _find_integration(adapter, carved_adapter, memory),
            memory=memory,
        )
        for identity, adapter in known_adapters.items()
    ]


def registry_bytes(size: int | str | None) -> int | None:
    """Return HardwareInformation.qwMemorySize in bytes, whichever type a driver gave it; None below 64 MiB."""
    if isinstance(size, str):
        try:
            size = int.from_bytes(bytes.fromhex(size), "little")
        except ValueError:
            return None
    return size if size and size >= _LEAST_SIZE else None


class _AdapterRecord(msgspec.Struct, frozen=True):
    """One adapter with all that is known of it."""

    identity: str
    adapter: DxgiAdapter
    driver: DeviceDriver | None
    usage: AdapterUsage | None


def _gpus_by_id(adapters: Sequence[DxgiAdapter]) -> dict[str, DxgiAdapter]:
    """Return each GPU by its id. One PCI address is one GPU, however often remote sessions and displays list it."""
    known_adapters: dict[str, DxgiAdapter] = {}
    for number, adapter in enumerate(filter(_is_real, adapters)):
        identity = _adapter_id(adapter, number)
        if identity not in known_adapters or adapter.has_output:
            known_adapters[identity] = adapter
    return known_adapters


def _adapter_id(adapter: DxgiAdapter, number: int) -> str:
    if not adapter.address:
        return f"{adapter.vendor_id:04x}:{adapter.device_id:04x}-{number}"
    bus, device, function = adapter.address
    return f"0000:{bus:02x}:{device:02x}.{function:x}"


def _is_real(adapter: DxgiAdapter) -> bool:
    """Tell a GPU from software adapters, virtual displays, framebuffers, and Intel graphics too old to help."""
    is_made_up = adapter.flags & _SOFTWARE_FLAG or (adapter.kind or 0) & (_SOFTWARE_KIND | _INDIRECT_KIND)
    vendor = _VENDORS.get(adapter.vendor_id)
    return bool(vendor) and not is_made_up and not (vendor == "intel" and is_before_xe(adapter.device_id))


def _driver_of(adapter: DxgiAdapter, display: DeviceClass) -> DeviceDriver | None:
    """Return the driver by hardware id, never by name: names arrive in the maker's code page. The newest key counts."""
    device = f"ven_{adapter.vendor_id:04x}&dev_{adapter.device_id:04x}"
    board = f"{device}&subsys_{adapter.subsystem_id:08x}"
    for hardware_id in (board, device):
        drivers = [driver for driver in display.drivers if hardware_id in driver.matching_device_id.lower()]
        if drivers:
            return drivers[-1]
    return None


def _build_gpu(record: _AdapterRecord, integration: Fact[bool], *, memory: WindowsMemory | None) -> Gpu:
    adapter, driver = record.adapter, record.driver
    total = _total_memory(record, is_integrated=bool(integration.value))
    return Gpu(
        id=record.identity,
        vendor=_VENDORS[adapter.vendor_id],
        name=measured_fact(adapter.name, _DXGI),
        memory_total=total,
        memory_free=_free_memory(record, total, available=memory.available if memory and integration.value else None),
        driver=_driver_version(driver),
        compute=unknown_fact(_DXGI, "Windows does not say; the device table or the driver's library may."),
        integrated=integration,
        addressable={"vulkan": total} if integration.value else {},
        drives_display=measured_fact(adapter.has_output, f"{_DXGI} EnumOutputs"),
        carve_out=_carve_out_fact(adapter) if integration.value else Fact(unit="B"),
    )


def _find_integration(
    adapter: DxgiAdapter, carved_adapter: DxgiAdapter | None, memory: WindowsMemory | None
) -> Fact[bool]:
    """Tell by what is certain first, then by which GPU's memory is missing from the system's."""
    certain = _certain_integration(adapter)
    if certain is not None:
        return certain
    if memory is None or not memory.installed:
        return _guess_integration(adapter)
    note = "Its memory is missing from the system's." if adapter is carved_adapter else "Its memory is its own."
    return derived_fact(adapter is carved_adapter, "GetPhysicallyInstalledSystemMemory", note=note)


def _certain_integration(adapter: DxgiAdapter) -> Fact[bool] | None:
    """Return what the system's own mark, the vendor, the bus or the product name leave no doubt about."""
    vendor, kind = _VENDORS[adapter.vendor_id], adapter.kind or 0
    if kind & (_HYBRID_DISCRETE | _HYBRID_INTEGRATED):
        return measured_fact(bool(kind & _HYBRID_INTEGRATED), "D3DKMT_ADAPTERTYPE")
    if vendor == "intel" and adapter.address == _INTEL_IGPU:
        return derived_fact(value=True, source="PCI address", note="Intel's integrated graphics are device 00:02.0.")
    if vendor in _SOLE_KIND:
        return derived_fact(vendor == "qualcomm", "PCI vendor", note=_SOLE_KIND[vendor])
    device = devices.find_device(adapter.name)
    if device:
        return Fact(value=device.is_unified, source=f"device table: {device.name}", confidence=Confidence.TABLE)
    return None


def _find_carve_out(adapters: Sequence[DxgiAdapter], memory: WindowsMemory | None) -> DxgiAdapter | None:
    """Return the adapter whose memory is set aside from the system's: the largest that fits what is missing there."""
    certain = [_certain_integration(adapter) for adapter in adapters]
    if memory is None or any(fact and fact.value for fact in certain):
        return None
    missing_bytes = carve_out_bytes(memory) + _FIRMWARE_SLACK
    open_ones = [adapter for adapter, fact in zip(adapters, certain, strict=True) if fact is None]
    fitting_adapters = [adapter for adapter in open_ones if 0 < adapter.dedicated_video <= missing_bytes]
    return max(fitting_adapters, key=lambda adapter: adapter.dedicated_video, default=None)


def _guess_integration(adapter: DxgiAdapter) -> Fact[bool]:
    """Judge a GPU by its memory alone, where the firmware does not say how much is installed."""
    is_small = adapter.dedicated_video < _SMALLEST_CARD
    note = "It has next to no memory of its own." if is_small else "It has memory of its own."
    return derived_fact(is_small, _DXGI, note=note)


def _total_memory(record: _AdapterRecord, *, is_integrated: bool) -> Fact[int]:
    adapter = record.adapter
    if is_integrated:
        reach = adapter.dedicated_video + adapter.shared_system
        note = "set aside + what it may borrow of the system's"
        return derived_fact(reach, f"{_DXGI} DedicatedVideoMemory + SharedSystemMemory", unit="B", note=note)
    registry_size = registry_bytes(record.driver.memory_size if record.driver else None)
    if adapter.dedicated_video:
        note = _disagreement_note(adapter.dedicated_video, registry_size)
        return measured_fact(adapter.dedicated_video, f"{_DXGI} DedicatedVideoMemory", unit="B", note=note)
    if registry_size:
        return measured_fact(registry_size, "registry qwMemorySize", unit="B")
    return unknown_fact(_DXGI, "Windows states no memory for this GPU.", unit="B")


def _disagreement_note(dxgi_bytes: int, registry_bytes_: int | None) -> str:
    if registry_bytes_ is None or abs(dxgi_bytes - registry_bytes_) * _DISAGREE <= registry_bytes_:
        return ""
    return f"The registry says {registry_bytes_ / (1 << 30):.1f} GiB."


def _free_memory(record: _AdapterRecord, total: Fact[int], *, available: int | None) -> Fact[int]:
    """Return what is free of a GPU's own memory; of an integrated one's also what the system has left to lend.

    DXGI's budget is what this process may have, and other programs lower it late: their use is subtracted first.
    """
    adapter, usage = record.adapter, record.usage
    own = _own_free(adapter, usage)
    if own is None:
        return unknown_fact(f"{_DXGI} QueryVideoMemoryInfo", "Windows does not say how much is in use.", unit="B")
    lent_bytes = 0
    if available is not None:
        lent_bytes = min(max(0, adapter.shared_system - (usage.shared if usage else 0)), available)
    free = own + lent_bytes if total.value is None else min(own + lent_bytes, total.value)
    source = "GPU Adapter Memory counters" if usage else f"{_DXGI} QueryVideoMemoryInfo"
    return derived_fact(free, source, unit="B", note="total - used by all programs" if usage else "budget - used by us")


def _own_free(adapter: DxgiAdapter, usage: AdapterUsage | None) -> int | None:
    rests = []
    if usage is not None:
        rests.append(adapter.dedicated_video - usage.dedicated)
    if adapter.local_budget:
        rests.append(min(adapter.local_budget, adapter.dedicated_video) - (adapter.local_usage or 0))
    return max(0, min(rests)) if rests else None


def _carve_out_fact(adapter: DxgiAdapter) -> Fact[int]:
    return measured_fact(adapter.dedicated_video, f"{_DXGI} DedicatedVideoMemory", unit="B")


def _driver_version(driver: DeviceDriver | None) -> Fact[str]:
    if driver and driver.version:
        return measured_fact(f"{driver.provider} {driver.version}".strip(), "registry DriverVersion")
    return unknown_fact("registry DriverVersion", "No driver is registered under this hardware id.")
