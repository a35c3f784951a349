"""`roundhouse requests` and `roundhouse usage`: what clients ask of the endpoint, now and these days."""

import time
from collections.abc import Iterator

import click

from app.cli.gateway import connect_running
from app.cli.output import format_table, json_option, show_result, write_json
from app.client.http import GatewayClient, quote_segment
from app.core import words
from app.core.errors import BadRequest
from app.core.events import Event, RequestChanged
from app.core.requests import KeyDay, RequestInfo, Usage, UsageRow

_DAYS = 30
_NOTHING = "There have been no requests to the endpoint."
_HEAD = (
    "TIME",
    "CLIENT",
    "MODEL",
    "ROUTE",
    "STATE",
    "QUEUE",
    "LOAD",
    "PREFILL",
    "DECODE",
    "SPEED",
    "TOKENS",
    "WARM",
    "NOTE",
)


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
    client = connect_running()
    if stopped is not None:
        ended_request = client.post(f"/requests/{quote_segment(stopped)}/cancel", None, RequestInfo)
        show_result("request", ended_request, as_json=as_json, text=lambda request: [f"{request.id} was stopped."])
        return
    listing = client.get(f"/requests?limit={limit}&model={quote_segment(model)}", list[RequestInfo])
    if as_json:
        write_json("requests", listing)
        return
    for line in request_lines(listing[::-1], model):
        click.echo(line)
    if follow:
        _follow_requests(client, model)


@click.command()
@click.option("--keys", "by_key", is_flag=True, help="By access key and day instead.")
@click.option("--days", type=click.IntRange(1, 366), help="With --keys: over so many days.  [default: 30]")
@json_option
def usage(*, by_key: bool, days: int | None, as_json: bool) -> None:
    """Show usage by client and model, today and in the last seven days; or by access key, day by day."""
    if by_key:
        rows = connect_running().get(f"/usage/keys?days={days or _DAYS}", list[KeyDay])
        show_result("usage", rows, as_json=as_json, text=key_usage_lines)
        return
    if days is not None:
        raise BadRequest("--days is for usage by key.", hint="Say --keys too.", code="usage")
    show_result("usage", connect_running().get("/usage", Usage), as_json=as_json, text=usage_lines)


def request_lines(listing: list[RequestInfo], model: str = "") -> Iterator[str]:
    """Yield a table of requests, or that there were none; `model` as they were chosen by."""
    if not listing:
        yield f"There have been no requests for {model!r}." if model else _NOTHING
        return
    yield from format_table(_HEAD, map(_row, listing))


def usage_lines(usage_found: Usage) -> Iterator[str]:
    """Yield a table for today and one for the week."""
    if not usage_found.week:
        yield "There were no requests in the last seven days."
        return
    for title, rows in (("Today", usage_found.today), ("Last seven days", usage_found.week)):
        yield click.style(title, bold=True)
        if rows:
            head = ("CLIENT", "MODEL", "REQUESTS", "FAILED", "PROMPT", "CACHED", "WRITTEN")
            yield from format_table(head, map(_usage_row, rows))
        else:
            yield "Nothing yet."


def key_usage_lines(rows: list[KeyDay]) -> Iterator[str]:
    """Yield a table of what keys were used for, day by day."""
    if not rows:
        yield "There were no requests in these days."
        return
    head = ("DAY", "KEY", "REQUESTS", "FAILED", "HELD BACK", "PROMPT", "CACHED", "WRITTEN")
    yield from format_table(head, map(_key_day_row, rows))


def _key_day_row(row: KeyDay) -> tuple[str, ...]:
    name = f"{row.key} (revoked)" if row.is_revoked else row.key or "(no key)"
    counts = (
        *(row.requests, row.failed, row.held_back),
        *(row.prompt_tokens, row.cached_tokens, row.completion_tokens),
    )
    return (row.day, name, *(f"{count:,}" for count in counts))


def _follow_requests(client: GatewayClient, model: str) -> None:
    for event in client.stream_events("/events", Event):
        if isinstance(event, RequestChanged) and event.request.is_over and model in ("", event.request.model):
            click.echo("  ".join(part for part in _row(event.request) if part))


def _row(request: RequestInfo) -> tuple[str, ...]:
    spans = (request.queue_s, request.load_s, request.prefill_s, request.decode_s)
    tokens = (request.prompt_tokens, request.completion_tokens)
    return (
        time.strftime("%H:%M:%S", time.localtime(request.at)),
        request.client,
        request.model or "-",
        request.route or request.path,
        request.state,
        *("-" if span is None else words.format_duration(span) for span in spans),
        "-" if request.tokens_per_s is None else words.format_rate(request.tokens_per_s),
        " + ".join("?" if count is None else f"{count:,}" for count in tokens),
        _warm_text(request),
        request.error,
    )


def _warm_text(request: RequestInfo) -> str:
    """Return how much of the prompt the engine had already, and what that saved."""
    if not request.cached_tokens:
        return "-"
    saved_text = "" if request.saved_s is None else f" (saved {words.format_duration(request.saved_s)})"
    return f"{request.cached_tokens:,}{saved_text}"


def _usage_row(row: UsageRow) -> tuple[str, ...]:
    counts = (row.requests, row.failed, row.prompt_tokens, row.cached_tokens, row.completion_tokens)
    return (row.client, row.model or "-", *(f"{count:,}" for count in counts))
