"""The door: what goes out is counted by host and purpose, what may not is refused and counted too."""

import threading
from contextlib import AbstractContextManager

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.connections import SAID, Connection, Program, Purpose, Why
from app.core.errors import Offline
from app.network.door import Door, is_here

LOOK = Purpose(why=Why.MODEL, about="org/model")
FETCH = Purpose(why=Why.DOWNLOAD, about="org/model", by=Program.DOWNLOADER)
ASK = Purpose(why=Why.ATTACHED)


def closed(door: Door) -> AbstractContextManager[None]:
    return door.kept(is_closed=lambda: True, news=lambda: None)


def only(door: Door) -> Connection:
    (found,) = door.take()
    return found


def test_calls_of_one_purpose_to_one_host_are_one_with_a_count() -> None:
    door = Door()
    for _ in range(1000):
        door.call("CDN.example", 443, FETCH).received(100)
    found = only(door)
    assert (found.host, found.port, found.why, found.about, found.by) == (
        "cdn.example",
        443,
        Why.DOWNLOAD,
        "org/model",
        Program.DOWNLOADER,
    )
    assert (found.count, found.received_bytes, found.failed, found.refused) == (1000, 100_000, 0, False)
    assert found.first_at <= found.last_at
    assert door.take() == []


def test_hosts_purposes_and_programs_are_kept_apart() -> None:
    door = Door()
    door.call("a.example", 443, LOOK)
    door.call("a.example", 443, FETCH)
    door.call("a.example", 80, LOOK)
    door.call("b.example", 443, LOOK)
    assert len(door.take()) == 4


def test_what_comes_after_it_was_taken_is_noted_without_being_counted_again() -> None:
    door = Door()
    call = door.call("a.example", 443, LOOK)
    assert only(door).count == 1
    call.received(7)
    call.failed()
    late = only(door)
    assert (late.count, late.received_bytes, late.failed) == (0, 7, 1)


def test_a_closed_door_refuses_in_a_sentence_and_notes_that() -> None:
    door = Door()
    with closed(door):
        for _ in range(2):
            with pytest.raises(Offline, match=r"^Roundhouse is set to stay offline, so a\.example is not called\.$"):
                door.call("a.example", 443, LOOK)
    found = only(door)
    assert (found.refused, found.count, found.received_bytes) == (True, 2, 0)
    door.call("a.example", 443, LOOK)  # open again: whoever kept it has gone


def test_what_went_out_and_what_was_kept_back_are_two_rows() -> None:
    door = Door()
    door.call("a.example", 443, LOOK)
    with closed(door), pytest.raises(Offline):
        door.call("a.example", 443, LOOK)
    assert {one.refused for one in door.take()} == {True, False}


def test_admitting_notes_only_a_refusal() -> None:
    door = Door()
    door.admit("a.example", 443, ASK)
    assert door.take() == []
    with closed(door):
        door.admit("127.0.0.1", 8080, ASK)
        with pytest.raises(Offline):
            door.admit("a.example", 443, ASK)
    assert only(door).refused


def test_engines_and_endpoints_on_this_computer_are_not_another() -> None:
    door = Door()
    with closed(door):
        door.call("127.0.0.1", 8080, ASK).received(5)
        door.call("localhost", 8080, ASK).failed()
    assert door.take() == []


def test_a_mirror_on_this_computer_asks_others_so_it_counts() -> None:
    door = Door()
    door.call("127.0.0.1", 8080, LOOK)
    assert only(door).count == 1


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost", "LOCALHOST.", "a.localhost", "::ffff:127.0.0.1"]
)
def test_these_are_this_computer(host: str) -> None:
    assert is_here(host)


@pytest.mark.parametrize(
    "host", ["", "10.0.0.1", "192.168.1.2", "::", "localhost.example", "127.0.0.1.nip.io", "fe80::1%lo"]
)
def test_these_are_not(host: str) -> None:
    assert not is_here(host)


@given(st.text(max_size=300), st.text(max_size=300))
def test_nothing_is_kept_beyond_its_bounds(host: str, about: str) -> None:
    door = Door()
    door.call(host, 443, Purpose(why=Why.MODEL, about=about))
    found = only(door)
    assert len(found.host) <= 253
    assert len(found.about) <= 200


def test_news_comes_once_until_it_is_taken() -> None:
    door, told = Door(), []
    with door.kept(is_closed=lambda: False, news=lambda: told.append(1)):
        door.call("a.example", 443, LOOK).received(1)
        door.call("b.example", 443, LOOK)
        assert len(told) == 1
        door.take()
        door.call("a.example", 443, LOOK)
        assert len(told) == 2


def test_what_another_process_did_is_joined() -> None:
    door, child = Door(), Door()
    child.call("a.example", 443, FETCH).received(10)
    told = msgspec.json.decode(msgspec.json.encode(child.take()), type=list[Connection])
    door.heard(told)
    door.heard(told)
    assert (only(door).count, told[0].received_bytes) == (2, 10)


def test_threads_lose_nothing() -> None:
    door = Door()

    def work() -> None:
        for _ in range(200):
            door.call("a.example", 443, FETCH).received(3)

    threads = [threading.Thread(target=work) for _ in range(4)]
    taken: list[Connection] = []
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        taken += door.take()
    taken += door.take()
    assert sum(one.count for one in taken) == 800
    assert sum(one.received_bytes for one in taken) == 2400


def test_closing_it_ends_what_is_held_open() -> None:
    door, ended = Door(), []

    class Holder:
        def cut(self) -> None:
            ended.append(1)

    holder = Holder()
    door.holds(holder)
    door.cut()
    del holder
    door.cut()
    assert ended == [1]


def test_every_purpose_is_said_in_words() -> None:
    assert set(SAID) == set(Why)
