"""AMD GPUs from amdgpu's sysfs files and the KFD topology: no vendor library, no root.

A card has memory of its own. The graphics of an APU have a part of system memory set aside at start-up (VRAM, which the
system cannot use) and may map more of the rest (GTT); what each backend makes of the two differs:
ROCm takes the larger one (the kernel's amdgpu_amdkfd prefers GTT on APUs where it is larger), RADV adds both and calls
two thirds of that device memory (Mesa, radv_physical_device_init_mem_types).
"""

from pathlib import Path

import msgspec

from app.core.machine import Confidence, Fact, Gpu
from app.hardware.cards.pci import product_name
from app.hardware.evidence import Evidence
from app.hardware.facts import (
    derived_fact,
    is_there,
    measured_fact,
    parse_decimal,
    read_bytes,
    read_int,
    read_pairs,
    read_text,
    unknown_fact,
)
from app.hardware.memory import meminfo_bytes

VENDOR = 0x1002
_GIB = 1 << 30
_APU_CARVE_OUT_MAX = 4 * _GIB
_APU_GTT_MIN = 8 * _GIB
"""An AMD GPU with at most 4 GiB of its own and at least 8 GiB, four times as much, of system memory mapped is an APU
(Ollama's rule)."""
_APU_TARGETS = frozenset(
    {"gfx902", "gfx909", "gfx90c", "gfx1013", "gfx1033", "gfx1035", "gfx1036", "gfx1037"}
    | {"gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"}
)
"""Targets that exist only as APUs (LLVM's table of AMDGPU processors): they can have 96 GiB set aside."""
_ARCHITECTURES = (
    ("gfx906", "GCN 5.1"),
    ("gfx908", "CDNA"),
    ("gfx90a", "CDNA2"),
    ("gfx94", "CDNA3"),
    ("gfx95", "CDNA4"),
    ("gfx90", "GCN 5"),
    ("gfx101", "RDNA"),
    ("gfx103", "RDNA2"),
    ("gfx115", "RDNA3.5"),
    ("gfx11", "RDNA3"),
    ("gfx12", "RDNA4"),
)
"""The first prefix that fits counts (LLVM's table, AMD's names)."""
_PAGE = 4096


class AmdMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of memory of its own, and of system memory it may map: each how much, and how much of it is taken."""

    vram: int | None
    vram_used: int | None
    gtt: int | None
    gtt_used: int | None
    gtt_cap: int | None
    """The kernel's ceiling for all such mappings together (ttm.pages_limit)."""

    @property
    def mappable(self) -> int:
        """Bytes of system memory that can be mapped."""
        if self.gtt is None or self.gtt_cap is None:
            return self.gtt or 0
        return min(self.gtt, self.gtt_cap)


def read_amd(evidence: Evidence, device: Path, address: str) -> Gpu:
    """Return the GPU whose sysfs folder is `device`."""
    target = gfx_target(evidence.root, device)
    memories = _read_memory(evidence.root, device)
    is_apu = _is_apu(device, memories, target)
    total = _total_memory(memories, is_apu=is_apu)
    return Gpu(
        id=address,
        vendor="amd",
        name=_name_fact(evidence, device),
        memory_total=total,
        memory_free=_free_memory(evidence.root, memories, is_apu=is_apu),
        driver=_driver_fact(evidence.root),
        compute=target,
        integrated=derived_fact(
            is_apu, "amdgpu sysfs", note="by gfx target, or by a small carve-out beside a large GTT"
        ),
        uuid=_unique_id(device),
        architecture=_architecture_fact(target.value),
        addressable=_apu_addressable(memories) if is_apu and total.value else {"rocm": total, "vulkan": total},
        drives_display=_drives_display(device),
        nvlink=derived_fact(value=False, source="amdgpu", note="NVLink is NVIDIA's."),
        pcie_width=_link_width(device),
        carve_out=_bytes_fact(memories.vram, "mem_info_vram_total") if is_apu else Fact(unit="B"),
    )


def gfx_target(root: Path, device: Path) -> Fact[str]:
    """Return e.g. "gfx1151" from the KFD node with the same render node."""
    source = "/sys/class/kfd/kfd/topology/nodes/*/properties"
    renders = {path.name for path in (device / "drm").glob("renderD*")}
    for properties in sorted((root / "sys/class/kfd/kfd/topology/nodes").glob("*/properties")):
        node = read_pairs(properties, " ")
        version, render = (
            parse_decimal(node.get("gfx_target_version", "")),
            f"renderD{node.get('drm_render_minor', '')}",
        )
        if version and render in renders:
            return measured_fact(gfx_name(version), source)
    return unknown_fact(source, "ROCm's kernel driver does not list this GPU.")


def gfx_name(version: int) -> str:
    """Return e.g. "gfx1151" for 110501, "gfx90a" for 90010: decimal major, then minor and step in hexadecimal."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def rocm_version(root: Path) -> str:
    """Return the installed ROCm's version ("6.4.1-83"), or ""."""
    return (read_text(root / "opt/rocm/.info/version") or "").partition("\n")[0]


def _read_memory(root: Path, device: Path) -> AmdMemory:
    pages = read_bytes(root / "sys/module/ttm/parameters/pages_limit")
    return AmdMemory(
        vram=read_bytes(device / "mem_info_vram_total"),
        vram_used=read_bytes(device / "mem_info_vram_used"),
        gtt=read_bytes(device / "mem_info_gtt_total"),
        gtt_used=read_bytes(device / "mem_info_gtt_used"),
        gtt_cap=pages * _PAGE if pages else None,
    )


def _is_apu(device: Path, memories: AmdMemory, target: Fact[str]) -> bool:
    if target.value in _APU_TARGETS:
        return True
    is_card = is_there(device / "board_info") or is_there(device / "mem_info_vram_vendor")
    if is_card or not memories.vram or not memories.gtt:
        return False
    return memories.vram <= _APU_CARVE_OUT_MAX and memories.gtt >= max(_APU_GTT_MIN, 4 * memories.vram)


def _total_memory(memories: AmdMemory, *, is_apu: bool) -> Fact[int]:
    if not is_apu or memories.vram is None:
        return _bytes_fact(memories.vram, "mem_info_vram_total")
    amount = memories.vram + memories.mappable
    return derived_fact(
        amount, "mem_info_vram_total + mem_info_gtt_total", unit="B", note="set aside + what it may map"
    )


def _free_memory(root: Path, memories: AmdMemory, *, is_apu: bool) -> Fact[int]:
    if memories.vram is None or memories.vram_used is None:
        return _bytes_fact(None, "mem_info_vram_used")
    own = max(0, memories.vram - memories.vram_used)
    if not is_apu:
        return derived_fact(own, "mem_info_vram_used", unit="B", note="total - used")
    mappable = max(0, memories.mappable - (memories.gtt_used or 0))
    available = meminfo_bytes(read_pairs(root / "proc/meminfo"), "MemAvailable").value
    shared_bytes = mappable if available is None else min(mappable, available)
    note = "set aside and unused + what it may map of what the system has left"
    return derived_fact(own + shared_bytes, "mem_info_vram_used + mem_info_gtt_used", unit="B", note=note)


def _apu_addressable(memories: AmdMemory) -> dict[str, Fact[int]]:
    vram, mappable = memories.vram or 0, memories.mappable
    heap = (vram + mappable) * 2 // 3
    return {
        "rocm": derived_fact(max(vram, mappable), "amdgpu sysfs", unit="B", note="the larger of carve-out and GTT"),
        "vulkan": derived_fact(heap, "amdgpu sysfs", unit="B", note="RADV calls two thirds of both device memory"),
    }


def _bytes_fact(amount: int | None, source: str) -> Fact[int]:
    return (
        unknown_fact(source, "The driver does not say.", unit="B")
        if amount is None
        else measured_fact(amount, source, unit="B")
    )


def _name_fact(evidence: Evidence, device: Path) -> Fact[str]:
    product = read_text(device / "product_name")
    if product:
        return measured_fact(product, "product_name")
    number, revision = read_int(device / "device"), read_int(device / "revision")
    product_name_text = product_name(evidence, VENDOR, number or 0, revision or 0)
    if product_name_text:
        brand = product_name_text if product_name_text.startswith("AMD") else f"AMD {product_name_text}"
        return Fact(value=brand, source="amdgpu.ids, pci.ids", confidence=Confidence.TABLE)
    id_text = "unknown" if number is None else f"0x{number:04x}"
    return derived_fact(f"AMD GPU ({id_text})", "PCI device id", note="Neither driver nor lists give a product name.")


def _driver_fact(root: Path) -> Fact[str]:
    version = rocm_version(root)
    return measured_fact(f"amdgpu, ROCm {version}" if version else "amdgpu", "uevent DRIVER, /opt/rocm/.info/version")


def _unique_id(device: Path) -> str:
    number = read_text(device / "unique_id") or ""
    return f"GPU-{number}" if number.strip("0") else ""


def _architecture_fact(target: str | None) -> Fact[str]:
    name = next((name for prefix, name in _ARCHITECTURES if (target or "").startswith(prefix)), "")
    return derived_fact(name, "gfx target") if name else unknown_fact("gfx target", "The target is not known.")


def _drives_display(device: Path) -> Fact[bool]:
    states = [read_text(path) for path in device.glob("drm/card*/card*-*/enabled")]
    if not states:
        return unknown_fact("drm connectors", "The card shows no connectors.")
    return measured_fact("enabled" in states, "drm/card*/*/enabled")


def _link_width(device: Path) -> Fact[int]:
    lanes = read_int(device / "max_link_width")
    return (
        measured_fact(lanes, "max_link_width") if lanes else unknown_fact("max_link_width", "The kernel does not say.")
    )
