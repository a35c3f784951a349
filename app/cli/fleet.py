"""`roundhouse fleet`: serve one model over several replicas that serve it alike, with a router in front of them."""

import time
from collections.abc import Iterator
from pathlib import Path

import click

from app.cli.attach import read_key
from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, print_note, show_result
from app.client.http import GatewayClient, quote_segment
from app.core.errors import BadRequest
from app.core.fleets import AddReplica, Fleet, FleetReplica, LocalReplica, ReplicaState, RollFleet, StartFleet
from app.core.models import ModelInfo

_PATIENCE_S = 45.0
"""Every replica is asked for its models, and a slow one is waited for."""
_POLL_S = 0.5


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def fleet(ctx: click.Context, *, as_json: bool) -> None:
    """Serve one model over several replicas: `roundhouse fleet start fleet.toml`.

    A fleet file names the model and its replicas: engines on this computer, or addresses. `roundhouse detach NAME`
    takes a fleet off the list again.
    """
    if ctx.invoked_subcommand is None:
        _print_fleets(as_json=as_json)


@fleet.command()
@click.argument("file")
@click.option("--key-stdin", is_flag=True, help="Read the replicas' key from standard input.")
@click.option("--ask-key", is_flag=True, help="Ask for the replicas' key, without showing it.")
@click.option("--no-wait", is_flag=True, help="Do not wait until its engines are loaded.")
@json_option
def start(file: str, *, key_stdin: bool, ask_key: bool, no_wait: bool, as_json: bool) -> None:
    """Serve the model of the fleet FILE, in place of the fleet that had its name; or a fleet that was stopped."""
    gateway = connect_gateway()
    if Path(file).is_file():
        request = StartFleet(text=_read_file(Path(file)), key=read_key(from_stdin=key_stdin, asks=ask_key))
        name = gateway.post("/fleets", request, ModelInfo, timeout_s=_PATIENCE_S).name
    elif Path(file).suffix == ".toml":
        raise BadRequest(f"There is no file {file}.", code="invalid_value")
    else:
        name = _change(gateway, file, "start").model
    state = _read_fleet(gateway, name) if no_wait else _wait_until_settled(gateway, name)
    show_result("fleet", state, as_json=as_json, text=_start_lines)


@fleet.command()
@click.argument("name")
@json_option
def stop(name: str, *, as_json: bool) -> None:
    """Stop the fleet NAME: its router and its engines on this computer end once the answers in progress are done."""
    state = _change(connect_gateway(), name, "stop")
    show_result("fleet", state, as_json=as_json, text=lambda state: [f"{state.model} is stopped."])


@fleet.command("list")
@json_option
def list_fleets(*, as_json: bool) -> None:
    """List the fleets, and how each replica stands."""
    _print_fleets(as_json=as_json)


@fleet.command()
@click.argument("name")
@click.argument("url", default="")
@click.option("--engine", help="Engine that runs it here, such as llama.cpp.")
@click.option("--slots", type=click.IntRange(1, 1024), help="Requests it answers at once.")
@click.option("--context", type=click.IntRange(256), help="Tokens of context for each.")
@click.option("--threads", type=click.IntRange(1, 512), help="Processor threads it computes with.")
@click.option("--card", help="UUID of the graphics card it is put on.")
@json_option
def add(*, name: str, url: str, as_json: bool, **options: object) -> None:
    """Add a replica to the fleet NAME: one that answers at URL, or without it an engine on this computer."""
    request = AddReplica(url=url, local=_local_replica(options))
    state = connect_gateway().post(f"/fleets/{quote_segment(name)}/replicas", request, Fleet, timeout_s=_PATIENCE_S)
    show_result("fleet", state, as_json=as_json, text=_state_lines)


@fleet.command()
@click.argument("name")
@click.argument("replica")
@json_option
def drain(*, name: str, replica: str, as_json: bool) -> None:
    """Give a REPLICA (its number or address) of the fleet NAME no new requests; what it answers is finished."""
    state = _change(connect_gateway(), name, f"replicas/{quote_segment(replica)}/drain")
    show_result("fleet", state, as_json=as_json, text=_state_lines)


@fleet.command()
@click.argument("name")
@click.argument("replica")
@json_option
def resume(*, name: str, replica: str, as_json: bool) -> None:
    """Give a REPLICA of the fleet NAME that was drained requests again."""
    state = _change(connect_gateway(), name, f"replicas/{quote_segment(replica)}/resume")
    show_result("fleet", state, as_json=as_json, text=_state_lines)


@fleet.command()
@click.argument("name")
@click.argument("replica")
@json_option
def remove(*, name: str, replica: str, as_json: bool) -> None:
    """Take a REPLICA out of the fleet NAME; what it answers is finished."""
    path = f"/fleets/{quote_segment(name)}/replicas/{quote_segment(replica)}"
    connect_gateway().delete(path)
    show_result("fleet", _read_fleet(connect_gateway(), name), as_json=as_json, text=_state_lines)


@fleet.command()
@click.argument("name")
@click.option("--serves", default="", help="The model whose weights its engines have from then on.")
@click.option("--no-wait", is_flag=True, help="Do not wait for the end.")
@json_option
def roll(*, name: str, serves: str, no_wait: bool, as_json: bool) -> None:
    """Start the engines of the fleet NAME anew, one after the other, each drained first."""
    gateway = connect_gateway()
    state = gateway.post(f"/fleets/{quote_segment(name)}/roll", RollFleet(serves=serves), Fleet, timeout_s=_PATIENCE_S)
    last_line = ""
    while not no_wait and state.rolling and _is_going_on(state):
        if state.rolling != last_line and not as_json:
            print_note(last_line := state.rolling)
        time.sleep(_POLL_S)
        state = _read_fleet(gateway, state.model)
    show_result("fleet", state, as_json=as_json, text=_state_lines)


def _is_going_on(state: Fleet) -> bool:
    return not state.rolling.startswith("The change ended")


def _local_replica(options: dict[str, object]) -> LocalReplica:
    import msgspec  # noqa: PLC0415 -- no other command of fleets converts anything

    try:
        return msgspec.convert(options, LocalReplica)
    except msgspec.ValidationError as error:
        raise BadRequest(f"This is no replica: {error}.", code="invalid_value") from None


def _read_file(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"{file} cannot be read: {error}", code="invalid_value") from None


def _change(gateway: GatewayClient, name: str, what: str) -> Fleet:
    return gateway.post(f"/fleets/{quote_segment(name)}/{what}", None, Fleet, timeout_s=_PATIENCE_S)


def _read_fleet(gateway: GatewayClient, name: str) -> Fleet:
    fleets = gateway.get("/fleets", list[Fleet], timeout_s=_PATIENCE_S)
    state = next((state for state in fleets if state.model == name), None)
    if state is None:
        raise BadRequest(f"{name} is not a fleet.", hint="`roundhouse fleet list` lists the fleets.")
    return state


def _wait_until_settled(gateway: GatewayClient, name: str) -> Fleet:
    """Return the fleet once each of its engines answers or has failed; the supervisor ends a load that hangs."""
    state = _read_fleet(gateway, name)
    while any(replica.state is ReplicaState.STARTING for replica in state.replicas):
        time.sleep(_POLL_S)
        state = _read_fleet(gateway, name)
    return state


def _print_fleets(*, as_json: bool) -> None:
    fleets = connect_gateway().get("/fleets", list[Fleet], timeout_s=_PATIENCE_S)
    show_result("fleets", fleets, as_json=as_json, text=_fleet_lines)


def _start_lines(state: Fleet) -> Iterator[str]:
    yield f"{state.model} is served through {state.router}."
    yield from _state_lines(state)


def _state_lines(state: Fleet) -> Iterator[str]:
    if state.rolling:
        print_note(state.rolling)
    yield from _fleet_lines([state])


def _fleet_lines(fleets: list[Fleet]) -> Iterator[str]:
    if not fleets:
        print_note("There is no fleet. `roundhouse fleet start FILE` starts one.")
        return
    rows = [
        (state.model, state.router, replica.name, replica.url, _engine_text(replica), _state_text(replica))
        for state in fleets
        for replica in state.replicas
    ]
    yield from format_table(("MODEL", "ROUTER", "REPLICA", "ADDRESS", "ENGINE", "STATE"), rows)


def _engine_text(replica: FleetReplica) -> str:
    return f"{replica.engine} {replica.weights}".strip() if replica.is_local else "elsewhere"


def _state_text(replica: FleetReplica) -> str:
    load = f", {replica.load} at once" if replica.load else ""
    return replica.problem or f"{replica.state}{load}"
