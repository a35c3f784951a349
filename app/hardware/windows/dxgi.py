"""The graphics adapters DXGI lists, by calling its COM interfaces through their tables of functions.

A COM object begins with a pointer to a table of function addresses; a slot's number follows from the order of the
declarations in dxgi.h, dxgi1_4.h and unknwn.h, which can never change. 64-bit Windows has one calling convention, so
`CFUNCTYPE` fits, and tests can play an adapter with a table of their own. For probe children only: drivers are loaded.

What DXGI does not tell: where an adapter sits on the PCI bus, what kind it is, and how much all programs use of it.

The first two come from the graphics kernel's thunks in gdi32 (d3dkmthk.h), the last from the performance counters Task
Manager shows (pdh.h): DXGI's own figures are this process's.
"""

import ctypes
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from app.hardware.evidence import NoAnswer
from app.hardware.windows.calls import load_library
from app.hardware.windows.values import AdapterUsage, DxgiAdapter

Pointer = ctypes.c_void_p

_QUERY_INTERFACE, _RELEASE = 0, 2
_ENUM_OUTPUTS, _GET_DESC1, _QUERY_VIDEO_MEMORY = 7, 10, 14
_ENUM_ADAPTERS1 = 12
_LOCAL = 0
"""DXGI_MEMORY_SEGMENT_GROUP_LOCAL: memory of the adapter's own, or set aside for it."""
_MOST_ADAPTERS = 64

_FACTORY1 = "770aae78-f26f-4dba-a829-253c83d1b387"
_ADAPTER3 = "645967a4-1392-4310-a798-8053ce3e93fd"


class _Desc1(ctypes.Structure):
    """DXGI_ADAPTER_DESC1; wide characters as 16-bit numbers, which is what they are on Windows."""

    _fields_ = (
        ("description", ctypes.c_uint16 * 128),
        *((name, ctypes.c_uint32) for name in ("vendor", "device", "subsystem", "revision")),
        *((name, ctypes.c_size_t) for name in ("dedicated_video", "dedicated_system", "shared_system")),
        *(("luid_low", ctypes.c_uint32), ("luid_high", ctypes.c_int32), ("flags", ctypes.c_uint32)),
    )


class _MemoryInfo(ctypes.Structure):
    """DXGI_QUERY_VIDEO_MEMORY_INFO."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("budget", "usage", "reservable", "reserved"))


def read_adapters() -> list[DxgiAdapter]:
    """Return every adapter DXGI lists, software ones too. Raises NoAnswer or OSError."""
    factory = Pointer()
    result = load_library("dxgi.dll").CreateDXGIFactory1(_guid_buffer(_FACTORY1), ctypes.byref(factory))
    if result < 0 or not factory.value:
        raise NoAnswer(f"CreateDXGIFactory1 answered {result & 0xFFFFFFFF:#x}.")
    try:
        return adapters_of(factory, adapter_address)
    finally:
        _release_object(factory)


Locate = Callable[[int, int], tuple[list[int], int | None]]


def adapters_of(factory: Pointer, locate: Locate) -> list[DxgiAdapter]:
    """Return the adapters of an IDXGIFactory1; `locate` tells a LUID's PCI address and D3DKMT_ADAPTERTYPE."""
    return [_read_adapter(adapter, locate) for adapter in _iter_adapters(factory)]


def _iter_adapters(factory: Pointer) -> Iterator[Pointer]:
    enum_adapters = _com_method(factory, _ENUM_ADAPTERS1, ctypes.c_uint32, ctypes.POINTER(Pointer))
    for index in range(_MOST_ADAPTERS):
        adapter = Pointer()
        if enum_adapters(factory, index, ctypes.byref(adapter)) < 0:  # DXGI_ERROR_NOT_FOUND ends the list
            return
        try:
            yield adapter
        finally:
            _release_object(adapter)


def _read_adapter(adapter: Pointer, locate: Locate) -> DxgiAdapter:
    desc = _Desc1()
    if _com_method(adapter, _GET_DESC1, ctypes.POINTER(_Desc1))(adapter, ctypes.byref(desc)) < 0:
        raise NoAnswer("IDXGIAdapter1::GetDesc1 failed.")
    memory = _local_memory(adapter)
    address, kind = locate(desc.luid_low, desc.luid_high)
    return DxgiAdapter(
        name=bytes(desc.description).decode("utf-16-le", "replace").partition("\0")[0].strip(),
        vendor_id=desc.vendor,
        device_id=desc.device,
        subsystem_id=desc.subsystem,
        revision=desc.revision,
        luid=luid_text(desc.luid_low, desc.luid_high),
        flags=desc.flags,
        dedicated_video=desc.dedicated_video,
        dedicated_system=desc.dedicated_system,
        shared_system=desc.shared_system,
        local_budget=memory.budget if memory else None,
        local_usage=memory.usage if memory else None,
        has_output=_has_output(adapter),
        address=address,
        kind=kind,
    )


def luid_text(low: int, high: int) -> str:
    """Return a LUID as performance counters write it: "0x00000000_0x0000d1b2"."""
    return f"0x{high & 0xFFFFFFFF:08x}_0x{low:08x}"


def _local_memory(adapter: Pointer) -> _MemoryInfo | None:
    """Return what IDXGIAdapter3 says of the adapter's own memory; None before Windows 10."""
    newer = Pointer()
    query = _com_method(adapter, _QUERY_INTERFACE, ctypes.c_void_p, ctypes.POINTER(Pointer))
    if query(adapter, _guid_buffer(_ADAPTER3), ctypes.byref(newer)) < 0:
        return None
    try:
        info = _MemoryInfo()
        ask = _com_method(newer, _QUERY_VIDEO_MEMORY, ctypes.c_uint32, ctypes.c_int, ctypes.POINTER(_MemoryInfo))
        return info if ask(newer, 0, _LOCAL, ctypes.byref(info)) >= 0 else None
    finally:
        _release_object(newer)


def _has_output(adapter: Pointer) -> bool:
    output = Pointer()
    if (
        _com_method(adapter, _ENUM_OUTPUTS, ctypes.c_uint32, ctypes.POINTER(Pointer))(adapter, 0, ctypes.byref(output))
        < 0
    ):
        return False
    _release_object(output)
    return True


def _com_method(this: Pointer, slot: int, *arguments: Any) -> Callable[..., int]:  # noqa: ANN401 -- ctypes types
    table = ctypes.cast(this, ctypes.POINTER(ctypes.POINTER(Pointer))).contents
    address = table[slot]
    return ctypes.CFUNCTYPE(ctypes.c_int32, Pointer, *arguments)(address)


def _release_object(this: Pointer) -> None:
    _com_method(this, _RELEASE)(this)


def _guid_buffer(text: str) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(uuid.UUID(text).bytes_le, 16)


_ADDRESS, _KIND = 6, 15
"""KMTQAITYPE_ADAPTERADDRESS and _ADAPTERTYPE."""
_NOWHERE = 0xFFFFFFFF
"""An adapter that is not on a PCI bus answers with all bits set."""
_COUNTERS = {"dedicated": r"\GPU Adapter Memory(*)\Dedicated Usage", "shared": r"\GPU Adapter Memory(*)\Shared Usage"}
_LARGE, _MORE_DATA = 0x400, 0x800007D2
_INSTANCE = re.compile(r"luid_(0x[0-9a-f]{8}_0x[0-9a-f]{8})_phys_\d+", re.IGNORECASE)


class _Open(ctypes.Structure):
    """D3DKMT_OPENADAPTERFROMLUID."""

    _fields_ = (("luid_low", ctypes.c_uint32), ("luid_high", ctypes.c_int32), ("handle", ctypes.c_uint32))


class _Query(ctypes.Structure):
    """D3DKMT_QUERYADAPTERINFO."""

    _fields_ = (
        *(("handle", ctypes.c_uint32), ("kind", ctypes.c_uint32)),
        *(("data", ctypes.c_void_p), ("size", ctypes.c_uint32)),
    )


class _CounterValue(ctypes.Structure):
    """PDH_FMT_COUNTERVALUE_ITEM_W asked for as a 64-bit number."""

    _fields_ = (("name", ctypes.c_void_p), ("status", ctypes.c_uint32), ("value", ctypes.c_int64))


def adapter_address(luid_low: int, luid_high: int) -> tuple[list[int], int | None]:
    """Return PCI bus, device and function, empty when it has none, and D3DKMT_ADAPTERTYPE's bits, None if not said."""
    gdi = load_library("gdi32.dll")
    adapter = _Open(luid_low=luid_low, luid_high=luid_high)
    if gdi.D3DKMTOpenAdapterFromLuid(ctypes.byref(adapter)):
        return [], None
    try:
        address = _query_numbers(gdi, adapter.handle, _ADDRESS, 3)
        kind = _query_numbers(gdi, adapter.handle, _KIND, 1)
    finally:
        gdi.D3DKMTCloseAdapter(ctypes.byref(ctypes.c_uint32(adapter.handle)))
    return [] if _NOWHERE in address else address, kind[0] if kind else None


def _query_numbers(gdi: ctypes.CDLL, handle: int, kind: int, count: int) -> list[int]:
    numbers = (ctypes.c_uint32 * count)()
    query = _Query(handle=handle, kind=kind, data=ctypes.addressof(numbers), size=ctypes.sizeof(numbers))
    return [] if gdi.D3DKMTQueryAdapterInfo(ctypes.byref(query)) else list(numbers)


def read_usage() -> list[AdapterUsage]:
    """Return what all programs use of each adapter. Raises NoAnswer where the counters do not exist."""
    pdh = load_library("pdh.dll")
    query = ctypes.c_void_p()
    if pdh.PdhOpenQueryW(None, ctypes.c_size_t(0), ctypes.byref(query)):
        raise NoAnswer("PdhOpenQueryW failed.")
    try:
        counters = {name: _add_counter(pdh, query, path) for name, path in _COUNTERS.items()}
        if pdh.PdhCollectQueryData(query):
            raise NoAnswer("PdhCollectQueryData failed.")
        return sum_usage({name: list(_read_counter(pdh, counter)) for name, counter in counters.items()})
    finally:
        pdh.PdhCloseQuery(query)


def sum_usage(readings: Mapping[str, Iterable[tuple[str, int]]]) -> list[AdapterUsage]:
    """Return usage by adapter from instances such as "luid_0x00000000_0x0000D1B2_phys_0"; linked parts add up."""
    totals: dict[str, dict[str, int]] = {}
    for kind, instances in readings.items():
        for instance, value in instances:
            match = _INSTANCE.fullmatch(instance)
            if match:
                of_adapter = totals.setdefault(match[1].lower(), {})
                of_adapter[kind] = of_adapter.get(kind, 0) + value
    return [
        AdapterUsage(luid=luid, dedicated=used_bytes.get("dedicated", 0), shared=used_bytes.get("shared", 0))
        for luid, used_bytes in totals.items()
    ]


def _add_counter(pdh: ctypes.CDLL, query: ctypes.c_void_p, path: str) -> ctypes.c_void_p:
    counter = ctypes.c_void_p()
    if pdh.PdhAddEnglishCounterW(query, ctypes.c_wchar_p(path), ctypes.c_size_t(0), ctypes.byref(counter)):
        raise NoAnswer("The system has no counters of GPU memory.")
    return counter


def _read_counter(pdh: ctypes.CDLL, counter: ctypes.c_void_p) -> Iterator[tuple[str, int]]:
    size, count = ctypes.c_uint32(), ctypes.c_uint32()
    read = pdh.PdhGetFormattedCounterArrayW
    if read(counter, _LARGE, ctypes.byref(size), ctypes.byref(count), None) & 0xFFFFFFFF != _MORE_DATA:
        return
    buffer = ctypes.create_string_buffer(size.value)
    if read(counter, _LARGE, ctypes.byref(size), ctypes.byref(count), buffer):
        return
    for item in (_CounterValue * count.value).from_buffer(buffer):
        if item.status in {0, 1}:  # PDH_CSTATUS_VALID_DATA, _NEW_DATA
            yield ctypes.wstring_at(item.name), item.value
