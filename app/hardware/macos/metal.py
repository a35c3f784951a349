"""What Metal says of its devices, through the Objective-C runtime: no PyObjC. Probe children only.

`recommendedMaxWorkingSetSize` is the one figure that decides what fits on a Mac, and only Metal knows it. Messages are
sent with a prototype of their own each, as 64-bit Macs require. Never run by this project's tests: they run on Linux.
"""

import ctypes
from typing import Any

import msgspec

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
