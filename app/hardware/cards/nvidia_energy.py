"""What NVIDIA's cards use: NVML's own counter, else the power that NVML or `nvidia-smi` tells, added up. A child's.

Cards since Volta count millijoules from when the driver was loaded. Of older ones, and where NVML cannot be loaded, the
power is read ten times a second and more, and added up from when the child began.
"""

import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from app.hardware.child_answers import serve_answers
from app.hardware.energy import EnergyCounter, EnergyCounters

NVML = "NVML"
NVML_POWER = "NVML, power added up"
NVIDIA_SMI = "nvidia-smi, power added up"
_SAMPLE_S = 0.05
"""The driver renews what it says of power every 20 to 100 ms."""
_LISTING_MS = 100
_STALE_S = 2.0
"""Without a reading for so long, what was added up is no longer what was used."""
_FIRST_S = 5.0
"""The first line of `nvidia-smi` may take so long while no other program holds the driver open."""
_MICROJOULES = 1e6
_LISTING_FIELDS = 2


class PowerIntegral:
    """Adds up the power of cards over time, by trapezoids. Safe to add to in one thread and read in another."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._joules: dict[str, float] = {}
        self._last: dict[str, tuple[float, float]] = {}
        self.has_sample = threading.Event()

    def add(self, card: str, watts: float) -> None:
        """Add a reading of now."""
        now = self._clock()
        with self._lock:
            since, before = self._last.get(card, (now, watts))
            self._joules[card] = self._joules.get(card, 0.0) + (watts + before) / 2 * (now - since)
            self._last[card] = (now, watts)
        self.has_sample.set()

    def counters(self, source: str) -> EnergyCounters:
        """Return what each card used since its first reading, up to now; those not read of late are left out."""
        now = self._clock()
        with self._lock:
            fresh = {card: last for card, last in self._last.items() if now - last[0] <= _STALE_S}
            joules = {card: self._joules[card] + watts * (now - since) for card, (since, watts) in fresh.items()}
        return {
            card: EnergyCounter(value_uj=int(value * _MICROJOULES), source=source) for card, value in joules.items()
        }


class NvmlMeter:
    """Reads counters by NVML, and adds power up for cards that have none. `nvml` is the module `pynvml`."""

    def __init__(self, nvml: Any, sleep: Callable[[float], None] = time.sleep) -> None:  # noqa: ANN401 -- the binding has no types; tests pass a played one
        nvml.nvmlInit()
        self._nvml = nvml
        self._sleep = sleep
        self._power = PowerIntegral()
        cards = {_card_uuid(nvml, handle): handle for handle in _list_handles(nvml)}
        self._counting_cards = [card for card, handle in cards.items() if self._read_millijoules(handle) is not None]
        self._cards = cards
        others = {card: handle for card, handle in cards.items() if card not in self._counting_cards}
        if others and self.sample_power(others):
            threading.Thread(target=self._sample_always, args=(others,), daemon=True).start()

    @property
    def has_cards(self) -> bool:
        """Whether the driver lists any."""
        return bool(self._cards)

    def read_counters(self) -> EnergyCounters:
        """Return what each card has used so far."""
        counters: EnergyCounters = {}
        for card in self._counting_cards:
            millijoules = self._read_millijoules(self._cards[card])
            if millijoules is not None:
                counters[card] = EnergyCounter(value_uj=millijoules * 1000, source=NVML)
        return {**counters, **self._power.counters(NVML_POWER)}

    def sample_power(self, cards: Mapping[str, Any]) -> bool:
        """Add one reading of each card that tells its power; return whether any does."""
        has_told = False
        for card, handle in cards.items():
            try:
                self._power.add(card, self._nvml.nvmlDeviceGetPowerUsage(handle) / 1000)
            except self._nvml.NVMLError:
                continue
            has_told = True
        return has_told

    def _sample_always(self, cards: Mapping[str, Any]) -> None:
        while True:
            self._sleep(_SAMPLE_S)
            self.sample_power(cards)

    def _read_millijoules(self, handle: Any) -> int | None:  # noqa: ANN401 -- as above
        try:
            return int(self._nvml.nvmlDeviceGetTotalEnergyConsumption(handle))
        except (self._nvml.NVMLError, AttributeError):  # a card before Volta, or a binding older than the question
            return None


class NvidiaSmiMeter:
    """Adds up the power that `nvidia-smi` lists again and again, for as long as the child lives."""

    def __init__(self, program: str) -> None:
        self._power = PowerIntegral()
        self._listing = subprocess.Popen(
            [program, "--query-gpu=uuid,power.draw", "--format=csv,noheader,nounits", f"--loop-ms={_LISTING_MS}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._reader = threading.Thread(target=self._read_listing, daemon=True)
        self._reader.start()
        self._power.has_sample.wait(_FIRST_S)

    def read_counters(self) -> EnergyCounters:
        """Return what each card has used so far."""
        return self._power.counters(NVIDIA_SMI)

    def close(self) -> None:
        """End the listing."""
        self._listing.kill()
        self._listing.wait()
        self._reader.join()
        if self._listing.stdout is not None:
            self._listing.stdout.close()

    def _read_listing(self) -> None:
        for card, watts in parse_listing(self._listing.stdout or ()):
            self._power.add(card, watts)


def parse_listing(lines: Iterable[str]) -> Iterator[tuple[str, float]]:
    """Yield (UUID, watts) of each line of `nvidia-smi`; cards that tell no power say "[N/A]" and are left out."""
    for line in lines:
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != _LISTING_FIELDS:
            continue
        try:
            yield fields[0], float(fields[1])
        except ValueError:
            continue


def serve_energy() -> int:
    """Be the child that says what each card has used."""
    meter = _open_nvml()
    if meter is not None:
        return serve_answers(meter.read_counters)
    program = shutil.which("nvidia-smi")
    if program is None:
        return serve_answers(dict)
    listing = NvidiaSmiMeter(program)
    try:
        return serve_answers(listing.read_counters)
    finally:
        listing.close()


def _open_nvml() -> NvmlMeter | None:
    """Return a meter by NVML; None where there is no binding, no driver or no card it lists."""
    try:
        import pynvml  # noqa: PLC0415 -- may load a vendor library: probe children only
    except ImportError:
        return None
    try:
        meter = NvmlMeter(pynvml)
    except pynvml.NVMLError:
        return None
    return meter if meter.has_cards else None


def _list_handles(nvml: Any) -> Iterator[Any]:  # noqa: ANN401 -- as above
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            yield nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError:  # fallen off the bus
            continue


def _card_uuid(nvml: Any, handle: Any) -> str:  # noqa: ANN401 -- as above
    uuid: str | bytes = nvml.nvmlDeviceGetUUID(handle)
    return uuid.decode("utf-8", "replace") if isinstance(uuid, bytes) else uuid
