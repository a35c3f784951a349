"""Packets of an engine's own network: to whom they go, which are dropped, and what happens when the engine ends."""

import array
import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from ipaddress import IPv4Address

import pytest

from app.gateway.across.packets import PacketSwitch, node_addresses
from app.gateway.across.tunnel import Pipe
from tests.patience import PATIENCE_S, until

if sys.platform != "linux":
    pytest.skip("networks for single programs are Linux's", allow_module_level=True)


FIRST, SECOND, THIRD = node_addresses(3)


def packet(source: str, destination: str, words: bytes = b"") -> bytes:
    head = bytes([0x45]) + bytes(11) + IPv4Address(source).packed + IPv4Address(destination).packed
    return head + words


class PlayedEngine:
    """What a launcher hands over: a device, here a socket that keeps packets apart, and a pipe."""

    def __init__(self, switch: PacketSwitch) -> None:
        self.device, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        theirs.settimeout(0)
        self.device.settimeout(0)
        life, self.life = os.pipe()
        with socket.socket(fileno=os.dup(switch.descriptor)) as launcher:
            socket.send_fds(launcher, [b"d"], [theirs.fileno(), life])
        theirs.close()
        os.close(life)

    def send(self, data: bytes) -> None:
        self.device.send(data)

    async def receive(self) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            return await asyncio.get_running_loop().sock_recv(self.device, 65535)

    def has_nothing(self) -> bool:
        try:
            self.device.recv(1)
        except BlockingIOError:
            return True
        return False

    def end(self) -> None:
        if self.device.fileno() >= 0:
            os.close(self.life)
            self.device.close()


class Computer:
    """A switch with an engine, and what was called."""

    def __init__(self, address: str) -> None:
        self.calls: list[str] = []
        self.switch = PacketSwitch(address, lambda: self.calls.append("start"), lambda: self.calls.append("end"))
        self.engine = PlayedEngine(self.switch)

    async def begin(self) -> None:
        await until(lambda: self.switch.is_running)

    def close(self) -> None:
        self.switch.close()
        self.engine.end()


async def make_pipes() -> tuple[Pipe, Pipe]:
    ours, theirs = socket.socketpair()
    return await asyncio.open_connection(sock=ours), await asyncio.open_connection(sock=theirs)


@pytest.fixture
async def computers() -> AsyncIterator[list[Computer]]:
    """Three of them: the first in the middle, as in a tunnel between paired gateways."""
    computers = [Computer(address) for address in (FIRST, SECOND, THIRD)]
    tasks = []
    for computer, address in zip(computers[1:], (SECOND, THIRD), strict=True):
        near, far = await make_pipes()
        tasks.append(asyncio.create_task(computers[0].switch.carry_packets(near, address)))
        tasks.append(asyncio.create_task(computer.switch.carry_packets(far)))
    for computer in computers:
        await computer.begin()
    yield computers
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for computer in computers:
        computer.close()


async def test_packets_go_to_whom_they_are_for(computers: list[Computer]) -> None:
    first, second, third = computers
    large = packet(FIRST, SECOND, b"x" * 60_000)
    first.engine.send(large)
    assert await second.engine.receive() == large
    second.engine.send(packet(SECOND, FIRST, b"back"))
    assert (await first.engine.receive()).endswith(b"back")
    second.engine.send(packet(SECOND, THIRD, b"by way of the first"))
    assert (await third.engine.receive()).endswith(b"by way of the first")
    assert first.engine.has_nothing()


async def test_what_a_computer_cannot_have_sent_is_dropped(computers: list[Computer]) -> None:
    first, second, third = computers
    second.engine.send(packet(THIRD, FIRST, b"as if from the third"))
    second.engine.send(packet(SECOND, "10.96.0.99", b"to nobody"))
    second.engine.send(b"\x60" + bytes(39))
    second.engine.send(b"short")
    second.engine.send(packet(SECOND, FIRST, b"true"))
    assert (await first.engine.receive()).endswith(b"true")
    assert third.engine.has_nothing()


@pytest.mark.parametrize("size", [0, 19, 65536, 2**32 - 1])
async def test_what_is_no_packet_ends_the_connection(size: int) -> None:
    computer = Computer(FIRST)
    near, far = await make_pipes()
    task = asyncio.create_task(computer.switch.carry_packets(near, SECOND))
    far[1].write(size.to_bytes(4) + bytes(40))
    async with asyncio.timeout(PATIENCE_S):
        await task
        assert await far[0].read() == b""
    far[1].close()
    computer.close()


async def test_the_end_of_the_engine_is_noticed_and_the_next_one_is_carried(computers: list[Computer]) -> None:
    first, second, _ = computers
    assert first.calls == ["start"]
    first.engine.end()
    await until(lambda: first.calls == ["start", "end"])
    assert not first.switch.is_running
    second.engine.send(packet(SECOND, FIRST, b"to one that has ended"))
    first.engine = PlayedEngine(first.switch)
    await until(lambda: first.calls == ["start", "end", "start"])
    second.engine.send(packet(SECOND, FIRST, b"to the next"))
    while not (await first.engine.receive()).endswith(b"to the next"):
        pass  # what was sent to the one before may come first


async def test_a_launcher_that_hands_over_half_is_passed_over() -> None:
    computer = Computer(FIRST)
    await computer.begin()
    with socket.socket(fileno=os.dup(computer.switch.descriptor)) as launcher:
        launcher.sendmsg([b"d"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))])
    await asyncio.sleep(0)
    computer.engine.end()
    await until(lambda: "end" in computer.calls)
    assert computer.calls == ["start", "end"]
    computer.close()
