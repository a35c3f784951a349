"""How much of its data sheet a device reaches, and what software adds: few constants, each fitted to public figures.

Bandwidth is a matter of the device, the cost per layer (starting kernels, waiting) one of the software. Both are
fitted together by `python -m tests.bench.fit_speed`, to the rows it calls training rows and to no other; its prior is
said there. What no public figure covers keeps the prior and a wide interval. A test repeats the fit.

What computes: the figures of the GPUs or the processor that a setting uses, as far as they are known.
"""

import msgspec

from app.advisor.memory.setting import RunSetting
from app.core.machine import Confidence, Cpu, Gpu, Machine

EARLY_BUILD = 5000
"""llama.cpp builds before April 2025: no CUDA graphs for most models, Metal before it ran kernels side by side."""


class DeviceTraits(msgspec.Struct, frozen=True):
    """`efficiency` is the share of the bandwidth on the data sheet that reading weights reaches.

    Where unpacking, not reading, may set the pace, `operations` are the multiply-adds that one weight costs, and
    `k_operations` those of one in a K-quant (0: never).
    `spread` is how far a prediction may be off either way, as a factor minus one, for nine of ten devices of the class.
    """

    efficiency: float
    operations: float = 0.0
    k_operations: float = 0.0
    spread: float = 0.30


class SoftwareTraits(msgspec.Struct, frozen=True):
    """Seconds per plain layer and token, and what choosing experts adds per layer.

    `read_share` is the part of the device's efficiency that kernels of its own reach, where they are not llama.cpp's.
    """

    layer_s: float
    expert_layer_s: float
    spread: float = 0.15
    read_share: float = 1.0


class PrefillTraits(msgspec.Struct, frozen=True):
    """Share of the FLOPS on the data sheet that prompts reach, and what is left of it where experts are chosen."""

    share: float
    expert_share: float
    spread: float = 0.5


DEVICES: dict[str, DeviceTraits] = {
    "apple": DeviceTraits(0.904, spread=0.18),
    "apple ultra": DeviceTraits(0.830, spread=0.35),
    "apple m1": DeviceTraits(0.841, k_operations=17.0, spread=0.60),
    "apple m1 ultra": DeviceTraits(0.787, k_operations=17.0, spread=0.50),
    "geforce": DeviceTraits(0.903, spread=0.22),
    "turing": DeviceTraits(0.850, spread=0.30),
    "pascal": DeviceTraits(0.816, operations=13.1, k_operations=14.0, spread=0.40),
    "hbm": DeviceTraits(0.590, spread=0.30),
    "radeon": DeviceTraits(0.896, spread=0.60),
    "unified": DeviceTraits(0.862, spread=0.25),
    "arc": DeviceTraits(0.824, spread=0.80),
    "cpu measured": DeviceTraits(0.850, operations=1.0, k_operations=1.0, spread=0.35),
    "cpu": DeviceTraits(0.631, operations=1.0, k_operations=1.0, spread=1.00),
    "unknown": DeviceTraits(0.800, spread=0.80),
}
"""Fitted, but for "turing", "cpu measured" and "unknown", of which there is no training row: those are the priors.

Spreads are about one and a half times the error that nine of ten training rows keep when their chip is left out of
the fit, more where few chips are behind it: drivers and settings of people at home differ more than scoreboards do.
"""
SOFTWARE: dict[str, SoftwareTraits] = {
    "metal": SoftwareTraits(91e-6, 35e-6, spread=0.05),
    "metal early": SoftwareTraits(146e-6, 20e-6, spread=0.05),
    "mlx": SoftwareTraits(67e-6, 4e-6, spread=0.15),
    "cuda": SoftwareTraits(49e-6, 0.0, spread=0.10),
    "cuda early": SoftwareTraits(94e-6, 20e-6, spread=0.15),
    "vulkan": SoftwareTraits(39e-6, 33e-6, spread=0.20),
    "vulkan intel": SoftwareTraits(103e-6, 20e-6, spread=0.30),
    "rocm": SoftwareTraits(85e-6, 0.0, spread=0.25),
    "cpu": SoftwareTraits(115e-6, 500e-6, spread=0.20),
    "exl3": SoftwareTraits(55e-6, 20e-6, spread=0.20),
    "exl3 ampere": SoftwareTraits(89e-6, 44e-6, spread=0.30, read_share=0.930),
    "exl3 hopper": SoftwareTraits(127e-6, 44e-6, spread=0.40),
    "unknown": SoftwareTraits(60e-6, 20e-6, spread=0.40),
}
"""Fitted; "unknown" is a guess between CUDA and ROCm for engines that nobody has published enough of.

EXL3 has points of its own, apart from the others (tests/data/speed-exl3.csv; `python -m tests.bench.fit_exl3` repeats
the fit): unpacking its trellises costs Ampere cards more than later ones. Hopper's is one reading of ours, of random
weights of an 8B on an H100 (docs/internals/gpu-runs.md): 171 tokens/s, where the row of later cards says 283.
"""
PREFILL: dict[str, PrefillTraits] = {
    "apple": PrefillTraits(0.635, 0.50),
    "apple ultra": PrefillTraits(0.628, 0.81),
    "apple m1": PrefillTraits(0.649, 0.96),
    "apple m1 ultra": PrefillTraits(0.650, 0.81),
    "geforce": PrefillTraits(0.990, 0.445),
    "geforce integrated": PrefillTraits(0.309, 0.52),
    "turing": PrefillTraits(0.600, 0.445),
    "pascal": PrefillTraits(0.976, 0.50),
    "hbm": PrefillTraits(0.163, 0.50),
    "radeon": PrefillTraits(0.339, 0.234, spread=0.8),
    "radeon integrated": PrefillTraits(0.256, 0.50, spread=0.8),
    "arc": PrefillTraits(0.046, 0.50, spread=2.0),
    "unknown": PrefillTraits(0.300, 0.50, spread=1.0),
}
"""Fitted as medians over chips; a share near one is possible since eight-bit integers do the work. Without a training
row: "turing" (between its neighbours), and what experts leave on Pascal, HBM, integrated Radeon and Arc."""
PREFILL_EARLY = 0.60
"""What of it builds before `EARLY_BUILD` reached on tensor cores: quantised weights were unpacked for them first."""
_HBM_GB_S = 1200.0
"""Ampere cards above this are A100s; Blackwell and later above `_HBM_ALWAYS_GB_S` are data-centre parts."""
_HBM_ALWAYS_GB_S = 2500.0


def device_class(gpu: Gpu) -> str:
    """Return the name of the class of devices a GPU belongs to."""
    architecture = gpu.architecture.value or ""
    if gpu.vendor == "apple":
        generation = "apple m1" if architecture == "Apple M1" else "apple"
        return f"{generation} ultra" if "Ultra" in (gpu.name.value or "") else generation
    if gpu.vendor in {"nvidia", "amd"} and (gpu.integrated.value or architecture == "RDNA3.5"):
        return "unified"
    if gpu.vendor == "nvidia":
        return _nvidia_class(architecture, gpu.bandwidth_gb_s.value or 0.0)
    if gpu.vendor == "amd":
        return "hbm" if architecture.startswith("CDNA") else "radeon"
    return "arc" if gpu.vendor == "intel" else "unknown"


def software_class(setting: RunSetting, device: str, architecture: str = "") -> str:
    """Return the name of the class of software an engine is on that backend, build, class and generation of device."""
    if own := setting.engine.speed_class:
        of_generation = f"{own} {architecture.lower()}"
        return of_generation if of_generation in SOFTWARE else own
    if setting.backend in {"vulkan", "sycl"} and device == "arc":
        return "vulkan intel"
    if setting.backend == "cuda" and device == "pascal":
        return "cuda early"  # no CUDA graphs there to this day
    early = f"{setting.backend} early"
    if setting.engine.is_ggml and setting.build < EARLY_BUILD and early in SOFTWARE:
        return early
    return setting.backend if setting.backend in SOFTWARE else "unknown"


def _nvidia_class(architecture: str, bandwidth: float) -> str:
    if architecture in {"Pascal", "Maxwell"}:
        return "pascal" if bandwidth < _HBM_GB_S else "hbm"
    if bandwidth >= _HBM_ALWAYS_GB_S or (architecture in {"Ampere", "Hopper"} and bandwidth >= _HBM_GB_S):
        return "hbm"
    return "turing" if architecture in {"Turing", "Volta"} else "geforce"


VENDORS = {"cuda": "nvidia", "metal": "apple", "rocm": "amd", "sycl": "intel"}
"""Whose GPUs a backend runs on; Vulkan and the others run on any."""
ASSUMED_RAM_GB_S = 51.2
"""Two channels of DDR4-3200, where nothing is known: what most desktops of the last years have at least."""

CORE_GB_S = 11.0
"""What one core reads at most of a data sheet's bandwidth: an 8-core Ryzen 5700G needs six to reach 7 GB/s each of
weights, at the share of `DEVICES["cpu"]`. Chips with many channels and few cores are bound by this."""
NARROW_FLOPS = 1.6e9
"""A core with 128-bit vectors and no dot product, on quantised weights: a Raspberry Pi 4. Without vectors, a fourth."""
HALVED_FLOPS = 16e9
"""A core with AVX whose units take integers 128 bits at a time: two cores of a virtual EPYC of 2017 (Zen, 2 GHz and up)
wrote 26 and 31 tokens/s with 541 million weights on two days, whatever their memory can read (benchmarks.md)."""
_WIDE = ("avx", "avx2", "avx512f", "asimddp", "i8mm", "sve")
_AVX_BITS = 256
_NARROW = ("asimd", "neon", "sse2", "ssse3", "sse3")


class SpeedDevice(msgspec.Struct, frozen=True, kw_only=True):
    """One device. Bandwidth in bytes per second, rate in floating-point operations per second, zero where unknown."""

    name: str
    vendor: str
    kind: str
    """A name in `families.DEVICES`."""
    bandwidth: float
    flops: float = 0.0
    is_assumed: bool = False
    has_nvlink: bool = False
    id: str = ""
    architecture: str = ""


def devices_in_use(machine: Machine, setting: RunSetting) -> list[SpeedDevice]:
    """Return the devices that decode, fastest memory first; empty when nothing is known of them."""
    if not setting.uses_gpu:
        return [processor_device(machine)]
    vendor = VENDORS.get(setting.backend)
    gpus = [gpu for gpu in machine.gpus if vendor in (None, gpu.vendor) and gpu.bandwidth_gb_s.value]
    gpus.sort(key=lambda gpu: (gpu.memory_total.value or 0, gpu.bandwidth_gb_s.value or 0.0), reverse=True)
    return [_gpu_device(gpu) for gpu in gpus[: setting.gpus]]


def processor_device(machine: Machine) -> SpeedDevice:
    """Return the processor with the bandwidth of its memory: measured, by its parts, or assumed."""
    name = machine.cpu.model.value or "processor"
    cores = machine.cpu.usable_cores.value or machine.cpu.physical_cores.value or 0.0
    probed_gb_s, theoretical = machine.memory.bandwidth_gb_s, machine.memory.theoretical_gb_s.value
    shared_gb_s = max((gpu.bandwidth_gb_s.value or 0.0 for gpu in machine.gpus if gpu.integrated.value), default=0.0)
    is_measured = probed_gb_s.value is not None and probed_gb_s.confidence is Confidence.MEASURED
    known_gb_s = probed_gb_s.value or theoretical or shared_gb_s
    most = cores * CORE_GB_S if cores and not is_measured else float("inf")
    return SpeedDevice(
        id="cpu",
        name=name,
        vendor="cpu",
        kind="cpu measured" if is_measured else "cpu",
        bandwidth=min(known_gb_s or ASSUMED_RAM_GB_S, most) * 1e9,
        flops=cores * _core_flops(machine.cpu),
        is_assumed=not known_gb_s,
    )


def has_halved_vectors(cpu: Cpu) -> bool:
    """Whether its units take 128 bits of AVX at a time: of integers before AVX2, of everything where they split."""
    flags = cpu.isa.value or []
    if "avx2" in flags or "avx512f" in flags:
        return (cpu.vector_bits.value or _AVX_BITS) < _AVX_BITS
    return "avx" in flags


def _core_flops(cpu: Cpu) -> float:
    """Return what unpacking and multiplying may cost so much of that it sets the pace; zero where it does not."""
    flags = cpu.isa.value
    if has_halved_vectors(cpu):
        return HALVED_FLOPS
    if flags is None or any(flag in flags for flag in _WIDE):
        return 0.0
    return NARROW_FLOPS if any(flag in flags for flag in _NARROW) else NARROW_FLOPS / 4


def _is_linked(gpu: Gpu) -> bool:
    """Whether NVLink joins the cards: the table knows only that there is a connector; modules are always joined."""
    return gpu.nvlink.confidence is not Confidence.TABLE or device_class(gpu) == "hbm"


def _gpu_device(gpu: Gpu) -> SpeedDevice:
    return SpeedDevice(
        id=gpu.id,
        name=gpu.name.value or gpu.id,
        vendor=gpu.vendor,
        kind=device_class(gpu),
        bandwidth=(gpu.bandwidth_gb_s.value or 0.0) * 1e9,
        flops=(gpu.fp16_tflops.value or 0.0) * 1e12,
        has_nvlink=bool(gpu.nvlink.value) and _is_linked(gpu),
        architecture=gpu.architecture.value or "",
    )
