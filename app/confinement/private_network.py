"""A network of an engine's own: nothing but its like on other computers is in it, whatever ports they open.

Its one device is a TUN: what the engine sends there, whoever holds the device's file carries on, and nobody else can.
The file goes to the gateway by a socket that the launcher inherits, with the end of a pipe that the engine holds open
for as long as it runs. Requests come by a socket made before, which stays in this computer's network. Standard library
only: the launcher imports this.
"""

import contextlib
import os
import socket
import struct
import sys

from app.confinement.kernel import leave_namespaces
from app.confinement.namespaces import enter_user_namespace

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than the rest
    from typing import Any

LISTENER_VARIABLE = "ROUNDHOUSE_LISTENER"
"""As `engines.worker_base` reads it."""
MTU = 65000
"""Large, since each packet costs the gateway as much as any other; what lies between has packets of its own."""
_NEW_NETWORK = 0x40000000
_TUN_DEVICE = "/dev/net/tun"
_SET_DEVICE, _SET_FLAGS, _SET_ADDRESS, _SET_MASK, _SET_MTU = 0x400454CA, 0x8914, 0x8916, 0x891C, 0x8922
_TUN_WITHOUT_HEADER = 0x1001
_UP_AND_RUNNING = 0x1 | 0x40
_MASK = "255.255.255.0"


def enter_network(order: "dict[str, Any]") -> int:
    """Enter it, hand over its device, and return the descriptor of the socket for requests. Raises OSError."""
    if sys.platform != "linux":
        raise OSError("only Linux has networks for single programs")
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((order["host"], order["port"]))
    listener.set_inheritable(True)
    device = make_network(order["device"], order["address"])
    life, engine_end = os.pipe()
    os.set_inheritable(engine_end, True)  # noqa: FBT003 -- it takes no keyword
    with socket.socket(fileno=order["descriptor"]) as carrier:
        socket.send_fds(carrier, [b"d"], [device, life])
    os.close(device)
    os.close(life)
    return listener.detach()


def make_network(name: str, address: str) -> int:
    """Leave this computer's network for one with a single device, and return the device's file. Raises OSError."""
    if sys.platform != "linux":
        return -1
    import fcntl  # noqa: PLC0415 -- Windows has none

    leave_network()
    device = os.open(_TUN_DEVICE, os.O_RDWR | os.O_NONBLOCK)
    device_name = name.encode()
    fcntl.ioctl(device, _SET_DEVICE, struct.pack("16sH22x", device_name, _TUN_WITHOUT_HEADER))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for number, value in ((_SET_ADDRESS, address), (_SET_MASK, _MASK)):
            fcntl.ioctl(
                control, number, struct.pack("16sHH4s16x", device_name, socket.AF_INET, 0, socket.inet_aton(value))
            )
        fcntl.ioctl(control, _SET_MTU, struct.pack("16si20x", device_name, MTU))
        for each in (device_name, b"lo"):
            fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sH22x", each, _UP_AND_RUNNING))
    return device


def leave_network() -> None:
    """Leave this computer's network, by way of a user namespace where that takes rights. Raises OSError."""
    try:
        leave_namespaces(_NEW_NETWORK)
    except PermissionError:
        if not enter_user_namespace():
            raise
        leave_namespaces(_NEW_NETWORK)


def find_problem() -> str:
    """Return why this user can make no such network; empty where that is possible. Tries it in a child."""
    if sys.platform != "linux":
        return "only Linux has networks for single programs"
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            os.write(writer, _try_network().encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answers:
        problem = answers.read().decode(errors="replace")
    os.waitpid(child, 0)
    return problem


def _try_network() -> str:
    try:
        make_network("roundhouse0", "10.96.0.1")
    except OSError as error:
        return f"{error.strerror or error}{f' ({error.filename})' if error.filename else ''}"
    return ""
