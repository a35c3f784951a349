"""The GPUs of a Mac, and how much of memory Metal may use of it.

In this order: what somebody set (`iogpu.wired_limit_mb`; 0 means the default, not "no limit"), what Metal recommends,
and where Metal could not be asked two thirds of memory up to 36 GiB and three quarters above, which is what Metal
recommended on the machines it was published for. None of them is a promise: other programs hold memory too.

What Metal says of its devices, through the Objective-C runtime: no PyObjC. Probe children only.

`recommendedMaxWorkingSetSize` is the one figure that decides what fits on a Mac, and only Metal knows it. Messages are
sent with a prototype of their own each, as 64-bit Macs require. Never run by this project's tests: they run on Linux.
"""

import ctypes
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from app.core.machine import Fact, Gpu
from app.hardware.cards.intel import is_before_xe
from app.hardware.facts import derived_fact, measured_fact, unknown_fact

_OBJC = "/usr/lib/libobjc.A.dylib"
_FRAMEWORK = "/System/Library/Frameworks/{0}.framework/{0}"
_MOST_DEVICES = 16


class MetalDevice(msgspec.Struct, frozen=True, kw_only=True):
    """One MTLDevice; bytes."""

    name: str
    working_set: int
    is_unified: bool = True


def read_metal() -> list[MetalDevice]:
    """Return every device Metal has. Raises OSError on a system without Metal."""
    ctypes.CDLL(_FRAMEWORK.format("CoreGraphics"))  # without it Metal gives a program with no window no device
    metal, objc = ctypes.CDLL(_FRAMEWORK.format("Metal")), _Objc(ctypes.CDLL(_OBJC))
    metal.MTLCopyAllDevices.restype = ctypes.c_void_p
    array = metal.MTLCopyAllDevices()
    if not array:
        return []
    count = min(objc.send_for_number(array, "count"), _MOST_DEVICES)
    return [_read_device(objc, objc.array_item(array, index)) for index in range(count)]


def _read_device(objc: "_Objc", device: int) -> MetalDevice:
    return MetalDevice(
        name=objc.send_for_text(device, "name"),
        working_set=objc.send_for_number(device, "recommendedMaxWorkingSetSize"),
        is_unified=objc.send_for_bool(device, "hasUnifiedMemory"),
    )


class _Objc:
    """Sends messages; `objc_msgSend` has to be called with the exact types of each method."""

    def __init__(self, runtime: ctypes.CDLL) -> None:
        runtime.sel_registerName.restype = ctypes.c_void_p
        self._runtime = runtime
        self._address = ctypes.cast(runtime.objc_msgSend, ctypes.c_void_p).value or 0

    def send_for_number(self, target: int, message: str) -> int:
        """Send a message that returns a 64-bit unsigned number."""
        return int(self._send_message(ctypes.c_uint64, target, message))

    def send_for_bool(self, target: int, message: str) -> bool:
        """Send a message that returns a BOOL."""
        return bool(self._send_message(ctypes.c_bool, target, message))

    def array_item(self, array: int, index: int) -> int:
        """Return an NSArray's element."""
        return int(self._send_message(ctypes.c_void_p, array, "objectAtIndex:", index))

    def send_for_text(self, target: int, message: str) -> str:
        """Send a message that returns an NSString, and return its characters."""
        string = self._send_message(ctypes.c_void_p, target, message)
        characters = self._send_message(ctypes.c_char_p, string, "UTF8String") if string else b""
        return (characters or b"").decode("utf-8", "replace")

    def _send_message(self, result: Any, target: int, message: str, *arguments: int) -> Any:  # noqa: ANN401 -- ctypes types
        kinds = [ctypes.c_uint64] * len(arguments)
        prototype = ctypes.CFUNCTYPE(result, ctypes.c_void_p, ctypes.c_void_p, *kinds)
        return prototype(self._address)(target, self._runtime.sel_registerName(message.encode()), *arguments)


PROFILER = ("/usr/sbin/system_profiler", "SPDisplaysDataType", "-json")
_SOURCE = "system_profiler"
_MIB, _GIB = 1 << 20, 1 << 30
_LARGE = 36 * _GIB
_RESERVE = 1 * _GIB
"""Kept back of what is available for the window and for what the system grows by while a model loads: our own choice. A
report of a load that failed 1.2 GB below the working set, because other programs held the rest, is why there is one."""
_SIZE = re.compile(r"(\d+(?:\.\d+)?) (MB|GB)")
_VENDORS = ("amd", "intel", "nvidia")
_VIRTUAL = ("paravirtual", "virtual")


class MacMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What decides the GPU's share, in bytes; None: not known. `wired_limit` is 0 where nobody set one."""

    total: int | None
    available: int | None
    wired_limit: int = 0


def cards_of(report: str) -> list[dict[str, Any]]:
    """Return the cards of `system_profiler SPDisplaysDataType -json`; empty when it is not what it should be."""
    try:
        decoded_report = msgspec.json.decode(report or "{}")
    except msgspec.DecodeError:
        return []
    cards = decoded_report.get("SPDisplaysDataType", []) if isinstance(decoded_report, dict) else []
    return [card for card in cards if isinstance(card, dict)] if isinstance(cards, list) else []


def gpu_cores(cards: Sequence[dict[str, Any]]) -> int | None:
    """Return the GPU cores of Apple's chip, or None on an Intel Mac."""
    return next((cores for card in cards if (cores := _core_count(card))), None)


def mac_gpus(cards: Sequence[dict[str, Any]], metal: Sequence[MetalDevice], memory: MacMemory) -> list[Gpu]:
    """Return the GPUs engines may use. Intel's of before 2020 and a virtual machine's are none."""
    return list(_usable_gpus(cards, {device.name: device for device in metal}, memory))


def has_only_virtual(cards: Sequence[dict[str, Any]]) -> bool:
    """Tell a virtual machine, whose graphics no engine's kernels run on."""
    return bool(cards) and all(_is_virtual(_card_name(card)) for card in cards)


def _usable_gpus(cards: Sequence[dict[str, Any]], metal: dict[str, MetalDevice], memory: MacMemory) -> Iterator[Gpu]:
    for number, card in enumerate(cards):
        name = _card_name(card)
        if _is_virtual(name) or _is_old_intel(card):
            continue
        if name.startswith("Apple"):
            yield _apple_gpu(card, metal.get(name), memory)
        else:
            yield _of_intel_mac(card, metal.get(name), number)


def _apple_gpu(card: dict[str, Any], device: MetalDevice | None, memory: MacMemory) -> Gpu:
    total = _read_working_set(device, memory)
    cores = _core_count(card)
    return Gpu(
        id="apple-gpu",
        vendor="apple",
        name=measured_fact(_card_name(card), _SOURCE),
        memory_total=total,
        memory_free=_free_fact(total, memory.available),
        driver=unknown_fact("", "Part of macOS."),
        compute=_metal_family(card),
        integrated=derived_fact(value=True, source=_SOURCE, note="Apple silicon has one memory for everything."),
        cores=measured_fact(cores, f"{_SOURCE} sppci_cores")
        if cores
        else unknown_fact(_SOURCE, "Nothing is said there."),
        addressable={"metal": total} if total.value is not None else {},
        drives_display=measured_fact(bool(card.get("spdisplays_ndrvs")), f"{_SOURCE} spdisplays_ndrvs"),
    )


def _of_intel_mac(card: dict[str, Any], device: MetalDevice | None, number: int) -> Gpu:
    """Return a card of an Intel Mac: AMD's, with memory of its own."""
    total = _own_memory(card)
    return Gpu(
        id=f"metal-{number}",
        vendor=_guess_vendor(card),
        name=measured_fact(_card_name(card), _SOURCE),
        memory_total=total,
        memory_free=unknown_fact("Metal", "macOS does not say how much of a card's memory is in use.", unit="B"),
        driver=unknown_fact("", "Part of macOS."),
        compute=_metal_family(card),
        integrated=derived_fact(bool(device and device.is_unified), "Metal hasUnifiedMemory"),
        addressable={"metal": measured_fact(device.working_set, _RECOMMENDED, unit="B")} if device else {},
        drives_display=measured_fact(bool(card.get("spdisplays_ndrvs")), f"{_SOURCE} spdisplays_ndrvs"),
    )


_RECOMMENDED = "Metal recommendedMaxWorkingSetSize"


def _read_working_set(device: MetalDevice | None, memory: MacMemory) -> Fact[int]:
    if memory.wired_limit:
        allowed_bytes = min(memory.wired_limit, memory.total or memory.wired_limit)
        return measured_fact(allowed_bytes, "sysctl iogpu.wired_limit_mb", unit="B", note="This limit was set by hand.")
    if device and device.working_set:
        return measured_fact(device.working_set, _RECOMMENDED, unit="B")
    if memory.total is None:
        return unknown_fact("sysctl hw.memsize", "The size of memory is not known.", unit="B")
    share = metal_share(memory.total)
    return derived_fact(
        share, "sysctl hw.memsize", unit="B", note="2/3 of memory, 3/4 above 36 GiB: Metal was not asked"
    )


def metal_share(memory_bytes: int) -> int:
    """Return what Metal lets a GPU use by default: what recommendedMaxWorkingSetSize came to where it was published."""
    return memory_bytes * 3 // 4 if memory_bytes > _LARGE else memory_bytes * 2 // 3


def _free_fact(total: Fact[int], available: int | None) -> Fact[int]:
    if total.value is None or available is None:
        return unknown_fact("vm_stat", "How much memory is available is not known.", unit="B")
    budget = min(total.value, max(0, available - _RESERVE))
    note = "the smaller of Metal's share and what is available, less 1 GiB for the rest of the system"
    return derived_fact(budget, "vm_stat", unit="B", note=note)


def _own_memory(card: dict[str, Any]) -> Fact[int]:
    match = _SIZE.fullmatch(str(card.get("spdisplays_vram", "")))
    if not match:
        return unknown_fact(f"{_SOURCE} spdisplays_vram", "Nothing is said there.", unit="B")
    unit = _GIB if match[2] == "GB" else _MIB
    return measured_fact(int(float(match[1]) * unit), f"{_SOURCE} spdisplays_vram", unit="B")


def _metal_family(card: dict[str, Any]) -> Fact[str]:
    family = card.get("spdisplays_mtlgpufamilysupport")
    if family:
        return measured_fact(str(family).removeprefix("spdisplays_"), _SOURCE)
    return unknown_fact(_SOURCE, "No Metal family is given.")


def _card_name(card: dict[str, Any]) -> str:
    return str(card.get("sppci_model") or card.get("_name") or "GPU")


def _core_count(card: dict[str, Any]) -> int | None:
    text = str(card.get("sppci_cores", ""))
    return int(text) if text.isdecimal() else None


def _guess_vendor(card: dict[str, Any]) -> str:
    text = f"{card.get('spdisplays_vendor', '')} {_card_name(card)}".lower()
    return next((vendor for vendor in _VENDORS if vendor in text), "unknown")


def _is_virtual(name: str) -> bool:
    return any(word in name.lower() for word in _VIRTUAL)


def _is_old_intel(card: dict[str, Any]) -> bool:
    number = str(card.get("spdisplays_device-id", ""))
    try:
        return _guess_vendor(card) == "intel" and is_before_xe(int(number, 16))
    except ValueError:
        return False
