"""`roundhouse attach`: put an endpoint that runs elsewhere behind this one; `detach` lets it go.

A key belongs on no command line, where every program on this computer can read it: it is read from standard input, from
`ROUNDHOUSE_ATTACH_KEY`, or asked for.
"""

import sys
from collections.abc import Iterator
from getpass import getpass
from urllib.parse import urlsplit

import click
import msgspec

from app.cli.aliases import DefaultAddGroup
from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, print_note, show_result
from app.client.http import quote_segment
from app.config.environment import ATTACH_KEY, attach_key
from app.core import words
from app.core.capabilities import Capability, parse_capabilities
from app.core.errors import BadRequest
from app.core.models import AttachEndpoint, CorrectAttached, ModelInfo

_SCHEME = "://"
_AUTO = "auto"
_PATIENCE_S = 45.0
"""Two addresses may be tried, each for as long as a slow endpoint is waited for."""


@click.group(cls=DefaultAddGroup, invoke_without_command=True, subcommand_metavar="URL | NAME | list")
@json_option
@click.pass_context
def attach(ctx: click.Context, *, as_json: bool) -> None:
    """Attach a running OpenAI-compatible endpoint: `roundhouse attach http://box:8000/v1 --name big`.

    What its models can do is what it says of them, or shows when it is first asked. Who knows better says so with
    --can and --context, also later, of a model by its name: `roundhouse attach big --can embedding,rerank`. Its name
    alone asks its endpoint anew.
    """
    if ctx.invoked_subcommand is None:
        _print_attached(as_json=as_json)


@attach.command(hidden=True)
@click.argument("target", metavar="URL|NAME")
@click.option(
    "--name", default="", help="The model's name on this computer; with several models, the first part of their names."
)
@click.option("--model", "models", multiple=True, help="One of its models, by its own name. Can be given repeatedly.")
@click.option(
    "--can", default="", help="What the models can do, separated by commas: " + ", ".join(Capability) + "; or auto."
)
@click.option("--context", type=click.IntRange(min=0), help="Tokens of context; 0: as many as the endpoint reports.")
@click.option("--key-stdin", is_flag=True, help="Read the endpoint's key from standard input.")
@click.option("--ask-key", is_flag=True, help="Ask for the endpoint's key, without showing it.")
@click.option("--key", default="", help="The key itself; other programs can see it on the command line.")
@json_option
def add(  # noqa: PLR0913 -- one parameter per option
    target: str,
    *,
    name: str,
    models: tuple[str, ...],
    can: str,
    context: int | None,
    key_stdin: bool,
    ask_key: bool,
    key: str,
    as_json: bool,
) -> None:
    """Attach the endpoint at URL, or set what the attached model NAME can do."""
    if _SCHEME not in target:
        if name or models or key or key_stdin or ask_key:
            raise BadRequest(
                f"{target!r} is not the address of an endpoint.",
                hint="It begins with http:// or https://.",
                code="invalid_value",
            )
        _correct_model(target, can, context, as_json=as_json)
        return
    if sum((key_stdin, ask_key, bool(key))) > 1:
        raise BadRequest("Give the key in one way only.")
    if key:
        print_note(
            f"A key on the command line can be read by other programs; --key-stdin or {ATTACH_KEY} keep it secret."
        )
    request = AttachEndpoint(
        url=target,
        name=name,
        key=key or read_key(from_stdin=key_stdin, asks=ask_key),
        models=[*models],
        can=_capabilities(can) or None,
        context=context or None,
    )
    if request.key and urlsplit(target).scheme == "http":
        print_note("The key goes there unencrypted, since the address begins with http://.")
    attached_models = connect_gateway().post("/attached", request, list[ModelInfo], timeout_s=_PATIENCE_S)
    show_result(
        "attached",
        attached_models,
        as_json=as_json,
        text=lambda models_found: [_line_of_attached(model) for model in models_found],
    )


def _line_of_attached(model: ModelInfo) -> str:
    return f"{model.name} was added{f', from {model.served_by}' if model.served_by else ''}."


def _correct_model(name: str, can: str, context: int | None, *, as_json: bool) -> None:
    request = CorrectAttached(
        can=(_capabilities(can) or None) if can else msgspec.UNSET,
        context=msgspec.UNSET if context is None else context or None,
    )
    model = connect_gateway().patch(f"/attached/{quote_segment(name)}", request, ModelInfo, timeout_s=_PATIENCE_S)
    show_result("attached", [model], as_json=as_json, text=_model_lines)


def _capabilities(can: str) -> list[Capability]:
    """Return what somebody said it can do; nothing where the endpoint's word is to count. Raises BadRequest."""
    return [] if can.strip() == _AUTO else parse_capabilities(can)


@attach.command("list")
@json_option
def list_attached(*, as_json: bool) -> None:
    """List the attached models."""
    _print_attached(as_json=as_json)


@click.command()
@click.argument("name")
@json_option
def detach(name: str, *, as_json: bool) -> None:
    """Remove the attached model NAME from the list, and delete its key."""
    connect_gateway().delete(f"/attached/{quote_segment(name)}")
    show_result("detached", name, as_json=as_json, text=lambda text_name: [f"{text_name} is no longer attached."])


def read_key(*, from_stdin: bool, asks: bool) -> str:
    """Return the key a person gives in one of the ways that keep it off the command line."""
    if from_stdin:
        return sys.stdin.readline().strip()
    if asks:
        return getpass("Key: ")
    return attach_key()


def _print_attached(*, as_json: bool) -> None:
    show_result("attached", connect_gateway().get("/attached", list[ModelInfo]), as_json=as_json, text=_model_lines)


def _model_lines(models: list[ModelInfo]) -> Iterator[str]:
    if not models:
        print_note("Nothing is attached. `roundhouse attach URL` attaches an endpoint.")
        return
    rows = (
        (
            model.name,
            model.attached,
            model.served_by or "unknown",
            model.served_as,
            words.format_tokens(model.trained_context),
            words.format_capabilities(model.capabilities),
        )
        for model in models
    )
    yield from format_table(("NAME", "ENDPOINT", "SERVER", "ITS NAME", "CONTEXT", "CAN"), rows)
