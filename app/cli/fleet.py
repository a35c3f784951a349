"""`roundhouse fleet`: serve one model over several endpoints that serve it alike, with a router in front of them."""

from collections.abc import Iterator
from pathlib import Path

import click

from app.cli.attach import read_key
from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, print_note, show_result
from app.core.errors import BadRequest
from app.core.models import Fleet, ModelInfo, StartFleet

_PATIENCE_S = 45.0
"""Every replica is asked for its models, and a slow one is waited for."""


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def fleet(ctx: click.Context, *, as_json: bool) -> None:
    """Serve one model over several endpoints: `roundhouse fleet start fleet.toml`.

    A fleet file names the model and its replicas. `roundhouse detach NAME` takes a fleet off the list again.
    """
    if ctx.invoked_subcommand is None:
        _print_fleets(as_json=as_json)


@fleet.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--key-stdin", is_flag=True, help="Read the replicas' key from standard input.")
@click.option("--ask-key", is_flag=True, help="Ask for the replicas' key, without showing it.")
@json_option
def start(file: Path, *, key_stdin: bool, ask_key: bool, as_json: bool) -> None:
    """Serve the model of the fleet FILE, in place of the fleet that had its name."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"{file} cannot be read: {error}", code="invalid_value") from None
    request = StartFleet(text=text, key=read_key(from_stdin=key_stdin, asks=ask_key))
    model = connect_gateway().post("/fleets", request, ModelInfo, timeout_s=_PATIENCE_S)
    show_result("fleet", model, as_json=as_json, text=lambda model: [f"{model.name} is served through {model.router}."])


@fleet.command("list")
@json_option
def list_fleets(*, as_json: bool) -> None:
    """List the fleets, and what each replica answers now."""
    _print_fleets(as_json=as_json)


def _print_fleets(*, as_json: bool) -> None:
    fleets = connect_gateway().get("/fleets", list[Fleet], timeout_s=_PATIENCE_S)
    show_result("fleets", fleets, as_json=as_json, text=_fleet_lines)


def _fleet_lines(fleets: list[Fleet]) -> Iterator[str]:
    if not fleets:
        print_note("There is no fleet. `roundhouse fleet start FILE` starts one.")
        return
    rows = [
        (fleet.model, fleet.router, replica.url, replica.problem or "answers")
        for fleet in fleets
        for replica in fleet.replicas
    ]
    yield from format_table(("MODEL", "ROUTER", "REPLICA", "STATE"), rows)
