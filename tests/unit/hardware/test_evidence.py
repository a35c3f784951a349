"""What readers see is remembered, and a replay sees the same."""

import sys
from pathlib import Path

import msgspec
import pytest

from app.hardware import evidence
from app.hardware.evidence import Evidence, NoAnswer, record_below, replay_evidence
from app.hardware.facts import read_int, read_pairs, read_text

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="PCI addresses are no file names on Windows")


class Card(msgspec.Struct, frozen=True):
    name: str
    size: int


def machine(root: Path) -> Path:
    device = root / "sys/devices/pci0000:00/0000:03:00.0"
    (device / "drm/renderD128").mkdir(parents=True)
    (device / "vendor").write_text("0x1002\n")
    (device / "never_read").write_text("serial")
    (root / "sys/class/drm/card0").mkdir(parents=True)
    (root / "sys/class/drm/card0/device").symlink_to("../../../devices/pci0000:00/0000:03:00.0")
    (root / "proc").mkdir()
    (root / "proc/cpuinfo").write_text("model name : A\n")
    return root


def look(root: Path) -> list[object]:
    """Read in every way readers do."""
    values: list[object] = [read_pairs(root / "proc/cpuinfo"), read_text(root / "proc/missing")]
    for card in sorted((root / "sys/class/drm").glob("card*")):
        device = card / "device"
        values += [card.name, read_int(device / "vendor"), device.resolve().name, (device / "board_info").exists()]
        values += [path.name for path in (device / "drm").iterdir()] + [(device / "drm").is_dir()]
        values += [read_text(device.resolve() / "vendor")]
    return values


def test_a_replay_sees_what_was_seen_and_nothing_more(tmp_path: Path) -> None:
    root, seen_evidence = record_below(machine(tmp_path))
    there = look(root)
    raw = Evidence(root, tables={"system": "linux"}, path_record=seen_evidence).export_raw()
    with replay_evidence(msgspec.json.decode(msgspec.json.encode(raw))) as replay:
        assert look(replay.root) == there
    assert there[5] is False
    assert "0x1002" in there[-1:]
    assert "serial" not in str(raw)


def test_an_answer_is_asked_once_and_comes_back_typed(tmp_path: Path) -> None:
    calls: list[int] = []

    def cards() -> list[Card]:
        calls.append(1)
        return [Card("A", 3)]

    root, seen_evidence = record_below(tmp_path)
    live = Evidence(root, tables={"system": "windows"}, path_record=seen_evidence)
    assert live.read_table("cards", list[Card], cards) == live.read_table("cards", list[Card], cards) == [Card("A", 3)]
    assert calls == [1]
    with replay_evidence(live.export_raw()) as replay:
        assert replay.system == "windows"
        assert replay.read_table("cards", list[Card], list) == [Card("A", 3)]


def test_no_answer_is_remembered_with_its_reason(tmp_path: Path) -> None:
    def fail() -> int:
        raise OSError("no such library")

    root, seen_evidence = record_below(tmp_path)
    live = Evidence(root, tables={"system": "windows"}, path_record=seen_evidence)
    with pytest.raises(NoAnswer, match="no such library"):
        live.read_table("dxgi", int, fail)
    with replay_evidence(live.export_raw()) as replay, pytest.raises(NoAnswer, match="no such library"):
        replay.read_table("dxgi", int, lambda: 1)


@pytest.mark.parametrize("value", ["text", {"name": 3}, None])
def test_a_record_of_another_shape_is_no_answer(value: object) -> None:
    with replay_evidence({"system": "linux", "cards": value}) as replay, pytest.raises(NoAnswer, match="cards"):
        replay.read_table("cards", list[Card], list)


def test_programs_are_run_when_live_only(tmp_path: Path) -> None:
    root, seen_evidence = record_below(tmp_path)
    live = Evidence(root, tables={"system": "linux"}, path_record=seen_evidence)
    assert live.run_command([sys.executable, "-c", "print(7)"]) == "7\n"
    assert live.run_command(["/no/such/program"]) == ""
    with replay_evidence(live.export_raw()) as replay:
        assert replay.run_command([sys.executable, "-c", "print(7)"]) == "7\n"
        assert replay.run_command([sys.executable, "-c", "print(8)"]) == ""


@pytest.mark.parametrize("name", ["../out", "a/../../out"])
@pytest.mark.parametrize("table", ["files", "links"])
def test_a_record_cannot_write_outside_its_folder(tmp_path: Path, name: str, table: str) -> None:
    root = (tmp_path / "root").resolve()
    root.mkdir()
    with pytest.raises(ValueError, match="points outside"):
        evidence.unpack_record({table: {name: "x"}}, root)
    with pytest.raises(ValueError, match="points outside"):
        evidence.unpack_record({"links": {"a": "../.."}}, root)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["root"]


def test_this_machine_leaves_a_record() -> None:
    live = evidence.live_evidence()
    read_text(live.root / "proc/version")
    raw = live.export_raw()
    assert raw["system"] == evidence.THIS_SYSTEM
    if sys.platform == "linux":
        assert "Linux" in raw["files"]["proc/version"]
