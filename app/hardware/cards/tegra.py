"""NVIDIA Jetson boards whose driver has no NVML: the device tree names the chip, the chip tells the rest."""

from pathlib import Path

from app.core.machine import Confidence, Fact, Gpu
from app.hardware.cards.unified import pool_free, pool_total
from app.hardware.facts import derived_fact, is_there, measured_fact, read_text, unknown_fact
from app.hardware.linux.cpu import product_of, read_board

_CHIPS = {
    "nvidia,tegra210": ("5.3", "Maxwell"),
    "nvidia,tegra186": ("6.2", "Pascal"),
    "nvidia,tegra194": ("7.2", "Volta"),
    "nvidia,tegra234": ("8.7", "Ampere"),
    "nvidia,tegra264": ("11.0", "Blackwell"),
}
"""By the device tree's "compatible": CUDA compute capability and architecture (NVIDIA's table of CUDA GPUs; 11.0 is
Thor's from CUDA 13 on)."""
_DEVICES = ("dev/nvmap", "dev/nvhost-gpu", "dev/nvgpu")
"""Without any of them no program here can reach the GPU: a container that was not given it."""


def read_tegra(root: Path) -> list[Gpu]:
    """Return the GPU of a Jetson board, or nothing on any other computer."""
    compatible = (read_text(root / "proc/device-tree/compatible") or "").split("\x00")
    chip = next((name for name in compatible if name in _CHIPS), None)
    if chip is None or not any(is_there(root / device) for device in _DEVICES):
        return []
    capability, architecture = _CHIPS[chip]
    total = pool_total(root)
    return [
        Gpu(
            id=chip,
            vendor="nvidia",
            name=measured_fact(product_of(read_board(root)) or chip, "/proc/device-tree/model"),
            memory_total=total,
            memory_free=pool_free(root),
            driver=_release_fact(root),
            compute=_table_fact(capability),
            integrated=derived_fact(
                value=True, source="/proc/device-tree/compatible", note="Jetson: one memory for both"
            ),
            architecture=_table_fact(architecture),
            addressable={"cuda": total},
        )
    ]


def _table_fact(text: str) -> Fact[str]:
    return Fact(value=text, source="/proc/device-tree/compatible", confidence=Confidence.TABLE)


def _release_fact(root: Path) -> Fact[str]:
    """Return Linux for Tegra's release: "R36" of "# R36 (release), REVISION: 4.3, ..."."""
    words = (read_text(root / "etc/nv_tegra_release") or "").replace("#", "").split()
    if words:
        return measured_fact(f"L4T {words[0]}", "/etc/nv_tegra_release")
    return unknown_fact("/etc/nv_tegra_release", "The file is missing.")
