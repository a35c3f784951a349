"""`roundhouse requests` and `roundhouse usage`: what clients ask of the endpoint, now and these days."""

import time
from collections.abc import Iterator

import click

from app.cli.gateway import running
from app.cli.output import json_option, show, table, write_json
from app.client.http import Client, segment
from app.core import words
from app.core.errors import BadRequest
from app.core.events import Event, RequestChanged
from app.core.requests import RequestInfo, Usage, UsageRow

_NOTHING = "There have been no requests to the endpoint."
_HEAD = ("TIME", "CLIENT", "MODEL", "ROUTE", "STATE", "QUEUE", "LOAD", "PREFILL", "DECODE", "SPEED", "TOKENS", "NOTE")


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Keep showing new ones; Ctrl-C ends.")
@click.option("--model", default="", help="Only requests for this model.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, help="How many of the latest to show.")
@click.option("--cancel", "stopped", metavar="ID", help="Stop this request instead; its client is notified.")
@json_option
def requests(*, follow: bool, model: str, limit: int, stopped: str | None, as_json: bool) -> None:
    """Show the latest requests to the endpoint: client, model, and where the time went.

    With --json each request has its id, which --cancel takes.
    """
    if follow and as_json:
        raise BadRequest("--follow writes text: leave out --json.")
    client = running()
    if stopped is not None:
        ended = client.post(f"/requests/{segment(stopped)}/cancel", None, RequestInfo)
        show("request", ended, as_json=as_json, text=lambda one: [f"{one.id} was stopped."])
        return
    found = client.get(f"/requests?limit={limit}&model={segment(model)}", list[RequestInfo])
    if as_json:
        write_json("requests", found)
        return
    for line in request_lines(found[::-1], model):
        click.echo(line)
    if follow:
        _follow(client, model)


@click.command()
@json_option
def usage(*, as_json: bool) -> None:
    """Show usage by client and model, today and in the last seven days."""
    show("usage", running().get("/usage", Usage), as_json=as_json, text=usage_lines)


def request_lines(found: list[RequestInfo], model: str = "") -> Iterator[str]:
    """Yield a table of requests, or that there were none; `model` as they were chosen by."""
    if not found:
        yield f"There have been no requests for {model!r}." if model else _NOTHING
        return
    yield from table(_HEAD, map(_row, found))


def usage_lines(found: Usage) -> Iterator[str]:
    """Yield a table for today and one for the week."""
    if not found.week:
        yield "There were no requests in the last seven days."
        return
    for title, rows in (("Today", found.today), ("Last seven days", found.week)):
        yield click.style(title, bold=True)
        if rows:
            head = ("CLIENT", "MODEL", "REQUESTS", "FAILED", "PROMPT", "CACHED", "WRITTEN")
            yield from table(head, map(_used, rows))
        else:
            yield "Nothing yet."


def _follow(client: Client, model: str) -> None:
    for event in client.stream("/events", Event):
        if isinstance(event, RequestChanged) and event.request.is_over and model in ("", event.request.model):
            click.echo("  ".join(part for part in _row(event.request) if part))


def _row(one: RequestInfo) -> tuple[str, ...]:
    spans = (one.queue_s, one.load_s, one.prefill_s, one.decode_s)
    tokens = (one.prompt_tokens, one.completion_tokens)
    return (
        time.strftime("%H:%M:%S", time.localtime(one.at)),
        one.client,
        one.model or "-",
        one.route or one.path,
        one.state,
        *("-" if span is None else words.seconds(span) for span in spans),
        "-" if one.tokens_per_s is None else words.rate(one.tokens_per_s),
        " + ".join("?" if count is None else str(count) for count in tokens),
        one.error,
    )


def _used(row: UsageRow) -> tuple[str, ...]:
    counts = (row.requests, row.failed, row.prompt_tokens, row.cached_tokens, row.completion_tokens)
    return (row.client, row.model or "-", *(f"{count:,}" for count in counts))
