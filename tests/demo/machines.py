"""Plausible machines: a laptop with one pool of memory, and a workstation with two cards. Invented, for pictures."""

from typing import TypeVar

import msgspec

from app.core.machine import (
    Confidence,
    Cpu,
    EngineDevice,
    Fact,
    Gpu,
    Machine,
    Memory,
    Npu,
    OperatingSystem,
    Pool,
    ProbeReport,
)

T = TypeVar("T")
GIB = 1024**3
NOON = 1_790_000_000.0
RADEON = "0000:c1:00.0"
CARDS = ("0000:01:00.0", "0000:02:00.0")


def make_fact(value: T, source: str, *, unit: str = "", note: str = "") -> Fact[T]:
    """Return a measured fact."""
    return Fact(value=value, unit=unit, source=source, confidence=Confidence.MEASURED, note=note)


def table_fact(value: T, *, unit: str = "") -> Fact[T]:
    """Return a fact from the table of devices."""
    return Fact(value=value, unit=unit, source="device table", confidence=Confidence.TABLE)


def gib_fact(count: float, source: str, *, note: str = "") -> Fact[int]:
    """Return so many GiB, measured."""
    return make_fact(int(count * GIB), source, unit="B", note=note)


SYSTEM = OperatingSystem(
    name=make_fact("Linux", "sys.platform"),
    version=make_fact("Ubuntu 24.04.3 LTS", "/etc/os-release"),
    kernel=make_fact("6.14.0-33-generic", "uname"),
    architecture=make_fact("x86_64", "uname"),
    environment=make_fact("bare", "systemd-detect-virt"),
)

LAPTOP = Machine(
    os=SYSTEM,
    cpu=Cpu(
        model=make_fact("AMD Ryzen 7 7840U", "/proc/cpuinfo"),
        vendor=make_fact("AuthenticAMD", "/proc/cpuinfo"),
        physical_cores=make_fact(8, "/sys/devices/system/cpu/cpu*/topology"),
        performance_cores=make_fact(8, "/sys/devices/system/cpu/cpu*/cpu_capacity"),
        logical_cores=make_fact(16, "/proc/cpuinfo"),
        usable_cores=make_fact(8.0, "sched_getaffinity"),
        isa=make_fact(["avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx512_bf16"], "/proc/cpuinfo"),
        cache_bytes=make_fact(16 << 20, "/sys/devices/system/cpu/cpu0/cache", unit="B"),
    ),
    memory=Memory(
        total=gib_fact(60.7, "/proc/meminfo MemTotal"),
        available=gib_fact(38.4, "/proc/meminfo MemAvailable"),
        limit=Fact(unit="B", source="cgroup", note="No control group limits this process."),
        swap_total=gib_fact(8, "/proc/meminfo SwapTotal"),
        unified=make_fact(value=True, source="amdgpu"),
        bandwidth_gb_s=make_fact(66.4, "reading it for a second, 8 threads", unit="GB/s"),
        theoretical_gb_s=make_fact(89.6, "SMBIOS type 17", unit="GB/s"),
    ),
    gpus=[
        Gpu(
            id=RADEON,
            vendor="amd",
            name=make_fact("AMD Radeon 780M", "/sys/class/drm/card1/device"),
            memory_total=gib_fact(4, "mem_info_vram_total"),
            memory_free=gib_fact(3.1, "mem_info_vram_total"),
            driver=make_fact("amdgpu 6.14", "uname"),
            compute=make_fact("gfx1103", "/sys/class/kfd/kfd/topology/nodes/1/properties"),
            integrated=make_fact(value=True, source="mem_info_gtt_total"),
            architecture=table_fact("RDNA3"),
            bandwidth_gb_s=table_fact(89.6, unit="GB/s"),
            fp16_tflops=table_fact(16.6, unit="TFLOPS"),
            drives_display=make_fact(value=True, source="/sys/class/drm/card1-eDP-1/enabled"),
            pool="system",
        )
    ],
    npus=[
        Npu(
            id="0000:c2:00.1",
            vendor="amd",
            name=make_fact("AMD XDNA", "/sys/class/accel/accel0"),
            driver=make_fact("amdxdna", "/sys/class/accel/accel0/device/driver"),
        )
    ],
    pools=[
        Pool(
            id="system",
            name="Memory",
            physical=gib_fact(64, "/proc/meminfo MemTotal and mem_info_vram_total"),
            addressable=gib_fact(34.3, "mem_info_vram_total and mem_info_gtt_total"),
            free=gib_fact(38.4, "/proc/meminfo MemAvailable"),
            gpus=[RADEON],
            is_unified=True,
        )
    ],
    engine_devices=[
        EngineDevice(engine="llama.cpp", name="CPU", memory_total=int(60.7 * GIB), memory_free=int(38.4 * GIB)),
        EngineDevice(
            engine="llama.cpp",
            name="none",
            gpu=RADEON,
            difference="the build that is installed runs on the processor only; it does not see this device.",
        ),
    ],
    probes=[
        ProbeReport(name="base", outcome="ok", seconds=0.12),
        ProbeReport(name="bandwidth", outcome="ok", seconds=1.04),
        ProbeReport(name="nvidia", outcome="absent", seconds=0.05, detail="There is no NVIDIA driver."),
        ProbeReport(name="sysfs", outcome="ok", seconds=0.08),
        ProbeReport(name="vulkan", outcome="timeout", seconds=5.0, detail="libvulkan.so.1 did not answer in time."),
    ],
    probed_at=NOON,
)


def _make_card(place: int, free: float, *, drives_display: bool) -> Gpu:
    nvml = "nvmlDeviceGetMemoryInfo"
    return Gpu(
        id=CARDS[place],
        vendor="nvidia",
        name=make_fact("NVIDIA GeForce RTX 3090", "nvmlDeviceGetName"),
        memory_total=gib_fact(24, nvml),
        memory_free=gib_fact(free, nvml),
        driver=make_fact("580.95.05", "nvmlSystemGetDriverVersion"),
        compute=make_fact("8.6", "nvmlDeviceGetCudaComputeCapability"),
        integrated=make_fact(value=False, source="NVML"),
        architecture=table_fact("Ampere"),
        bandwidth_gb_s=make_fact(936.2, "bus width and clock by NVML", unit="GB/s"),
        fp16_tflops=table_fact(71.2, unit="TFLOPS"),
        drives_display=make_fact(value=drives_display, source="nvmlDeviceGetDisplayActive"),
        nvlink=make_fact(value=False, source="nvmlDeviceGetNvLinkState"),
        pool=CARDS[place],
    )


def _card_pool(place: int, free: float) -> Pool:
    nvml = "nvmlDeviceGetMemoryInfo"
    return Pool(
        id=CARDS[place],
        name=f"Graphics memory {place + 1}",
        physical=gib_fact(24, nvml),
        addressable=gib_fact(23.6, "cuMemGetInfo"),
        free=gib_fact(free, nvml),
        gpus=[CARDS[place]],
    )


WORKSTATION = msgspec.structs.replace(
    LAPTOP,
    cpu=msgspec.structs.replace(
        LAPTOP.cpu,
        model=make_fact("AMD Ryzen Threadripper PRO 5975WX", "/proc/cpuinfo"),
        physical_cores=make_fact(32, "/sys/devices/system/cpu/cpu*/topology"),
        usable_cores=make_fact(24.0, "cgroup cpu.max"),
        isa=make_fact(["avx2", "fma", "f16c"], "/proc/cpuinfo"),
    ),
    memory=msgspec.structs.replace(
        LAPTOP.memory,
        total=gib_fact(125.6, "/proc/meminfo MemTotal"),
        available=gib_fact(96.2, "/proc/meminfo MemAvailable"),
        limit=gib_fact(96, "/sys/fs/cgroup/user.slice/memory.max"),
        unified=make_fact(value=False, source="NVML"),
        bandwidth_gb_s=make_fact(141.0, "reading it for a second, 24 threads", unit="GB/s"),
    ),
    gpus=[_make_card(0, 21.9, drives_display=True), _make_card(1, 23.3, drives_display=False)],
    npus=[],
    pools=[
        Pool(
            id="system",
            name="Memory",
            physical=gib_fact(125.6, "/proc/meminfo MemTotal"),
            addressable=gib_fact(96, "/sys/fs/cgroup/user.slice/memory.max"),
            free=gib_fact(88.7, "/proc/meminfo MemAvailable and memory.current"),
        ),
        _card_pool(0, 21.9),
        _card_pool(1, 23.3),
    ],
    limits=[
        make_fact("A control group limits this process to 96.0 GiB of memory.", "/sys/fs/cgroup/user.slice/memory.max"),
        make_fact("A quota limits this process to 24 of 32 cores.", "/sys/fs/cgroup/user.slice/cpu.max"),
    ],
    engine_devices=[
        EngineDevice(
            engine="llama.cpp",
            name="CUDA0",
            memory_total=int(23.6 * GIB),
            gpu=CARDS[0],
            difference="sees 23.6 GiB as CUDA0, 0.4 GiB less than the driver says.",
        )
    ],
    probes=[
        ProbeReport(name="base", outcome="ok", seconds=0.14),
        ProbeReport(name="bandwidth", outcome="ok", seconds=1.02),
        ProbeReport(name="nvidia", outcome="ok", seconds=0.31),
        ProbeReport(name="sysfs", outcome="absent", seconds=0.05, detail="No AMD or Intel graphics device."),
    ],
)
