"""An engine's list of devices, line by line, against GPUs the probes found."""

import pytest

from app.core.machine import EngineDevice, Gpu
from app.hardware.engine_devices import match_devices
from app.hardware.facts import measured_fact
from engines.llama_cpp.worker import _device_line

MIB = 1 << 20


def gpu(identity: str, name: str, vendor: str = "nvidia", mib: int = 24564) -> Gpu:
    total = measured_fact(mib * MIB, "NVML")
    return Gpu(
        id=identity,
        vendor=vendor,
        name=measured_fact(name, "test"),
        memory_total=total,
        memory_free=total,
        driver=measured_fact("1", "test"),
        compute=measured_fact("8.9", "test"),
        integrated=measured_fact(value=False, source="test"),
    )


RTX = gpu("0000:01:00.0", "NVIDIA GeForce RTX 4090")
RADEON = gpu("0000:03:00.0", "AMD Radeon RX 7900 XTX", "amd", 24560)


def only(line: str, *gpus: Gpu) -> EngineDevice:
    (device,) = match_devices("llama.cpp", [line], gpus)
    return device


def test_a_line_is_taken_apart() -> None:
    device = only("CUDA0: NVIDIA GeForce RTX 4090 (24217 MiB, 23894 MiB free)", RTX, RADEON)
    assert device == EngineDevice(
        engine="llama.cpp",
        name="CUDA0: NVIDIA GeForce RTX 4090",
        memory_total=24217 * MIB,
        memory_free=23894 * MIB,
        gpu="0000:01:00.0",
    )


@pytest.mark.parametrize(
    "line",
    [
        "Vulkan0: AMD Radeon RX 7900 XTX (RADV NAVI31) (24560 MiB, 24000 MiB free)",
        "  ROCm0: AMD Radeon RX 7900 XTX (24560 MiB, 24000 MiB free)",
        "ROCm0: Some other name (24560 MiB, 24000 MiB free) [0000:03:00.0]",
        "Vulkan0: AMD Radeon RX 7900 XTX",
    ],
)
def test_a_card_is_known_by_address_or_name(line: str) -> None:
    device = only(line, RTX, RADEON)
    assert (device.gpu, device.difference) == ("0000:03:00.0", "")


def test_the_vendor_must_be_the_backends() -> None:
    twin = gpu("0000:09:00.0", "NVIDIA GeForce RTX 4090", "amd")
    assert only("CUDA0: NVIDIA GeForce RTX 4090 (24217 MiB, 1 MiB free)", twin, RTX).gpu == RTX.id


def test_equal_cards_are_counted_unless_variables_hide_some() -> None:
    second = gpu("0000:02:00.0", "NVIDIA GeForce RTX 4090")
    lines = [f"CUDA{n}: NVIDIA GeForce RTX 4090 (24217 MiB, 23894 MiB free)" for n in range(3)]
    assert [device.gpu for device in match_devices("e", lines, [RTX, second])] == [RTX.id, second.id, ""]
    narrowed_match = match_devices("e", lines[:1], [RTX, second], is_narrowed=True)
    assert (narrowed_match[0].gpu, "unclear" in narrowed_match[0].difference) == ("", True)


def test_one_card_seen_by_two_backends_is_that_card_twice() -> None:
    lines = ["CUDA0: NVIDIA GeForce RTX 4090 (24217 MiB, 1 MiB free)", "Vulkan0: NVIDIA GeForce RTX 4090 (24564 MiB)"]
    assert [device.gpu for device in match_devices("e", lines, [RTX])] == [RTX.id, RTX.id]


def test_what_the_probes_did_not_find_is_said() -> None:
    assert (
        only("SYCL0: Intel Arc B580 (11000 MiB, 10000 MiB free)").difference == "The probes did not find this device."
    )


def test_a_processor_is_no_difference_where_there_is_no_gpu() -> None:
    assert only("CPU: AMD EPYC (24105 MiB, 24105 MiB free)").difference == ""


def test_less_memory_than_the_driver_says_is_a_difference() -> None:
    line = "CUDA0: NVIDIA GeForce RTX 4090 (8192 MiB, 8000 MiB free)"
    assert only(line, RTX).difference == "It sees 8.0 GiB; NVML: 24.0 GiB."


def test_what_our_own_worker_prints_is_understood() -> None:
    device = {
        "name": "CUDA0",
        "description": "NVIDIA GeForce RTX 4090",
        "memory_total": 24217 * MIB,
        "memory_free": 23894 * MIB,
        "device_id": "0000:01:00.0",
    }
    twin = gpu("0000:02:00.0", "NVIDIA GeForce RTX 4090")
    device_found = only(_device_line(device), twin, RTX)
    assert (device_found.gpu, device_found.memory_total, device_found.memory_free) == (RTX.id, 24217 * MIB, 23894 * MIB)
