"""The connection is cut at each step of a pairing: both sides end alike, or the one that wrote says what to do.

A relay stands between the two and reads no more than the heads of TLS records.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from app.core.errors import RoundhouseError
from app.core.machines import MachineCode, MachineStanding, PairMachine
from tests.gateway.admin.real_gateway import RealGateway
from tests.gateway.machines.test_paired_gateways import Pair, list_machines, pair, start
from tests.patience import wait_until

pytestmark = pytest.mark.slow

__all__ = ["pair"]
_HEAD_BYTES, _APPLICATION_DATA = 5, 23


class RecordRelay:
    """Passes TLS records on to a port. `on_record` is called for each before it is passed, and False cuts."""

    def __init__(self, port: int, on_record: Callable[["RecordRelay"], bool]) -> None:
        self._port, self._on_record = port, on_record
        self._lock = threading.Lock()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.records = self.connections = self.questions = 0
        """So far; `questions` are records of the last connection's client, encrypted ones."""
        self.is_reply = False
        """Whether the record that is passed is an encrypted one of the server's."""
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                server = socket.create_connection(("127.0.0.1", self._port))
                self.connections, self.questions = self.connections + 1, 0
                for ends in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pass_records, args=ends, daemon=True).start()

    def _pass_records(self, source: socket.socket, target: socket.socket, is_server: bool) -> None:  # noqa: FBT001 -- a thread's
        with suppress(OSError), source, target, source.makefile("rb") as records:
            while len(head := records.read(_HEAD_BYTES)) == _HEAD_BYTES:
                body = records.read(int.from_bytes(head[3:], "big"))
                with self._lock:
                    is_encrypted = head[0] == _APPLICATION_DATA
                    self.questions += is_encrypted and not is_server
                    self.is_reply = is_encrypted and is_server
                    if not self._on_record(self):
                        break
                    self.records += 1
                target.sendall(head + body)
            for end in (source, target):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def relay_records(gateway: RealGateway, on_record: Callable[[RecordRelay], bool]) -> Iterator[RecordRelay]:
    with closing(RecordRelay(list_machines(gateway).port, on_record)) as relay:
        yield relay


def pair_through(pair: Pair, relay: RecordRelay) -> MachineStanding:
    code = pair.desk.client.post("/machines/code", None, MachineCode).code
    request = PairMachine(host=f"127.0.0.1:{relay.port}", code=code)
    return pair.lap.client.post("/machines", request, MachineStanding)


def is_before(step: int, relay: RecordRelay) -> bool:
    return relay.records < step


def has_paired(pair: Pair, relay: RecordRelay) -> bool:
    try:
        pair_through(pair, relay)
    except RoundhouseError:
        return False
    return True


def names(gateway: RealGateway) -> list[str]:
    return [machine.name for machine in list_machines(gateway).machines]


def unpair(pair: Pair) -> None:
    for gateway in pair:
        for name in names(gateway):
            gateway.client.delete(f"/machines/{name}")


def test_the_connection_cut_at_each_record_leaves_both_alike(pair: Pair) -> None:
    with relay_records(pair.desk, lambda _relay: True) as relay:
        pair_through(pair, relay)
        steps = relay.records
    assert (names(pair.lap), names(pair.desk)) == (["desk"], ["lap"])
    unpair(pair)
    failures = 0
    for step in range(steps):
        with relay_records(pair.desk, partial(is_before, step)) as relay:
            is_paired = has_paired(pair, relay)
        both = (["desk"], ["lap"]) if is_paired else ([], [])
        assert (names(pair.lap), names(pair.desk)) == both, step
        unpair(pair)
        failures += not is_paired
    assert failures >= steps // 2


def is_verdict(relay: RecordRelay) -> bool:
    """Whether the host's last message is passed: the client said two things since the second connection's start."""
    return relay.connections == 2 and relay.questions >= 2 and relay.is_reply


def test_a_host_that_ends_after_its_last_word_has_the_other_forget_it(tmp_path: Path) -> None:
    homes = tmp_path / "desk", tmp_path / "lap"
    for home in homes:
        home.mkdir()
    with start(homes[1], "lap") as lap:
        with start(homes[0], "desk") as desk:

            def kill_at_verdict(relay: RecordRelay) -> bool:
                if is_verdict(relay):
                    desk.kill()
                return True

            with relay_records(desk, kill_at_verdict) as relay:
                relayed_pairing = pair_through(Pair(desk, lap), relay)
        assert relayed_pairing.is_reachable is False
        assert "not finished" in relayed_pairing.problem
        with start_again(homes[0], "desk") as desk:
            wait_until(lambda: not names(lap))
            assert names(desk) == []
            assert "pair again" in list_machines(lap).problem
            pair_through_nothing(Pair(desk, lap))
            assert (names(lap), names(desk), list_machines(lap).problem) == (["desk"], ["lap"], "")


def start_again(home: Path, name: str) -> AbstractContextManager[RealGateway]:
    (home / "config" / "settings.toml").rename(home / "settings.toml")
    (home / "config").rename(home / "config-before")
    again = start(home, name)
    for file in (home / "config-before").iterdir():
        file.rename(home / "config" / file.name)
    (home / "settings.toml").replace(home / "config" / "settings.toml")
    return again


def pair_through_nothing(pair: Pair) -> None:
    with relay_records(pair.desk, lambda _relay: True) as relay:
        pair_through(pair, relay)


def test_a_host_that_stands_still_after_its_last_word_is_paired_once_it_goes_on(pair: Pair) -> None:
    process, stops = psutil.Process(pair.desk.process.pid), list[int]()

    def suspend_at_verdict(relay: RecordRelay) -> bool:
        if is_verdict(relay) and not stops:
            process.suspend()
            stops.append(relay.records)
        return True

    try:
        with relay_records(pair.desk, suspend_at_verdict) as relay:
            relayed_pairing = pair_through(pair, relay)
        assert (relayed_pairing.is_reachable, "not finished" in relayed_pairing.problem) == (False, True)
    finally:
        process.resume()
    wait_until(lambda: (names(pair.lap), names(pair.desk)) == (["desk"], ["lap"]))
    wait_until(lambda: list_machines(pair.lap).machines[0].is_reachable)
    unpair(pair)


@pytest.mark.parametrize("side", ["desk", "lap"])
def test_a_side_that_cannot_write_is_not_half_paired(pair: Pair, side: str) -> None:
    gateway: RealGateway = getattr(pair, side)
    assert (names(pair.lap), names(pair.desk)) == ([], [])  # the list has been read
    gateway.paths.machines_file.unlink(missing_ok=True)
    gateway.paths.machines_file.mkdir()
    try:
        with relay_records(pair.desk, lambda _relay: True) as relay:
            if side == "lap":
                with pytest.raises(RoundhouseError):
                    pair_through(pair, relay)
                assert (names(pair.lap), names(pair.desk)) == ([], [])
                return
            assert "not finished" in pair_through(pair, relay).problem
            assert names(pair.desk) == []
    finally:
        gateway.paths.machines_file.rmdir()
    wait_until(lambda: (names(pair.lap), names(pair.desk)) == (["desk"], ["lap"]))
    unpair(pair)
