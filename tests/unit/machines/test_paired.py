"""The list of paired machines: one entry for each certificate, names apart, nothing trusted that cannot be read."""

import base64
from pathlib import Path

import msgspec
import pytest

from app.core.errors import EnvironmentFault, NotFound
from app.core.machines import MachineCard, PairedMachine
from app.machines.paired import PairedMachines


def machine(name: str, certificate: bytes, host: str = "192.168.1.7") -> PairedMachine:
    text = base64.b64encode(certificate * 64).decode()
    return PairedMachine(name=name, certificate=text, host=host, port=11600, mac="02:00:00:00:00:01")


def test_a_machine_is_listed_once_under_a_name_of_its_own(tmp_path: Path) -> None:
    paired = PairedMachines(tmp_path / "machines.json")
    paired.put_machine(machine("desk", b"a"))
    second = paired.put_machine(machine("Desk", b"b"))
    assert second.name == "Desk-2"
    paired.put_machine(machine("desk", b"a", host="10.0.0.9"))
    again = PairedMachines(tmp_path / "machines.json").list_machines()
    assert [(entry.name, entry.host) for entry in again] == [("desk", "10.0.0.9"), ("Desk-2", "192.168.1.7")]


def test_a_machine_that_was_revoked_is_gone_from_the_disk(tmp_path: Path) -> None:
    paired = PairedMachines(tmp_path / "machines.json")
    kept = paired.put_machine(machine("desk", b"a"))
    assert paired.find_machine(kept.id) == paired.find_machine("DESK") == kept
    paired.remove_machine(kept)
    with pytest.raises(NotFound):
        PairedMachines(tmp_path / "machines.json").find_machine("desk")


@pytest.mark.parametrize("text", [b"{", b"[{}]", b"\xff", b'[{"name":"../x","certificate":"","host":"","port":1}]'])
def test_a_list_that_cannot_be_read_trusts_nobody(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "machines.json").write_bytes(text)
    with pytest.raises(EnvironmentFault):
        PairedMachines(tmp_path / "machines.json")


@pytest.mark.parametrize(
    "change",
    [{"name": "a@b"}, {"name": "a/b"}, {"name": ""}, {"port": 70000}, {"mac": "x"}, {"certificate": "A" * 5000}],
)
def test_a_card_holds_nothing_odd(change: dict[str, object]) -> None:
    card = {"name": "desk", "certificate": "A" * 64, "port": 1, "mac": ""} | change
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(card, MachineCard)
