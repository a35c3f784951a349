"""Another computer that loses its power in the middle of an answer: the connection ends, though nobody ends it."""

import sys

import pytest

from tests.namespaces import DEVICE, make_network

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's"),
]
PORT = 8000

BEGIN_ANSWER = """
import socket, sys
with socket.create_server(("0.0.0.0", int(sys.argv[1]))) as server:
    print("listening", flush=True)
    connection, _ = server.accept()
    connection.sendall(b"first")
    connection.recv(1)
"""
READ_ANSWER = """
import asyncio, sys
from urllib.parse import urlsplit
from app.supervisor import dialing

dialing.SILENCE_PROBES = {"TCP_KEEPIDLE": 1, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 2}

async def read_answer():
    reader, writer = await dialing.open_streams(urlsplit(sys.argv[1]))
    print((await reader.readexactly(5)).decode(), flush=True)
    try:
        async with asyncio.timeout(30):
            print(await reader.read(), flush=True)
    except TimeoutError as error:
        print("the system's" if error.errno else "nobody's", flush=True)
    except OSError as error:
        print("the system's", flush=True)

asyncio.run(read_answer())
"""
"""With seconds instead of half a minute. An end within the 30 s is the system's: it has a number."""


def test_the_connection_to_a_computer_without_power_ends() -> None:
    with make_network(["here", "there"]) as machines:
        here, there = machines["here"], machines["there"]
        with (
            there.run_script(BEGIN_ANSWER, str(PORT)) as server_lines,
            here.run_script(READ_ANSWER, f"http://{there.address}:{PORT}") as client_lines,
        ):
            assert server_lines.readline() == "listening\n"
            assert client_lines.readline() == "first\n"
            there.run("ip", "link", "set", DEVICE, "down")
            assert client_lines.readline() == "the system's\n"
