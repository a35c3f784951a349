"""`roundhouse traces`: whether requests are told to an OpenTelemetry collector, and the headers that takes."""

import sys

import click

from app.cli.gateway import connect_gateway
from app.cli.output import json_option, print_note, show_result
from app.core.traces import SetTraceHeaders, TracesState, parse_header_lines

_MOST = 64 * 1024
"""Characters read from a pipe: sixteen headers are no longer."""


@click.group("traces", invoke_without_command=True)
@json_option
@click.pass_context
def traces(ctx: click.Context, *, as_json: bool) -> None:
    """Show whether traces of requests are sent to a collector; the setting traces.endpoint names one."""
    if ctx.invoked_subcommand is None:
        _show_state(connect_gateway().get("/traces", TracesState), as_json=as_json)


@traces.command("test")
@json_option
def send_test(*, as_json: bool) -> None:
    """Send one span now, to see whether the collector takes it."""
    _show_state(connect_gateway().post("/traces/test", None, TracesState), as_json=as_json)


@traces.group("headers")
def headers() -> None:
    """Set or remove the headers that traces are sent with, such as a key of the collector's. They are never shown."""


@headers.command("set")
@json_option
def set_headers(*, as_json: bool) -> None:
    """Save headers in place of those there are, typed in or read from a pipe, one a line: Authorization: Bearer ..."""
    is_typed = sys.stdin.isatty()
    text: str = click.prompt("Header", hide_input=True, err=True) if is_typed else sys.stdin.read(_MOST)
    body = SetTraceHeaders(headers=parse_header_lines(text))
    _show_state(connect_gateway().post("/traces/headers", body, TracesState), as_json=as_json)


@headers.command("forget")
@json_option
def forget_headers(*, as_json: bool) -> None:
    """Remove the saved headers."""
    client = connect_gateway()
    client.delete("/traces/headers")
    _show_state(client.get("/traces", TracesState), as_json=as_json)


def _show_state(state: TracesState, *, as_json: bool) -> None:
    show_result("traces", state, as_json=as_json, text=_state_lines)
    if not state.is_on:
        print_note("`roundhouse settings traces.endpoint http://127.0.0.1:4318` names a collector.")


def _state_lines(state: TracesState) -> list[str]:
    names = ", ".join(state.header_names)
    return [
        state.sentence,
        *(["Prompts and answers are in them."] if state.has_contents else []),
        *([f"Headers: {names}"] if names else []),
    ]
