"""What the rules ask of a machine: which of the guide's kinds it is, and the GPUs that count.

An unknown fact never counts as a yes. A family name stands for the least any card of the family can do.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from app.core.machine import Confidence, Gpu, Machine
from engines.api.traits import AMPERE, INSTINCT, TURING, MachineKind, Version

FEW = 4
"""Up to so many cards are a workstation; more are a server."""
SMALL_GPU_BYTES = 15 << 29
"""7.5 GiB: below an 8 GB card. The usual 8B model at 4 bits, its context and the display no longer share it."""
SERVER_CORES = 24
"""So many physical cores are no laptop's, by the chips on sale in 2026."""

_DATA_CENTRE = re.compile(
    r"\b(V100|T4|A2|A10G?|A16|A30|A40|A100X?|A800|L2|L4|L20|L40S?|H20|H100|H200|H800|GH200|[BG]B?[123]00)\b"
)
_BLACKWELL_SERVER = re.compile(r"\bG?B[123]00\b")
_INSTINCT = re.compile(r"\binstinct\b|\bMI\d{2,3}[AXP]?\b", re.IGNORECASE)
_INSTINCT_TARGETS = INSTINCT | {"gfx906", "gfx908", "gfx940", "gfx941"}
"""What AMD's server accelerators call themselves, those that engines made for servers no longer run on among them."""
_JETSON = re.compile(r"\b(Orin|Xavier|Jetson (TX|Nano))\b", re.IGNORECASE)
_UNIFIED = re.compile(r"\b(GB10|Thor|DGX Spark|Jetson)\b", re.IGNORECASE)
_RECENT_INTEL = re.compile(r"\bXeon\b|\bCore(\(TM\)|™)? Ultra\b", re.IGNORECASE)
_SERVER_CPU = re.compile(
    r"\b(EPYC|Xeon|Threadripper|Opteron|Altra|AmpereOne|Graviton|Neoverse|Grace|Cobalt|Kunpeng)\b", re.IGNORECASE
)
_BOARD = re.compile(r"Raspberry|BCM2|Cortex-A|Rockchip|RK3\d{3}|Orange Pi|Odroid", re.IGNORECASE)
_SNAPDRAGON = re.compile(r"Snapdragon|Qualcomm|\bX1E|\bX1P|\bOryon", re.IGNORECASE)
_ARM_NAMES = frozenset({"arm64", "aarch64", "armv8", "arm"})
_X86_NAMES = frozenset({"x86_64", "amd64", "x64"})
_FAMILIES: tuple[tuple[str, Version], ...] = (
    ("blackwell", (10, 0)),
    ("hopper", (9, 0)),
    ("ada", (8, 9)),
    ("ampere", (8, 0)),
    ("turing", (7, 5)),
    ("volta", (7, 0)),
    ("pascal", (6, 0)),
    ("maxwell", (5, 0)),
)
"""NVIDIA's families and the least compute capability of each (CUDA programming guide, table of capabilities)."""


_RTX = (MachineKind.RTX_MANY, MachineKind.RTX_FEW, MachineKind.RTX_ONE, MachineKind.RTX_SMALL)


class _MachineKey:
    """A machine as a key: values are frozen, so one object always has the same kind."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def __hash__(self) -> int:
        return id(self.machine)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _MachineKey) and other.machine is self.machine


def machine_kind(machine: Machine) -> MachineKind:
    """Return the machine's kind: what computes best decides, not what there is most of."""
    return _machine_kind(_MachineKey(machine))


@lru_cache(maxsize=4)  # one advice asks fifty times, and there may be thousands of GPUs
def _machine_kind(same: _MachineKey) -> MachineKind:
    machine = same.machine
    if is_apple_silicon(machine):
        return MachineKind.APPLE
    return (
        _server_strategy(machine)
        or _mixed_strategy(machine)
        or _nvidia_strategy(machine)
        or _other_gpu_strategy(machine)
        or _processor_strategy(machine)
    )


def main_gpus(machine: Machine) -> list[Gpu]:
    """Return the GPUs the machine's kind rests on; none where the processor computes."""
    return list(_find_main_gpus(_MachineKey(machine)))


@lru_cache(maxsize=4)
def _find_main_gpus(key: _MachineKey) -> list[Gpu]:
    machine, kind = key.machine, machine_kind(key.machine)
    if kind is MachineKind.MIXED:
        return strongest_vendor(machine)
    return _GPUS_OF.get(kind, _no_gpus)(machine)


def all_gpus(machine: Machine) -> list[Gpu]:
    """Return every GPU worth computing on, of whichever vendor: what one engine for all of them would use."""
    return _discrete_usable(machine) if machine_kind(machine) is MachineKind.MIXED else main_gpus(machine)


def is_apple_silicon(machine: Machine) -> bool:
    """Whether this is a Mac with Apple's own processor, also when we run translated as an Intel program."""
    if machine.os.name.value != "macOS":
        return False
    return is_arm(machine) or (machine.cpu.model.value or "").startswith("Apple")


def is_arm(machine: Machine) -> bool:
    """Whether the processor is an ARM one, 64 bits."""
    return (machine.os.architecture.value or "").lower() in _ARM_NAMES


def is_x86(machine: Machine) -> bool:
    """Whether the processor is an x86 one, 64 bits."""
    return (machine.os.architecture.value or "").lower() in _X86_NAMES


def is_translated(machine: Machine) -> bool:
    """Whether an Intel program runs on Apple silicon (Rosetta)."""
    return is_apple_silicon(machine) and not is_arm(machine)


def is_data_centre(gpu: Gpu) -> bool:
    """Whether this is an NVIDIA GPU made for servers, recent enough for the engines made for servers."""
    name = gpu.name.value or ""
    return (
        gpu.vendor == "nvidia"
        and "RTX" not in name
        and bool(_DATA_CENTRE.search(name))
        and compute_capability(gpu) >= AMPERE
        and not is_shared(gpu)
    )


def is_instinct(gpu: Gpu) -> bool:
    """Whether this is one of AMD's accelerators for servers."""
    return gpu.vendor == "amd" and bool(
        _INSTINCT.search(gpu.name.value or "") or gpu.compute.value in _INSTINCT_TARGETS
    )


def is_arc(gpu: Gpu) -> bool:
    """Whether this is an Intel GPU worth running on: Arc, inside a processor or on a card."""
    return gpu.vendor == "intel" and re.search(r"\bArc\b", gpu.name.value or "") is not None


def is_shared(gpu: Gpu) -> bool:
    """Whether it computes on system memory. GB10 and Thor do, whatever a driver that does not know says."""
    return gpu.integrated.value is True or _UNIFIED.search(gpu.name.value or "") is not None


def is_recent_intel(machine: Machine) -> bool:
    """Whether the processor is an Intel Xeon or Core Ultra with the vectors OpenVINO is fast with."""
    isa = machine.cpu.isa.value
    lacks_vectors = isa is not None and "avx2" not in isa and "avx512f" not in isa
    return _RECENT_INTEL.search(machine.cpu.model.value or "") is not None and not lacks_vectors


def is_server_processor(machine: Machine) -> bool:
    """Whether the processor is a server's or workstation's, by its name or its number of cores."""
    cores = machine.cpu.physical_cores.value
    return _SERVER_CPU.search(machine.cpu.model.value or "") is not None or (cores or 0) >= SERVER_CORES


def has_fast_links(gpus: Iterable[Gpu]) -> bool:
    """Whether the GPUs reach each other past PCIe: NVLink that was seen or told, or is part of the module (xGMI too).

    A table only knows that a desktop card could have a bridge; that is no yes.
    """
    return all(map(_is_linked, gpus))


def _is_linked(gpu: Gpu) -> bool:
    if gpu.partition_of:
        return False
    if is_instinct(gpu):
        return True
    is_seen = gpu.nvlink.confidence is not Confidence.TABLE or is_data_centre(gpu)
    return gpu.nvlink.value is True and is_seen


def compute_capability(gpu: Gpu) -> Version:
    """Return the CUDA compute capability, or the least of its family; (0, 0) when unknown: less than any asked for."""
    compute_match = re.fullmatch(r"(\d+)\.(\d+)", gpu.compute.value or "")
    if compute_match:
        return int(compute_match[1]), int(compute_match[2])
    if gpu.vendor != "nvidia":
        return 0, 0
    family = (gpu.architecture.value or "").lower()
    of_family = next((least for name, least in _FAMILIES if family.startswith(name)), (0, 0))
    # Every card sold as RTX is Turing or newer.
    return of_family if of_family > (0, 0) or "RTX" not in (gpu.name.value or "") else TURING


def gfx_target(gpu: Gpu) -> str:
    """Return the AMD target ("gfx1100"); empty when unknown or not AMD's."""
    value = gpu.compute.value or ""
    return value if value.startswith("gfx") else ""


def probes_without_answer(machine: Machine) -> list[str]:
    """Return the names of probes that ended without an answer: what they look for may be there all the same."""
    return [probe.name for probe in machine.probes if probe.outcome in {"timeout", "crashed"}]


def memory_of(gpus: Iterable[Gpu]) -> int:
    """Return the bytes of GPU memory together; unknown ones count as none."""
    return sum(gpu.memory_total.value or 0 for gpu in gpus)


def strongest_vendor(machine: Machine) -> list[Gpu]:
    """Return the discrete GPUs of the vendor that has the most memory here; NVIDIA's where it is equal."""
    usable = _discrete_usable(machine)
    vendors = sorted({gpu.vendor for gpu in usable}, key=["nvidia", "amd", "intel"].index)
    by_vendor = [[gpu for gpu in usable if gpu.vendor == vendor] for vendor in vendors]
    return max(by_vendor, key=memory_of, default=[])


def _server_strategy(machine: Machine) -> MachineKind | None:
    servers = [gpu for gpu in machine.gpus if is_data_centre(gpu)]
    if any(_BLACKWELL_SERVER.search(gpu.name.value or "") for gpu in servers):
        return MachineKind.BLACKWELL_SERVER
    if servers:
        return MachineKind.NVIDIA_SERVER
    return MachineKind.INSTINCT if any(map(is_instinct, machine.gpus)) else None


def _mixed_strategy(machine: Machine) -> MachineKind | None:
    """Cards of several vendors, none small beside the others: only one engine computes on all of them."""
    usable = _discrete_usable(machine)
    rest = memory_of(usable) - memory_of(strongest_vendor(machine))
    is_mixed = len({gpu.vendor for gpu in usable}) > 1 and 2 * rest >= memory_of(usable) - rest
    return MachineKind.MIXED if is_mixed else None


def _nvidia_strategy(machine: Machine) -> MachineKind | None:
    cards = _rtx_cards(machine)
    if cards:
        return _rtx_strategy(cards)
    if len(_turing_cards(machine)) > 1:
        return MachineKind.TURING_FEW
    shared_bytes = _shared_nvidia(machine)
    if shared_bytes:
        is_small = any(_JETSON.search(gpu.name.value or "") for gpu in shared_bytes)
        return MachineKind.JETSON if is_small else MachineKind.NVIDIA_UNIFIED
    return MachineKind.NVIDIA_OLDER if _of_vendor(machine, "nvidia") else None


def _rtx_strategy(cards: list[Gpu]) -> MachineKind:
    if len(cards) > FEW:
        return MachineKind.RTX_MANY
    if len(cards) > 1:
        return MachineKind.RTX_FEW
    size = cards[0].memory_total.value
    return MachineKind.RTX_SMALL if size is not None and size < SMALL_GPU_BYTES else MachineKind.RTX_ONE


def _other_gpu_strategy(machine: Machine) -> MachineKind | None:
    if machine.os.name.value == "macOS":
        return None
    arcs, radeons = _arc_gpus(machine), _of_vendor(machine, "amd")
    if any(not is_shared(gpu) for gpu in arcs) or (arcs and not radeons):
        return MachineKind.ARC
    if any(not is_shared(gpu) for gpu in radeons):
        return MachineKind.RADEON
    if _SNAPDRAGON.search(machine.cpu.model.value or "") or _of_vendor(machine, "qualcomm"):
        return MachineKind.SNAPDRAGON
    return MachineKind.AMD_APU if radeons and not is_recent_intel(machine) else None


def _processor_strategy(machine: Machine) -> MachineKind:
    if machine.os.name.value == "macOS":
        return MachineKind.INTEL_MAC
    if is_arm(machine) and _BOARD.search(machine.cpu.model.value or ""):
        return MachineKind.BOARD
    if is_recent_intel(machine):
        return MachineKind.INTEL_CPU
    return MachineKind.CPU_SERVER if is_server_processor(machine) else MachineKind.CPU


def _rtx_cards(machine: Machine) -> list[Gpu]:
    """NVIDIA cards of a desk or laptop from Ampere on. One that shares system memory (GB10, Jetson) is none."""
    return [
        gpu
        for gpu in _of_vendor(machine, "nvidia")
        if compute_capability(gpu) >= AMPERE and not is_data_centre(gpu) and not is_shared(gpu)
    ]


def _turing_cards(machine: Machine) -> list[Gpu]:
    return [gpu for gpu in _of_vendor(machine, "nvidia") if compute_capability(gpu) >= TURING and not is_shared(gpu)]


def _shared_nvidia(machine: Machine) -> list[Gpu]:
    return [gpu for gpu in _of_vendor(machine, "nvidia") if is_shared(gpu)]


def _older_nvidia(machine: Machine) -> list[Gpu]:
    return [gpu for gpu in _of_vendor(machine, "nvidia") if not is_shared(gpu)]


def _server_gpus(machine: Machine) -> list[Gpu]:
    return [gpu for gpu in machine.gpus if is_data_centre(gpu)]


def _instinct_gpus(machine: Machine) -> list[Gpu]:
    return [gpu for gpu in machine.gpus if is_instinct(gpu)]


def _arc_gpus(machine: Machine) -> list[Gpu]:
    """Arc GPUs, the cards before what is inside a processor."""
    arcs = [gpu for gpu in machine.gpus if is_arc(gpu)]
    return [gpu for gpu in arcs if not is_shared(gpu)] or arcs


def _radeon_cards(machine: Machine) -> list[Gpu]:
    return [gpu for gpu in _of_vendor(machine, "amd") if not is_shared(gpu)]


def _apu_gpus(machine: Machine) -> list[Gpu]:
    return [gpu for gpu in _of_vendor(machine, "amd") if is_shared(gpu)]


def _apple_gpus(machine: Machine) -> list[Gpu]:
    return _of_vendor(machine, "apple")


def _of_vendor(machine: Machine, vendor: str) -> list[Gpu]:
    return [gpu for gpu in machine.gpus if gpu.vendor == vendor]


def _no_gpus(_machine: Machine) -> list[Gpu]:
    return []


def _discrete_usable(machine: Machine) -> list[Gpu]:
    """Cards with memory of their own that some engine computes on."""
    if machine.os.name.value == "macOS":
        return []
    return [
        gpu
        for gpu in machine.gpus
        if gpu.vendor in {"nvidia", "amd", "intel"}
        and not is_shared(gpu)
        and gpu.memory_total.value
        and (gpu.vendor != "intel" or is_arc(gpu))
    ]


_GPUS_OF = {
    MachineKind.APPLE: _apple_gpus,
    MachineKind.BLACKWELL_SERVER: _server_gpus,
    MachineKind.NVIDIA_SERVER: _server_gpus,
    MachineKind.INSTINCT: _instinct_gpus,
    **dict.fromkeys(_RTX, _rtx_cards),
    MachineKind.NVIDIA_UNIFIED: _shared_nvidia,
    MachineKind.JETSON: _shared_nvidia,
    MachineKind.TURING_FEW: _turing_cards,
    MachineKind.NVIDIA_OLDER: _older_nvidia,
    MachineKind.ARC: _arc_gpus,
    MachineKind.RADEON: _radeon_cards,
    MachineKind.AMD_APU: _apu_gpus,
}
