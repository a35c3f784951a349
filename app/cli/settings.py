"""`roundhouse settings`: show all, show one, change one, reset one."""

import json
from collections.abc import Iterator

import click
import msgspec

from app.cli.gateway import connected
from app.cli.output import json_option, show, table, talk
from app.config.store import find, parsed
from app.core.errors import BadRequest, NotFound
from app.core.settings import SettingInfo, SettingValue


@click.command()
@click.argument("name", default="")
@click.argument("value", default=None, required=False)
@click.option("--reset", is_flag=True, help="Go back to the default.")
@json_option
def settings(name: str, value: str | None, *, reset: bool, as_json: bool) -> None:
    """Show all settings, or the one called NAME; with VALUE, change it."""
    if reset and (value is not None or not name):
        raise BadRequest("--reset takes the name of one setting, and no value.")
    client = connected()
    if not name:
        show("settings", client.get("/settings", list[SettingInfo]), as_json=as_json, text=_lines)
        return
    row = find(name)
    if value is not None or reset:
        change = {row.name: None if reset else parsed(row, value or "")}
        rows = client.patch("/settings", change, list[SettingInfo])
    else:
        rows = client.get("/settings", list[SettingInfo])
    show("setting", _row_called(rows, row.name), as_json=as_json, text=_detail)


def _row_called(rows: list[SettingInfo], name: str) -> SettingInfo:
    for row in rows:
        if row.name == name:
            return row
    raise NotFound(f"There is no setting called {name!r}.")


def _lines(rows: list[SettingInfo]) -> Iterator[str]:
    yield from table(("SETTING", "VALUE", "FROM", ""), ((r.name, written(r.value), r.source, r.title) for r in rows))


def _detail(row: SettingInfo) -> Iterator[str]:
    yield f"{row.name} = {written(row.value)} {row.unit}".rstrip()
    yield f"  {row.title}. {row.help}"
    choices = f" One of {', '.join(row.choices)}." if row.choices else ""
    yield f"  Default {written(row.default)}; now from {row.source}.{choices}"
    if row.needs_restart:
        talk("A change takes effect when the service restarts: `roundhouse down`, `roundhouse up`.")


def written(value: SettingValue) -> str:
    """Return a value as it is typed in the settings file."""
    return json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
