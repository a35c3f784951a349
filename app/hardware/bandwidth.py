"""How fast this computer reads its memory: a second of reading with all cores, in a probe child, when asked for.

Decoding a model only reads, so this only reads: libc's memcmp of two halves of a block that equal each other, one block
for each physical core, ctypes having let go of the interpreter's lock. The blocks are several times the cache together.
Measured on a two-core EPYC VM with DDR5: memcmp 37.0, memchr 32.2, strlen 31.1, NumPy's sum 28.3 GB/s with one thread.

The measured bandwidth of system memory, kept between runs: it changes with the computer, not with the day.
"""

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from app.core.machine import Cpu, Fact, Machine, Memory
from app.hardware.evidence import Evidence, NoAnswer
from app.hardware.facts import ProbePart, measured_fact, unknown_fact

ROUNDS, ROUND_S = 3, 0.08
_MOST_ROUNDS = 12
"""A second in all: where other programs took the processor, further rounds look for a quieter moment."""
_UNDISTURBED_SHARE = 0.8
"""Of a round, the threads ran so much at least. Windows counts in steps of 16 ms, a fifth of a round."""
_BLOCK_MIN = 32 << 20
_CACHES = 4
"""The blocks together are this many times the last-level cache: next to nothing of them is found there again."""
_SHARE = 8
"""At most an eighth of what is free is taken for it."""
_SANE_GB_S = (2.0, 4000.0)
"""Less than any computer that could run a model, more than any there is: outside, something else was measured."""
_MOST_THREADS = 256
_SOURCE = "read probe"


Compare = Callable[[int, int, int], int]
"""memcmp: two addresses and how many bytes."""


class ReadRate(msgspec.Struct, frozen=True, kw_only=True):
    """What was read: threads, bytes of the block each reads over and over, and the best round in bytes per second."""

    threads: int
    block_bytes: int
    bytes_per_s: float
    cpu_share: float = 1.0
    """How much of the best round the threads ran; others took the rest."""

    @property
    def is_disturbed(self) -> bool:
        """Whether other programs took so much that memory is faster than this."""
        return self.cpu_share < _UNDISTURBED_SHARE


def probe_bandwidth(evidence: Evidence, cpu: Cpu, available_bytes: int) -> ProbePart:
    """Return GB/s (10^9 bytes) that all usable cores together read; unknown when that makes no sense."""
    threads = _thread_count(cpu)
    block = block_bytes(threads, cpu.cache_bytes.value or 0, available_bytes)
    try:
        read = evidence.read_table("memory_read", ReadRate, lambda: best_read(threads, block))
    except NoAnswer as error:
        return ProbePart(bandwidth_gb_s=unknown_fact(_SOURCE, str(error), unit="GB/s"))
    return ProbePart(bandwidth_gb_s=judge_rate(read), is_bandwidth_disturbed=read.is_disturbed)


def judge_rate(read: ReadRate) -> Fact[float]:
    """Return the rate as a fact, unless it is beyond all sense."""
    rate = read.bytes_per_s / 1e9
    if not _SANE_GB_S[0] <= rate <= _SANE_GB_S[1]:
        return unknown_fact(_SOURCE, f"{rate:.1f} GB/s was measured, which cannot be.", unit="GB/s")
    note = f"{read.threads} threads, best of {ROUNDS} x {ROUND_S * 1000:.0f} ms"
    if read.is_disturbed:
        note = f"At least: other programs took {1 - read.cpu_share:.0%} of the processor".replace("%", " %")
    return measured_fact(round(rate, 1), _SOURCE, unit="GB/s", note=note)


def block_bytes(threads: int, cache_bytes: int, available_bytes: int) -> int:
    """Return how much each thread reads over and over: past the caches, within a share of free memory."""
    target = max(_BLOCK_MIN, _CACHES * cache_bytes // threads)
    return min(target, available_bytes // _SHARE // threads) & ~4095


def best_read(threads: int, block: int) -> ReadRate:
    """Read for `ROUNDS` undisturbed rounds and return the best. Raises NoAnswer when there is no memory for it."""
    if block < _BLOCK_MIN // 4:
        raise NoAnswer("Too little memory is free to measure how fast it is.")
    compare = _load_memcmp()
    readers = [_BlockReader(compare, block) for _ in range(threads)]
    _in_threads(readers, _BlockReader.fill_block)
    rounds: list[ReadRate] = []
    while len(rounds) < _MOST_ROUNDS and sum(not read.is_disturbed for read in rounds) < ROUNDS:
        rate, share = _run_round(readers)
        rounds.append(ReadRate(threads=threads, block_bytes=block, bytes_per_s=rate, cpu_share=share))
    return max(rounds, key=lambda read: read.bytes_per_s)


class _BlockReader:
    """One thread's block, filled by that thread: memory lies near the processor that first writes to it."""

    def __init__(self, compare: Compare, block: int) -> None:
        self._compare = compare
        self._half = block // 2
        self._block = (ctypes.c_ubyte * block)()
        self.read_bytes = 0
        self.end_time = 0.0
        self.cpu_s = 0.0

    def fill_block(self) -> None:
        """Write every page: untouched ones are all the same page of zeros, and stay in the cache."""
        ctypes.memset(self._block, 1, 2 * self._half)

    def read_until(self, deadline: float) -> None:
        """Compare the two equal halves over and over; memcmp has to read all of both."""
        first = ctypes.addressof(self._block)
        self.read_bytes, began_s = 0, time.thread_time()
        while time.perf_counter() < deadline:
            self._compare(first, first + self._half, self._half)
            self.read_bytes += 2 * self._half
        self.end_time, self.cpu_s = time.perf_counter(), time.thread_time() - began_s


def _run_round(readers: Sequence[_BlockReader]) -> tuple[float, float]:
    """Return bytes per second from the moment all threads are there to the end of the last, and how much they ran."""
    began: list[float] = []
    barrier = threading.Barrier(len(readers), action=lambda: began.append(time.perf_counter()))
    _in_threads(readers, lambda reader: _read_together(reader, barrier, began))
    wall_s = max(reader.end_time for reader in readers) - began[0]
    rate = sum(reader.read_bytes for reader in readers) / wall_s
    return rate, min(1.0, sum(reader.cpu_s for reader in readers) / (wall_s * len(readers)))


def _read_together(reader: _BlockReader, barrier: threading.Barrier, began: Sequence[float]) -> None:
    barrier.wait()
    reader.read_until(began[0] + ROUND_S)


def _in_threads(readers: Sequence[_BlockReader], work: Callable[[_BlockReader], None]) -> None:
    threads = [threading.Thread(target=work, args=(reader,)) for reader in readers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _load_memcmp() -> Compare:
    library = ctypes.CDLL("msvcrt" if sys.platform == "win32" else None)
    compare = library.memcmp
    compare.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    compare.restype = ctypes.c_int
    return compare


def _thread_count(cpu: Cpu) -> int:
    cores = cpu.physical_cores.value or cpu.logical_cores.value or 1
    return max(1, min(cores, int(cpu.usable_cores.value or cores), _MOST_THREADS))


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
