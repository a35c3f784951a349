"""Where every connection to another computer is noted or refused: one door for each process, as it has one network.

`door.call(host, port, purpose)` stands before the name is looked up. This computer is not another: engines, and
endpoints that other programs serve here, pass unnoted. What is fetched counts wherever it comes from, because a mirror
on this computer asks others in turn. The gateway decides whether the door is open (`apply_policy`) and takes what was
noted (`take_connections`); a child process tells its gateway what it took.
"""

import ipaddress
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Protocol
from weakref import WeakSet

from msgspec.structs import replace

from app.core.connections import Connection, ConnectionReason, Purpose, merge_connections
from app.core.errors import Offline

_LONGEST_HOST, _LONGEST_ABOUT = 253, 200
"""A name has no more characters; who it is made for is cut."""


_PASSES_HERE = frozenset(
    {ConnectionReason.ATTACHED, ConnectionReason.MACHINES, ConnectionReason.TOOLS, ConnectionReason.TRACES}
)
"""What other programs serve on this computer itself is not another computer."""


class ConnectionHolder(Protocol):
    """What holds connections open, and can end them."""

    def cut_connections(self) -> None:
        """End them now."""


class EgressCall:
    """One connection, from the moment it was allowed. Thread-safe."""

    def __init__(self, record: Callable[..., None]) -> None:
        self._record = record

    def count_received(self, count: int) -> None:
        """Count bytes that came."""
        self._record(received_bytes=count)

    def note_failure(self) -> None:
        """Note that nobody answered."""
        self._record(failed=1)


_UNRECORDED_CALL = EgressCall(lambda **_counted: None)


class EgressGate:
    """Lets connections out and counts them. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._new_connections: dict[object, Connection] = {}
        self._holders: WeakSet[ConnectionHolder] = WeakSet()
        self._is_closed: Callable[[], bool] = _is_never_closed
        self._news: Callable[[], None] = _ignore_news

    @property
    def is_closed(self) -> bool:
        """Whether nothing may go out."""
        return self._is_closed()

    @contextmanager
    def apply_policy(self, *, is_closed: Callable[[], bool], news: Callable[[], None]) -> Iterator[None]:
        """Have `is_closed` decide; `news` is called, from any thread, when there is something to take."""
        before = self._is_closed, self._news
        self._is_closed, self._news = is_closed, news
        try:
            yield
        finally:
            self._is_closed, self._news = before

    def note_call(self, host: str, port: int, purpose: Purpose) -> EgressCall:
        """Note a connection that is about to be made. Raises Offline, which is noted as well."""
        if purpose.why in _PASSES_HERE and is_this_computer(host):
            return _UNRECORDED_CALL
        is_refused = self._is_closed()
        now = time.time()
        blank = Connection(
            host=host.lower()[:_LONGEST_HOST],
            port=port,
            why=purpose.why,
            about=purpose.about[:_LONGEST_ABOUT],
            by=purpose.by,
            refused=is_refused,
            first_at=now,
            last_at=now,
        )

        def record(**byte_count: int) -> None:
            self._add_connection(replace(blank, **byte_count))

        record(count=1)
        if is_refused:
            raise Offline.from_calling(blank.host)
        return EgressCall(record)

    def require_open(self, host: str, port: int, purpose: Purpose) -> None:
        """Raise Offline, and note it, where a call would; for those who have something to say before they call."""
        if self._is_closed():
            self.note_call(host, port, purpose)

    def note_connections(self, connections: list[Connection]) -> None:
        """Note what another process of ours did."""
        for connection in connections:
            self._add_connection(connection)

    def take_connections(self) -> list[Connection]:
        """Return what was noted since the last time, one for each host and purpose."""
        with self._lock:
            taken_connections, self._new_connections = list(self._new_connections.values()), {}
        return taken_connections

    def add_holder(self, holder: ConnectionHolder) -> None:
        """Have something that keeps connections open end them when the door is closed."""
        with self._lock:
            self._holders.add(holder)

    def cut_connections(self) -> None:
        """End every connection that is held open. Belongs to the event loop."""
        with self._lock:
            holders = list(self._holders)
        for holder in holders:
            holder.cut_connections()

    def _add_connection(self, connection: Connection) -> None:
        with self._lock:
            is_news = not self._new_connections
            known_connection = self._new_connections.get(connection.key)
            self._new_connections[connection.key] = (
                merge_connections(known_connection, connection) if known_connection else connection
            )
        if is_news:
            self._news()


@lru_cache(maxsize=256)
def is_this_computer(host: str) -> bool:
    """Tell whether a host is this computer under an address or name that never leaves it."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    plain = getattr(address, "ipv4_mapped", None) or address
    return bool(plain.is_loopback)


def _is_never_closed() -> bool:
    return False


def _ignore_news() -> None:
    pass


egress_gate = EgressGate()
"""This process's own."""
