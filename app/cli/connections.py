"""`roundhouse connections`: which other computers Roundhouse called, when, why, and what offline kept back."""

import time
from collections.abc import Iterator

import click

from app.cli.gateway import running
from app.cli.output import json_option, table, talk, write_fields
from app.client.http import Client
from app.core import words
from app.core.connections import SAID, Connection, ConnectionList
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
    client = running()
    if clear:
        client.delete("/connections")
        talk("The list was cleared.")
    found = client.get(f"/connections?limit={limit}", ConnectionList)
    if as_json:
        write_fields(found)
        return
    for line in connection_lines(found):
        click.echo(line)
    if follow:
        _follow(client)


def connection_lines(found: ConnectionList) -> Iterator[str]:
    """Yield whether connections are made, and a table of them, the last at the end."""
    if found.offline:
        yield click.style("Roundhouse is offline: it does not connect to other computers.", bold=True)
    if not found.connections:
        yield "There were no connections to other computers."
        return
    yield from table(_HEAD, map(_row, found.connections[::-1]))


def _follow(client: Client) -> None:
    for event in client.stream("/events", Event):
        if isinstance(event, ConnectionChanged):
            click.echo("  ".join(part for part in _row(event.connection) if part))


def _row(one: Connection) -> tuple[str, ...]:
    return (
        time.strftime("%d %b %H:%M", time.localtime(one.last_at)),
        one.host if one.port == _TLS else f"{one.host}:{one.port}",
        SAID[one.why],
        _times(one),
        words.size(one.received_bytes) if one.received_bytes else "-",
        one.about,
    )


def _times(one: Connection) -> str:
    if one.refused:
        return f"{one.count} refused"
    return f"{one.count}, {one.failed} failed" if one.failed else str(one.count)
