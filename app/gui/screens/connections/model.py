"""State of the connections page: what was called, by day, and whether anything may be."""

import time
from collections.abc import Callable

from app.core import words
from app.core.connections import REASON_TEXTS, Connection, ConnectionList
from app.core.errors import ErrorBody
from app.core.events import ConnectionChanged, ConnectionsForgotten, Event
from app.core.translation import tr, tr_plural
from app.gui.net.api import GatewayCall
from app.gui.net.remote import RemoteList
from app.gui.net.remote_lists import Stores
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

    def _ask(self) -> GatewayCall:
        return self.api.get(
            self._path, ConnectionList, lambda reply: self._take_answer(reply.connections), self._store_error
        )

    def apply(self, event: Event) -> None:
        """Put the one the event is about on top."""
        if isinstance(event, ConnectionChanged):
            others = [item for item in self.items if item.id != event.connection.id]
            self.replace(sorted([event.connection, *others], key=lambda item: -item.last_at)[:KEPT])
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
        return (
            tr("This is set by the environment variable ROUNDHOUSE_NETWORK_OFFLINE.") if source == "environment" else ""
        )

    @property
    def consequence(self) -> str:
        """What the switch means as it stands."""
        if self.is_offline:
            return tr(
                "Roundhouse does not connect to other computers: no searches, downloads, engine installs, updates or "
                "remote endpoints. Models, engines and endpoints on this computer keep working. Blocked connections "
                "are listed below."
            )
        return tr(
            "When on, Roundhouse does not connect to any other computer, and open connections are closed. Models, "
            "engines and endpoints on this computer keep working."
        )

    def set_offline(self, is_on: bool) -> None:  # noqa: FBT001 -- a switch's position
        """Move the switch."""
        self.refusal = None
        self.preferences.change(OFFLINE, is_on, self._store_refusal)

    def clear_list(self) -> None:
        """Clear the list; the gateway tells when it is done."""
        self.refusal = None
        self.api.delete("/connections", lambda: None, self._store_refusal)

    def dismiss_refusal(self) -> None:
        """Say no more about what was refused."""
        self.refusal = None
        self.changed.emit()

    def group_by_day(self) -> dict[str, list[Connection]]:
        """Return what the page lists, by the day of the last."""
        days: dict[str, list[Connection]] = {}
        for connection in self.items[:SHOWN]:
            days.setdefault(self._day_title(connection.last_at), []).append(connection)
        return days

    @property
    def summary(self) -> str:
        """Everything listed, in a line."""
        outgoing_connections = [connection for connection in self.items if not connection.refused]
        if not outgoing_connections:
            return ""
        hosts, count = (
            len({connection.host for connection in outgoing_connections}),
            sum(connection.count for connection in outgoing_connections),
        )
        received_words = words.format_bytes(sum(connection.received_bytes for connection in outgoing_connections))
        return " · ".join(
            [
                tr_plural("{count:,} host", "{count:,} hosts", hosts),
                tr_plural("{count:,} connection", "{count:,} connections", count),
                tr("{size} received", size=received_words),
            ]
        )

    @property
    def rest_note(self) -> str:
        """What is said below the list of what it leaves out."""
        left_out = len(self.items) - SHOWN
        if left_out <= 0:
            return ""
        return tr_plural(
            "`roundhouse connections` lists {count} earlier one.",
            "`roundhouse connections` lists {count} earlier ones.",
            left_out,
        )

    def _day_title(self, at: float) -> str:
        day, now = time.localtime(at), self._clock()
        for title, then in ((tr("Today"), now), (tr("Yesterday"), now - _DAY_S)):
            if day[:3] == time.localtime(then)[:3]:
                return title
        return tr("{day} {month}", day=day.tm_mday, month=time.strftime("%B", day))

    def _store_refusal(self, error: ErrorBody) -> None:
        self.refusal = error
        self.changed.emit()


def host_text(connection: Connection) -> str:
    """Return the strong line."""
    return connection.host if connection.port == _TLS else f"{connection.host}:{connection.port}"


def reason_text(connection: Connection) -> str:
    """Return the quiet line: why, and for what."""
    return " · ".join(filter(None, (REASON_TEXTS[connection.why].tr(), connection.about)))


def outcome_sign(connection: Connection) -> tuple[str, str]:
    """Return the colour and the words of how it went."""
    if connection.refused:
        return "warn", tr("Blocked: offline")
    if connection.failed >= connection.count:
        return "bad", tr("No answer")
    return "ok", tr("Answered")


def count_text(connection: Connection) -> str:
    """Return how often, and how much came."""
    times = tr_plural("once", "{count:,} times", connection.count)
    if connection.refused:
        return tr("{times}, blocked", times=times)
    if connection.failed >= connection.count:
        return tr("{times}, no answer", times=times)
    if connection.failed:
        times = tr("{times}, {failed:,} failed", times=times, failed=connection.failed)
    return f"{times} · {words.format_bytes(connection.received_bytes)}" if connection.received_bytes else times


def time_text(connection: Connection) -> str:
    """Return the time of the last, and of the first where that is another."""
    first, last = (time.strftime("%H:%M", time.localtime(at)) for at in (connection.first_at, connection.last_at))
    return last if first == last else tr("{first} to {last}", first=first, last=last)
