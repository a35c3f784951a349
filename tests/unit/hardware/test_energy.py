"""Energy as RAPL and NVML count it: packages are summed, their parts are not, and a counter that begins again is
followed. The driver's library is played."""

import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.hardware.card_energy import CardEnergyReader
from app.hardware.cards.nvidia_energy import (
    NVIDIA_SMI,
    NVML,
    NVML_POWER,
    NvidiaSmiMeter,
    NvmlMeter,
    PowerIntegral,
    parse_listing,
)
from app.hardware.energy import EnergyCounter, describe_sources, joules_between, read_energy
from tests.played_nvml import pynvml as played

LIMIT = 262_143_328_850
COUNTING, OLDER = played.UUIDS


def write_counter(folder: Path, name: str, value: int) -> None:
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "energy_uj").write_text(f"{value}\n")
    (folder / name / "max_energy_range_uj").write_text(f"{LIMIT}\n")


def test_packages_are_summed_and_their_parts_left_out(tmp_path: Path) -> None:
    for name in ("intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0"):
        write_counter(tmp_path, name, 1_000_000)
    before = read_energy(tmp_path)
    assert set(before) == {"intel-rapl:0", "intel-rapl:1"}
    write_counter(tmp_path, "intel-rapl:0", 3_500_000)
    assert joules_between(before, read_energy(tmp_path)) == pytest.approx(2.5)


def test_a_counter_that_begins_again_is_followed(tmp_path: Path) -> None:
    write_counter(tmp_path, "intel-rapl:0", LIMIT - 499_999)
    before = read_energy(tmp_path)
    write_counter(tmp_path, "intel-rapl:0", 500_000)
    assert joules_between(before, read_energy(tmp_path)) == pytest.approx(1.0)


def test_where_nobody_tells_there_is_no_figure(tmp_path: Path) -> None:
    assert read_energy(tmp_path / "nowhere") == {}
    assert joules_between({}, {}) is None
    write_counter(tmp_path, "intel-rapl:0", 5)
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("no number")
    assert read_energy(tmp_path) == {}


def test_a_card_s_counter_that_was_set_back_or_is_another_s_gives_no_figure() -> None:
    before = {"GPU-1": EnergyCounter(value_uj=900, source=NVML)}
    assert joules_between(before, {"GPU-1": EnergyCounter(value_uj=100, source=NVML)}) is None, "the driver was loaded"
    assert joules_between(before, {"GPU-1": EnergyCounter(value_uj=1000, source=NVIDIA_SMI)}) is None
    assert joules_between(before, {}) is None


def test_who_counts_is_said_once_each() -> None:
    counters = {name: EnergyCounter(value_uj=1, source=name.partition(":")[0]) for name in ("RAPL:0", "RAPL:1", "NVML")}
    assert describe_sources(counters) == "RAPL + NVML"
    assert describe_sources({}) == ""


def test_power_is_added_up_by_trapezoids_and_an_old_reading_tells_nothing() -> None:
    moments = iter([10.0, 11.0, 11.5, 20.0])
    power = PowerIntegral(clock=lambda: next(moments))
    power.add("GPU-1", 100.0)
    power.add("GPU-1", 300.0)
    assert power.counters(NVML_POWER)["GPU-1"].value_uj == 350_000_000, "200 J, and half a second at 300 W"
    assert power.counters(NVML_POWER) == {}, "nine seconds without a reading"


def test_a_card_without_a_counter_has_its_power_added_up() -> None:
    meter = NvmlMeter(played)
    before = meter.read_counters()
    time.sleep(0.2)
    after = meter.read_counters()
    assert after[COUNTING].microjoules_since(before[COUNTING]) == 7_000_000
    assert (after[COUNTING].source, after[OLDER].source) == (NVML, NVML_POWER)
    used_uj = after[OLDER].microjoules_since(before[OLDER])
    assert used_uj is not None
    assert used_uj >= 0.2 * 120e6 * 0.9


def test_a_card_that_tells_nothing_is_left_out() -> None:
    def refuse(_handle: int) -> int:
        raise played.NVMLError("Not Supported")

    silent = SimpleNamespace(
        **{name: getattr(played, name) for name in vars(played) if name.startswith("nvml") or name == "NVMLError"}
    )
    silent.nvmlDeviceGetPowerUsage = silent.nvmlDeviceGetTotalEnergyConsumption = refuse
    meter = NvmlMeter(silent)
    assert meter.has_cards
    assert meter.read_counters() == {}


def test_lines_of_nvidia_smi_without_a_figure_are_passed_over() -> None:
    lines = ["GPU-1, 61.20\n", "GPU-2, [N/A]\n", "Unable to determine the device handle\n", "GPU-1, 300.5\n"]
    assert list(parse_listing(lines)) == [("GPU-1", 61.2), ("GPU-1", 300.5)]


@pytest.mark.skipif(sys.platform == "win32", reason="the played program is a script of a shell")
def test_nvidia_smi_s_listing_is_added_up(tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(
        f"#!{sys.executable}\nimport time\nwhile True:\n print('GPU-1, 50', flush=True)\n time.sleep(.02)\n"
    )
    program.chmod(0o755)
    meter = NvidiaSmiMeter(str(program))
    before = meter.read_counters()
    time.sleep(0.2)
    used_uj = meter.read_counters()["GPU-1"].microjoules_since(before["GPU-1"])
    meter.close()
    assert used_uj is not None
    assert used_uj >= 0.2 * 50e6 * 0.9


async def test_the_child_tells_what_cards_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(played.__file__).parent))
    async with CardEnergyReader() as cards:
        before, after = await cards.read_counters(), await cards.read_counters()
    assert before[COUNTING].source == NVML
    assert after[COUNTING].microjoules_since(before[COUNTING]) == 7_000_000


async def test_without_driver_and_program_nothing_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text("class NVMLError(Exception): ...\ndef nvmlInit(): raise NVMLError('none')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    async with CardEnergyReader() as cards:
        assert await cards.read_counters() == {}
