"""How much of its data sheet a device reaches, and what software adds: few constants, each fitted to public figures.

Bandwidth is a matter of the device, the cost per layer (starting kernels, waiting) one of the software. Both are
fitted together by `python -m app.bench.fit_speed`, to the rows it calls training rows and to no other; its prior is
said there. What no public figure covers keeps the prior and a wide interval.
"""

import re

import msgspec

from app.advisor.memory_setting import Setting
from app.core.machine import Gpu

EARLY_BUILD = 5000
"""llama.cpp builds before April 2025: no CUDA graphs for most models, Metal before it ran kernels side by side."""


class DeviceClass(msgspec.Struct, frozen=True):
    """`efficiency` is the share of the bandwidth on the data sheet that reading weights reaches.

    Where unpacking, not reading, may set the pace, `operations` are the multiply-adds that one weight costs, and
    `k_operations` those of one in a K-quant (0: never).
    `spread` is how far a prediction may be off either way, as a factor minus one, for nine of ten devices of the class.
    """

    efficiency: float
    operations: float = 0.0
    k_operations: float = 0.0
    spread: float = 0.30


class Software(msgspec.Struct, frozen=True):
    """Seconds per plain layer and token, and what choosing experts adds per layer."""

    layer_s: float
    expert_layer_s: float
    spread: float = 0.15


class Prefill(msgspec.Struct, frozen=True):
    """Share of the FLOPS on the data sheet that prompts reach, and what is left of it where experts are chosen."""

    share: float
    expert_share: float
    spread: float = 0.5


DEVICES: dict[str, DeviceClass] = {
    "apple": DeviceClass(0.87),
    "apple ultra": DeviceClass(0.80),
    "apple m1": DeviceClass(0.86, k_operations=17.0, spread=0.5),
    "apple m1 ultra": DeviceClass(0.75, k_operations=17.0, spread=0.5),
    "geforce": DeviceClass(0.90),
    "turing": DeviceClass(0.87),
    "pascal": DeviceClass(0.85, operations=15.0, k_operations=15.0),
    "hbm": DeviceClass(0.70),
    "radeon": DeviceClass(0.86),
    "radeon integrated": DeviceClass(0.80),
    "arc": DeviceClass(0.75),
    "cpu measured": DeviceClass(0.85, operations=1.0, k_operations=1.0),
    "cpu": DeviceClass(0.65, operations=1.0, k_operations=1.0),
    "unknown": DeviceClass(0.80, spread=0.6),
}
SOFTWARE: dict[str, Software] = {
    "metal": Software(80e-6, 20e-6),
    "metal early": Software(140e-6, 30e-6),
    "mlx": Software(45e-6, 30e-6),
    "cuda": Software(55e-6, 0.0),
    "cuda early": Software(115e-6, 30e-6),
    "vulkan": Software(45e-6, 20e-6),
    "vulkan intel": Software(90e-6, 30e-6),
    "rocm": Software(90e-6, 30e-6),
    "cpu": Software(20e-6, 20e-6),
    "unknown": Software(60e-6, 30e-6, spread=0.3),
}
PREFILL: dict[str, Prefill] = {
    "apple": Prefill(0.65, 0.80),
    "apple ultra": Prefill(0.65, 0.80),
    "apple m1": Prefill(0.65, 0.80),
    "apple m1 ultra": Prefill(0.65, 0.80),
    "geforce": Prefill(0.90, 0.40),
    "geforce integrated": Prefill(0.30, 0.80),
    "turing": Prefill(0.60, 0.40),
    "pascal": Prefill(1.00, 0.50),
    "hbm": Prefill(0.18, 0.50),
    "radeon": Prefill(0.40, 0.50),
    "radeon integrated": Prefill(0.32, 0.50),
    "arc": Prefill(0.10, 0.50),
    "unknown": Prefill(0.30, 0.50, spread=1.0),
}
PREFILL_EARLY = 0.55
"""What of it builds before `EARLY_BUILD` reached with CUDA: quantised weights were unpacked for FP16 matrices."""
_HBM_GB_S = 1200.0
"""Ampere cards above this are A100s; Blackwell and later above `_HBM_ALWAYS_GB_S` are data-centre parts."""
_HBM_ALWAYS_GB_S = 2500.0


def device_class(gpu: Gpu) -> str:
    """Return the name of the class of devices a GPU belongs to."""
    architecture = gpu.architecture.value or ""
    if gpu.vendor == "apple":
        generation = "apple m1" if architecture == "Apple M1" else "apple"
        return f"{generation} ultra" if "Ultra" in (gpu.name.value or "") else generation
    if gpu.vendor == "nvidia":
        return _nvidia(architecture, gpu.bandwidth_gb_s.value or 0.0)
    if gpu.vendor == "amd":
        return _amd(architecture, is_integrated=bool(gpu.integrated.value))
    return "arc" if gpu.vendor == "intel" else "unknown"


def software_class(setting: Setting, device: str) -> str:
    """Return the name of the class of software an engine is on that backend, build and class of device."""
    if setting.engine.startswith("mlx"):
        return "mlx"
    if setting.backend in {"vulkan", "sycl"} and device == "arc":
        return "vulkan intel"
    if setting.backend == "cuda" and device == "pascal":
        return "cuda early"  # no CUDA graphs there to this day
    early = f"{setting.backend} early"
    if setting.engine == "llama.cpp" and setting.build < EARLY_BUILD and early in SOFTWARE:
        return early
    return setting.backend if setting.backend in SOFTWARE else "unknown"


def _nvidia(architecture: str, bandwidth: float) -> str:
    if architecture in {"Pascal", "Maxwell"}:
        return "pascal" if bandwidth < _HBM_GB_S else "hbm"
    if bandwidth >= _HBM_ALWAYS_GB_S or (architecture in {"Ampere", "Hopper"} and bandwidth >= _HBM_GB_S):
        return "hbm"
    return "turing" if architecture in {"Turing", "Volta"} else "geforce"


def _amd(architecture: str, *, is_integrated: bool) -> str:
    if re.match(r"CDNA", architecture):
        return "hbm"
    return "radeon integrated" if is_integrated or architecture == "RDNA3.5" else "radeon"
