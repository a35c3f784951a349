"""`roundhouse connections`: which other computers Roundhouse called, when, why, and what offline kept back."""

import time
from collections.abc import Iterator

import click

from app.cli.gateway import connect_running
from app.cli.output import format_table, json_option, print_note, write_fields
from app.client.http import GatewayClient
from app.core import words
from app.core.connections import REASON_TEXTS, Connection, ConnectionList
from app.core.errors import BadRequest
from app.core.events import ConnectionChanged, Event

_HEAD = ("LAST", "HOST", "WHY", "TIMES", "RECEIVED", "FOR")
_TLS = 443


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Keep showing new ones; Ctrl-C ends.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, help="How many of the latest to show.")
@click.option("--clear", is_flag=True, help="Clear the list first.")
@json_option
def connections(*, follow: bool, limit: int, clear: bool, as_json: bool) -> None:
    """Show every connection made to another computer: host, time, reason and count.

    They are kept for 30 days. `roundhouse settings network.offline true` blocks them all; blocked ones are
    listed as refused.
    """
    if follow and as_json:
        raise BadRequest("--follow writes text: leave out --json.")
    client = connect_running()
    if clear:
        client.delete("/connections")
        print_note("The list was cleared.")
    listing = client.get(f"/connections?limit={limit}", ConnectionList)
    if as_json:
        write_fields(listing)
        return
    for line in connection_lines(listing):
        click.echo(line)
    if follow:
        _follow_connections(client)


def connection_lines(listing: ConnectionList) -> Iterator[str]:
    """Yield whether connections are made, and a table of them, the last at the end."""
    if listing.offline:
        yield click.style("Roundhouse is offline: it does not connect to other computers.", bold=True)
    if not listing.connections:
        yield "There were no connections to other computers."
        return
    yield from format_table(_HEAD, map(_row, listing.connections[::-1]))


def _follow_connections(client: GatewayClient) -> None:
    for event in client.stream_events("/events", Event):
        if isinstance(event, ConnectionChanged):
            click.echo("  ".join(part for part in _row(event.connection) if part))


def _row(connection: Connection) -> tuple[str, ...]:
    return (
        time.strftime("%d %b %H:%M", time.localtime(connection.last_at)),
        connection.host if connection.port == _TLS else f"{connection.host}:{connection.port}",
        REASON_TEXTS[connection.why].tr(),
        _count_text(connection),
        words.format_bytes(connection.received_bytes) if connection.received_bytes else "-",
        connection.about,
    )


def _count_text(connection: Connection) -> str:
    if connection.refused:
        return f"{connection.count} refused"
    return f"{connection.count}, {connection.failed} failed" if connection.failed else str(connection.count)
