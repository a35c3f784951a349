"""Packets of engines' own networks, between the device of the engine here and the gateways of the other computers.

Each engine over several computers has a network that nothing else is in. What it sends there comes out of a device
whose file the launcher hands over (`app.confinement.private_network`), and goes on through the tunnel. The first
computer is in the middle: packets between two others pass through it. A packet travels as its length, four bytes, and
itself.
"""

import asyncio
import contextlib
import logging
import os
import socket
import sys
from collections.abc import Callable
from ipaddress import IPv4Address

from app.gateway.across.tunnel import Pipe

log = logging.getLogger(__name__)

FIRST_ADDRESS = IPv4Address("10.96.0.1")
_SHORTEST, _LONGEST = 20, 65535
_SOURCE, _DESTINATION = slice(12, 16), slice(16, 20)
_VERSION = 4
_AT_ONCE = 64
"""Packets that are read before others have their turn."""
_WAITING_BYTES = 4 << 20
"""That may wait for a slow link before the engine has to."""


def node_addresses(count: int) -> tuple[str, ...]:
    """Return the addresses of so many processes, by rank. Every model has a network of its own, so all are alike."""
    return tuple(str(FIRST_ADDRESS + number) for number in range(count))


class PacketSwitch:
    """This computer's end of one engine's network. Belongs to the event loop.

    `on_start` and `on_end` are called whenever the engine here begins and ends.
    """

    def __init__(
        self, address: str, on_start: Callable[[], object] | None = None, on_end: Callable[[], object] | None = None
    ) -> None:
        self._address = IPv4Address(address).packed
        self._on_start, self._on_end = on_start, on_end
        self._own, self._launchers = _make_pair()
        self._own.settimeout(0)
        self._loop = asyncio.get_running_loop()
        self._device = self._life = -1
        self._ways: dict[bytes, asyncio.StreamWriter] = {}
        """To other computers, by address; all packets go to the only one that has none."""
        self._send_task: asyncio.Task[None] | None = None
        self._loop.add_reader(self._own, self._take_device)

    @property
    def descriptor(self) -> int:
        """What launchers of the engine inherit."""
        return self._launchers.fileno()

    @property
    def is_running(self) -> bool:
        """Whether the engine here has its device."""
        return self._device >= 0

    def close(self) -> None:
        """Let the device go; the connections are whose they were."""
        if self._own.fileno() >= 0:
            self._loop.remove_reader(self._own)
        self._drop_device()
        self._own.close()
        self._launchers.close()

    async def carry_packets(self, pipe: Pipe, address: str = "") -> None:
        """Exchange packets over a connection until it ends. `address` is whose; without one, everybody else's."""
        whose = IPv4Address(address).packed if address else b""
        reader, writer = pipe
        writer.transport.set_write_buffer_limits(high=_WAITING_BYTES)
        self._ways[whose] = writer
        try:
            while True:
                await self._receive_packet(await _read_packet(reader), whose)
        except (OSError, EOFError, ValueError) as error:
            log.info("An engine's network lost a way: %s", error)
        finally:
            if self._ways.get(whose) is writer:
                del self._ways[whose]
            writer.close()

    def _take_device(self) -> None:
        if sys.platform == "win32":
            return
        _message, descriptors, _flags, _sender = socket.recv_fds(self._own, 8, 2)
        if len(descriptors) != 2:  # noqa: PLR2004 -- the device and the pipe
            return
        self._drop_device()
        self._device, self._life = descriptors
        os.set_blocking(self._life, False)
        self._loop.add_reader(self._life, self._end_device)
        self._send_task = self._loop.create_task(self._send_packets(self._device))
        if self._on_start is not None:
            self._on_start()

    def _end_device(self) -> None:
        self._drop_device()
        if self._on_end is not None:
            self._on_end()

    def _drop_device(self) -> None:
        if self._send_task is not None:
            self._send_task.cancel()
            self._send_task = None
        if self._device < 0:
            return
        for descriptor in (self._life, self._device):
            self._loop.remove_reader(descriptor)
            os.close(descriptor)
        self._device = self._life = -1

    async def _send_packets(self, device: int) -> None:
        while True:
            await self._wait_until_readable(device)
            for packet in _read_packets(device):
                await self._route_packet(packet)

    async def _wait_until_readable(self, device: int) -> None:
        readable = asyncio.Event()
        self._loop.add_reader(device, readable.set)
        try:
            await readable.wait()
        finally:
            self._loop.remove_reader(device)

    async def _receive_packet(self, packet: bytes, whose: bytes) -> None:
        """Give a packet to the engine here, or pass it on; one that another computer could not have sent is dropped."""
        if whose and packet[_SOURCE] != whose:
            return
        if packet[_DESTINATION] != self._address:
            if whose:
                await self._route_packet(packet)
        elif self._device >= 0:
            with contextlib.suppress(OSError):  # the engine is ending, or its queue is full: TCP sends it again
                os.write(self._device, packet)

    async def _route_packet(self, packet: bytes) -> None:
        if len(packet) < _SHORTEST or packet[0] >> 4 != _VERSION:
            return
        writer = self._ways.get(packet[_DESTINATION]) or self._ways.get(b"")
        if writer is None or writer.is_closing():
            return
        writer.write(len(packet).to_bytes(4) + packet)
        with contextlib.suppress(OSError):
            await writer.drain()


def _make_pair() -> tuple[socket.socket, socket.socket]:
    if sys.platform == "win32":  # no engine here has a network of its own
        return socket.socketpair()
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


async def _read_packet(reader: asyncio.StreamReader) -> bytes:
    """Return the next packet of a connection. Raises ValueError for what is none, EOFError or OSError at its end."""
    size = int.from_bytes(await reader.readexactly(4))
    if not _SHORTEST <= size <= _LONGEST:
        raise ValueError("that is no packet")
    return await reader.readexactly(size)


def _read_packets(device: int) -> list[bytes]:
    packets: list[bytes] = []
    with contextlib.suppress(OSError):  # BlockingIOError: there are no more now
        while len(packets) < _AT_ONCE and (packet := os.read(device, _LONGEST)):
            packets.append(packet)
    return packets
