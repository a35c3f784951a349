"""AMD and Intel GPUs from Linux sysfs: no vendor library, no root.

AMD: amdgpu's mem_info_* files and the KFD topology's gfx target. Intel: `xe` VRAM per tile, else `i915` local memory;
an Intel GPU without memory of its own shares the system's.
"""

from pathlib import Path

from app.core.machine import Fact, Gpu
from app.hardware.facts import derived, measured, read_int, read_pairs, read_text, unknown

_AMD, _INTEL = 0x1002, 0x8086
_GIB = 1 << 30
_APU_CARVE_OUT_MAX = 4 * _GIB
_APU_GTT_MIN = 8 * _GIB
"""An AMD GPU with at most 4 GiB of its own and at least 8 GiB of system memory mapped is an APU (Ollama's rule)."""


def read_sysfs_gpus(root: Path = Path("/")) -> list[Gpu]:
    """Return AMD and Intel GPUs the kernel drives, once each by PCI address."""
    found: dict[str, Gpu] = {}
    for card in sorted((root / "sys/class/drm").glob("card[0-9]*")):
        device = card / "device"
        vendor = read_int(device / "vendor")
        address = _address(device)
        if "-" in card.name or address in found:
            continue
        if vendor == _AMD:
            found[address] = _amd(root, device, address)
        elif vendor == _INTEL:
            found[address] = _intel(card, device, address)
    return list(found.values())


def _address(device: Path) -> str:
    slot = read_pairs(device / "uevent", "=").get("PCI_SLOT_NAME")
    return (slot or device.resolve().name).lower()


def _amd(root: Path, device: Path, address: str) -> Gpu:
    vram, gtt = read_int(device / "mem_info_vram_total"), read_int(device / "mem_info_gtt_total")
    is_apu = _is_apu(device, vram, gtt)
    return Gpu(
        id=address,
        vendor="amd",
        name=_name(device, "AMD GPU"),
        memory_total=_amd_memory(device, "total", with_gtt=is_apu),
        memory_free=_amd_free(device, with_gtt=is_apu),
        driver=_driver(device),
        compute=_gfx_target(root, device),
        integrated=derived(is_apu, "amdgpu sysfs", note="carve-out <= 4 GiB, GTT >= 8 GiB and four times as large"),
    )


def _is_apu(device: Path, vram: int | None, gtt: int | None) -> bool:
    if (device / "board_info").exists() or not vram or not gtt:
        return False
    return vram <= _APU_CARVE_OUT_MAX and gtt >= max(_APU_GTT_MIN, 4 * vram)


def _amd_memory(device: Path, kind: str, *, with_gtt: bool) -> Fact[int]:
    vram = read_int(device / f"mem_info_vram_{kind}")
    gtt = read_int(device / f"mem_info_gtt_{kind}") if with_gtt else 0
    source = f"mem_info_vram_{kind}" + (f" + mem_info_gtt_{kind}" if with_gtt else "")
    if vram is None or gtt is None:
        return unknown(source, "The driver does not say.", unit="B")
    return measured(vram + gtt, source, unit="B")


def _amd_free(device: Path, *, with_gtt: bool) -> Fact[int]:
    total, used = (_amd_memory(device, kind, with_gtt=with_gtt) for kind in ("total", "used"))
    if total.value is None or used.value is None:
        return unknown(used.source, "The driver does not say.", unit="B")
    return derived(max(0, total.value - used.value), used.source, unit="B", note="total - used")


def _gfx_target(root: Path, device: Path) -> Fact[str]:
    source = "/sys/class/kfd/kfd/topology/nodes/*/properties"
    renders = {path.name for path in (device / "drm").glob("renderD*")}
    for properties in (root / "sys/class/kfd/kfd/topology/nodes").glob("*/properties"):
        node = read_pairs(properties, " ")
        version, render = node.get("gfx_target_version", "0"), f"renderD{node.get('drm_render_minor', '')}"
        if version.isdigit() and int(version) and render in renders:
            return measured(_gfx_name(int(version)), source)
    return unknown(source, "ROCm's kernel driver does not list this GPU.")


def _gfx_name(version: int) -> str:
    """Return e.g. "gfx1151" for 110501: decimal major, then minor and step in hexadecimal."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def _intel(card: Path, device: Path, address: str) -> Gpu:
    tiles = [size for size in map(read_int, device.glob("tile*/physical_vram_size_bytes")) if size]
    own = sum(tiles) or read_int(card / "lmem_total_bytes") or 0
    source = "xe physical_vram_size_bytes" if tiles else "i915 lmem_total_bytes"
    shares = "It has no memory of its own and shares the system's."
    return Gpu(
        id=address,
        vendor="intel",
        name=_name(device, "Intel GPU"),
        memory_total=measured(own, source, unit="B") if own else unknown(source, shares, unit="B"),
        memory_free=unknown("sysfs", "The kernel does not say how much is free.", unit="B"),
        driver=_driver(device),
        compute=unknown("", "Not looked for."),
        integrated=derived(not own, source, note="no local memory"),
    )


def _name(device: Path, fallback: str) -> Fact[str]:
    product = read_text(device / "product_name")
    if product:
        return measured(product, "product_name")
    pci = read_text(device / "device") or "unknown"
    return derived(f"{fallback} ({pci})", "PCI device id", note="The driver gives no product name.")


def _driver(device: Path) -> Fact[str]:
    name = read_pairs(device / "uevent", "=").get("DRIVER")
    return measured(name, "uevent DRIVER") if name else unknown("uevent", "No driver is bound.")
