"""The door: what goes out is counted by host and purpose, what may not is refused and counted too."""

import threading
from contextlib import AbstractContextManager

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.connections import REASON_TEXTS, Connection, ConnectionReason, Program, Purpose
from app.core.errors import Offline
from app.network.egress import EgressGate, is_this_computer

LOOK = Purpose(why=ConnectionReason.MODEL, about="org/model")
FETCH = Purpose(why=ConnectionReason.DOWNLOAD, about="org/model", by=Program.DOWNLOADER)
ASK = Purpose(why=ConnectionReason.ATTACHED)


def close_door(door: EgressGate) -> AbstractContextManager[None]:
    return door.apply_policy(is_closed=lambda: True, news=lambda: None)


def only(door: EgressGate) -> Connection:
    (connection,) = door.take_connections()
    return connection


def test_calls_of_one_purpose_to_one_host_are_one_with_a_count() -> None:
    door = EgressGate()
    for _ in range(1000):
        door.note_call("CDN.example", 443, FETCH).count_received(100)
    connection = only(door)
    assert (connection.host, connection.port, connection.why, connection.about, connection.by) == (
        "cdn.example",
        443,
        ConnectionReason.DOWNLOAD,
        "org/model",
        Program.DOWNLOADER,
    )
    assert (connection.count, connection.received_bytes, connection.failed, connection.refused) == (
        1000,
        100_000,
        0,
        False,
    )
    assert connection.first_at <= connection.last_at
    assert door.take_connections() == []


def test_hosts_purposes_and_programs_are_kept_apart() -> None:
    door = EgressGate()
    door.note_call("a.example", 443, LOOK)
    door.note_call("a.example", 443, FETCH)
    door.note_call("a.example", 80, LOOK)
    door.note_call("b.example", 443, LOOK)
    assert len(door.take_connections()) == 4


def test_what_comes_after_it_was_taken_is_noted_without_being_counted_again() -> None:
    door = EgressGate()
    call = door.note_call("a.example", 443, LOOK)
    assert only(door).count == 1
    call.count_received(7)
    call.note_failure()
    late = only(door)
    assert (late.count, late.received_bytes, late.failed) == (0, 7, 1)


def test_a_closed_door_refuses_in_a_sentence_and_notes_that() -> None:
    door = EgressGate()
    sentence = r"^Roundhouse is set to stay offline, so it does not connect to a\.example\.$"
    with close_door(door):
        for _ in range(2):
            with pytest.raises(Offline, match=sentence):
                door.note_call("a.example", 443, LOOK)
    connection = only(door)
    assert (connection.refused, connection.count, connection.received_bytes) == (True, 2, 0)
    door.note_call("a.example", 443, LOOK)  # open again: whoever kept it has gone


def test_what_went_out_and_what_was_kept_back_are_two_rows() -> None:
    door = EgressGate()
    door.note_call("a.example", 443, LOOK)
    with close_door(door), pytest.raises(Offline):
        door.note_call("a.example", 443, LOOK)
    assert {connection.refused for connection in door.take_connections()} == {True, False}


def test_admitting_notes_only_a_refusal() -> None:
    door = EgressGate()
    door.require_open("a.example", 443, ASK)
    assert door.take_connections() == []
    with close_door(door):
        door.require_open("127.0.0.1", 8080, ASK)
        with pytest.raises(Offline):
            door.require_open("a.example", 443, ASK)
    assert only(door).refused


def test_engines_and_endpoints_on_this_computer_are_not_another() -> None:
    door = EgressGate()
    with close_door(door):
        door.note_call("127.0.0.1", 8080, ASK).count_received(5)
        door.note_call("localhost", 8080, ASK).note_failure()
    assert door.take_connections() == []


def test_a_mirror_on_this_computer_asks_others_so_it_counts() -> None:
    door = EgressGate()
    door.note_call("127.0.0.1", 8080, LOOK)
    assert only(door).count == 1


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost", "LOCALHOST.", "a.localhost", "::ffff:127.0.0.1"]
)
def test_these_are_this_computer(host: str) -> None:
    assert is_this_computer(host)


@pytest.mark.parametrize(
    "host", ["", "10.0.0.1", "192.168.1.2", "::", "localhost.example", "127.0.0.1.nip.io", "fe80::1%lo"]
)
def test_these_are_not(host: str) -> None:
    assert not is_this_computer(host)


@given(st.text(max_size=300), st.text(max_size=300))
def test_nothing_is_kept_beyond_its_bounds(host: str, about: str) -> None:
    door = EgressGate()
    door.note_call(host, 443, Purpose(why=ConnectionReason.MODEL, about=about))
    connection = only(door)
    assert len(connection.host) <= 253
    assert len(connection.about) <= 200


def test_news_comes_once_until_it_is_taken() -> None:
    door, changes = EgressGate(), []
    with door.apply_policy(is_closed=lambda: False, news=lambda: changes.append(1)):
        door.note_call("a.example", 443, LOOK).count_received(1)
        door.note_call("b.example", 443, LOOK)
        assert len(changes) == 1
        door.take_connections()
        door.note_call("a.example", 443, LOOK)
        assert len(changes) == 2


def test_what_another_process_did_is_joined() -> None:
    door, child = EgressGate(), EgressGate()
    child.note_call("a.example", 443, FETCH).count_received(10)
    text = msgspec.json.decode(msgspec.json.encode(child.take_connections()), type=list[Connection])
    door.note_connections(text)
    door.note_connections(text)
    assert (only(door).count, text[0].received_bytes) == (2, 10)


def test_threads_lose_nothing() -> None:
    door = EgressGate()

    def work() -> None:
        for _ in range(200):
            door.note_call("a.example", 443, FETCH).count_received(3)

    threads = [threading.Thread(target=work) for _ in range(4)]
    connections: list[Connection] = []
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        connections += door.take_connections()
    connections += door.take_connections()
    assert sum(connection.count for connection in connections) == 800
    assert sum(connection.received_bytes for connection in connections) == 2400


def test_closing_it_ends_what_is_held_open() -> None:
    door, cuts = EgressGate(), []

    class Holder:
        def cut_connections(self) -> None:
            cuts.append(1)

    holder = Holder()
    door.add_holder(holder)
    door.cut_connections()
    del holder
    door.cut_connections()
    assert cuts == [1]


def test_every_purpose_is_said_in_words() -> None:
    assert set(REASON_TEXTS) == set(ConnectionReason)
