"""The measured bandwidth of system memory, kept between runs: it changes with the computer, not with the day."""

from pathlib import Path

import msgspec

from app.core.machine import Cpu, Fact, Machine, Memory

FILE = "memory-bandwidth.json"


class BandwidthRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A measurement and the computer it belongs to."""

    computer: str
    bandwidth_gb_s: Fact[float]


def with_stored_bandwidth(machine: Machine, folder: Path) -> Machine:
    """Return the machine with the bandwidth measured on it before, if it was."""
    try:
        record = msgspec.json.decode((folder / FILE).read_bytes(), type=BandwidthRecord)
    except (OSError, msgspec.MsgspecError):
        return machine
    if record.computer != _computer_key(machine.cpu, machine.memory):
        return machine
    return with_bandwidth(machine, record.bandwidth_gb_s)


def with_bandwidth(machine: Machine, rate: Fact[float]) -> Machine:
    """Return the machine with that bandwidth of its system memory."""
    return msgspec.structs.replace(machine, memory=msgspec.structs.replace(machine.memory, bandwidth_gb_s=rate))


def store_bandwidth(machine: Machine, folder: Path) -> None:
    """Keep the machine's bandwidth for the next start. Raises OSError when the folder cannot be written."""
    record = BandwidthRecord(
        computer=_computer_key(machine.cpu, machine.memory), bandwidth_gb_s=machine.memory.bandwidth_gb_s
    )
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / (FILE + ".new")
    fresh.write_bytes(msgspec.json.encode(record))
    fresh.replace(folder / FILE)


def _computer_key(cpu: Cpu, memory: Memory) -> str:
    """Return what the bandwidth depends on: other modules, another processor, or fewer cores make it another figure."""
    return f"{cpu.model.value} | {memory.total.value} | {cpu.usable_cores.value}"
