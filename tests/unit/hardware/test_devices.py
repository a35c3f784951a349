"""The device table is sound, and names find their device and no other."""

import pytest

from app.core.machine import Confidence, Fact, Gpu
from app.hardware import devices
from app.hardware.facts import measured_fact, unknown_fact

GIB = 1 << 30

MATCHES = [
    ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090"),
    ("4090 24GB", "NVIDIA GeForce RTX 4090"),
    ("RTX4090", "NVIDIA GeForce RTX 4090"),
    ("NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 4090 Laptop GPU"),
    ("NVIDIA GeForce RTX 4090 D", "NVIDIA GeForce RTX 4090 D"),
    ("RTX 4060 Ti 16GB", "NVIDIA GeForce RTX 4060 Ti 16 GB"),
    ("NVIDIA RTX 6000 Ada", "NVIDIA RTX 6000 Ada Generation"),
    ("Quadro RTX 6000", "NVIDIA Quadro RTX 6000"),
    ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "NVIDIA RTX PRO 6000 Blackwell"),
    ("NVIDIA H100 80GB HBM3", "NVIDIA H100 SXM5 80 GB"),
    ("NVIDIA H100 PCIe", "NVIDIA H100 PCIe 80 GB"),
    ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 SXM4 80 GB"),
    ("NVIDIA GB10", "NVIDIA GB10 (DGX Spark)"),
    ("DGX Spark", "NVIDIA GB10 (DGX Spark)"),
    ("NVIDIA Jetson AGX Thor Developer Kit", "NVIDIA Jetson AGX Thor T5000"),
    ("NVIDIA Jetson Orin Nano Developer Kit", "NVIDIA Jetson Orin Nano 8 GB"),
    ("GB300 NVL72", "NVIDIA GB300 (per GPU)"),
    ("MacBook Pro M3", "Apple M3 (10-core GPU)"),
    ("MacBook Air M2", "Apple M2 (8-core GPU)"),
    ("Apple M4 Max 40c", "Apple M4 Max (40-core GPU)"),
    ("M1 Ultra (48 GPU Core) 64GB", "Apple M1 Ultra (48-core GPU)"),
    ("Apple M1 Pro 8P+2E+16GPU", "Apple M1 Pro (16-core GPU)"),
    ("M4 Mac mini (10 core - 32GB)", "Apple M4 (10-core GPU)"),
    ("AMD Radeon 8060S Graphics", "AMD Ryzen AI Max+ 395 (Radeon 8060S)"),
    ("AMD RYZEN AI MAX+ 395 w/ Radeon 8060S", "AMD Ryzen AI Max+ 395 (Radeon 8060S)"),
    ("AMD Radeon RX 7900 XTX", "AMD Radeon RX 7900 XTX"),
    ("AMD Instinct MI300X VF", "AMD Instinct MI300X"),
    ("Intel(R) Arc(TM) A770 Graphics", "Intel Arc A770"),
    ("Intel Arc Graphics 130V/140V", "Intel Core Ultra 200V (Arc 130V) LPDDR5X-8533"),
]

NO_MATCHES = [
    "",
    "GPU",
    "/",
    "RTX",
    "NVIDIA RTX 2000",
    "RTX 4090 SUPER",
    "GeForce GTX 409",
    "AMD Radeon Graphics",
    "M7",
    "DGX",
    "Orin (nvgpu)",
]


@pytest.mark.parametrize(("name", "device"), MATCHES)
def test_a_name_finds_its_device(name: str, device: str) -> None:
    device_found = devices.find_device(name)
    assert device_found is not None
    assert device_found.name == device


@pytest.mark.parametrize("name", NO_MATCHES)
def test_a_near_miss_is_no_match(name: str) -> None:
    assert devices.find_device(name) is None


@pytest.mark.parametrize("device", devices.device_table(), ids=lambda device: device.name)
def test_every_row_is_found_by_its_own_name(device: devices.DeviceRow) -> None:
    assert devices.find_device(device.name, memory_gb=device.memory_gb, cores=device.cores) == device


def test_memory_tells_cards_of_one_name_apart() -> None:
    assert devices.find_device("RTX 3080", memory_gb=11.99).bandwidth_gb_s == 912.4  # type: ignore[union-attr]
    assert devices.find_device("RTX 3080", memory_gb=10.0).bandwidth_gb_s == 760.3  # type: ignore[union-attr]


def test_without_cores_the_slower_chip_of_a_name_is_taken() -> None:
    assert devices.find_device("Apple M4 Max").bandwidth_gb_s == 410  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("processor", "bandwidth_gb_s"),
    [
        ("AMD EPYC 9354 32-Core Processor", 460.8),
        ("AMD EPYC 9755", 576),
        ("AMD EPYC 7763 64-Core Processor", 204.8),
        ("Intel(R) Xeon(R) Platinum 8480+", 307.2),
        ("Intel(R) Xeon(R) Platinum 8592+", 358.4),
        ("Intel Xeon Gold 6348", 204.8),
        ("AMD Ryzen Threadripper PRO 7995WX 96-Cores", 332.8),
        ("AMD Ryzen 9 7950X 16-Core Processor", 89.6),
        ("AMD Ryzen 7 5800X", 51.2),
        ("13th Gen Intel(R) Core(TM) i9-13900K", 76.8),
        ("Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz", 42.7),
    ],
)
def test_a_processor_tells_the_memory_it_is_made_for(processor: str, bandwidth_gb_s: float) -> None:
    memory = devices.memory_of(processor)
    assert memory is not None
    assert memory.bandwidth_gb_s == bandwidth_gb_s


def test_a_processor_that_says_too_little_tells_nothing() -> None:
    assert devices.memory_of("AMD EPYC") is None
    assert devices.memory_of("") is None


def test_bandwidth_is_bus_times_rate() -> None:
    both = [device for device in devices.device_table() if device.bus_bits and device.rate_gbps]
    assert len(both) > 150
    wrong = [
        device.name
        for device in both
        if abs(device.bus_bits * device.rate_gbps / 8 / device.bandwidth_gb_s - 1) > 0.02  # type: ignore[operator]
    ]
    assert not wrong


def test_every_figure_has_a_source() -> None:
    for device in devices.device_table():
        assert "bandwidth" in device.source or device.source in {"V", "D"}, device.name
        assert device.fp16_tflops is None or "fp16" in device.source, device.name


def test_what_the_driver_said_is_kept() -> None:
    card = gpu("NVIDIA GeForce RTX 4090", compute=measured_fact("8.9", "NVML"))
    known_card = devices.fill_from_table(card)
    assert known_card.compute.source == "NVML"
    assert known_card.bandwidth_gb_s.value == 1008
    assert known_card.bandwidth_gb_s.confidence is Confidence.TABLE


def test_an_unknown_card_stays_unknown() -> None:
    card = gpu("NVIDIA GeForce RTX 9999", compute=unknown_fact("NVML", ""))
    assert devices.fill_from_table(card) == card


def gpu(name: str, *, compute: Fact[str]) -> Gpu:
    return Gpu(
        id="0000:01:00.0",
        vendor="nvidia",
        name=measured_fact(name, "NVML"),
        memory_total=measured_fact(24 * GIB, "NVML", unit="B"),
        memory_free=unknown_fact("NVML", "", unit="B"),
        driver=unknown_fact("NVML", ""),
        compute=compute,
        integrated=measured_fact(value=False, source="NVML"),
    )
