"""The list of paired machines: one entry for each certificate, names apart, nothing trusted that cannot be read."""

import base64
from pathlib import Path

import msgspec
import pytest

from app.core.errors import BadRequest, EnvironmentFault, NotFound
from app.core.machines import MachineCard, PairedMachine
from app.machines.paired import MOST_FORMER, PairedMachines

OWN = "0" * 64


def machine(name: str, certificate: bytes, host: str = "192.168.1.7") -> PairedMachine:
    text = base64.b64encode(certificate * 64).decode()
    return PairedMachine(name=name, certificate=text, host=host, port=11600, mac="02:00:00:00:00:01")


def test_a_machine_is_listed_once_under_a_name_of_its_own(tmp_path: Path) -> None:
    paired_machines = PairedMachines(tmp_path / "machines.json", OWN)
    paired_machines.put_machine(machine("desk", b"a"))
    second = paired_machines.put_machine(machine("Desk", b"b"))
    assert second.name == "Desk-2"
    paired_machines.put_machine(machine("desk", b"a", host="10.0.0.9"))
    again = PairedMachines(tmp_path / "machines.json", OWN).list_machines()
    assert [(entry.name, entry.host) for entry in again] == [("desk", "10.0.0.9"), ("Desk-2", "192.168.1.7")]


def test_a_machine_that_was_revoked_is_gone_from_the_disk(tmp_path: Path) -> None:
    paired_machines = PairedMachines(tmp_path / "machines.json", OWN)
    kept_machine = paired_machines.put_machine(machine("desk", b"a"))
    assert paired_machines.find_machine(kept_machine.id) == paired_machines.find_machine("DESK") == kept_machine
    paired_machines.remove_machine(kept_machine)
    with pytest.raises(NotFound):
        PairedMachines(tmp_path / "machines.json", OWN).find_machine("desk")


def test_this_machine_is_none_of_them(tmp_path: Path) -> None:
    own = machine("me", b"a")
    with pytest.raises(BadRequest):
        PairedMachines(tmp_path / "machines.json", own.fingerprint).put_machine(own)
    PairedMachines(tmp_path / "machines.json", OWN).put_machine(own)
    assert PairedMachines(tmp_path / "machines.json", own.fingerprint).list_machines() == []


def test_none_is_called_what_this_machine_is_called_among_several(tmp_path: Path) -> None:
    paired_machines = PairedMachines(tmp_path / "machines.json", OWN)
    assert paired_machines.put_machine(machine("here", b"a")).name == "here-2"


def test_who_is_trusted_no_longer_is_still_known_by_its_certificate(tmp_path: Path) -> None:
    paired_machines = PairedMachines(tmp_path / "machines.json", OWN)
    kept_machine = paired_machines.put_machine(machine("desk", b"a"))
    paired_machines.remove_machine(kept_machine)
    for number in range(MOST_FORMER - 1):
        paired_machines.note_former(machine("other", bytes([number])))
    again = PairedMachines(tmp_path / "machines.json", OWN)
    assert again.list_machines() == []
    assert kept_machine.certificate_der in again.certificates
    again.note_former(machine("one", b"more"))
    assert len(again.certificates) == MOST_FORMER
    assert kept_machine.certificate_der not in again.certificates
    again.put_machine(machine("one", b"more"))
    assert len(again.certificates) == MOST_FORMER


@pytest.mark.parametrize("text", [b"{", b"[{}]", b"\xff", b'[{"name":"../x","certificate":"","host":"","port":1}]'])
def test_a_list_that_cannot_be_read_trusts_nobody(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "machines.json").write_bytes(text)
    with pytest.raises(EnvironmentFault):
        PairedMachines(tmp_path / "machines.json", OWN)


@pytest.mark.parametrize(
    "change",
    [{"name": "a@b"}, {"name": "a/b"}, {"name": ""}, {"port": 70000}, {"mac": "x"}, {"certificate": "A" * 5000}],
)
def test_a_card_holds_nothing_odd(change: dict[str, object]) -> None:
    card = {"name": "desk", "certificate": "A" * 64, "port": 1, "mac": ""} | change
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(card, MachineCard)
