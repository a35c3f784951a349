"""`roundhouse token`: the hub's token, for models whose terms must be accepted first. It is never shown."""

import sys

import click

from app.cli.gateway import connect_gateway
from app.cli.output import json_option, print_note, show_result
from app.core.hub import HubTokenState, SetHubToken

_MOST = 4096
"""Characters read from a pipe: no token is as long."""


@click.group("token", invoke_without_command=True)
@json_option
@click.pass_context
def token(ctx: click.Context, *, as_json: bool) -> None:
    """Show whether there is a token for the hub, and where it is stored; set or remove it."""
    if ctx.invoked_subcommand is None:
        _show(as_json=as_json)


@token.command("set")
@json_option
def set_token(*, as_json: bool) -> None:
    """Save a token for the hub, typed in or read from a pipe; create one at huggingface.co/settings/tokens."""
    is_typed = sys.stdin.isatty()
    token_text: str = click.prompt("Token", hide_input=True, err=True) if is_typed else sys.stdin.read(_MOST)
    state = connect_gateway().post("/hub/token", SetHubToken(token=token_text), HubTokenState)
    show_result("token", state, as_json=as_json, text=lambda token_state: [token_state.said])


@token.command("forget")
@json_option
def forget_token(*, as_json: bool) -> None:
    """Remove the saved token; one from the environment or from Hugging Face's own programs is not affected."""
    connect_gateway().delete("/hub/token")
    _show(as_json=as_json)


def _show(*, as_json: bool) -> None:
    state = connect_gateway().get("/hub/token", HubTokenState)
    show_result("token", state, as_json=as_json, text=lambda token_state: [token_state.said])
    if state.place is None:
        print_note("Create one at https://huggingface.co/settings/tokens, then: roundhouse token set")
