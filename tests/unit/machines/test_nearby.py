"""What computers announce of themselves: little is kept of it, nothing that makes no sense, and no public address."""

import pytest

from app.machines.nearby import MOST_NEARBY, NearbyMachines, read_announcement

PRINT = b"ab" * 32
TEXTS = {b"name": b"desk", b"fingerprint": PRINT}


def test_an_announcement_is_read() -> None:
    machine = read_announcement(["8.8.8.8", "192.168.1.7"], 11643, TEXTS)
    assert machine is not None
    assert (machine.name, machine.fingerprint) == ("desk", PRINT.decode())
    assert (machine.host, machine.port) == ("192.168.1.7", 11643)


@pytest.mark.parametrize(
    ("addresses", "port", "texts"),
    [
        (["8.8.8.8"], 11643, TEXTS),
        (["169.254.169.254"], 11643, TEXTS),
        (["127.0.0.1", "224.0.0.1", "x", ""], 11643, TEXTS),
        ([], 11643, TEXTS),
        (["192.168.1.7"], 0, TEXTS),
        (["192.168.1.7"], None, TEXTS),
        (["192.168.1.7"], 70000, TEXTS),
        (["192.168.1.7"], 11643, {}),
        (["192.168.1.7"], 11643, TEXTS | {b"name": None}),
        (["192.168.1.7"], 11643, TEXTS | {b"name": b"a/b\x1b[31m"}),
        (["192.168.1.7"], 11643, TEXTS | {b"name": b"a" * 64}),
        (["192.168.1.7"], 11643, TEXTS | {b"fingerprint": PRINT.upper()}),
        (["192.168.1.7"], 11643, TEXTS | {b"fingerprint": PRINT + b"a"}),
        (["192.168.1.7"], 11643, TEXTS | {b"fingerprint": b"\xff" * 64}),
    ],
)
def test_what_makes_no_sense_is_not_kept(addresses: list[str], port: int | None, texts: dict[bytes, bytes]) -> None:
    assert read_announcement(addresses, port, texts) is None


def test_no_more_than_a_few_are_kept() -> None:
    nearby = NearbyMachines()
    for number in range(2 * MOST_NEARBY):
        texts = TEXTS | {b"fingerprint": f"{number:064x}".encode()}
        assert nearby.put_service(f"service {number}", ["10.0.0.1"], 1, texts) is (number < MOST_NEARBY)
    assert len(nearby.list_machines()) == MOST_NEARBY
    assert not nearby.has_room("another")
    assert not NearbyMachines().has_room("x" * 300)


def test_a_service_says_one_thing_and_takes_it_back() -> None:
    nearby = NearbyMachines()
    nearby.put_service("a", ["10.0.0.1"], 1, TEXTS)
    nearby.put_service("a", ["10.0.0.2"], 2, TEXTS)
    assert [(machine.host, machine.port) for machine in nearby.list_machines()] == [("10.0.0.2", 2)]
    nearby.put_service("a", ["10.0.0.2"], 2, {})
    assert nearby.list_machines() == []
    nearby.put_service("a", ["10.0.0.2"], 2, TEXTS)
    nearby.remove_service("a")
    assert nearby.list_machines() == []
