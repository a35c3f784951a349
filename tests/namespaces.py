"""Machines with networks of their own on one computer: network namespaces, each on a cable to a common switch.

Nothing of this touches the computer's own network. Where namespaces cannot be made, `hall` skips the test and says so.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import psutil
import pytest

from tests.patience import wait_until

ROOT = Path(__file__).resolve().parents[1]
SUBNET = "10.78.0"
DEVICE = "cable"


class NetworkedMachine:
    """A place with an address. `enter` is the command that goes there."""

    def __init__(self, name: str, pid: int, address: str) -> None:
        self.name, self.pid, self.address = name, pid, address
        self.enter = enter(pid)

    def run(self, *command: str, check: bool = True) -> str:
        """Run a command there and return what it says."""
        result = subprocess.run([*self.enter, *command], check=check, capture_output=True, text=True, cwd=ROOT)
        return result.stdout

    def start(
        self,
        *command: str,
        environ: Mapping[str, str] | None = None,
        gives_text: bool = True,
        takes_text: bool = False,
    ) -> "subprocess.Popen[str]":
        """Start a program there; its words are read, and it is told some, if that is wanted."""
        return subprocess.Popen(
            [*self.enter, *command],
            stdin=subprocess.PIPE if takes_text else subprocess.DEVNULL,
            stdout=subprocess.PIPE if gives_text else None,
            text=True,
            cwd=ROOT,
            env={**os.environ, **(environ or {})},
        )

    @contextmanager
    def run_script(self, script: str, *arguments: str) -> Iterator[IO[str]]:
        """Run a script of Python's there, killed in the end if it has not ended; yield what it prints, as it comes."""
        with self.start(sys.executable, "-u", "-c", script, *arguments) as process:
            assert process.stdout is not None
            try:
                yield process.stdout
            finally:
                process.kill()

    @property
    def mac(self) -> str:
        """The hardware address of its card."""
        links = json.loads(self.run("ip", "-json", "link", "show", "dev", DEVICE))
        return str(links[0]["address"])


def enter(pid: int) -> list[str]:
    """Return the command that runs another in the namespaces of a process."""
    return ["nsenter", "--target", str(pid), "--user", "--net", "--preserve-credentials"]


@contextmanager
def hold_namespace(*command: str) -> Iterator[int]:
    """Hold a namespace open; its process is not the one that makes it, so wait until it sleeps there."""
    process = subprocess.Popen([*command, "sleep", "infinity"])
    try:
        wait_until(lambda: psutil.Process(process.pid).name() == "sleep")
        yield process.pid
    finally:
        process.kill()
        process.wait()


@contextmanager
def make_network(names: Sequence[str]) -> Iterator[dict[str, NetworkedMachine]]:
    """Have machines on one switch, and end them with all that is in them."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-rn", "true"], check=False, capture_output=True).returncode:
        pytest.skip("network namespaces cannot be made here")
    with ExitStack() as stack:
        switch = stack.enter_context(hold_namespace("unshare", "-rn"))
        at_switch = enter(switch)
        _run(at_switch, "ip", "link", "add", "name", "switch", "type", "bridge")
        _run(at_switch, "ip", "link", "set", "switch", "up")
        machines: dict[str, NetworkedMachine] = {}
        for number, name in enumerate(names, start=1):
            pid = stack.enter_context(hold_namespace(*at_switch, "unshare", "-n"))
            machines[name] = NetworkedMachine(name, pid, f"{SUBNET}.{number}")
            _lay_cable(at_switch, machines[name], f"port{number}")
        yield machines


def _lay_cable(at_switch: list[str], machine: NetworkedMachine, port: str) -> None:
    peer = ["peer", "name", DEVICE, "netns", str(machine.pid)]
    _run(at_switch, "ip", "link", "add", "name", port, "type", "veth", *peer)
    _run(at_switch, "ip", "link", "set", port, "master", "switch", "up")
    for device in ("lo", DEVICE):
        machine.run("ip", "link", "set", device, "up")
    machine.run("ip", "address", "add", f"{machine.address}/24", "dev", DEVICE)
    machine.run("ip", "route", "add", "default", "dev", DEVICE)


def _run(place: list[str], *command: str) -> None:
    subprocess.run([*place, *command], check=True)


def slow_down(machine: NetworkedMachine) -> str:
    """Make a machine's network slow, as the system can: delayed (netem), else narrow (tbf). Return which."""
    for kind in (["netem", "delay", "40ms", "10ms"], ["tbf", "rate", "2mbit", "burst", "32kbit", "latency", "200ms"]):
        command = ["tc", "qdisc", "add", "dev", DEVICE, "root", *kind]
        if not subprocess.run([*machine.enter, *command], check=False, capture_output=True).returncode:
            return " ".join(kind)
    return ""
