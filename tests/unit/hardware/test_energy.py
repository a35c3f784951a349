"""Energy as RAPL counts it: packages are summed, their parts are not, and a counter that begins again is followed."""

from pathlib import Path

import pytest

from app.hardware.energy import joules_between, read_energy

LIMIT = 262_143_328_850


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
