"""`roundhouse alias`: names that programs ask for, and the models that answer to them. Kept in `models.aliases`."""

from collections.abc import Iterator

import click

from app.cli.gateway import connected
from app.cli.output import json_option, show, table, talk
from app.client.http import Client
from app.core.errors import Conflict, NotFound
from app.core.models import ModelInfo
from app.core.settings import SettingInfo

SETTING = "models.aliases"
FALLBACK = "models.fallback"
_AUTO = "auto"


class AddOtherwise(click.Group):
    """A group whose first word may be a name instead of a command: then `add` is meant."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command in front of what is none."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["add", *args]
        return super().parse_args(ctx, args)


@click.group(cls=AddOtherwise, invoke_without_command=True, subcommand_metavar="NAME MODEL | list | remove NAME")
@json_option
@click.pass_context
def alias(ctx: click.Context, *, as_json: bool) -> None:
    """Let MODEL answer requests for NAME, which may have wildcards: `roundhouse alias 'gpt-*' my-model`."""
    if ctx.invoked_subcommand is None:
        _list(as_json=as_json)


@alias.command(hidden=True)
@click.argument("name")
@click.argument("model")
@json_option
def add(name: str, model: str, *, as_json: bool) -> None:
    """Let MODEL answer requests for NAME."""
    client = connected()
    models = client.get("/models", list[ModelInfo])
    _check(name, model, [info.name for info in models])
    # First, since the first pattern that fits counts.
    kept = _changed(client, [f"{name}={model}", *_without(_aliases(client), name)])
    show("aliases", kept, as_json=as_json, text=lambda _: [f"{model} answers to {name}."])


@alias.command("list")
@json_option
def list_aliases(*, as_json: bool) -> None:
    """List the aliases and their models."""
    _list(as_json=as_json)


@alias.command()
@click.argument("name")
@json_option
def remove(name: str, *, as_json: bool) -> None:
    """Remove the alias NAME."""
    client = connected()
    before = _aliases(client)
    after = _without(before, name)
    if after == before:
        raise NotFound(f"There is no alias {name!r}.", hint="`roundhouse alias list` lists them.")
    kept = _changed(client, after)
    show("aliases", kept, as_json=as_json, text=lambda _: [f"{name} is no longer an alias."])


def _check(name: str, model: str, names: list[str]) -> None:
    """Return if the alias would do something. Raises Conflict or NotFound."""
    if name.casefold() in map(str.casefold, names):
        raise Conflict(f"There is a model called {name}, and its own name always means that model.")
    if model != _AUTO and model.casefold() not in map(str.casefold, names):
        raise NotFound(f"There is no model called {model!r}.", hint="`roundhouse list` lists them.")


def _list(*, as_json: bool) -> None:
    client = connected()
    show("aliases", _aliases(client), as_json=as_json, text=lambda found: _lines(found, _fallback(client)))


def _lines(aliases: list[str], fallback: str) -> Iterator[str]:
    if fallback:
        talk(f"Any other name is answered by {fallback} ({FALLBACK}).")
    if not aliases:
        talk("There are no aliases. `roundhouse alias NAME MODEL` creates one.")
        return
    yield from table(("NAME", "MODEL"), (one.rpartition("=")[::2] for one in aliases))


def _without(aliases: list[str], name: str) -> list[str]:
    return [one for one in aliases if one.rpartition("=")[0].strip().casefold() != name.casefold()]


def _changed(client: Client, aliases: list[str]) -> list[str]:
    return _value_of(client.patch("/settings", {SETTING: aliases}, list[SettingInfo]))


def _aliases(client: Client) -> list[str]:
    return _value_of(client.get("/settings", list[SettingInfo]))


def _value_of(rows: list[SettingInfo]) -> list[str]:
    return next((row.value for row in rows if row.name == SETTING and isinstance(row.value, list)), [])


def _fallback(client: Client) -> str:
    return next((str(row.value) for row in client.get("/settings", list[SettingInfo]) if row.name == FALLBACK), "")
