# ruff: noqa: N802, N815, ANN401 -- the recorded driver has NVML's own names and types
"""What is asked of NVML and of system_profiler; whole machines are in tests/fixtures/machines."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from app.hardware.cards.nvidia import NvmlState, read_nvml
from app.hardware.evidence import NoAnswer

GIB = 1 << 30


class NVMLError(Exception):
    pass


class RecordedNvml:
    """A driver that answers from a list of (bus id, name, total, free, compute capability)."""

    NVMLError = NVMLError
    nvmlMemory_v2 = 2
    NVML_CLOCK_MEM = 2

    def __init__(self, cards: list[tuple[str, str, int, int, tuple[int, int]]], *, knows_v2: bool = True) -> None:
        self.cards = cards
        self.knows_v2 = knows_v2
        self.is_open = False

    def fail(self) -> int:
        raise NVMLError("Not Supported")

    def nvmlInit(self) -> None:
        self.is_open = True

    def nvmlShutdown(self) -> None:
        self.is_open = False

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"580.65.06"

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetPciInfo(self, index: int) -> Any:
        return SimpleNamespace(busId=self.cards[index][0].encode())

    def nvmlDeviceGetName(self, index: int) -> str:
        return self.cards[index][1]

    def nvmlDeviceGetMemoryInfo(self, index: int, version: int | None = None) -> Any:
        if version and not self.knows_v2:
            raise NVMLError("function not found")
        if not self.cards[index][2]:
            raise NVMLError("Not Supported")
        return SimpleNamespace(total=self.cards[index][2], free=self.cards[index][3])

    def nvmlDeviceGetCudaComputeCapability(self, index: int) -> tuple[int, int]:
        return self.cards[index][4]


RTX_5090 = ("00000000:01:00.0", "NVIDIA GeForce RTX 5090", 32 * GIB, 30 * GIB, (12, 0))
GB10 = ("0000000F:01:00.0", "NVIDIA GB10", 0, 0, (12, 1))


@pytest.mark.parametrize("knows_v2", [True, False])
def test_nvidia_card_by_either_version_of_the_memory_call(knows_v2: bool) -> None:  # noqa: FBT001 -- a parametrised case
    driver = RecordedNvml([RTX_5090], knows_v2=knows_v2)
    state = read_nvml(driver)
    (device,) = state.devices
    assert (device.memory_total, device.memory_free, device.memory_error) == (32 * GIB, 30 * GIB, "")
    assert (device.compute, state.driver, device.bus_id) == ("12.0", "580.65.06", "00000000:01:00.0")
    assert not driver.is_open


def test_what_a_driver_cannot_say_is_missing_and_memory_says_why() -> None:
    (device,) = read_nvml(RecordedNvml([GB10])).devices
    assert (device.memory_total, device.memory_error) == (None, "Not Supported")
    assert (device.bus_width_bits, device.display_active, device.nvlinks, device.instances) == (None, None, [], [])


def test_instances_of_a_partitioned_gpu_are_asked_for_their_own_memory() -> None:
    driver = RecordedNvml([RTX_5090, ("", "MIG 1g.10gb", 10 * GIB, 9 * GIB, (9, 0))])
    driver.nvmlDeviceGetCount = lambda: 1  # type: ignore[method-assign]
    extra = SimpleNamespace(
        nvmlDeviceGetMigMode=lambda _: [1, 1],
        nvmlDeviceGetMaxMigDeviceCount=lambda _: 2,
        nvmlDeviceGetMigDeviceHandleByIndex=lambda _, index: [1, driver.fail()][index] if index else 1,
    )
    vars(driver).update(vars(extra))
    (device,) = read_nvml(driver).devices
    assert device.is_mig
    assert [(part.name, part.memory_total) for part in device.instances] == [("MIG 1g.10gb", 10 * GIB)]


def test_links_are_counted_until_the_driver_knows_no_more() -> None:
    driver = RecordedNvml([RTX_5090])
    vars(driver)["nvmlDeviceGetNvLinkState"] = lambda _, link: [1, 0][link] if link < 2 else driver.fail()
    assert read_nvml(driver).devices[0].nvlinks == [True, False]


def test_no_driver_is_no_answer() -> None:
    driver = RecordedNvml([])
    vars(driver)["nvmlInit"] = driver.fail
    with pytest.raises(NoAnswer, match="Not Supported"):
        read_nvml(driver)


def test_a_recording_survives_json() -> None:
    state = read_nvml(RecordedNvml([RTX_5090, GB10]))
    assert msgspec.json.decode(msgspec.json.encode(state), type=NvmlState) == state
