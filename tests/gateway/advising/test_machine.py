"""The machine is read once for all who ask at the same time, the bandwidth of its memory too."""

import asyncio

import msgspec
import pytest

from app.core.machine import Fact, Machine
from app.gateway.advising.machine import MachineReader
from app.hardware import probe
from app.hardware.description import machine_from

UNMEASURED = machine_from(msgspec.json.encode({"os": "linux", "ram_gb": 16, "free_ram_gb": 8, "cores": 4}))


class Probes:
    """Probes that take until `go` is set, and count how often they run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.has_begun, self.go = asyncio.Event(), asyncio.Event()
        self.read_count = self.measure_count = 0
        monkeypatch.setattr(probe, "read_machine", self.read_machine)
        monkeypatch.setattr(probe, "measure_bandwidth", self.measure_bandwidth)

    async def read_machine(self) -> Machine:
        self.read_count += 1
        return UNMEASURED

    async def measure_bandwidth(self, machine: Machine) -> Machine:
        self.measure_count += 1
        self.has_begun.set()
        await self.go.wait()
        rate = msgspec.structs.replace(machine.memory.bandwidth_gb_s, value=50.0)
        return msgspec.structs.replace(machine, memory=msgspec.structs.replace(machine.memory, bandwidth_gb_s=rate))


@pytest.fixture
async def probes(monkeypatch: pytest.MonkeyPatch) -> Probes:
    return Probes(monkeypatch)


def rate(machine: Machine) -> Fact[float]:
    return machine.memory.bandwidth_gb_s


async def test_who_asks_while_it_is_measured_gets_what_was_measured(probes: Probes) -> None:
    reader = MachineReader()
    readers = [asyncio.create_task(reader.read_free()) for _ in range(3)]
    await probes.has_begun.wait()
    probes.go.set()
    assert {rate(machine).value for machine in await asyncio.gather(*readers)} == {50.0}
    assert (probes.read_count, probes.measure_count) == (1, 1)


async def test_a_measurement_that_was_called_off_is_made_for_the_next(probes: Probes) -> None:
    reader = MachineReader()
    first = asyncio.create_task(reader.read_free())
    await probes.has_begun.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    probes.go.set()
    assert rate(await reader.read_free()).value == 50.0
