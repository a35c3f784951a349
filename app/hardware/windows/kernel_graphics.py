"""What DXGI does not tell: where an adapter sits on the PCI bus, what kind it is, and how much all programs use of it.

The first two come from the graphics kernel's thunks in gdi32 (d3dkmthk.h), the last from the performance counters Task
Manager shows (pdh.h): DXGI's own figures are this process's.
"""

import ctypes
import re
from collections.abc import Iterable, Iterator, Mapping

from app.hardware.evidence import NoAnswer
from app.hardware.windows.calls import load_library
from app.hardware.windows.values import AdapterUsage

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
    """Return what all programs use of each adapter. Raises Unanswered where the counters do not exist."""
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
        AdapterUsage(luid=luid, dedicated=used.get("dedicated", 0), shared=used.get("shared", 0))
        for luid, used in totals.items()
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
