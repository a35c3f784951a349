"""What the rules ask of a machine. An unknown fact never counts as a yes."""

import re

from app.core.machine import Gpu, Machine

AMPERE = (8, 0)
"""Compute capability from which ExLlama's kernels and paged attention run."""
VOLTA = (7, 0)
"""The least vLLM and SGLang run on."""
FEW = 4
"""Up to so many cards are a workstation; more are a server."""

_DATA_CENTRE = re.compile(
    r"\b(V100|T4|A2|A10G?|A16|A30|A40|A100X?|A800|L2|L4|L20|L40S?|H20|H100|H200|H800|GH200|[BG]B?[123]00)\b"
)
_INSTINCT = re.compile(r"\binstinct\b|\bMI\d{2,3}[AXP]?\b", re.IGNORECASE)
_INSTINCT_TARGETS = frozenset({"gfx908", "gfx90a", "gfx940", "gfx941", "gfx942", "gfx950"})
_RECENT_INTEL = re.compile(r"\bXeon\b|\bCore(\(TM\))? Ultra\b", re.IGNORECASE)


def is_apple_silicon(machine: Machine) -> bool:
    """Whether this is a Mac with Apple's own processor."""
    return machine.os.name.value == "macOS" and machine.os.architecture.value in {"arm64", "aarch64"}


def has_vendor(machine: Machine, vendor: str) -> bool:
    """Whether any GPU is of this vendor."""
    return any(gpu.vendor == vendor for gpu in machine.gpus)


def data_centre_gpus(machine: Machine) -> int:
    """Count NVIDIA cards made for servers and recent enough for the engines made for servers."""
    return sum(_is_data_centre(gpu) for gpu in machine.gpus)


def rtx_gpus(machine: Machine) -> int:
    """Count NVIDIA cards of a desk or laptop from Ampere on. One that shares system memory (GB10, Jetson) is none."""
    return sum(
        gpu.vendor == "nvidia"
        and _compute(gpu) >= AMPERE
        and not _is_data_centre(gpu)
        and gpu.integrated.value is not True
        for gpu in machine.gpus
    )


def instinct_gpus(machine: Machine) -> int:
    """Count AMD's accelerators for servers."""
    return sum(
        gpu.vendor == "amd" and bool(_INSTINCT.search(gpu.name.value or "") or gpu.compute.value in _INSTINCT_TARGETS)
        for gpu in machine.gpus
    )


def arc_gpus(machine: Machine) -> int:
    """Count Intel GPUs that are worth running on: Arc, inside a processor or on a card."""
    return sum(
        gpu.vendor == "intel" and re.search(r"\bArc\b", gpu.name.value or "") is not None for gpu in machine.gpus
    )


def is_recent_intel(machine: Machine) -> bool:
    """Whether the processor is an Intel Xeon or Core Ultra."""
    return _RECENT_INTEL.search(machine.cpu.model.value or "") is not None


def failed_probes(machine: Machine) -> list[str]:
    """Return the names of probes that ended without an answer: what they look for may be there all the same."""
    return [probe.name for probe in machine.probes if probe.outcome in {"timeout", "crashed"}]


def _is_data_centre(gpu: Gpu) -> bool:
    name = gpu.name.value or ""
    return gpu.vendor == "nvidia" and "RTX" not in name and bool(_DATA_CENTRE.search(name)) and _compute(gpu) >= VOLTA


def _compute(gpu: Gpu) -> tuple[int, int]:
    """Return the CUDA compute capability; (0, 0) when it is unknown, which is less than any that is asked for."""
    known = re.fullmatch(r"(\d+)\.(\d+)", gpu.compute.value or "")
    return (int(known[1]), int(known[2])) if known else (0, 0)
