"""An engine in a network of its own, for real: what it reaches, what reaches it, and where its packets come out."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from app.config.programs import child_environment
from app.confinement.command import launcher_command
from app.confinement.rules import LaunchOrder
from app.confinement.support import read_kernel_offer
from engines.api import NETWORK_DEVICE, PrivateNetwork
from engines.worker_base import LISTENER_VARIABLE
from tests.patience import PATIENCE_S, wait_until
from tests.ports import free_port

if sys.platform != "linux":
    pytest.skip("networks for single programs are Linux's", allow_module_level=True)

ENGINE = """
import json, os, socket, sys
def attempt(address):
    try:
        socket.create_connection(address, timeout=1).close()
    except OSError as error:
        return type(error).__name__
    return "reached"
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
    datagrams.sendto(b"to the other computer", ("10.96.0.2", 9))
listener = socket.socket(fileno=int(os.environ[sys.argv[2]]))
listener.listen()
with socket.socket() as own:
    own.bind(("", 0)); own.listen()
    facts = {"devices": sorted(name for _, name in socket.if_nameindex()),
             "host": attempt(("127.0.0.1", int(sys.argv[1]))), "other": attempt(("192.0.2.1", 80)),
             "own": attempt(own.getsockname())}
client, _ = listener.accept()
client.sendall(json.dumps(facts).encode())
client.close()
"""


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    offer = read_kernel_offer()
    if offer is None or offer.network_problem:
        pytest.skip(f"no network of its own is possible here: {offer and offer.network_problem}")
    ours, launchers = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(PATIENCE_S)
    with ours, launchers:
        yield ours, launchers


def test_it_reaches_nothing_of_this_computer_and_requests_come_by_one_socket(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    ours, launchers = pair
    with ExitStack() as stack:
        other = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = free_port()
        network = PrivateNetwork(address="10.96.0.1", host="127.0.0.1", port=port, descriptor=launchers.fileno())
        argv = (sys.executable, "-c", ENGINE, str(other.getsockname()[1]), LISTENER_VARIABLE)
        order = LaunchOrder(argv=argv, env=child_environment(), cwd=str(tmp_path), network=network)
        command = stack.enter_context(launcher_command(order))
        process = stack.enter_context(
            subprocess.Popen(command.argv, env=dict(command.env), pass_fds=command.descriptors)
        )
        _message, (device, life), _flags, _sender = socket.recv_fds(ours, 8, 2)
        facts = json.loads(ask(port))
        assert process.wait(PATIENCE_S) == 0
    assert facts == {
        "devices": ["lo", NETWORK_DEVICE],
        "host": "ConnectionRefusedError",
        "other": "OSError",
        "own": "reached",
    }
    assert any(packet.endswith(b"to the other computer") for packet in packets_of(device))
    assert os.read(life, 1) == b"", "its end is seen"
    for descriptor in (device, life):
        os.close(descriptor)


def test_an_address_that_makes_no_sense_starts_nothing(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    network = PrivateNetwork(address="10.96.0.", host="127.0.0.1", port=0, descriptor=pair[1].fileno())
    order = LaunchOrder(argv=("/bin/true",), env={}, cwd=str(tmp_path), network=network)
    with launcher_command(order) as command:
        result = subprocess.run(
            command.argv,
            env=dict(command.env),
            pass_fds=command.descriptors,
            capture_output=True,
            text=True,
            check=False,
        )
    assert result.returncode == 126
    assert "network of its own" in result.stderr


def ask(port: int) -> str:
    answer = b""

    def is_answered() -> bool:
        nonlocal answer
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
                while piece := connection.recv(4096):
                    answer += piece
        except ConnectionError:
            return False
        return bool(answer)

    wait_until(is_answered)
    return answer.decode()


def packets_of(device: int) -> list[bytes]:
    packets = []
    try:
        while True:
            packets.append(os.read(device, 65535))
    except BlockingIOError:
        return packets
