"""GPUs as Vulkan sees them: the way in where there is no other library, and a second opinion on the rest.

The largest device-local heap counts, never their sum: with a resizable BAR drivers list the same memory twice.
Software renderers and layers that translate to another API are no devices.

The few structures and calls of Vulkan 1.1 that describe devices, through ctypes. Probe children only.

Layouts are those of vulkan_core.h on 64-bit systems; what is not read is left as bytes of the right size.
"""

import ctypes
import re
import sys
from collections.abc import Iterator
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_int32, c_ubyte, c_uint32, c_uint64, c_void_p
from typing import Any, ClassVar

import msgspec

from app.core.machine import Fact, Gpu
from app.hardware.cards import intel
from app.hardware.cards.pci import pci_address
from app.hardware.evidence import Evidence, NoAnswer
from app.hardware.facts import ProbePart, derived_fact, measured_fact, unknown_fact

LIBRARIES = {"win32": "vulkan-1.dll", "darwin": "libvulkan.1.dylib"}
_LIBRARY = "libvulkan.so.1"
_VERSION_1_1 = (1 << 22) | (1 << 12)
_TYPES = ("other", "integrated", "discrete", "virtual", "cpu")
_DEVICE_LOCAL = 1
_INCOMPLETE = 5
_MOST_DEVICES = 64
_BUDGET, _PCI = "VK_EXT_memory_budget", "VK_EXT_pci_bus_info"
_NOTED = ("VK_KHR_cooperative_matrix", "VK_KHR_shader_integer_dot_product", "VK_KHR_shader_bfloat16")
"""What makes llama.cpp's Vulkan kernels fast; llama.cpp asks for the same."""


class VulkanHeap(msgspec.Struct, frozen=True, kw_only=True):
    """A heap in bytes; `budget` is what this process may have of it, `usage` what it has (None: not told)."""

    size: int
    is_device_local: bool
    budget: int | None = None
    usage: int | None = None


class VulkanDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A physical device as its driver tells; `kind` is "discrete", "integrated", "virtual", "cpu" or "other"."""

    name: str
    kind: str
    vendor_id: int = 0
    device_id: int = 0
    driver: str = ""
    driver_info: str = ""
    pci: str = ""
    uuid: str = ""
    subgroup_size: int = 0
    extensions: list[str] = []
    heaps: list[VulkanHeap] = []


class _Properties(Structure):
    _fields_: ClassVar = [
        ("api_version", c_uint32),
        ("driver_version", c_uint32),
        ("vendor_id", c_uint32),
        ("device_id", c_uint32),
        ("kind", c_int32),
        ("name", c_char * 256),
        ("pipeline_cache_uuid", c_ubyte * 16),
        ("limits_and_sparse", c_uint64 * 66),
    ]


class _Properties2(Structure):
    _fields_: ClassVar = [("s_type", c_uint32), ("next", c_void_p), ("properties", _Properties)]


class _Id(Structure):
    _fields_: ClassVar = [
        ("s_type", c_uint32),
        ("next", c_void_p),
        ("device_uuid", c_ubyte * 16),
        ("driver_uuid", c_ubyte * 16),
        ("device_luid", c_ubyte * 8),
        ("node_mask", c_uint32),
        ("is_luid_valid", c_uint32),
    ]


class _Subgroup(Structure):
    _fields_: ClassVar = [("s_type", c_uint32), ("next", c_void_p), ("size", c_uint32), ("rest", c_uint32 * 3)]


class _Driver(Structure):
    _fields_: ClassVar = [
        ("s_type", c_uint32),
        ("next", c_void_p),
        ("driver_id", c_int32),
        ("name", c_char * 256),
        ("info", c_char * 256),
        ("conformance", c_ubyte * 4),
    ]


class _Pci(Structure):
    _fields_: ClassVar = [("s_type", c_uint32), ("next", c_void_p), ("address", c_uint32 * 4)]


class _Heap(Structure):
    _fields_: ClassVar = [("size", c_uint64), ("flags", c_uint32)]


class _Memory2(Structure):
    _fields_: ClassVar = [
        ("s_type", c_uint32),
        ("next", c_void_p),
        ("type_count", c_uint32),
        ("types", c_uint32 * 64),
        ("heap_count", c_uint32),
        ("heaps", _Heap * 16),
    ]


class _Budget(Structure):
    _fields_: ClassVar = [
        ("s_type", c_uint32),
        ("next", c_void_p),
        ("budget", c_uint64 * 16),
        ("usage", c_uint64 * 16),
    ]


class _Extension(Structure):
    _fields_: ClassVar = [("name", c_char * 256), ("version", c_uint32)]


class _Application(Structure):
    _fields_: ClassVar = [
        ("s_type", c_uint32),
        ("next", c_void_p),
        ("name", c_char_p),
        ("version", c_uint32),
        ("engine", c_char_p),
        ("engine_version", c_uint32),
        ("api_version", c_uint32),
    ]


class _InstanceInfo(Structure):
    _fields_: ClassVar = [
        ("s_type", c_uint32),
        ("next", c_void_p),
        ("flags", c_uint32),
        ("application", POINTER(_Application)),
        ("layer_count", c_uint32),
        ("layers", c_void_p),
        ("extension_count", c_uint32),
        ("extensions", c_void_p),
    ]


_S_TYPES = {
    _InstanceInfo: 1,
    _Memory2: 1000059006,
    _Properties2: 1000059001,
    _Id: 1000071004,
    _Subgroup: 1000094000,
    _Driver: 1000196000,
    _Pci: 1000212000,
    _Budget: 1000237000,
}


def read_vulkan() -> list[VulkanDevice]:
    """Return every physical device. Raises NoAnswer without a loader, or when it finds no driver."""
    try:
        library = ctypes.CDLL(LIBRARIES.get(sys.platform, _LIBRARY))
    except OSError as error:
        raise NoAnswer(str(error)) from error
    instance = _create_instance(library)
    try:
        return [_read_device(library, handle) for handle in _device_handles(library, instance)]
    finally:
        library.vkDestroyInstance(instance, None)


def _create_instance(library: Any) -> c_void_p:  # noqa: ANN401 -- a ctypes library has any attribute
    application = _Application(s_type=0, name=b"roundhouse", api_version=_VERSION_1_1)
    info = _new_struct(_InstanceInfo)
    info.application = ctypes.pointer(application)
    instance = c_void_p()
    _check_result(library.vkCreateInstance(byref(info), None, byref(instance)), "vkCreateInstance")
    return instance


def _device_handles(library: Any, instance: c_void_p) -> Iterator[c_void_p]:  # noqa: ANN401 -- as above
    count, handles = c_uint32(_MOST_DEVICES), (c_void_p * _MOST_DEVICES)()
    _check_result(library.vkEnumeratePhysicalDevices(instance, byref(count), handles), "vkEnumeratePhysicalDevices")
    yield from (c_void_p(handle) for handle in handles[: count.value])


def _read_device(library: Any, handle: c_void_p) -> VulkanDevice:  # noqa: ANN401 -- as above
    extensions = _read_extensions(library, handle)
    properties, identity, subgroup, driver = (
        _new_struct(_Properties2),
        _new_struct(_Id),
        _new_struct(_Subgroup),
        _new_struct(_Driver),
    )
    pci = _new_struct(_Pci) if _PCI in extensions else None
    _chain_structs(properties, identity, subgroup, driver, *([pci] if pci else []))
    library.vkGetPhysicalDeviceProperties2(handle, byref(properties))
    kind = properties.properties.kind
    return VulkanDevice(
        name=_decode_text(properties.properties.name),
        kind=_TYPES[kind] if 0 <= kind < len(_TYPES) else "other",
        vendor_id=properties.properties.vendor_id,
        device_id=properties.properties.device_id,
        driver=_decode_text(driver.name),
        driver_info=_decode_text(driver.info),
        pci="{:04x}:{:02x}:{:02x}.{}".format(*pci.address) if pci else "",
        uuid=bytes(identity.device_uuid).hex(),
        subgroup_size=subgroup.size,
        extensions=[name for name in _NOTED if name in extensions],
        heaps=_read_heaps(library, handle, has_budget=_BUDGET in extensions),
    )


def _read_extensions(library: Any, handle: c_void_p) -> set[str]:  # noqa: ANN401 -- as above
    count = c_uint32()
    library.vkEnumerateDeviceExtensionProperties(handle, None, byref(count), None)
    records = (_Extension * count.value)()
    library.vkEnumerateDeviceExtensionProperties(handle, None, byref(count), records)
    return {_decode_text(extension.name) for extension in records[: count.value]}


def _read_heaps(library: Any, handle: c_void_p, *, has_budget: bool) -> list[VulkanHeap]:  # noqa: ANN401 -- as above
    memory, budget = _new_struct(_Memory2), _new_struct(_Budget)
    if has_budget:
        _chain_structs(memory, budget)
    library.vkGetPhysicalDeviceMemoryProperties2(handle, byref(memory))
    return [
        VulkanHeap(
            size=memory.heaps[number].size,
            is_device_local=bool(memory.heaps[number].flags & _DEVICE_LOCAL),
            budget=budget.budget[number] if has_budget else None,
            usage=budget.usage[number] if has_budget else None,
        )
        for number in range(min(memory.heap_count, 16))
    ]


def _new_struct(kind: type[Structure]) -> Any:  # noqa: ANN401 -- a Structure has the fields it lists
    return kind(s_type=_S_TYPES[kind])


def _chain_structs(first: Any, *others: Any) -> None:  # noqa: ANN401 -- as above
    """Link structures by their `next`, as Vulkan wants to be asked for more than one at once."""
    for current, next_struct in zip((first, *others), others, strict=False):
        current.next = ctypes.addressof(next_struct)


def _check_result(result: int, call: str) -> None:
    if result not in {0, _INCOMPLETE}:
        raise NoAnswer(f"{call}: error {result}")


def _decode_text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


SOURCE = "Vulkan"
_VENDORS = {
    0x10DE: "nvidia",
    0x1002: "amd",
    0x8086: "intel",
    0x106B: "apple",
    0x5143: "qualcomm",
    0x13B5: "arm",
    0x1010: "imagination",
    0x14E4: "broadcom",
}
_TOO_SMALL = {"broadcom"}
"""Raspberry Pi's graphics are slower at models than its processor."""
_NOT_REAL = re.compile(r"llvmpipe|lavapipe|swiftshader|direct3d ?12|dzn|dozen", re.IGNORECASE)
_IN_BRACKETS = re.compile(r"(?<!\s)\s*+\((?:RADV|NVK|ANV|DG\d|G\d\d|[A-Z]{3}\b)[^()]*\)")
"""Mesa adds its own name and the chip's: "AMD Radeon RX 7900 XTX (RADV NAVI31)", "Intel(R) Arc(tm) B580 (BMG G21)"."""


def vulkan_family(evidence: Evidence) -> ProbePart:
    """Return the real devices Vulkan lists."""
    try:
        devices = evidence.read_table("vulkan", list[VulkanDevice], read_vulkan)
    except NoAnswer as error:
        return ProbePart(absent=str(error).removeprefix("Unanswered: "))
    real = [device for device in devices if not _is_software(device) and not _is_old_intel(device)]
    gpus = [_build_gpu(device) for device in real if _VENDORS.get(device.vendor_id) not in _TOO_SMALL]
    small = [device for device in real if _VENDORS.get(device.vendor_id) in _TOO_SMALL]
    return ProbePart(
        gpus=gpus,
        limits=[
            measured_fact(f"{device.name} runs models more slowly than the processor and is not used.", SOURCE)
            for device in small
        ],
        absent="" if real else "Vulkan lists no GPU.",
    )


def _is_software(device: VulkanDevice) -> bool:
    return device.kind == "cpu" or any(_NOT_REAL.search(text) for text in (device.name, device.driver))


def _is_old_intel(device: VulkanDevice) -> bool:
    return device.vendor_id == intel.VENDOR and intel.is_before_xe(device.device_id)


def _build_gpu(device: VulkanDevice) -> Gpu:
    heap = _largest_heap(device)
    total = _bytes_fact(heap.size if heap else None)
    return Gpu(
        id=pci_address(device.pci) or f"vulkan-{device.uuid or device.name}",
        vendor=_VENDORS.get(device.vendor_id, "unknown"),
        name=measured_fact(_IN_BRACKETS.sub("", device.name).strip() or device.name, SOURCE),
        memory_total=total,
        memory_free=_free_memory(heap),
        driver=measured_fact(f"{device.driver} {device.driver_info}".strip(), SOURCE),
        compute=unknown_fact(SOURCE, "Vulkan does not say."),
        integrated=_find_integration(device),
        uuid=device.uuid,
        addressable={"vulkan": total},
    )


def _largest_heap(device: VulkanDevice) -> VulkanHeap | None:
    local = [heap for heap in device.heaps if heap.is_device_local]
    return max(local, key=lambda heap: heap.size, default=None)


def _free_memory(heap: VulkanHeap | None) -> Fact[int]:
    if heap is None or heap.budget is None:
        return unknown_fact(SOURCE, "The driver does not say how much is free.", unit="B")
    free = max(0, min(heap.budget, heap.size) - (heap.usage or 0))
    return derived_fact(free, "VK_EXT_memory_budget", unit="B", note="budget - use, of the largest device-local heap")


def _find_integration(device: VulkanDevice) -> Fact[bool]:
    if device.kind in {"integrated", "discrete"}:
        return measured_fact(device.kind == "integrated", SOURCE)
    return unknown_fact(SOURCE, f"The driver calls it {device.kind}.")


def _bytes_fact(amount: int | None) -> Fact[int]:
    return (
        unknown_fact(SOURCE, "No heap is device-local.", unit="B")
        if not amount
        else measured_fact(amount, SOURCE, unit="B")
    )
