"""A computer without a network, or with one that drops everything, is told so within seconds."""

import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import psutil
import pytest

from app.core.connections import ConnectionReason, Purpose
from app.core.errors import Unavailable
from app.hub.repositories.ranges import RemoteHost
from app.network import reach
from app.network.reach import connect_soon, has_network, unreachable_sentence

Names = dict[str, list[tuple[str, int]]]
INSIDE: Names = {"lo": [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)]}
OUTSIDE: Names = {**INSIDE, "eth0": [("192.168.1.7", socket.AF_INET)]}


class Interfaces:
    """Plays what psutil says of a computer's interfaces."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, names: Names, *down: str) -> None:
        states = {name: SimpleNamespace(isup=name not in down) for name in names}
        addresses = {
            name: [SimpleNamespace(family=family, address=address) for address, family in pairs]
            for name, pairs in names.items()
        }
        monkeypatch.setattr(psutil, "net_if_stats", lambda: states)
        monkeypatch.setattr(psutil, "net_if_addrs", lambda: addresses)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def answer_targets(monkeypatch: pytest.MonkeyPatch, *targets: tuple[int, tuple[object, ...]]) -> None:
    addresses = [(family, socket.SOCK_STREAM, 6, "", target) for family, target in targets]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args: addresses)


def test_interfaces_that_are_up_with_an_address_are_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    Interfaces(monkeypatch, OUTSIDE)
    assert has_network()
    Interfaces(monkeypatch, OUTSIDE, "eth0")
    assert not has_network()
    Interfaces(monkeypatch, INSIDE)
    assert not has_network()
    assert unreachable_sentence("hub.example") == (
        "This computer has no network connection, so hub.example cannot be reached."
    )


def test_without_a_network_nobody_is_asked_for_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    Interfaces(monkeypatch, INSIDE)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args: pytest.fail("a name was looked up"))
    with pytest.raises(OSError, match="no network connection"):
        connect_soon(("hub.example", 443))


def test_this_computer_is_reached_without_a_network(monkeypatch: pytest.MonkeyPatch, listener: socket.socket) -> None:
    Interfaces(monkeypatch, INSIDE)
    with connect_soon(listener.getsockname()[:2], 30.0) as connection:
        assert connection.gettimeout() == 30.0


def test_a_name_that_nobody_answers_for_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    Interfaces(monkeypatch, OUTSIDE)
    may_end = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args: may_end.wait() and [])
    monkeypatch.setattr(reach, "CONNECT_S", 0.2)
    with pytest.raises(TimeoutError, match=r"where hub\.example is"):
        connect_soon(("hub.example", 443), 60.0)
    may_end.set()


def test_an_address_that_drops_everything_does_not_hide_one_that_answers(
    monkeypatch: pytest.MonkeyPatch, listener: socket.socket
) -> None:
    Interfaces(monkeypatch, OUTSIDE)
    port = listener.getsockname()[1]
    answer_targets(
        monkeypatch,
        (socket.AF_INET6, ("100::1", port, 0, 0)),
        (socket.AF_INET6, ("100::2", port, 0, 0)),
        (socket.AF_INET, ("127.0.0.1", port)),
    )
    attempts: list[str] = []
    connect = reach._connect_to

    def note(
        family: socket.AddressFamily, target: tuple[str, int], times: tuple[float, float | None], source: None
    ) -> socket.socket:
        attempts.append(target[0])
        if family == socket.AF_INET6:
            raise TimeoutError
        return connect(family, target, times, source)

    monkeypatch.setattr(reach, "_connect_to", note)
    connect_soon(("hub.example", port), 30.0).close()
    assert attempts == ["100::1", "127.0.0.1"], "families by turns"


def test_all_addresses_share_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    Interfaces(monkeypatch, OUTSIDE)
    answer_targets(monkeypatch, *[(socket.AF_INET, (f"198.51.100.{n}", 443)) for n in range(1, 9)])
    timeouts_s: list[float] = []

    def drop(_family: object, _target: object, times: tuple[float, float | None], _source: None) -> socket.socket:
        timeouts_s.append(times[0])
        raise TimeoutError("dropped")

    monkeypatch.setattr(reach, "_connect_to", drop)
    with pytest.raises(TimeoutError, match="dropped"):
        connect_soon(("hub.example", 443), 60.0)
    assert timeouts_s[0] == pytest.approx(reach._LEAST_S)
    assert max(timeouts_s) <= reach.CONNECT_S


def test_the_hub_s_error_says_that_there_is_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    Interfaces(monkeypatch, INSIDE)
    hub = RemoteHost("https://hub.example", Purpose(why=ConnectionReason.MODEL))
    with pytest.raises(
        Unavailable, match=r"This computer has no network connection, so hub\.example cannot be reached"
    ):
        hub.open_address("https://hub.example/api/models", {})
