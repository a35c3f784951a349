# ruff: noqa: N802, N815, ANN401 -- the recorded driver has NVML's own names and types
"""GPUs of every vendor, replayed from what drivers and kernels say."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.hardware.apple import parse_displays
from app.hardware.nvidia import NoDriver, read_nvidia
from app.hardware.sysfs_gpus import read_sysfs_gpus

GIB = 1 << 30


class NVMLError(Exception):
    pass


class RecordedNvml:
    """A driver that answers from a list of (bus id, name, total, free, compute capability)."""

    NVMLError = NVMLError
    nvmlMemory_v2 = 2

    def __init__(self, cards: list[tuple[str, str, int, int, tuple[int, int]]], *, knows_v2: bool = True) -> None:
        self.cards = cards
        self.knows_v2 = knows_v2
        self.is_open = False

    def nvmlInit(self) -> None:
        self.is_open = True

    def nvmlShutdown(self) -> None:
        self.is_open = False

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"580.65.06"

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetPciInfo(self, index: int) -> Any:
        return SimpleNamespace(busId=self.cards[index][0].encode())

    def nvmlDeviceGetName(self, index: int) -> str:
        return self.cards[index][1]

    def nvmlDeviceGetMemoryInfo(self, index: int, version: int | None = None) -> Any:
        if version and not self.knows_v2:
            raise NVMLError("function not found")
        if not self.cards[index][2]:
            raise NVMLError("Not Supported")
        return SimpleNamespace(total=self.cards[index][2], free=self.cards[index][3])

    def nvmlDeviceGetCudaComputeCapability(self, index: int) -> tuple[int, int]:
        return self.cards[index][4]


RTX_5090 = ("0000:01:00.0", "NVIDIA GeForce RTX 5090", 32 * GIB, 30 * GIB, (12, 0))
GB10 = ("000F:01:00.0", "NVIDIA GB10", 0, 0, (12, 1))


@pytest.mark.parametrize("knows_v2", [True, False])
def test_nvidia_card_by_either_version_of_the_memory_call(knows_v2: bool) -> None:  # noqa: FBT001 -- a parametrised case
    driver = RecordedNvml([RTX_5090], knows_v2=knows_v2)
    (gpu,) = read_nvidia(driver)
    assert (gpu.memory_total.value, gpu.memory_free.value) == (32 * GIB, 30 * GIB)
    assert (gpu.compute.value, gpu.driver.value, gpu.integrated.value) == ("12.0", "580.65.06", False)
    assert not driver.is_open


def test_gb10_memory_is_unknown_and_shared_not_zero() -> None:
    (gpu,) = read_nvidia(RecordedNvml([GB10]))
    assert gpu.memory_total.value is None
    assert gpu.integrated.value is True


def test_no_driver_is_an_absence() -> None:
    driver = RecordedNvml([])

    def fail() -> None:
        raise NVMLError("Shared Library Not Found")

    driver.nvmlInit = fail  # type: ignore[method-assign]
    with pytest.raises(NoDriver, match="Not Found"):
        read_nvidia(driver)


def card(root: Path, index: int, *, vendor: str, address: str, files: dict[str, str]) -> Path:
    device = root / f"sys/class/drm/card{index}/device"
    rows = {"vendor": vendor, "uevent": f"DRIVER=amdgpu\nPCI_SLOT_NAME={address}\n", **files}
    for name, text in rows.items():
        path = device / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return device


def test_amd_apu_budget_is_carve_out_plus_gtt(tmp_path: Path) -> None:
    device = card(
        tmp_path,
        0,
        vendor="0x1002",
        address="0000:C5:00.0",
        files={
            "mem_info_vram_total": str(GIB),
            "mem_info_vram_used": str(GIB // 2),
            "mem_info_gtt_total": str(62 * GIB),
            "mem_info_gtt_used": str(2 * GIB),
        },
    )
    (device / "drm/renderD128").mkdir(parents=True)
    node = tmp_path / "sys/class/kfd/kfd/topology/nodes/1/properties"
    node.parent.mkdir(parents=True)
    node.write_text("gfx_target_version 110501\ndrm_render_minor 128\n")
    (gpu,) = read_sysfs_gpus(tmp_path)
    assert gpu.id == "0000:c5:00.0"
    assert (gpu.memory_total.value, gpu.memory_free.value) == (63 * GIB, 63 * GIB - GIB // 2 - 2 * GIB)
    assert (gpu.compute.value, gpu.integrated.value) == ("gfx1151", True)


def test_amd_discrete_card_does_not_count_system_memory(tmp_path: Path) -> None:
    files = {
        "mem_info_vram_total": str(32 * GIB),
        "mem_info_vram_used": "0",
        "mem_info_gtt_total": str(64 * GIB),
        "board_info": "type : oam",
        "product_name": "AMD Radeon AI PRO R9700",
    }
    card(tmp_path, 0, vendor="0x1002", address="0000:03:00.0", files=files)
    (gpu,) = read_sysfs_gpus(tmp_path)
    assert gpu.memory_total.value == 32 * GIB
    assert gpu.integrated.value is False
    assert gpu.name.value == "AMD Radeon AI PRO R9700"


def test_intel_tiles_add_up_and_an_igpu_shares(tmp_path: Path) -> None:
    tiles = {"tile0/physical_vram_size_bytes": str(8 * GIB), "tile1/physical_vram_size_bytes": str(8 * GIB)}
    card(tmp_path, 0, vendor="0x8086", address="0000:03:00.0", files=tiles)
    card(tmp_path, 1, vendor="0x8086", address="0000:00:02.0", files={})
    arc, igpu = read_sysfs_gpus(tmp_path)
    assert (arc.memory_total.value, arc.integrated.value) == (16 * GIB, False)
    assert (igpu.memory_total.value, igpu.integrated.value) == (None, True)


def test_connectors_and_second_nodes_of_a_card_are_not_more_cards(tmp_path: Path) -> None:
    card(tmp_path, 0, vendor="0x8086", address="0000:00:02.0", files={})
    card(tmp_path, 1, vendor="0x8086", address="0000:00:02.0", files={})
    (tmp_path / "sys/class/drm/card0-HDMI-A-1/device").mkdir(parents=True)
    assert len(read_sysfs_gpus(tmp_path)) == 1


APPLE_M4 = {
    "SPDisplaysDataType": [
        {
            "_name": "Apple M4 Pro",
            "sppci_model": "Apple M4 Pro",
            "sppci_cores": "20",
            "spdisplays_mtlgpufamilysupport": "spdisplays_metal3",
        }
    ]
}


@pytest.mark.parametrize(
    ("memory", "wired_mib", "share"),
    [(24 * GIB, 0, 16 * GIB), (64 * GIB, 0, 48 * GIB), (24 * GIB, 20480, 20 * GIB)],
)
def test_apple_share_of_memory(memory: int, wired_mib: int, share: int) -> None:
    (gpu,) = parse_displays(APPLE_M4, memory, wired_mib)
    assert (gpu.vendor, gpu.memory_total.value, gpu.compute.value) == ("apple", share, "metal3")
    assert gpu.integrated.value is True


@pytest.mark.parametrize("report", [{}, [], None, {"SPDisplaysDataType": ["x"]}])
def test_strange_reports_list_no_gpu(report: object) -> None:
    assert parse_displays(report, GIB, 0) == []
