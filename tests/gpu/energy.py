"""`python -m tests.gpu.energy [--seconds 8] [-- COMMAND...]`: what the card that is here uses, idle and busy.

The counters are those of benchmarks, by the same child. Beside them `nvidia-smi` tells the power in a listing of its
own, which is added up over the same time, so that two ways are seen to agree. The card is kept busy by copying memory
with CUDA's driver library, or by a command. Only msgspec is needed, and nvidia-ml-py for NVML itself.
"""

import argparse
import asyncio
import contextlib
import ctypes
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from app.hardware.card_energy import CardEnergyReader
from app.hardware.cards.nvidia_energy import NvidiaSmiMeter
from app.hardware.child_answers import ENERGY
from app.hardware.energy import EnergyCounters, joules_between
from tests.gpu.places import Card, read_cards

SECONDS = 8.0
CHILD = (sys.executable, "-m", "app.hardware", ENERGY)
"""By the folder we were started in: where nothing of ours is installed, our usual command finds no module."""
_PAUSE_S = 1.0
"""Between keeping busy and the next interval: the driver's power is an average of up to a second."""
_COPIED_BYTES = 1 << 30
_COPIES = 50
"""Between two looks at the clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """What one card used over some seconds: by the child's counter, and by `nvidia-smi`'s power (None without it)."""

    name: str
    card: str
    source: str
    seconds: float
    joules: float | None
    listed_joules: float | None

    @property
    def line(self) -> str:
        """One line for the terminal."""
        suffix = "" if self.listed_joules is None else f"; nvidia-smi's power added up: {self.listed_joules:.1f} J"
        if self.joules is None:
            return f"{self.name}: {self.card} told nothing{suffix}"
        figures = f"{self.joules:.1f} J in {self.seconds:.2f} s, {self.joules / self.seconds:.1f} W"
        return f"{self.name}: {self.card} {figures} by {self.source}{suffix}"


async def measure_interval(name: str, cards: CardEnergyReader, work: Callable[[], None]) -> list[Interval]:
    """Return what each card used while `work` ran in a thread."""
    with _listing() as listing:
        before, listed_before = await cards.read_counters(), listing()
        begun_at = time.monotonic()
        await asyncio.to_thread(work)
        after, listed_after = await cards.read_counters(), listing()
        seconds = time.monotonic() - begun_at
    return [
        Interval(
            name=name,
            card=card,
            source=after[card].source if card in after else "",
            seconds=seconds,
            joules=_joules_of(card, before, after),
            listed_joules=_joules_of(card, listed_before, listed_after),
        )
        for card in sorted({**before, **after, **listed_after})
    ]


async def measure_cards(seconds: float, command: Sequence[str] = ()) -> list[Interval]:
    """Return what each card used idle, busy, and idle again; raises OSError where it cannot be kept busy."""
    busy = (lambda: run_command(command)) if command else (lambda: copy_memory(seconds))
    async with CardEnergyReader(CHILD) as cards:
        idle = await measure_interval("idle", cards, lambda: time.sleep(seconds))
        work = await measure_interval("busy", cards, busy)
        await asyncio.sleep(_PAUSE_S)
        rest = await measure_interval("idle again", cards, lambda: time.sleep(seconds))
    return [*idle, *work, *rest]


def run_command(command: Sequence[str]) -> None:
    """Run something that keeps the card busy. Raises OSError if it fails."""
    result = subprocess.run(list(command), check=False, stdout=subprocess.DEVNULL)
    if result.returncode:
        raise OSError(f"{command[0]} ended with {result.returncode}.")


def copy_memory(seconds: float) -> None:
    """Copy a gigabyte of the first card's memory again and again. Raises OSError without CUDA's driver library."""
    cuda = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    context, first, second = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint64()
    _call(cuda, "cuInit", 0)
    _call(cuda, "cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    _call(cuda, "cuCtxSetCurrent", context)
    for pointer in (first, second):
        _call(cuda, "cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(_COPIED_BYTES))
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for _ in range(_COPIES):
            _call(cuda, "cuMemcpyDtoD_v2", second, first, ctypes.c_size_t(_COPIED_BYTES))
        _call(cuda, "cuCtxSynchronize")
    for pointer in (first, second):
        _call(cuda, "cuMemFree_v2", pointer)
    _call(cuda, "cuDevicePrimaryCtxRelease_v2", 0)


def _call(cuda: ctypes.CDLL, name: str, *arguments: object) -> None:
    status = getattr(cuda, name)(*arguments)
    if status:
        raise OSError(f"{name} failed with {status}.")


def _joules_of(card: str, before: EnergyCounters, after: EnergyCounters) -> float | None:
    if card not in before or card not in after:
        return None
    return joules_between({card: before[card]}, {card: after[card]})


@contextlib.contextmanager
def _listing() -> Iterator[Callable[[], EnergyCounters]]:
    """Have `nvidia-smi` list the power while the block runs, where there is one."""
    program = shutil.which("nvidia-smi")
    if program is None:
        yield dict
        return
    meter = NvidiaSmiMeter(program)
    try:
        yield meter.read_counters
    finally:
        meter.close()


def describe_cards(cards: Sequence[Card]) -> str:
    """Return the cards that are here, in a line."""
    return ", ".join(f"{card.name} (driver {card.driver})" for card in cards) or "no card that nvidia-smi lists"


def main() -> int:
    """Measure; fail where a card is listed and nothing was told of it busy, or it used no more than idle."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each interval")
    parser.add_argument("command", nargs="*", help="what keeps the card busy, after --")
    wishes = parser.parse_args()
    cards = read_cards()
    print(f"Python {sys.version.split()[0]}, {describe_cards(cards)}")  # noqa: T201 -- it talks to a terminal
    try:
        intervals = asyncio.run(measure_cards(wishes.seconds, wishes.command))
    except OSError as error:
        print(f"The card could not be kept busy: {error}")  # noqa: T201 -- as above
        return int(bool(cards))
    for interval in intervals:
        print(interval.line)  # noqa: T201 -- as above
    return int(bool(cards) and not is_plausible(intervals))


def is_plausible(intervals: Sequence[Interval]) -> bool:
    """Whether some card used more watts busy than idle, by its counter."""
    watts = {(part.name, part.card): part.joules / part.seconds for part in intervals if part.joules is not None}
    busy = [(card, value) for (name, card), value in watts.items() if name == "busy"]
    return any(value > watts.get(("idle", card), 0.0) for card, value in busy)


if __name__ == "__main__":
    raise SystemExit(main())
