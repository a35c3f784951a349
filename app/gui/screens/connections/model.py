"""State of the connections page: what was called, by day, and whether anything may be."""

import time
from collections.abc import Callable

from app.core import words
from app.core.connections import SAID, Connection, ConnectionList
from app.core.errors import ErrorBody
from app.core.events import ConnectionChanged, ConnectionsForgotten, Event
from app.gui.net.api import Call
from app.gui.net.remote import RemoteList
from app.gui.net.stores import Stores
from app.gui.shell.contract import Shell

OFFLINE = "network.offline"
KEPT = 500
SHOWN = 100
"""Rows on the page; the command line shows the others."""
_DAY_S = 24 * 3600.0
_TLS = 443


class ConnectionsModel(RemoteList[Connection]):
    """Connections, newest first. `refusal` is why the last thing that was asked for was not done."""

    def __init__(self, stores: Stores, shell: Shell, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self.refusal: ErrorBody | None = None
        self.preferences = stores.preferences
        super().__init__(stores.api, shell, f"/connections?limit={KEPT}", list[Connection])
        self.preferences.changed.connect(self.changed)

    def _ask(self) -> Call:
        return self.api.get(self._path, ConnectionList, lambda found: self._answered(found.connections), self._failed)

    def apply(self, event: Event) -> None:
        """Put the one the event is about on top."""
        if isinstance(event, ConnectionChanged):
            others = [one for one in self.items if one.id != event.connection.id]
            self.replace(sorted([event.connection, *others], key=lambda one: -one.last_at)[:KEPT])
        elif isinstance(event, ConnectionsForgotten):
            self.replace([])

    @property
    def is_offline(self) -> bool:
        """Whether no other computer is called."""
        return self.preferences.get(OFFLINE, default=False) is True

    @property
    def why_fixed(self) -> str:
        """Why the switch cannot be moved; empty where it can."""
        source = next((row.source for row in self.preferences.items if row.name == OFFLINE), "")
        return "This is set by the environment variable ROUNDHOUSE_NETWORK_OFFLINE." if source == "environment" else ""

    @property
    def consequence(self) -> str:
        """What the switch means as it stands."""
        if self.is_offline:
            return (
                "Roundhouse does not connect to other computers: no searches, downloads, engine installs, updates or "
                "remote endpoints. Models, engines and endpoints on this computer keep working. Blocked connections "
                "are listed below."
            )
        return (
            "When on, Roundhouse does not connect to any other computer, and open connections are closed. Models, "
            "engines and endpoints on this computer keep working."
        )

    def stay_offline(self, is_wanted: bool) -> None:  # noqa: FBT001 -- a switch's position
        """Move the switch."""
        self.refusal = None
        self.preferences.change(OFFLINE, is_wanted, self._refused)

    def forget(self) -> None:
        """Clear the list; the gateway tells when it is done."""
        self.refusal = None
        self.api.delete("/connections", lambda: None, self._refused)

    def dismiss(self) -> None:
        """Say no more about what was refused."""
        self.refusal = None
        self.changed.emit()

    def days(self) -> dict[str, list[Connection]]:
        """Return what the page lists, by the day of the last."""
        found: dict[str, list[Connection]] = {}
        for one in self.items[:SHOWN]:
            found.setdefault(self._day(one.last_at), []).append(one)
        return found

    @property
    def sum(self) -> str:
        """Everything listed, in a line."""
        made = [one for one in self.items if not one.refused]
        if not made:
            return ""
        hosts, count = len({one.host for one in made}), sum(one.count for one in made)
        received = words.size(sum(one.received_bytes for one in made))
        return f"{_counted(hosts, 'host')} · {_counted(count, 'connection')} · {received} received"

    @property
    def rest(self) -> str:
        """What is said below the list of what it leaves out."""
        left_out = len(self.items) - SHOWN
        return f"`roundhouse connections` lists {left_out} earlier ones." if left_out > 0 else ""

    def _day(self, at: float) -> str:
        day, now = time.localtime(at), self._clock()
        for title, then in (("Today", now), ("Yesterday", now - _DAY_S)):
            if day[:3] == time.localtime(then)[:3]:
                return title
        return f"{day.tm_mday} {time.strftime('%B', day)}"

    def _refused(self, error: ErrorBody) -> None:
        self.refusal = error
        self.changed.emit()


def host(one: Connection) -> str:
    """Return the strong line."""
    return one.host if one.port == _TLS else f"{one.host}:{one.port}"


def reason(one: Connection) -> str:
    """Return the quiet line: why, and for what."""
    return " · ".join(filter(None, (SAID[one.why], one.about)))


def sign(one: Connection) -> tuple[str, str]:
    """Return the colour and the words of how it went."""
    if one.refused:
        return "warn", "Blocked: offline"
    if one.failed >= one.count:
        return "bad", "No answer"
    return "ok", "Answered"


def often(one: Connection) -> str:
    """Return how often, and how much came."""
    times = "once" if one.count == 1 else f"{one.count:,} times"
    if one.refused:
        return f"{times}, blocked"
    if one.failed >= one.count:
        return f"{times}, no answer"
    failed = f", {one.failed:,} failed" if one.failed else ""
    return f"{times}{failed}" + (f" · {words.size(one.received_bytes)}" if one.received_bytes else "")


def when(one: Connection) -> str:
    """Return the time of the last, and of the first where that is another."""
    first, last = (time.strftime("%H:%M", time.localtime(at)) for at in (one.first_at, one.last_at))
    return last if first == last else f"{first} to {last}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
