"""`roundhouse alias`: names that programs ask for, and the models that answer to them. Kept in `models.aliases`."""

from collections.abc import Iterator

import click

from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, print_note, show_result
from app.client.http import GatewayClient
from app.core.api import SettingInfo
from app.core.errors import Conflict, NotFound
from app.core.models import ModelInfo

SETTING = "models.aliases"
FALLBACK = "models.fallback"
_AUTO = "auto"


class DefaultAddGroup(click.Group):
    """A group whose first word may be a name instead of a command: then `add` is meant."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command in front of what is none."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["add", *args]
        return super().parse_args(ctx, args)


@click.group(cls=DefaultAddGroup, invoke_without_command=True, subcommand_metavar="NAME MODEL | list | remove NAME")
@json_option
@click.pass_context
def alias(ctx: click.Context, *, as_json: bool) -> None:
    """Let MODEL answer requests for NAME, which may have wildcards: `roundhouse alias 'gpt-*' my-model`."""
    if ctx.invoked_subcommand is None:
        _print_aliases(as_json=as_json)


@alias.command(hidden=True)
@click.argument("name")
@click.argument("model")
@json_option
def add(name: str, model: str, *, as_json: bool) -> None:
    """Let MODEL answer requests for NAME."""
    client = connect_gateway()
    models = client.get("/models", list[ModelInfo])
    _check_alias(name, model, [info.name for info in models])
    # First, since the first pattern that fits counts.
    after = _change_aliases(client, [f"{name}={model}", *_remove_alias(_read_aliases(client), name)])
    show_result("aliases", after, as_json=as_json, text=lambda _: [f"{model} answers to {name}."])


@alias.command("list")
@json_option
def list_aliases(*, as_json: bool) -> None:
    """List the aliases and their models."""
    _print_aliases(as_json=as_json)


@alias.command()
@click.argument("name")
@json_option
def remove(name: str, *, as_json: bool) -> None:
    """Remove the alias NAME."""
    client = connect_gateway()
    before = _read_aliases(client)
    after = _remove_alias(before, name)
    if after == before:
        raise NotFound(f"There is no alias {name!r}.", hint="`roundhouse alias list` lists them.")
    saved_aliases = _change_aliases(client, after)
    show_result("aliases", saved_aliases, as_json=as_json, text=lambda _: [f"{name} is no longer an alias."])


def _check_alias(name: str, model: str, names: list[str]) -> None:
    """Return if the alias would do something. Raises Conflict or NotFound."""
    if name.casefold() in map(str.casefold, names):
        raise Conflict(f"There is a model called {name}, and its own name always means that model.")
    if model != _AUTO and model.casefold() not in map(str.casefold, names):
        raise NotFound(f"There is no model called {model!r}.", hint="`roundhouse list` lists them.")


def _print_aliases(*, as_json: bool) -> None:
    client = connect_gateway()
    show_result(
        "aliases", _read_aliases(client), as_json=as_json, text=lambda aliases: _alias_lines(aliases, _fallback(client))
    )


def _alias_lines(aliases: list[str], fallback: str) -> Iterator[str]:
    if fallback:
        print_note(f"Any other name is answered by {fallback} ({FALLBACK}).")
    if not aliases:
        print_note("There are no aliases. `roundhouse alias NAME MODEL` creates one.")
        return
    yield from format_table(("NAME", "MODEL"), (pair.rpartition("=")[::2] for pair in aliases))


def _remove_alias(aliases: list[str], name: str) -> list[str]:
    return [pair for pair in aliases if pair.rpartition("=")[0].strip().casefold() != name.casefold()]


def _change_aliases(client: GatewayClient, aliases: list[str]) -> list[str]:
    return _value_of(client.patch("/settings", {SETTING: aliases}, list[SettingInfo]))


def _read_aliases(client: GatewayClient) -> list[str]:
    return _value_of(client.get("/settings", list[SettingInfo]))


def _value_of(rows: list[SettingInfo]) -> list[str]:
    return next((row.value for row in rows if row.name == SETTING and isinstance(row.value, list)), [])


def _fallback(client: GatewayClient) -> str:
    return next((str(row.value) for row in client.get("/settings", list[SettingInfo]) if row.name == FALLBACK), "")
